//! The document of metrics and the list of families tell the same.

use lodestone::control::metrics::{FAMILIES, Family};

#[test]
fn every_metric_is_documented_and_every_documented_metric_exists() {
    let row = |family: &Family| {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let Family { name, kind, help, .. } = family;
        format!("| `{name}` | {} | {} | {help} |", kind.name(), labels.join(", "))
    };
    let document = include_str!("../docs/metrics.md");
    let documented: Vec<_> =
        document.lines().filter(|line| line.starts_with("| `lodestone_")).collect();
    let expected: Vec<_> = FAMILIES.iter().map(row).collect();
    assert!(
        documented == expected,
        "docs/metrics.md, in the order of the families, should have:\n{}",
        expected.join("\n")
    );
}
