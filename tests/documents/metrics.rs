//! The document of metrics and the list of families tell the same.

use lodestone::control::AlarmKind;
use lodestone::control::metrics::{FAMILIES, Family};

#[test]
fn every_metric_is_documented_and_every_documented_metric_exists() {
    let row = |family: &Family| {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let Family { name, kind, help, .. } = family;
        format!("| `{name}` | {} | {} | {help} |", kind.name(), labels.join(", "))
    };
    let document = include_str!("../../docs/metrics.md");
    let documented: Vec<_> =
        document.lines().filter(|line| line.starts_with("| `lodestone_")).collect();
    let expected: Vec<_> = FAMILIES.iter().map(row).collect();
    assert!(
        documented == expected,
        "docs/metrics.md, in the order of the families, should have:\n{}",
        expected.join("\n")
    );
}

#[test]
fn every_alarm_is_documented_and_every_documented_alarm_exists() {
    let document = include_str!("../../docs/metrics.md");
    let (_, table) = document.split_once("| `alarm` | What is wrong |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let documented: Vec<_> =
        rows.filter_map(|row| Some(row.strip_prefix("| `")?.split_once("` | ")?.0)).collect();
    let alarms: Vec<_> = AlarmKind::ALL.into_iter().map(AlarmKind::name).collect();
    assert_eq!(documented, alarms, "docs/metrics.md, in the order of the enum");
}
