//! What an operator should know of a socket.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long a mended fault is told. Whoever looks at alarms once a minute sees it.
const MENDED: Duration = Duration::from_mins(2);

/// One sentence at most, readable from any thread.
#[derive(Debug)]
pub(super) struct Alarm(watch::Sender<Option<Told>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    sentence: String,
    /// Until when, if it is over.
    until: Option<Instant>,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// What is wrong now, or was until a moment ago.
    pub(super) fn sentence(&self) -> Option<String> {
        let told = self.0.borrow();
        let told = told.as_ref()?;
        let is_over = told.until.is_some_and(|until| Instant::now() >= until);
        (!is_over).then(|| told.sentence.clone())
    }

    /// Something is wrong until it is [mended](Self::mended) or [over](Self::over). Logged if it was
    /// not so before: what is tried every second fails every second.
    pub(super) fn raise(&self, sentence: String) {
        let told = Some(Told { sentence, until: None });
        self.0.send_if_modified(|now| {
            let is_new = *now != told;
            if is_new {
                if let Some(Told { sentence, .. }) = &told {
                    tracing::error!("{sentence}");
                }
                *now = told;
            }
            is_new
        });
    }

    /// Something was wrong and is no more.
    pub(super) fn mended(&self, sentence: String) {
        tracing::warn!("{sentence}");
        self.0.send_replace(Some(Told { sentence, until: Some(Instant::now() + MENDED) }));
    }

    /// What was [raised](Self::raise) is so no more. What was mended is told to its end.
    pub(super) fn over(&self) {
        self.0.send_if_modified(|now| {
            let was_raised = now.as_ref().is_some_and(|told| told.until.is_none());
            if let Some(told) = now.take_if(|_| was_raised) {
                tracing::info!("no longer: {}", told.sentence);
            }
            was_raised
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_raised_ends_and_what_is_mended_is_told_for_a_while() {
        let alarm = Alarm::new();
        alarm.over();
        assert_eq!(alarm.sentence(), None);
        alarm.raise("broken".into());
        assert_eq!(alarm.sentence().as_deref(), Some("broken"));
        tokio::time::advance(MENDED * 10).await;
        assert_eq!(alarm.sentence().as_deref(), Some("broken"), "as long as nobody says otherwise");
        alarm.over();
        assert_eq!(alarm.sentence(), None);
        alarm.raise("lost".into());
        alarm.mended("made anew".into());
        alarm.over();
        assert_eq!(alarm.sentence().as_deref(), Some("made anew"));
        tokio::time::advance(MENDED).await;
        assert_eq!(alarm.sentence(), None);
    }
}
