#![expect(clippy::disallowed_types, reason = "the clock and the output are shared with the log")]

use std::io;
use std::sync::atomic::AtomicU64;

use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// A clock that the test sets, in milliseconds, and what was written.
#[derive(Clone, Default)]
struct World {
    now: Arc<AtomicU64>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl io::Write for World {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for World {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl World {
    fn limit(&self) -> Limit {
        let now = Arc::clone(&self.now);
        Limit::new(move || Duration::from_millis(now.load(Ordering::Relaxed)))
    }

    fn at(&self, milliseconds: u64) {
        self.now.store(milliseconds, Ordering::Relaxed);
    }

    /// What was written since the last call.
    fn lines(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.written.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    /// Logs as text within `body`; returns what the log counted as left out.
    fn with_text(&self, body: impl FnOnce()) -> u64 {
        let limit = self.limit();
        let left_out = Arc::clone(&limit.left_out);
        let lines = Format::default().without_time().with_target(false).with_ansi(false);
        let log = tracing_subscriber::fmt()
            .with_writer(self.clone())
            .event_format(Limited { lines, limit })
            .finish();
        tracing::subscriber::with_default(log, body);
        left_out.load(Ordering::Relaxed)
    }
}

fn flood(number: usize) {
    tracing::warn!(number, "it fails");
}

#[test]
fn similar_messages_are_left_out_and_their_number_is_told_when_the_bucket_opens() {
    let world = World::default();
    let left_out = world.with_text(|| {
        (0..120).for_each(flood);
        let lines = world.lines();
        assert_eq!(lines.len(), 20, "a burst of 20");
        assert_eq!(lines[19], " WARN it fails number=19");
        // Less than a second later nothing has changed.
        world.at(999);
        flood(120);
        assert_eq!(world.lines(), Vec::<String>::new());
        world.at(1_000);
        flood(121);
        flood(122);
        assert_eq!(
            world.lines(),
            [
                " WARN messages were left out that began like: it fails left_out=101",
                " WARN it fails number=121",
            ]
        );
        // A quiet hour refills 20 messages, not 3,600.
        world.at(3_600_000);
        (0..30).for_each(flood);
        let lines = world.lines();
        assert_eq!(lines.len(), 1 + 20);
        assert!(lines[0].ends_with("left_out=1"), "{lines:?}");
    });
    assert_eq!(left_out, 101 + 1 + 10);
}

#[test]
fn another_message_tells_what_a_place_that_fell_silent_left_out() {
    let world = World::default();
    world.with_text(|| {
        (0..25).for_each(flood);
        world.lines();
        tracing::info!("meanwhile");
        assert_eq!(world.lines(), [" INFO meanwhile"], "the bucket is still empty");
        world.at(1_500);
        tracing::info!("later");
        assert_eq!(
            world.lines(),
            [" WARN messages were left out that began like: it fails left_out=5", " INFO later"]
        );
    });
}

#[test]
fn kinds_have_a_bucket_each_and_audit_lines_none() {
    let world = World::default();
    let left_out = world.with_text(|| {
        let event = |kind: &str, number: usize| tracing::info!(kind, number, "event");
        (0..30).for_each(|number| event("health-changed", number));
        assert_eq!(world.lines().len(), 20);
        event("link-changed", 0);
        assert_eq!(world.lines(), [" INFO event kind=\"link-changed\" number=0"]);
        for number in 0..1_000 {
            tracing::info!(target: "audit", number, "request");
        }
        assert_eq!(world.lines().len(), 1_000);
    });
    assert_eq!(left_out, 10);
}

#[test]
fn a_long_message_is_told_by_its_beginning() {
    let world = World::default();
    world.with_text(|| {
        for _ in 0..21 {
            tracing::warn!("{}", "ö".repeat(1_000));
        }
        world.lines();
        world.at(1_000);
        tracing::info!("next");
        let report = world.lines().remove(0);
        assert_eq!(report.matches('ö').count(), EXAMPLE_LEN / 2, "{report}");
    });
}

#[test]
fn json_lines_are_objects_with_the_count_as_a_number() {
    let world = World::default();
    let limit = world.limit();
    let lines = Format::default().json();
    let log = tracing_subscriber::fmt()
        .with_writer(world.clone())
        .fmt_fields(JsonFields::new())
        .event_format(Limited { lines, limit })
        .finish();
    tracing::subscriber::with_default(log, || {
        (0..22).for_each(flood);
        world.at(1_000);
        flood(22);
    });
    let lines = world.lines();
    assert_eq!(lines.len(), 22);
    let parsed = |line: &String| serde_json::from_str::<Value>(line).unwrap();
    let report = parsed(&lines[20]);
    assert_eq!((&report["fields"]["left_out"], &report["level"]), (&2.into(), &"WARN".into()));
    assert_eq!(report["target"], "log");
    assert_eq!(parsed(&lines[21])["fields"]["number"], 22);
}
