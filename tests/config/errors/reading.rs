//! Reading: files that are none, and texts that nobody would write.

use super::*;

#[test]
fn text_that_is_not_toml_is_one_mistake_with_line_and_column() {
    let found = messages("[appliance]\nname = \"lb1\nsite = 3\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("line 2, column "), "{found:?}");
    assert!(found[0].contains("not TOML"), "{found:?}");
    // A key that is written twice is a mistake of syntax too.
    let found = messages("[appliance]\nname = \"a\"\nname = \"b\"\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("line 3, column 1: "), "{found:?}");
}

#[test]
fn a_file_that_cannot_be_read_or_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lodestone.toml");
    let error = config::load(&path).unwrap_err();
    assert!(matches!(error, LoadError::Read { .. }));
    assert!(error.to_string().contains("lodestone.toml"), "{error}");

    std::fs::write(&path, changed("mtu = 1600", "mtu = 1\nvlan = 0")).unwrap();
    let error = config::load(&path).unwrap_err().to_string();
    assert!(error.contains("lodestone.toml has 2 mistake(s)"), "{error}");
    assert!(error.contains("\nline 15: port[0].mtu"), "{error}");

    std::fs::write(&path, GOOD).unwrap();
    assert!(config::load(&path).is_ok());
}

/// Any text is read to an end, and what is refused is refused with a reason.
#[test]
fn any_text_is_a_configuration_or_has_mistakes() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(errors) = config::parse(&text) {
            assert!(!errors.mistakes.is_empty());
        }
    });
}

/// The same for texts that are nearly right: parts of a good one are overwritten, left out or
/// doubled.
#[test]
fn any_damage_to_a_good_text_is_read_to_an_end() {
    const PIECES: [&str; 16] = [
        "\"",
        "[",
        "]",
        "=",
        "\n",
        "0",
        "-1",
        "18446744073709551616",
        "\"any\"",
        "é",
        "[[pool]]",
        "[service.vip]",
        "{ a = 1 }",
        "1979-05-27",
        "name",
        ".",
    ];
    bolero::check!().with_type::<Vec<(u16, u8, u8)>>().for_each(|damages| {
        let mut text = GOOD.to_owned();
        for (place, length, piece) in damages {
            let floor = |index: usize| (0..=index).rev().find(|at| text.is_char_boundary(*at));
            let start = floor(usize::from(*place) % text.len().max(1)).unwrap_or(0);
            let end = floor((start + usize::from(length % 24)).min(text.len())).unwrap_or(start);
            text.replace_range(start..end.max(start), PIECES[usize::from(*piece) % PIECES.len()]);
        }
        if let Err(errors) = config::parse(&text) {
            assert!(!errors.mistakes.is_empty());
            assert!(errors.mistakes.iter().all(|mistake| mistake.place.line > 0));
        }
    });
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    for path in ["/", "/dev/zero"] {
        let error = config::load(std::path::Path::new(path)).unwrap_err().to_string();
        assert!(error.contains("it is not a regular file"), "{error}");
    }
}
