//! The methods in `docs/admin-api.md` are what the protocol's types say: everything behind the
//! heading "Methods" is generated from them. `UPDATE_DOCS=1 cargo test --test documents admin_api` writes
//! it anew.

use std::fmt::Write as _;
use std::path::Path;

use lodestone::control::protocol::{Access, Method, Request, RequestError, Response};
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

const HEADING: &str = "\n## Methods\n";

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/admin-api.md")
}

#[test]
fn the_methods_are_documented_as_they_are() {
    let written = std::fs::read_to_string(path()).unwrap();
    let (head, _) = written.split_once(HEADING).expect("a heading \"Methods\"");
    let wanted = format!("{head}{HEADING}{}", generated());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path(), &wanted).unwrap();
        return;
    }
    let difference =
        written.lines().zip(wanted.lines()).find(|(written, wanted)| written != wanted);
    assert!(
        written == wanted,
        "docs/admin-api.md differs from the types at {difference:?}; run \
         UPDATE_DOCS=1 cargo test --test documents admin_api"
    );
}

#[test]
fn the_example_error_is_one() {
    let docs = std::fs::read_to_string(path()).unwrap();
    let (_, errors) = docs.split_once("## Errors").unwrap();
    let (_, example) = errors.split_once("```json\n").unwrap();
    let response: Response<'_> = serde_json::from_str(example.lines().next().unwrap()).unwrap();
    let error: RequestError = response.error.unwrap();
    assert_eq!((error.code.0, error.data.len()), (2, 1));
}

fn generated() -> String {
    let mut generator = SchemaGenerator::default();
    let mut text = String::new();
    let mut methods = String::new();
    for method in Request::METHODS {
        write!(text, "\n- [`{0}`](#{1})", method.name, method.name.replace('.', "")).unwrap();
        section(&mut methods, method, &mut generator);
    }
    text.push('\n');
    text += &methods;
    text += "\n## Types\n\nA member with a `?` may be absent, or `null`.\n";
    for (name, schema) in generator.definitions().clone() {
        if name == "NoParams" {
            continue;
        }
        write!(text, "\n### {name}\n\n{}\n", describe(&schema)).unwrap();
        text += &members(&schema);
        text += &words(&schema);
    }
    text
}

fn section(text: &mut String, method: &Method, generator: &mut SchemaGenerator) {
    let description: Vec<_> = method.description.iter().map(|line| line.trim()).collect();
    let access = match method.access {
        Access::Read => "",
        Access::Change => "\n\nChanges the appliance: not on the read-only socket.",
    };
    let params = (method.params)(generator);
    let reply = (method.reply)(generator);
    let params = link(params.as_value());
    let params = if params.contains("NoParams") { "none".to_owned() } else { params };
    write!(
        text,
        "\n### `{}`\n\n{}{access}\n\nParameters: {params}. Result: {}.\n",
        method.name,
        description.join(" "),
        link(reply.as_value())
    )
    .unwrap();
}

/// A table of an object's members.
fn members(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let required: Vec<_> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut text = "\n| Member | Type | Meaning |\n|---|---|---|\n".to_owned();
    for (name, member) in properties {
        let absent = if required.contains(&name.as_str()) { "" } else { "?" };
        writeln!(text, "| `{name}`{absent} | {} | {} |", link(member), describe(member)).unwrap();
    }
    text
}

/// A table of an enumeration's words.
fn words(schema: &Value) -> String {
    let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else {
        return String::new();
    };
    let mut text = "\n| Word | Meaning |\n|---|---|\n".to_owned();
    for variant in variants {
        let word = variant["const"].as_str().expect("an enumeration of words");
        writeln!(text, "| `{word}` | {} |", describe(variant)).unwrap();
    }
    text
}

fn describe(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    assert!(!text.is_empty(), "without a doc comment: {schema}");
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The type of a schema, in words and links.
fn link(schema: &Value) -> String {
    let Some(object) = schema.as_object() else { return "any".to_owned() };
    if let Some(name) = object.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or(name);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(any) = object.get("anyOf").and_then(Value::as_array) {
        let kinds: Vec<_> = any.iter().filter(|kind| kind["type"] != "null").map(link).collect();
        return kinds.join(" or ");
    }
    let kind = match &object["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        kind => kind.as_str(),
    };
    match kind.unwrap_or("any") {
        "array" => format!("list of {}", link(&object["items"])),
        "string" => text_kind(object),
        other => other.to_owned(),
    }
}

fn text_kind(object: &Map<String, Value>) -> String {
    match object.get("format").and_then(Value::as_str) {
        Some("ip") => "address".to_owned(),
        _ => "string".to_owned(),
    }
}
