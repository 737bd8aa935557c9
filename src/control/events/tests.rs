use std::collections::BTreeSet;

use super::*;
use crate::control::protocol::reply::{Health, ProbeResult};

fn draft(message: &str) -> Draft {
    Draft::new(EventKind::AdminChanged, Severity::Info, "web/b1", message)
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.number).collect()
}

#[test]
fn numbers_are_places_and_words_are_those_of_json() {
    for (place, kind) in EventKind::ALL.into_iter().enumerate() {
        assert_eq!(kind.index(), place);
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    let names: BTreeSet<_> = EventKind::ALL.into_iter().map(EventKind::name).collect();
    assert_eq!(names.len(), EventKind::COUNT);
    for severity in [Severity::Info, Severity::Warning, Severity::Error] {
        assert_eq!(serde_json::to_value(severity).unwrap(), severity.name());
    }
}

#[test]
fn the_log_keeps_the_newest_and_pages_through_them() {
    let mut log = EventLog::default();
    assert_eq!((log.since(0, 9), log.last_number()), (Vec::new(), 0));
    for time in 1..=EVENT_CAP as u64 + 10 {
        let event = log.record(time, draft("said"));
        assert_eq!((event.number, event.time_ms), (time, time));
    }
    let all = log.since(0, usize::MAX);
    assert_eq!(all.len(), EVENT_CAP);
    assert_eq!((all[0].number, log.last_number()), (11, 1_034));
    assert_eq!(numbers(&log.since(0, 2)), [11, 12], "what is gone is skipped");
    assert_eq!(numbers(&log.since(12, 2)), [13, 14], "the next page");
    assert_eq!(numbers(&log.since(1_033, 5)), [1_034]);
    assert!(log.since(1_034, 5).is_empty() && log.since(u64::MAX, 5).is_empty());
    assert_eq!(numbers(&log.latest(2)), [1_033, 1_034]);
    assert_eq!(log.latest(usize::MAX).len(), EVENT_CAP);
    assert_eq!(log.counts()[EventKind::AdminChanged.index()], 1_034, "also those that are gone");
    assert_eq!(log.counts().iter().sum::<u64>(), 1_034);
}

// OPS-09: old state, new state, cause and votes.
#[test]
fn a_change_of_health_tells_why_and_reads_back_from_json() {
    let probe = ProbeResult { age_ms: 0, took_ms: 3, failure: Some("refused".into()) };
    let change = HealthChange {
        from: Health::Up,
        to: Health::Down,
        cause: Some("refused".into()),
        votes: Votes { up: 0, down: 1 },
        probes: vec![probe],
    };
    let mut log = EventLog::default();
    let event = log.record(1_700_000_000_123, Draft::health_changed("web/b1", change.clone()));
    assert_eq!(event.message, "health changed from up to down: refused (0 of 1 votes up)");
    assert_eq!((event.severity, event.subject.as_str()), (Severity::Warning, "web/b1"));
    let json = serde_json::to_value(&*event).unwrap();
    assert_eq!(json["kind"], "health-changed");
    assert_eq!(json["severity"], "warning");
    assert_eq!((&json["from"], &json["to"]), (&"up".into(), &"down".into()));
    assert_eq!(json["votes"], serde_json::json!({"up": 0, "down": 1}));
    assert_eq!(serde_json::from_value::<Event>(json).unwrap(), *event);

    let back = HealthChange {
        from: Health::Down,
        to: Health::Up,
        cause: None,
        votes: Votes { up: 1, down: 0 },
        ..change
    };
    let event = log.record(0, Draft::health_changed("web/b1", back));
    assert_eq!(event.message, "health changed from down to up (1 of 1 votes up)");
    assert_eq!(event.severity, Severity::Info);
    let plain = log.record(0, draft("no health"));
    let json = serde_json::to_value(&*plain).unwrap();
    assert_eq!(json.as_object().unwrap().len(), 6, "{json}");
    assert_eq!(serde_json::from_value::<Event>(json).unwrap(), *plain);
}
