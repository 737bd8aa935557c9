//! Dependencies point one way (design.md §3), and `unsafe` stays where it belongs. This test reads
//! the sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What each module may use of the crate, beside itself.
const LAYERS: &[(&str, &[&str])] = &[
    ("id", &[]),
    ("time", &[]),
    ("cpu", &[]),
    ("packet", &["id", "time"]),
    ("maglev", &["id", "packet"]),
    ("padded", &[]),
    ("snapshot", &["padded"]),
    ("stats", &["id", "padded"]),
    ("conntrack", &["id", "time", "packet"]),
    ("steer", &["id"]),
    ("forward", &["id", "time", "packet", "maglev", "stats", "conntrack"]),
    ("worker", &["id", "time", "packet", "stats", "snapshot", "conntrack", "forward"]),
    ("dpdk", &["id", "time", "packet", "conntrack", "forward", "worker"]),
    ("config", &["id", "packet", "maglev", "cpu"]),
    ("health", &["config", "steer"]),
    (
        "control",
        &[
            "id",
            "time",
            "packet",
            "maglev",
            "stats",
            "snapshot",
            "steer",
            "conntrack",
            "forward",
            "worker",
            "config",
            "health",
            "version",
        ],
    ),
    ("cli", &["control::protocol", "config", "version"]),
    ("version", &[]),
    ("daemon", &["*"]),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every `crate::a` or `crate::a::b` in a source text, comments aside.
fn uses(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| line.to_owned() + "\n")
        .collect();
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let end = group.find('}').unwrap_or(group.len());
            found.extend(group[..end].split(',').map(|item| item.trim().to_owned()));
        } else {
            found.push(rest.chars().take_while(|&c| is_path(c)).collect());
        }
    }
    found
}

#[test]
fn dependencies_point_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layers: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 30, "found only {} sources", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        if module == "lib" || module == "bin" {
            continue;
        }
        let Some(allowed) = layers.get(module) else {
            wrong.push(format!("{}: module `{module}` has no layer", relative.display()));
            continue;
        };
        for path in uses(&std::fs::read_to_string(&file).unwrap()) {
            let target = path.split("::").next().unwrap();
            let is_allowed = target == module
                || allowed.contains(&"*")
                || allowed
                    .iter()
                    .any(|layer| path == *layer || path.starts_with(&format!("{layer}::")));
            if !is_allowed {
                wrong.push(format!("{} uses crate::{path}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "against the layers:\n{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_use_lines_sees_groups_and_paths() {
    let text = "use crate::id::PortId;\nuse crate::{packet::Link, dpdk};\n// use crate::not;\n let x = crate::time::Tick(1);";
    assert_eq!(uses(text), ["id::PortId", "packet::Link", "dpdk", "time::Tick"]);
}

#[test]
fn unsafe_code_stays_behind_its_fence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "pktgen/src", "tests", "benches"] {
        if root.join(folder).is_dir() {
            sources(&root.join(folder), &mut files);
        }
    }
    let word = concat!("un", "safe");
    let mut found = Vec::new();
    for file in files {
        if file.starts_with(root.join("src/dpdk")) || file.ends_with("layering.rs") {
            continue;
        }
        for (number, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            let code = line.split("//").next().unwrap();
            let is_fence = code.contains("unsafe_code");
            if code.contains(word) && !is_fence {
                found.push(format!("{}:{}: {line}", file.display(), number + 1));
            }
            if code.contains("allow(unsafe_code)") && !file.ends_with("src/lib.rs") {
                found.push(format!("{}:{}: {line}", file.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{word} outside dpdk-sys and src/dpdk:\n{}", found.join("\n"));
}
