//! Read your writes, and no read older than the one before: the moment that a replica must have reached before it may
//! serve a session.

use std::sync::Arc;

use super::scope::Scope;
use crate::{
    replica::{History, history::Moment},
    sql::Flavor,
};

/// What a session wrote and saw on the primary, as a moment in its history.
#[derive(Debug, Clone)]
pub(super) struct Position {
    history: Arc<History>,
    scope: Option<Scope>,
    /// What it wrote was there by then.
    wrote: Moment,
    /// What it saw on the primary was there by then.
    seen: Moment,
    /// It saw data on the primary since.
    looked: bool,
    /// The running command, or its transaction, may have written; its commit will tell.
    pending: bool,
    /// As several statements: one commit does not speak for the others.
    many: bool,
    /// The running command reported a commit.
    told: bool,
}

/// What a replica must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// What was written.
    pub wrote: Moment,
    /// What was written or seen.
    pub seen: Moment,
}

impl Position {
    /// Of a session that has done nothing yet.
    pub(super) const fn new(history: Arc<History>) -> Self {
        Self {
            history,
            scope: None,
            wrote: History::BEGINNING,
            seen: History::BEGINNING,
            looked: false,
            pending: false,
            many: false,
            told: false,
        }
    }

    /// The session shares what it has written and seen with others.
    pub(super) fn share(&mut self, scope: Option<Scope>) {
        self.scope = scope;
        self.publish(self.wrote.max(self.seen));
    }

    /// A command that may write is about to run on the primary; `many`: as several statements.
    pub(super) const fn will_write(&mut self, many: bool) {
        self.pending = true;
        self.many |= many;
        self.told = false;
    }

    /// A command that may show data is about to run on the primary.
    pub(super) const fn will_look(&mut self) {
        self.looked = true;
    }

    /// The primary committed this session's `gtids`. None are told where the binary log is off for the session.
    pub(super) fn committed(&mut self, flavor: Flavor, gtids: &[u8]) {
        if gtids.is_empty() {
            return;
        }
        if let Some(moment) = self.history.committed(flavor, gtids) {
            self.told = true;
            self.has_written(moment);
        }
    }

    /// A result is over. A commit that it reported settles what it and its transaction wrote; without one, what was
    /// written outside of a transaction is for the primary to tell.
    pub(super) fn settle(&mut self, in_transaction: bool) {
        if in_transaction {
            self.told = false;
            return;
        }
        if self.pending && (self.many || !self.told) {
            let moment = self.history.happened();
            self.has_written(moment);
            self.looked = false;
        }
        // A commit comes after all that its transaction saw, and replicas apply commits in their order.
        self.looked &= !self.told;
        (self.pending, self.many, self.told) = (false, false, false);
    }

    /// What the session saw is found out now, for its next read.
    pub(super) fn look_back(&mut self) {
        if self.looked {
            self.looked = false;
            self.seen = self.history.happened();
            self.publish(self.seen);
        }
    }

    /// What a replica must have that is to serve the session now.
    pub(super) fn need(&mut self) -> Need {
        self.look_back();
        let shared = self.scope.as_ref().map_or(0, Scope::moment);
        let wrote = self.wrote.max(shared);
        Need { wrote, seen: wrote.max(self.seen) }
    }

    fn has_written(&mut self, moment: Moment) {
        self.wrote = moment;
        self.publish(moment);
    }

    fn publish(&self, moment: Moment) {
        if let Some(scope) = &self.scope {
            scope.reached(moment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{replica::gtid::Gtids, session::scope::Scopes};

    fn position() -> Position {
        Position::new(Arc::new(History::new()))
    }

    fn gtid(position: &mut Position) {
        position.committed(Flavor::MariaDb, b"0-1-5");
    }

    /// Whether the primary must be asked for what the session needs.
    fn is_asked(position: &Position) -> bool {
        // One commit more would be known at once if nothing before it were open.
        position.history.answered(History::BEGINNING, Flavor::MariaDb, &Gtids::empty(Flavor::MariaDb));
        position.history.target().moment < position.history.newest()
    }

    async fn begun() -> Position {
        let position = position();
        position.history.question().await;
        position
    }

    #[tokio::test]
    async fn a_write_with_its_gtid_is_known_and_without_is_not() {
        let mut position = begun().await;
        assert_eq!(position.need(), Need { wrote: 1, seen: 1 });
        position.will_write(false);
        gtid(&mut position);
        position.settle(false);
        assert_eq!(position.need().wrote, 2);
        assert!(!is_asked(&position));
        position.will_write(false);
        position.settle(false);
        assert_eq!(position.need().wrote, 3);
        assert!(is_asked(&position));
    }

    #[tokio::test]
    async fn no_gtid_speaks_for_nothing() {
        for gtids in [&b""[..], b"nonsense"] {
            let mut position = begun().await;
            position.will_write(false);
            position.committed(Flavor::MariaDb, gtids);
            position.settle(false);
            assert_eq!(position.need().wrote, 2);
            assert!(is_asked(&position));
        }
    }

    #[tokio::test]
    async fn a_transaction_is_settled_by_its_commit() {
        let mut position = begun().await;
        position.will_write(false);
        position.settle(true);
        position.will_look();
        position.settle(true);
        assert_eq!(position.wrote, 1);
        gtid(&mut position);
        position.settle(false);
        assert_eq!(position.need(), Need { wrote: 2, seen: 2 });
        assert!(!is_asked(&position));
    }

    #[tokio::test]
    async fn several_statements_are_not_settled_by_one_gtid() {
        let mut position = begun().await;
        position.will_write(true);
        gtid(&mut position);
        position.settle(false);
        assert_eq!(position.need().wrote, 3);
        assert!(is_asked(&position));
    }

    #[tokio::test]
    async fn what_was_seen_is_asked_for_once() {
        let mut position = begun().await;
        position.will_look();
        position.settle(false);
        assert_eq!(position.need(), Need { wrote: 1, seen: 2 });
        assert!(is_asked(&position));
        assert_eq!(position.need(), Need { wrote: 1, seen: 2 });
    }

    #[tokio::test]
    async fn a_scope_has_what_any_of_its_sessions_wrote() {
        let scopes = Arc::new(Scopes::new());
        let mut one = begun().await;
        let mut other = Position::new(Arc::clone(&one.history));
        one.share(Some(scopes.scope(b"a")));
        other.share(Some(scopes.scope(b"a")));
        one.will_write(false);
        gtid(&mut one);
        one.settle(false);
        assert_eq!(other.need().wrote, one.need().wrote);
        assert_eq!(other.need().wrote, 2);
    }
}
