//! Searches with a session's devices.

use super::Session;
use crate::pace::{Rate, Shape};
use crate::profile::{Profile, Search};
use crate::search::{Found, Load, SearchReport, highest_rate};

impl Session {
    /// The searches of a profile.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn search(&mut self, profile: &Profile, search: &Search) -> anyhow::Result<SearchReport> {
        let generator_packets_per_second = self.own_rate(profile)?;
        let sweep: Vec<Option<u32>> = if search.flows.is_empty() {
            vec![None]
        } else {
            search.flows.iter().copied().map(Some).collect()
        };
        let mut found = Vec::new();
        for flows in sweep {
            let mut profile = profile.clone();
            profile.packets = None;
            profile.duration = Some(search.trial);
            if let Some(flows) = flows {
                profile.set_flows(flows);
            }
            found.push(self.search_one(&profile, search)?);
        }
        Ok(SearchReport { generator_packets_per_second, partial_drop: search.partial_drop, found })
    }

    fn search_one(&mut self, profile: &Profile, search: &Search) -> anyhow::Result<Found> {
        let shape = profile.rate.map_or(Shape::Constant, |rate| rate.shape);
        let at = |packets_per_second| Some(Rate { packets_per_second, shape });
        let mut frames = self.frames(profile, false)?;
        // How fast it goes at all bounds the search.
        let flood = self.count(profile, &mut frames, None)?;
        let seconds = flood.cycles as f64 / self.hz as f64;
        let highest = search.highest.min(flood.sent as f64 / seconds * 1.1);
        let mut trials = Vec::new();
        let mut trial = |rate: f64| -> anyhow::Result<f64> {
            let counts = self.count(profile, &mut frames, at(rate))?;
            // What was due and not sent is lost as well.
            let offered = rate * search.trial;
            let returned = counts.returned as f64;
            let lost = counts.forwarded.saturating_sub(counts.returned) as f64;
            // The first packet is due at once: a whole one is rounding.
            Ok(if lost > 0.0 || returned + 1.0 < offered * 0.999 {
                (1.0 - returned / offered).max(1e-9)
            } else {
                0.0
            })
        };
        let (precision, partial) = (search.precision, search.partial_drop);
        let no_drop = highest_rate(highest, precision, 0.0, &mut trials, &mut trial)?;
        let partial_drop = highest_rate(highest, precision, partial, &mut trials, &mut trial)?;
        let mut latency = Vec::new();
        if !search.loads.is_empty() && no_drop > 0.0 {
            let mut timed = self.frames(profile, true)?;
            for &load in &search.loads {
                timed.keep_time(self.hz);
                let counts = self.count(profile, &mut timed, at(load * no_drop))?;
                let rate = counts.sent as f64 * self.hz as f64 / counts.cycles.max(1) as f64;
                latency.push(Load { part: load, rate, latency: timed.latency() });
            }
        }
        let flows = profile.flow_count();
        Ok(Found { flows, no_drop, partial_drop, trials, latency })
    }
}
