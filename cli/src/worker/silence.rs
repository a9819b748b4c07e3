//! Detects a stalled worker. Heartbeats alone prove nothing: their tick count must change.

use std::time::{Duration, Instant};

use expert_contract::event::Body;
use serde::{Deserialize, Serialize};

/// Starting Python and importing torch and transformers, on a cold disk or a busy machine.
const STARTING: Duration = Duration::from_mins(3);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    pub stage: String,
    pub lasted: Duration,
    /// Heartbeats still arrive, so the process is alive but its main loop makes no progress.
    pub beating: bool,
}

pub struct Silence {
    stage: &'static str,
    budget: Duration,
    ticks: u64,
    last_sign: Instant,
    last_beat: Instant,
    warn_after: Duration,
}

impl Silence {
    pub fn new(now: Instant) -> Self {
        Self {
            stage: "start",
            budget: STARTING,
            ticks: 0,
            last_sign: now,
            last_beat: now,
            warn_after: STARTING,
        }
    }

    pub fn hear(&mut self, body: &Body, now: Instant) {
        if let Body::Heartbeat { ticks } = body {
            self.last_beat = now;
            if *ticks == self.ticks {
                return;
            }
            self.ticks = *ticks;
        }
        if let Body::Stage { name, quiet_budget, .. } = body {
            self.stage = name.as_str();
            self.budget = Duration::try_from_secs_f64(*quiet_budget).unwrap_or(Duration::MAX);
        }
        self.last_sign = now;
        self.warn_after = self.budget;
    }

    /// This process did not run for a while, and its worker may not have run either: that time does not count.
    pub fn restart(&mut self, now: Instant) {
        self.last_sign = now;
        self.last_beat = now;
        self.warn_after = self.budget;
    }

    fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_sign)
    }

    /// Whether to end the worker. A stage may announce a longer time without progress.
    pub fn stalled(&self, after: Duration, now: Instant) -> bool {
        self.lasted(now) >= after.max(self.budget)
    }

    /// Some when the time without progress exceeds the stage's budget, and again each time it has doubled.
    pub fn check(&mut self, now: Instant) -> Option<Quiet> {
        let lasted = self.lasted(now);
        if lasted < self.warn_after {
            return None;
        }
        self.warn_after = lasted.saturating_mul(2);
        Some(self.quiet(now))
    }

    pub fn quiet(&self, now: Instant) -> Quiet {
        let beating = now.saturating_duration_since(self.last_beat) < Duration::from_secs(10);
        Quiet { stage: self.stage.to_owned(), lasted: self.lasted(now), beating }
    }
}

#[cfg(test)]
mod tests {
    use expert_contract::event::StageName;

    use super::*;

    fn beat(ticks: u64) -> Body {
        Body::Heartbeat { ticks }
    }

    fn stage(quiet_budget: f64) -> Body {
        Body::Stage { name: StageName::LoadBase, detail: None, quiet_budget }
    }

    #[test]
    fn heartbeats_without_progress_count_as_silence() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut silence = Silence::new(start);
        silence.hear(&stage(20.0), at(0));
        for second in 1..20 {
            silence.hear(&beat(0), at(second));
            assert_eq!(silence.check(at(second)), None);
        }
        let quiet = silence.check(at(20)).unwrap();
        assert_eq!(
            quiet,
            Quiet { stage: "load base".to_owned(), lasted: Duration::from_secs(20), beating: true }
        );
        assert_eq!(silence.check(at(39)), None);
        assert!(!silence.check(at(40)).unwrap().beating);
        assert!(
            !silence.stalled(Duration::from_secs(41), at(40))
                && silence.stalled(Duration::from_secs(30), at(40))
        );
        silence.hear(&beat(1), at(41));
        assert_eq!(silence.check(at(60)), None);
        assert!(!silence.stalled(Duration::from_secs(5), at(60)));
        assert!(silence.check(at(61)).is_some());
    }

    #[test]
    fn a_pause_of_this_process_is_not_silence() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut silence = Silence::new(start);
        silence.hear(&stage(20.0), at(0));
        silence.restart(at(100));
        assert!(!silence.stalled(Duration::from_secs(5), at(119)));
        assert_eq!(silence.check(at(119)), None);
        assert!(silence.quiet(at(101)).beating);
        assert!(silence.stalled(Duration::from_secs(5), at(120)));
    }

    #[test]
    fn a_budget_beyond_all_clocks_never_warns() {
        let start = Instant::now();
        let mut silence = Silence::new(start);
        silence.hear(&stage(f64::MAX), start);
        assert_eq!(silence.check(start + Duration::from_secs(1 << 30)), None);
    }
}
