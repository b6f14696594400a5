//! Read your writes: what a replica must have before it may serve a session.

use tokio::time::Instant;

/// More text than this is asked for anew instead of being carried along.
const MAX_GTIDS_LEN: usize = 4096;

/// What a session wrote that a replica may not have yet.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// GTIDs of this session's commits, as the primary gave them, separated by commas.
    gtids: Vec<u8>,
    /// Something may have been written that no GTID speaks for.
    unknown: bool,
    /// The running command, or its transaction, may have written; its commit will tell.
    pending: bool,
    /// The session has written at some time.
    wrote: bool,
    /// The running command reported a commit.
    committed: bool,
    /// Without GTIDs: reads stay on the primary until then.
    hold: Option<Instant>,
}

/// What must be found out before a replica may serve the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need<'a> {
    /// Nothing.
    Nothing,
    /// Whether the replica has these GTIDs.
    Gtids(&'a [u8]),
    /// Where the primary is.
    Primary,
    /// Nothing helps but time.
    Time,
}

impl Position {
    /// A command that may write is about to run; `many`: as several statements.
    pub(super) const fn will_write(&mut self, many: bool) {
        self.wrote = true;
        self.unknown |= many;
        self.pending = true;
        self.committed = false;
    }

    /// The primary committed this session's `gtids`.
    pub(super) fn committed(&mut self, gtids: &[u8]) {
        // MariaDB says so when the binary log is off for the session.
        if gtids.is_empty() {
            return;
        }
        self.wrote = true;
        self.committed = true;
        if self.gtids.len() + gtids.len() > MAX_GTIDS_LEN {
            self.gtids.clear();
            self.unknown = true;
            return;
        }
        if !self.gtids.is_empty() {
            self.gtids.push(b',');
        }
        self.gtids.extend_from_slice(gtids);
    }

    /// The command is over. A commit that it reported settles what it and its transaction wrote; without
    /// one, what was written outside of a transaction stays unknown.
    pub(super) const fn settle(&mut self, in_transaction: bool) {
        if !in_transaction {
            self.unknown |= self.pending && !self.committed;
            self.pending = false;
        }
        self.committed = false;
    }

    /// What the replica was known to have counts no more: this is a new connection, maybe to a replica that
    /// was filled anew.
    pub(super) const fn ask_anew(&mut self) {
        self.unknown |= self.wrote;
    }

    /// A read must see what others wrote, too.
    pub(super) const fn others_wrote(&mut self) {
        self.unknown = true;
    }

    /// What to find out.
    pub(super) fn need(&mut self, now: Instant) -> Need<'_> {
        if self.hold.is_some_and(|until| until <= now) {
            self.hold = None;
        }
        if self.unknown || self.pending {
            Need::Primary
        } else if self.hold.is_some() {
            Need::Time
        } else if self.gtids.is_empty() {
            Need::Nothing
        } else {
            Need::Gtids(&self.gtids)
        }
    }

    /// The primary said where it is; that covers everything written before.
    pub(super) fn primary_is_at(&mut self, gtids: Vec<u8>) {
        self.gtids = gtids;
        self.unknown = false;
        self.pending = false;
    }

    /// The primary has no GTIDs: wait until `until`.
    pub(super) const fn hold_until(&mut self, until: Instant) {
        self.unknown = false;
        self.pending = false;
        self.hold = Some(until);
    }

    /// The replica has what was asked for.
    pub(super) fn covered(&mut self) {
        self.gtids.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn need(position: &mut Position) -> Need<'_> {
        position.need(Instant::now())
    }

    #[test]
    fn a_write_with_its_gtid_is_known_and_without_is_not() {
        let mut position = Position::default();
        assert_eq!(need(&mut position), Need::Nothing);
        position.will_write(false);
        position.committed(b"u:1");
        position.settle(false);
        assert_eq!(need(&mut position), Need::Gtids(b"u:1"));
        position.will_write(false);
        position.settle(false);
        assert_eq!(need(&mut position), Need::Primary);
        position.primary_is_at(b"u:1-2".to_vec());
        assert_eq!(need(&mut position), Need::Gtids(b"u:1-2"));
        position.covered();
        assert_eq!(need(&mut position), Need::Nothing);
    }

    #[test]
    fn no_gtid_speaks_for_nothing() {
        let mut position = Position::default();
        position.will_write(false);
        position.committed(b"u:1");
        position.committed(b"");
        position.settle(false);
        assert_eq!(need(&mut position), Need::Gtids(b"u:1"));
        position.will_write(false);
        position.committed(b"");
        position.settle(false);
        assert_eq!(need(&mut position), Need::Primary);
    }

    #[test]
    fn a_transaction_is_settled_by_its_commit() {
        let mut position = Position::default();
        position.will_write(false);
        position.settle(true);
        assert_eq!(need(&mut position), Need::Primary);
        position.committed(b"u:7");
        position.settle(false);
        assert_eq!(need(&mut position), Need::Gtids(b"u:7"));
    }

    #[test]
    fn a_later_write_does_not_speak_for_an_earlier_one() {
        let mut position = Position::default();
        position.will_write(false);
        position.settle(false);
        position.will_write(false);
        position.committed(b"u:12");
        position.settle(false);
        assert_eq!(need(&mut position), Need::Primary);
    }

    #[test]
    fn a_new_connection_must_have_what_was_written_at_any_time() {
        let mut position = Position::default();
        position.ask_anew();
        assert_eq!(need(&mut position), Need::Nothing);
        position.committed(b"u:5");
        position.settle(false);
        position.covered();
        assert_eq!(need(&mut position), Need::Nothing);
        position.ask_anew();
        assert_eq!(need(&mut position), Need::Primary);
    }

    #[test]
    fn several_statements_are_not_settled_by_one_gtid() {
        let mut position = Position::default();
        position.will_write(true);
        position.committed(b"u:7");
        position.settle(false);
        assert_eq!(need(&mut position), Need::Primary);
    }

    #[test]
    fn too_many_gtids_are_asked_for_instead() {
        let mut position = Position::default();
        for _ in 0..MAX_GTIDS_LEN / 100 + 1 {
            position.will_write(false);
            position.committed(&[b'u'; 100]);
            position.settle(false);
        }
        assert_eq!(need(&mut position), Need::Primary);
    }

    #[test]
    fn a_hold_ends() {
        let mut position = Position::default();
        let now = Instant::now();
        position.hold_until(now + Duration::from_secs(1));
        assert_eq!(position.need(now), Need::Time);
        assert_eq!(position.need(now + Duration::from_secs(1)), Need::Nothing);
    }
}
