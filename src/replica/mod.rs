//! What is known of the replicas: whether they serve reads, and how far they are. [`gtid`], [`health`] and
//! [`history`] do no I/O; [`monitor`] looks at the servers at intervals, [`tracker`] follows them event by event.
//! May use `sql`, `config`, `telemetry`.

pub mod gtid;
pub mod health;
pub mod history;
pub mod monitor;
pub mod progress;
pub mod tracker;
mod words;

use std::{
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
    time::Duration,
};

pub use health::State;
pub use history::History;
pub use progress::Progress;
pub use words::options;

/// A replica as sessions see it.
pub struct Replica {
    /// Its name in metrics and logs.
    pub name: String,
    /// How far it is.
    pub progress: Progress,
    state: AtomicU8,
    /// In microseconds; [`UNKNOWN`] when it does not say.
    lag: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Replica {
    /// A replica of which nothing is known yet.
    pub fn new(name: String) -> Self {
        Self {
            name,
            progress: Progress::new(),
            state: AtomicU8::new(State::Joining as u8),
            lag: AtomicU64::new(UNKNOWN),
        }
    }

    /// Its state at the last look.
    pub fn state(&self) -> State {
        State::from_u8(self.state.load(Ordering::Relaxed))
    }

    /// How far it was behind at the last look, if it said so.
    pub fn lag(&self) -> Option<Duration> {
        Some(self.lag.load(Ordering::Relaxed)).filter(|&lag| lag != UNKNOWN).map(Duration::from_micros)
    }

    /// Sets the lag.
    pub fn set_lag(&self, lag: Option<Duration>) {
        let micros = lag.map_or(UNKNOWN, |lag| u64::try_from(lag.as_micros()).unwrap_or(UNKNOWN));
        self.lag.store(micros, Ordering::Relaxed);
    }

    /// Sets the state and gives the one before.
    pub fn set_state(&self, state: State) -> State {
        State::from_u8(self.state.swap(state as u8, Ordering::Relaxed))
    }
}
