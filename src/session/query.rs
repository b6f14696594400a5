//! COM_QUERY.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Error, Session, statement::Errand};
use crate::{
    sql::{self, Dialect, Facts, Kind, Statement},
    wire::{framed::Head, query},
};

impl Session {
    /// COM_QUERY.
    pub(super) async fn query(&mut self, head: Head) -> Result<(), Error> {
        let started = Instant::now();
        let statement = self.classify(head);
        if statement.kill.is_some() {
            return self.kill(head, &statement, started).await;
        }
        self.run_statement(head, Errand::Text, &statement, started).await
    }

    /// The statement in the command at the front of the client's buffer.
    fn classify(&self, head: Head) -> Arc<Statement> {
        match query::text(self.payload(head), self.capabilities) {
            Ok(text) if head.is_complete() => self.context.statements.classify(text, self.state.dialect),
            // With malformed attributes there is no text; the server will say so.
            text => Arc::new(long_statement(text.unwrap_or_default(), self.state.dialect)),
        }
    }
}

/// A statement that is too long to be looked at as a whole. More statements may follow its beginning, so that
/// only what the primary reports is known of its effects.
pub(super) fn long_statement(beginning: &[u8], dialect: Dialect) -> Statement {
    let mut statement = sql::classify(beginning, dialect);
    statement.facts.insert(Facts::MULTI.and(Facts::MAY_WRITE));
    if statement.kind != Kind::Write {
        statement.kind = Kind::Unknown;
        statement.facts.insert(Facts::SETS_UNREPORTED);
    }
    statement
}
