//! The sessions that there are, by the id that their client knows, so that KILL finds what to kill.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering},
};

use dashmap::DashMap;
use tokio_util::sync::CancellationToken;

use crate::route::Target;

/// All sessions.
#[derive(Debug, Default)]
pub struct Registry(DashMap<u32, Arc<Handle>>);

/// What other sessions may know of a session, and do to it.
#[derive(Debug, Default)]
pub struct Handle {
    /// Its connection's id on the primary.
    primary_thread: AtomicU32,
    /// Its connection's id on the replica; 0 when it has none.
    replica_thread: AtomicU32,
    /// The target that runs a statement of it, plus one; 0 when none does.
    running: AtomicU8,
    /// Cancelled when it was killed while the server that was told could not know.
    pub killed: CancellationToken,
}

impl Registry {
    /// Enters a session; [`Registry::leave`] ends it.
    pub fn enter(&self, id: u32) -> Arc<Handle> {
        let handle = Arc::new(Handle::default());
        self.0.insert(id, Arc::clone(&handle));
        handle
    }

    /// A session has ended.
    pub fn leave(&self, id: u32) {
        self.0.remove(&id);
    }

    /// The session that its client knows by `id`, or whose connection to the primary has it.
    pub fn find(&self, id: u32) -> Option<Arc<Handle>> {
        let by_greeting = self.0.get(&id).map(|entry| Arc::clone(&entry));
        by_greeting.or_else(|| {
            let by_thread = self.0.iter().find(|entry| entry.thread(Target::Primary) == Some(id));
            by_thread.map(|entry| Arc::clone(&entry))
        })
    }
}

impl Handle {
    /// The session's connection on `target` has this id there; 0 for none.
    pub fn set_thread(&self, target: Target, id: u32) {
        self.thread_cell(target).store(id, Ordering::Relaxed);
    }

    /// The id of the session's connection on `target`.
    pub fn thread(&self, target: Target) -> Option<u32> {
        Some(self.thread_cell(target).load(Ordering::Relaxed)).filter(|&id| id != 0)
    }

    const fn thread_cell(&self, target: Target) -> &AtomicU32 {
        match target {
            Target::Primary => &self.primary_thread,
            Target::Replica => &self.replica_thread,
        }
    }

    /// A statement begins on `target`, or ends.
    pub fn set_running(&self, target: Option<Target>) {
        self.running.store(target.map_or(0, |target| target as u8 + 1), Ordering::Relaxed);
    }

    /// Where a statement of the session runs now.
    pub fn running(&self) -> Option<Target> {
        let number = self.running.load(Ordering::Relaxed);
        Target::ALL.into_iter().find(|target| *target as u8 + 1 == number)
    }
}
