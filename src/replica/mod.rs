//! What is known of the replicas: whether they serve reads, and how far they are. [`health`] is pure;
//! [`monitor`] asks the servers. May use `backend`, `config`, `telemetry`.

pub mod health;
pub mod monitor;

use std::sync::atomic::{AtomicU8, Ordering};

pub use health::State;

/// A replica as sessions see it.
pub struct Replica {
    /// Its name in metrics and logs.
    pub name: String,
    state: AtomicU8,
}

impl Replica {
    /// A replica of which nothing is known yet.
    pub fn new(name: String) -> Self {
        Self { name, state: AtomicU8::new(State::Joining as u8) }
    }

    /// Its state at the last look.
    pub fn state(&self) -> State {
        State::from_u8(self.state.load(Ordering::Relaxed))
    }

    /// Sets the state and gives the one before.
    pub fn set_state(&self, state: State) -> State {
        State::from_u8(self.state.swap(state as u8, Ordering::Relaxed))
    }
}
