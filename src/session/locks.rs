//! Locks on tables that outlive the statement. The primary judges each read by them: those of the session that
//! holds them, and where it may write, those of all others, which have to wait.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::sql::{Facts, Kind, Statement};

/// How many sessions hold tables that they may write.
pub type Writers = Arc<AtomicUsize>;

/// The table locks of a session.
#[derive(Debug)]
pub(super) struct TableLocks {
    held: Held,
    /// It is one of `writers`.
    writes: bool,
    writers: Writers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    None,
    /// LOCK TABLES; beginning a transaction ends them.
    Transactional,
    /// FLUSH TABLES WITH READ LOCK.
    Lasting,
}

impl TableLocks {
    /// None, of a session that is counted in `writers` when it has some.
    pub(super) const fn new(writers: Writers) -> Self {
        Self { held: Held::None, writes: false, writers }
    }

    /// The same for a session that begins anew.
    pub(super) fn anew(&self) -> Self {
        Self::new(Arc::clone(&self.writers))
    }

    /// Whether the session's own reads must meet its locks.
    pub(super) fn are_held(&self) -> bool {
        self.held != Held::None
    }

    /// Whether another session may be changing tables that nobody is to read meanwhile.
    pub(super) fn others_write(&self) -> bool {
        self.writers.load(Ordering::Acquire) > usize::from(self.writes)
    }

    /// `statement` succeeded.
    pub(super) fn after(&mut self, statement: &Statement) {
        let unlocks = statement.facts.contains(Facts::UNLOCKS_TABLES)
            || statement.kind == Kind::Begin && self.held == Held::Transactional;
        if unlocks {
            self.release();
        } else if statement.facts.contains(Facts::LOCKS_TABLES) {
            self.held = if statement.kind == Kind::Lock { Held::Transactional } else { Held::Lasting };
            self.write(statement.facts.contains(Facts::LOCKS_FOR_WRITE));
        }
    }

    /// `statement` failed, other than for its syntax. LOCK TABLES has released what was locked before all the
    /// same; of several statements it may have been another one.
    pub(super) fn failed(&mut self, statement: &Statement) {
        let many = statement.facts.contains(Facts::MULTI);
        if statement.kind == Kind::Lock && statement.facts.contains(Facts::LOCKS_TABLES) && !many {
            self.release();
        }
    }

    fn release(&mut self) {
        self.held = Held::None;
        self.write(false);
    }

    fn write(&mut self, writes: bool) {
        match (self.writes, writes) {
            (false, true) => self.writers.fetch_add(1, Ordering::Release),
            (true, false) => self.writers.fetch_sub(1, Ordering::Release),
            _ => return,
        };
        self.writes = writes;
    }
}

impl Drop for TableLocks {
    fn drop(&mut self) {
        self.write(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Dialect, Flavor, classify};

    fn of(text: &str) -> Statement {
        classify(text.as_bytes(), Dialect::new(Flavor::MySql, 80_036))
    }

    #[test]
    fn writers_are_counted_while_they_hold_tables() {
        let writers = Writers::default();
        let other = TableLocks::new(Arc::clone(&writers));
        let mut locks = TableLocks::new(writers);
        for (text, held, writes) in [
            ("LOCK TABLES t READ", true, false),
            ("LOCK TABLES t READ, u WRITE", true, true),
            ("LOCK TABLES t WRITE", true, true),
            ("SELECT 1", true, true),
            ("BEGIN", false, false),
            ("FLUSH TABLES WITH READ LOCK", true, false),
            ("BEGIN", true, false),
            ("UNLOCK TABLES", false, false),
        ] {
            locks.after(&of(text));
            assert_eq!((locks.are_held(), other.others_write()), (held, writes), "{text}");
            assert!(!locks.others_write());
        }
        locks.after(&of("LOCK TABLES t WRITE"));
        locks.failed(&of("LOCK TABLES no_such_table WRITE"));
        assert_eq!((locks.are_held(), other.others_write()), (false, false));
        locks.after(&of("LOCK TABLES t WRITE"));
        let fresh = locks.anew();
        assert!(fresh.others_write());
        drop(locks);
        assert!(!fresh.others_write());
    }
}
