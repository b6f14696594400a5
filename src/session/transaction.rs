//! Read-only transactions. One runs on the replica; the first statement in it that must not run there begins
//! the same transaction on the primary, so that each statement meets what it would meet without a proxy.

use std::ops::ControlFlow;

use super::{Error, Session};
use crate::{
    route::Reason,
    sql::{Kind, Statement},
    wire::{err::SqlError, framed::Head},
};

impl Session {
    /// `statement` goes to the primary: if a transaction is open on the replica, it is there too.
    pub(super) async fn join_transaction(&mut self, statement: &Statement) -> Result<(), Error> {
        if !self.replica.in_transaction() || self.state.in_transaction() {
            return Ok(());
        }
        if statement.kind == Kind::Begin {
            // It ends the one that is open.
            self.replica.roll_back().await;
            return Ok(());
        }
        self.set("START TRANSACTION READ ONLY").await
    }

    /// A statement ended on the primary; a transaction that it ended there is over on the replica too.
    pub(super) async fn leave_transaction(&mut self) {
        if !self.state.in_transaction() {
            self.replica.roll_back().await;
        }
    }

    /// The replica failed with the session's transaction open on it; `has_read`: the client has seen data of
    /// it. Then nobody can go on with it, and the client has to begin again.
    pub(super) async fn lose_transaction(
        &mut self,
        head: Head,
        has_read: bool,
    ) -> Result<ControlFlow<(), Reason>, Error> {
        if !has_read {
            if !self.state.in_transaction() {
                self.set("START TRANSACTION READ ONLY").await?;
            }
            return Ok(ControlFlow::Continue(Reason::RetryAfterReplicaError));
        }
        if self.state.in_transaction() {
            self.set("ROLLBACK").await?;
        }
        let seq = self.drop_command(head).await?;
        self.say(seq, &SqlError::transaction_lost().to_payload()).await?;
        Ok(ControlFlow::Break(()))
    }
}
