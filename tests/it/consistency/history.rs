//! What sessions wrote and read, and what of it must not be.

use std::collections::HashMap;
use std::time::Duration;

/// One answered operation on a register, whose values only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// Who.
    pub session: u32,
    /// Which register.
    pub register: u32,
    /// Read, or written.
    pub kind: Kind,
    /// The value that was read or written.
    pub value: u64,
    /// When it was asked for.
    pub begin: Duration,
    /// When it was answered.
    pub end: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// What a read did not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Violation {
    /// What its own session wrote before.
    OwnWrite,
    /// What its own session read before.
    EarlierRead,
    /// What another session had an answer for before this read began.
    OthersWrite,
}

/// What is wrong with a history, in which each session's events are in their order.
pub(crate) fn violations(history: &[Event], across_sessions: bool) -> Vec<(Event, Violation)> {
    let mut found = within_sessions(history);
    if across_sessions {
        found.extend(between_sessions(history));
    }
    found
}

fn within_sessions(history: &[Event]) -> Vec<(Event, Violation)> {
    let mut found = Vec::new();
    let mut wrote = HashMap::new();
    let mut read = HashMap::new();
    for event in history {
        let key = (event.session, event.register);
        match event.kind {
            Kind::Write => {
                wrote.insert(key, event.value);
            }
            Kind::Read => {
                if wrote.get(&key).is_some_and(|&value| event.value < value) {
                    found.push((*event, Violation::OwnWrite));
                }
                let before = read.entry(key).or_insert(event.value);
                if event.value < *before {
                    found.push((*event, Violation::EarlierRead));
                }
                *before = event.value.max(*before);
            }
        }
    }
    found
}

fn between_sessions(history: &[Event]) -> Vec<(Event, Violation)> {
    let mut writes: Vec<_> = history.iter().filter(|event| event.kind == Kind::Write).collect();
    writes.sort_by_key(|write| write.end);
    let mut reads: Vec<_> = history.iter().filter(|event| event.kind == Kind::Read).collect();
    reads.sort_by_key(|read| read.begin);
    let mut newest: HashMap<u32, u64> = HashMap::new();
    let mut writes = writes.into_iter().peekable();
    let mut found = Vec::new();
    for read in reads {
        while let Some(write) = writes.next_if(|write| write.end < read.begin) {
            let value = newest.entry(write.register).or_default();
            *value = write.value.max(*value);
        }
        if newest.get(&read.register).is_some_and(|&value| read.value < value) {
            found.push((*read, Violation::OthersWrite));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(session: u32, kind: Kind, value: u64, begin: u64, end: u64) -> Event {
        let [begin, end] = [begin, end].map(Duration::from_millis);
        Event { session, register: 1, kind, value, begin, end }
    }

    fn found(history: &[Event]) -> Vec<Violation> {
        violations(history, true).into_iter().map(|(_, violation)| violation).collect()
    }

    #[test]
    fn each_violation_is_found() {
        let write = event(1, Kind::Write, 2, 0, 10);
        assert_eq!(found(&[write, event(1, Kind::Read, 2, 11, 12)]), []);
        let own = event(1, Kind::Read, 1, 11, 12);
        assert_eq!(found(&[write, own]), [Violation::OwnWrite, Violation::OthersWrite]);
        assert_eq!(found(&[write, event(2, Kind::Read, 1, 5, 12)]), [], "it began before the write's answer");
        assert_eq!(found(&[write, event(2, Kind::Read, 1, 11, 12)]), [Violation::OthersWrite]);
        let (new, old) = (event(2, Kind::Read, 2, 3, 4), event(2, Kind::Read, 1, 5, 6));
        assert_eq!(found(&[write, new, old]), [Violation::EarlierRead]);
    }
}
