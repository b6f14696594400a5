//! Scopes wider than a session: what one session of a scope has written, the others read.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::replica::history::Moment;

/// Slots of the table. Scopes that share one by chance wait for each other's writes, and never read too little.
const SLOTS: usize = 4096;

/// The newest moments of all scopes. They outlive their sessions: an application may connect anew for each request.
#[derive(Debug)]
pub struct Scopes {
    moments: Box<[AtomicU64]>,
    hasher: RandomState,
}

/// The sessions that share what they wrote.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    scopes: Arc<Scopes>,
    slot: usize,
}

impl Scopes {
    /// Scopes in which nothing happened.
    pub fn new() -> Self {
        Self { moments: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }

    /// The scope of this name.
    pub(super) fn scope(self: &Arc<Self>, name: &[u8]) -> Scope {
        let slots = self.moments.len() as u64;
        let slot = usize::try_from(self.hasher.hash_one(name) % slots).unwrap_or(0);
        Scope { scopes: Arc::clone(self), slot }
    }
}

impl Default for Scopes {
    fn default() -> Self {
        Self::new()
    }
}

impl Scope {
    /// The newest moment of its sessions.
    pub(super) fn moment(&self) -> Moment {
        self.scopes.moments.get(self.slot).map_or(0, |moment| moment.load(Ordering::Acquire))
    }

    /// A session of the scope has written or seen what was there at `moment`.
    pub(super) fn reached(&self, moment: Moment) {
        if let Some(slot) = self.scopes.moments.get(self.slot) {
            slot.fetch_max(moment, Ordering::AcqRel);
        }
    }
}
