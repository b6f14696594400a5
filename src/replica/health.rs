//! From what servers say of themselves to a replica's state. Pure.

use std::time::Duration;

/// What a replica is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Nothing is known of it yet.
    Joining,
    /// It follows the primary, and has not had yet all that the primary had when it was met (again): a row that
    /// it does not have may be missing.
    CatchingUp,
    /// It answers reads.
    Serving,
    /// It is further behind than allowed, or its lag is not known.
    Lagging,
    /// Replication does not run, follows another server, or the replica takes writes.
    Broken,
    /// It does not answer.
    Down,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Joining, Self::CatchingUp, Self::Serving, Self::Lagging, Self::Broken, Self::Down];

    /// As a label of metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::CatchingUp => "catching_up",
            Self::Serving => "serving",
            Self::Lagging => "lagging",
            Self::Broken => "broken",
            Self::Down => "down",
        }
    }

    /// The state of this number; [`State::Down`] for numbers of none.
    pub fn from_u8(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Down)
    }
}

/// A replica that was seen unfit must be seen fit at so many looks in a row before it serves again.
const RISE: u8 = 3;

/// What became of a replica, look by look.
#[derive(Debug, Default)]
pub struct Health {
    /// Looks that are still to find it fit.
    wanting: u8,
    /// What it was taken for while it is not trusted yet.
    unfit: Option<State>,
}

impl Health {
    /// What the replica is after a look that found `judged`: unfit at once, fit again only when that lasts.
    pub fn now(&mut self, judged: State) -> State {
        match judged {
            State::Serving => {
                self.wanting = self.wanting.saturating_sub(1);
                match self.unfit {
                    Some(unfit) if self.wanting > 0 => unfit,
                    _ => State::Serving,
                }
            }
            State::Lagging | State::Broken | State::Down => {
                self.wanting = RISE;
                self.unfit = Some(judged);
                judged
            }
            // Ways to serve for the first time.
            State::Joining | State::CatchingUp => judged,
        }
    }
}

/// What one look at a replica found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The thread that fetches changes runs.
    pub receiving: bool,
    /// The threads that apply changes run.
    pub applying: bool,
    /// The server that it follows: MySQL's server uuid, MariaDB's server id.
    pub source: String,
    /// How far it is behind; `None` when it does not say.
    pub lag: Option<Duration>,
    /// It takes no writes but replicated ones.
    pub read_only: bool,
    /// It has had all that the primary had when the proxy met it.
    pub complete: bool,
}

/// Judges a report, given who the primary is.
pub fn judge(report: &Report, primary: &str, max_lag: Duration) -> State {
    if !report.receiving || !report.applying || report.source != primary || !report.read_only {
        return State::Broken;
    }
    if !report.complete {
        return State::CatchingUp;
    }
    match report.lag {
        Some(lag) if lag <= max_lag => State::Serving,
        // An unknown lag is not zero.
        Some(_) | None => State::Lagging,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(5);

    fn healthy() -> Report {
        Report {
            receiving: true,
            applying: true,
            source: "p".to_owned(),
            lag: Some(Duration::ZERO),
            read_only: true,
            complete: true,
        }
    }

    #[test]
    fn serves_only_when_everything_is_known_and_good() {
        assert_eq!(judge(&healthy(), "p", MAX), State::Serving);
        assert_eq!(judge(&Report { lag: Some(MAX), ..healthy() }, "p", MAX), State::Serving);
        assert_eq!(judge(&healthy(), "other", MAX), State::Broken);
        for (report, state) in [
            (Report { receiving: false, ..healthy() }, State::Broken),
            (Report { applying: false, ..healthy() }, State::Broken),
            (Report { read_only: false, ..healthy() }, State::Broken),
            // It may know of no lag before it has heard anything.
            (Report { complete: false, ..healthy() }, State::CatchingUp),
            (Report { lag: None, ..healthy() }, State::Lagging),
            (Report { lag: Some(MAX + Duration::from_millis(1)), ..healthy() }, State::Lagging),
            (Report::default(), State::Broken),
        ] {
            assert_eq!(judge(&report, "p", MAX), state, "{report:?}");
        }
    }

    #[test]
    fn a_replica_that_was_unfit_is_trusted_again_when_that_lasts() {
        let mut health = Health::default();
        assert_eq!(health.now(State::CatchingUp), State::CatchingUp);
        assert_eq!(health.now(State::Serving), State::Serving);
        for unfit in [State::Lagging, State::Broken, State::Down] {
            assert_eq!(health.now(unfit), unfit);
            for _ in 1..RISE {
                assert_eq!(health.now(State::Serving), unfit);
            }
            assert_eq!(health.now(State::Serving), State::Serving);
        }
        assert_eq!(health.now(State::Down), State::Down);
        assert_eq!(health.now(State::Serving), State::Down);
        assert_eq!(health.now(State::Lagging), State::Lagging, "and the looks are counted anew");
        assert_eq!(health.now(State::Serving), State::Lagging);
    }

    #[test]
    fn states_survive_their_number() {
        for state in State::ALL {
            assert_eq!(State::from_u8(state as u8), state);
        }
        assert_eq!(State::from_u8(200), State::Down);
    }
}
