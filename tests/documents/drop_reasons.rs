//! The document of drop reasons and the enum tell the same.

use lodestone::forward::DropReason;

#[test]
fn every_reason_is_documented_and_every_documented_reason_exists() {
    let document = include_str!("../../docs/drop-reasons.md");
    let documented: Vec<_> = document
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            Some((name, rest.split(" | ").next()?))
        })
        .collect();
    let reasons: Vec<_> =
        DropReason::ALL.into_iter().map(|reason| (reason.name(), reason.description())).collect();
    assert_eq!(documented, reasons, "docs/drop-reasons.md, in the order of the enum");
}
