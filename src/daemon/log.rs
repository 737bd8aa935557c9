//! The log on standard error: for people or as JSON, and bounded.
//!
//! A thing that goes wrong a thousand times a second must not fill a disk, nor hide what else
//! happens. Similar messages (those of one place in the source, and of one kind where they have a
//! `kind`) share a bucket of 20 messages that gains one a second. What finds it empty is left out and
//! counted, and as soon as the bucket has a message again a line says how many were left out and how
//! they began. Audit lines are never left out.

#![expect(
    clippy::disallowed_types,
    reason = "management and dying workers log, the loops of workers do not: this lock is not theirs"
)]

mod panics;

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::{Callsite, Identifier};
use tracing::field::{Field, FieldSet, Visit};
use tracing::metadata::Kind;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{Format, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::control::LogLeftOut;

/// Similar messages that may come at once.
const BURST: u32 = 20;

/// From then on one of them may come in so much time.
const REFILL: Duration = Duration::from_secs(1);

/// Messages with this target are never left out.
const AUDIT: &str = "audit";

/// How much of the first message that was left out is told, in bytes.
const EXAMPLE_LEN: usize = 160;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Makes standard error the process's log from here on, for everything that uses `tracing`; `verbose`
/// adds the debug messages. Panics become lines of it too. Returns where it counts what it leaves
/// out. Only the first call of a process has an effect.
#[must_use]
pub fn init(format: LogFormat, verbose: bool) -> LogLeftOut {
    let limit = Limit::new(clock());
    let left_out = Arc::clone(&limit.left_out);
    let level = if verbose { Level::DEBUG } else { Level::INFO };
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // That a line cannot be written would be told on standard error, and panic if that fails:
        // who reads the log may be gone.
        .log_internal_errors(false)
        .with_max_level(level)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = Format::default().with_target(false);
    let _ = match format {
        LogFormat::Text => log.event_format(Limited { lines, limit }).try_init(),
        LogFormat::Json => {
            // Unlike people, collectors sort by target: `audit` and `event` are ours.
            let lines = lines.json().with_target(true);
            log.fmt_fields(JsonFields::new()).event_format(Limited { lines, limit }).try_init()
        }
    };
    panics::log();
    left_out
}

#[expect(clippy::disallowed_methods, reason = "the daemon is a shell: it reads the clock")]
fn clock() -> impl Fn() -> Duration + Send + Sync + 'static {
    let start = Instant::now();
    move || start.elapsed()
}

/// A format of lines under a limit.
struct Limited<F> {
    lines: F,
    limit: Limit,
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let admission = self.limit.admit(event);
        for report in &admission.reports {
            let fields = REPORT_METADATA.fields();
            let (Some(count), Some(message)) = (fields.field("left_out"), fields.field("message"))
            else {
                continue;
            };
            let text = format_args!("messages were left out that began like: {}", report.example);
            let values: [(&Field, Option<&dyn tracing::Value>); 2] =
                [(&message, Some(&text)), (&count, Some(&report.count))];
            let values = fields.value_set(&values);
            self.lines.format_event(
                context,
                writer.by_ref(),
                &Event::new(&REPORT_METADATA, &values),
            )?;
        }
        if admission.is_admitted { self.lines.format_event(context, writer, event) } else { Ok(()) }
    }
}

/// Where the lines about what was left out come from, as far as `tracing` is concerned.
struct ReportCallsite;

static REPORT_CALLSITE: ReportCallsite = ReportCallsite;

static REPORT_METADATA: Metadata<'static> = Metadata::new(
    "left out",
    "log",
    Level::WARN,
    None,
    None,
    None,
    FieldSet::new(&["message", "left_out"], Identifier(&REPORT_CALLSITE)),
    Kind::EVENT,
);

impl Callsite for ReportCallsite {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        &REPORT_METADATA
    }
}

/// What makes messages similar: their place in the source, and their kind.
type Likeness = (Identifier, Option<String>);

/// What was left out of messages that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    count: u64,
    /// How the first of them began.
    example: String,
}

/// What to write.
#[derive(Debug, PartialEq, Eq)]
struct Admission {
    is_admitted: bool,
    /// To be written first.
    reports: Vec<Report>,
}

/// The buckets. Their number is bounded by the source.
struct Limit {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    buckets: Mutex<HashMap<Likeness, Bucket>>,
    left_out: LogLeftOut,
}

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    /// When the last token came.
    filled_at: Duration,
    report: Option<Report>,
}

impl Bucket {
    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled_at).as_nanos() / REFILL.as_nanos();
        let gained = u32::try_from(passed).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(gained).min(BURST);
        self.filled_at = self.filled_at.saturating_add(REFILL.saturating_mul(gained));
        if self.tokens == BURST {
            self.filled_at = now;
        }
    }
}

impl Limit {
    fn new(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), buckets: Mutex::default(), left_out: LogLeftOut::default() }
    }

    fn admit(&self, event: &Event<'_>) -> Admission {
        let metadata = event.metadata();
        if metadata.target() == AUDIT {
            return Admission { is_admitted: true, reports: Vec::new() };
        }
        let mut kind = KindOf(None);
        event.record(&mut kind);
        let now = (self.clock)();
        // A panic with the lock held leaves whole buckets: each change is a plain store.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let own = (metadata.callsite(), kind.0);
        let bucket = buckets.entry(own.clone()).or_insert(Bucket {
            tokens: BURST,
            filled_at: now,
            report: None,
        });
        bucket.refill(now);
        let is_admitted = bucket.tokens > 0;
        if is_admitted {
            bucket.tokens -= 1;
        } else {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            match &mut bucket.report {
                Some(report) => report.count += 1,
                None => bucket.report = Some(Report { count: 1, example: Example::of(event) }),
            }
            return Admission { is_admitted, reports: Vec::new() };
        }
        // Whatever has a message again is told now, also of other places that fell silent.
        let mut reports = Vec::new();
        for (likeness, bucket) in &mut *buckets {
            bucket.refill(now);
            if bucket.tokens > 0 || *likeness == own {
                reports.extend(bucket.report.take());
            }
        }
        Admission { is_admitted, reports }
    }
}

/// Finds the field `kind`.
struct KindOf(Option<String>);

impl Visit for KindOf {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "kind" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// Finds the message, and keeps its beginning.
struct Example(String);

impl Example {
    fn of(event: &Event<'_>) -> String {
        let mut example = Self(String::new());
        event.record(&mut example);
        example.0
    }
}

impl Visit for Example {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Full is full: the rest is not needed.
            let _ = write!(Shortened(&mut self.0), "{value:?}");
        }
    }
}

/// Takes the first [`EXAMPLE_LEN`] bytes, to the end of a letter.
struct Shortened<'a>(&'a mut String);

impl fmt::Write for Shortened<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.0.len() + letter.len_utf8() > EXAMPLE_LEN {
                return Err(fmt::Error);
            }
            self.0.push(letter);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
