//! Classified statements, found again by what their text says without its literals.

use super::digest::key;
use super::{Dialect, Statement, classify};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

/// A bounded cache of classified statements, shared by all sessions.
///
/// An entry sits in one of a few places given by its key (a set), and the least recently used of them makes
/// room. A set has a lock of its own that is held for some nanoseconds. Keys are hashed with a secret of this
/// cache, so that no client can prepare two statements that share one.
pub struct Cache {
    sets: Box<[Mutex<Set>]>,
    hasher: RandomState,
}

impl Cache {
    /// A cache for `capacity` statements, rounded up to whole sets of eight.
    pub fn new(capacity: usize) -> Self {
        let sets = capacity.div_ceil(WAYS).max(1);
        Self { sets: (0..sets).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    /// What [`classify()`] says about `text`. Does not allocate when the statement is known.
    pub fn classify(&self, text: &[u8], dialect: Dialect) -> Arc<Statement> {
        let (key, cacheable) = key(text, dialect, self.hasher.build_hasher());
        let Some(set) = self.set(key).filter(|_| cacheable) else {
            return Arc::new(classify(text, dialect));
        };
        let found = set.lock().unwrap_or_else(PoisonError::into_inner).find(key);
        found.unwrap_or_else(|| {
            let statement = Arc::new(classify(text, dialect));
            set.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&statement));
            statement
        })
    }

    fn set(&self, key: u64) -> Option<&Mutex<Set>> {
        let at = usize::try_from(key % self.sets.len() as u64).ok()?;
        self.sets.get(at)
    }
}

/// Entries, the most recently used first.
#[derive(Default)]
struct Set([Option<(u64, Arc<Statement>)>; WAYS]);

impl Set {
    fn find(&mut self, key: u64) -> Option<Arc<Statement>> {
        let at = self.0.iter().position(|entry| entry.as_ref().is_some_and(|(known, _)| *known == key))?;
        self.0.get_mut(..=at)?.rotate_right(1);
        self.0.first()?.as_ref().map(|(_, statement)| Arc::clone(statement))
    }

    fn insert(&mut self, key: u64, statement: Arc<Statement>) {
        self.0.rotate_right(1);
        if let Some(first) = self.0.first_mut() {
            *first = Some((key, statement));
        }
    }
}

/// Entries of one set.
const WAYS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Flavor;

    const MYSQL: Dialect = Dialect::new(Flavor::MySql, 80_036);

    #[test]
    fn a_statement_is_classified_once_per_shape() {
        let cache = Cache::new(100);
        let first = cache.classify(b"SELECT a FROM t WHERE b = 1", MYSQL);
        assert!(Arc::ptr_eq(&first, &cache.classify(b"SELECT a FROM t WHERE b = 2", MYSQL)));
        assert!(!Arc::ptr_eq(&first, &cache.classify(b"SELECT a FROM u WHERE b = 2", MYSQL)));
        let maria = Dialect { flavor: Flavor::MariaDb, ..MYSQL };
        assert!(!Arc::ptr_eq(&first, &cache.classify(b"SELECT a FROM t WHERE b = 1", maria)));
    }

    #[test]
    fn a_kill_keeps_the_place_of_its_number() {
        let cache = Cache::new(100);
        let range = |text: &str| cache.classify(text.as_bytes(), MYSQL).kill.clone().map(|kill| kill.number);
        assert_eq!(range("KILL 5"), Some(5..6));
        assert_eq!(range("KILL  567"), Some(6..9));
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let cache = Cache::new(WAYS);
        let hot = cache.classify(b"SELECT hot", MYSQL);
        for number in 0..100 {
            cache.classify(format!("SELECT column_{number}").as_bytes(), MYSQL);
            assert!(Arc::ptr_eq(&hot, &cache.classify(b"SELECT hot", MYSQL)));
        }
        let held: usize = cache.sets.iter().map(|set| set.lock().unwrap().0.iter().flatten().count()).sum();
        assert_eq!(held, WAYS);
        assert!(Cache::new(0).classify(b"SELECT 1", MYSQL).is_certain_read());
    }
}
