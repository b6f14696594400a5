//! What is known of the replicas: whether they serve reads, and how far they are. [`health`] is pure;
//! [`monitor`] asks the servers. May use `backend`, `config`, `telemetry`.

pub mod health;
pub mod monitor;

use std::{
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
    time::Duration,
};

pub use health::State;

/// A replica as sessions see it.
pub struct Replica {
    /// Its name in metrics and logs.
    pub name: String,
    state: AtomicU8,
    /// In microseconds; [`UNKNOWN`] when it does not say.
    lag: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Replica {
    /// A replica of which nothing is known yet.
    pub fn new(name: String) -> Self {
        Self { name, state: AtomicU8::new(State::Joining as u8), lag: AtomicU64::new(UNKNOWN) }
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
