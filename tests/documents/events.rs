//! The document of events and the enum tell the same.

use lodestone::control::events::{EVENT_CAP, EventKind};

#[test]
fn every_kind_is_documented_and_every_documented_kind_exists() {
    let document = include_str!("../../docs/events.md");
    let documented: Vec<_> = document
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` | ")?.0))
        .collect();
    let kinds: Vec<_> = EventKind::ALL.into_iter().map(EventKind::name).collect();
    assert_eq!(documented, kinds, "docs/events.md, in the order of the enum");
    assert_eq!(EVENT_CAP, 1_024, "as the document says");
}
