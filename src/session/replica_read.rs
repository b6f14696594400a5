//! Reads on the replica: sent, answered, or given back to be run on the primary.

use std::{io, ops::ControlFlow};

use tokio::time::Interval;

use super::{
    Context, Error, Session,
    prepared::Execution,
    relay::{self, Listener, Outcome, Relay},
    replica_link::{Unusable, Way},
    statement::Errand,
};
use crate::{
    replica::State as ReplicaState,
    route::{Policy, Reason, Target},
    sql::{Facts, Statement},
    wire::{
        command::Answer,
        err::SqlError,
        framed::{self, Head},
    },
};

/// A replica's error that is the answer all the same: the statement was killed, or ran too long.
const FINAL_ERRORS: [u16; 4] = [
    1317, // ER_QUERY_INTERRUPTED
    1969, // MariaDB's ER_STATEMENT_TIMEOUT
    3024, // ER_QUERY_TIMEOUT
    1028, // ER_FILSORT_ABORT
];

/// How a command went on the replica.
struct Tried {
    result: Result<Outcome, relay::Error>,
    /// Part of the answer is with the client.
    sent: bool,
}

impl Session {
    /// Runs a read on the replica. `Continue` says why the primary must run it instead: nothing of an
    /// answer has reached the client then, and the command is still in its buffer.
    pub(super) async fn try_replica(
        &mut self,
        head: Head,
        errand: &Errand,
        statement: &Statement,
        reason: Reason,
        policy: Policy,
    ) -> Result<ControlFlow<(), Reason>, Error> {
        let (inside, has_read) = (self.replica.in_transaction(), self.replica.has_read());
        let mut sent = self.prepare_replica(reason, policy).await?;
        if sent.is_ok() && statement.facts.contains(Facts::READS_USER_VARIABLE) {
            sent = self.replica.assign(&self.state).await;
        }
        if sent.is_ok() {
            sent = self.send_to_replica(head, errand).await;
        }
        if let Err(unusable) = sent {
            if inside && !self.replica.in_transaction() {
                return self.lose_transaction(head, has_read).await;
            }
            return Ok(ControlFlow::Continue(unusable.reason()));
        }
        let shape = match errand {
            Errand::Execute(Execution { cursor: true, .. }) => Answer::CursorOrResults,
            Errand::Text | Errand::Execute(_) => Answer::Results,
        };
        let tried = self.relay_from_replica(shape, true).await?;
        self.after_replica(head, errand, statement, tried, inside.then_some(has_read)).await
    }

    /// Forwards what the replica answers to the command in its connection's write buffer.
    async fn relay_from_replica(&mut self, shape: Answer, hold_errors: bool) -> Result<Tried, Error> {
        self.begin_statement(Target::Replica);
        let Some((server, pulse)) = self.replica.connection_and_pulse() else {
            let gone = relay::Error::Server(framed::Error::Cut);
            return Ok(Tried { result: Err(gone), sent: false });
        };
        let mut relay = Relay {
            client: &mut self.client,
            server,
            write_limit: self.context.config.write_timeout,
            sent: false,
        };
        let mut listener = Listener::to_replica(self.capabilities, hold_errors);
        let work = async {
            relay.flush_server().await?;
            relay.answer(shape, &mut listener).await
        };
        let result = tokio::select! {
            biased;
            result = work => result,
            () = down(&self.context, pulse) => {
                Err(relay::Error::Server(framed::Error::Io(io::ErrorKind::TimedOut.into())))
            }
            () = self.handle.killed.cancelled() => return Err(Error::Killed),
        };
        let (sent, status) = (relay.sent, listener.status);
        if let Some(status) = status {
            self.replica.observe(status);
        }
        self.end_statement(Target::Replica);
        Ok(Tried { result, sent })
    }

    /// `inside`: in a transaction, and whether that has read before.
    async fn after_replica(
        &mut self,
        head: Head,
        errand: &Errand,
        statement: &Statement,
        tried: Tried,
        inside: Option<bool>,
    ) -> Result<ControlFlow<(), Reason>, Error> {
        match tried.result {
            Ok(Outcome::Delivered) => {
                self.client.consume(head.len);
                self.executed_on_replica(errand);
                Ok(ControlFlow::Break(()))
            }
            Ok(Outcome::Rejected(err)) => {
                self.forget_on_replica(errand).await;
                let is_final = err.code().is_some_and(|code| FINAL_ERRORS.contains(&code));
                if !is_final && inside.is_none() {
                    self.client.tx.clear();
                    return Ok(ControlFlow::Continue(Reason::RetryAfterReplicaError));
                }
                self.client.consume(head.len);
                self.client.tx.extend_from_slice(&err.packet);
                self.client.flush(self.context.config.write_timeout).await.map_err(Error::client_io)?;
                self.executed_on_replica(errand);
                Ok(ControlFlow::Break(()))
            }
            Err(relay::Error::Client(error)) => Err(Error::Client(error)),
            Err(relay::Error::Server(error)) => {
                let sent = tried.sent;
                tracing::info!(%error, sent, kind = statement.kind.label(), "a read broke off on the replica");
                self.drop_replica();
                if sent {
                    return Err(Error::Primary(error));
                }
                self.client.tx.clear();
                match inside {
                    Some(has_read) => self.lose_transaction(head, has_read).await,
                    None => Ok(ControlFlow::Continue(Reason::RetryAfterReplicaError)),
                }
            }
        }
    }

    fn drop_replica(&mut self) {
        self.handle.set_thread(Target::Replica, 0);
        self.replica.fail();
    }

    fn executed_on_replica(&mut self, errand: &Errand) {
        if let Errand::Execute(execution) = errand
            && let Some(read) = self.state.prepared.read_mut(execution.id)
        {
            read.executed(Target::Replica, execution);
        }
    }

    /// What the replica refused to execute is prepared anew next time: its tables may have changed in a way
    /// that it could not follow (error 1615), or were not there yet.
    async fn forget_on_replica(&mut self, errand: &Errand) {
        if let Errand::Execute(execution) = errand
            && let Some(read) = self.state.prepared.read_mut(execution.id)
            && let Some(handle) = read.leave_replica()
        {
            self.replica.close_statement(handle.id).await;
        }
    }

    /// Makes the replica's connection fit for this session's next read.
    pub(super) async fn prepare_replica(
        &mut self,
        reason: Reason,
        policy: Policy,
    ) -> Result<Result<(), Unusable>, Error> {
        // Questions about the last statement are for the connection that ran it, as it is.
        if reason == Reason::LastResult {
            return Ok(if self.replica.is_open() { Ok(()) } else { Err(Unusable::Down) });
        }
        if self.state.collation_unknown {
            self.ask_collation().await?;
        }
        // A transaction goes on with what it has.
        if self.replica.in_transaction() {
            return Ok(self.replica.catch_up(&self.state).await);
        }
        let (Some((_, dialer)), Some(credential)) = (&self.context.replica, &self.credential) else {
            return Ok(Err(Unusable::Down));
        };
        if self.replica.is_stuck(&self.state) {
            self.replica.close().await;
        }
        let opens = !self.replica.is_open();
        let way = Way {
            dialer,
            login: &self.login,
            credential,
            encrypt: self.client.stream().is_encrypted(),
            metrics: &self.context.metrics,
        };
        if let Err(unusable) = self.replica.bring_up(&way, &self.state).await {
            return Ok(Err(unusable));
        }
        if opens {
            if let Err(unusable) = self.check_identity().await {
                return Ok(Err(unusable));
            }
            if let Err(unusable) = self.check_settings().await? {
                return Ok(Err(unusable));
            }
        }
        if let Some(connection) = self.replica.connection() {
            self.handle.set_thread(Target::Replica, connection.thread_id);
        }
        Ok(self.check_position(policy).await)
    }

    /// Puts a copy of the command into the replica's write buffer.
    async fn send_to_replica(&mut self, head: Head, errand: &Errand) -> Result<(), Unusable> {
        if let Errand::Execute(execution) = errand {
            return self.put_execution(head, execution).await;
        }
        let Some(connection) = self.replica.connection() else { return Err(Unusable::Down) };
        connection.begin_forwarded();
        let command = self.client.received().get(..head.len).unwrap_or_default();
        connection.framed.tx.extend_from_slice(command);
        Ok(())
    }

    async fn put_execution(&mut self, head: Head, execution: &Execution) -> Result<(), Unusable> {
        let link = self.replica.number();
        // Before anything is prepared that nobody would run.
        let entry = self.state.prepared.get(execution.id);
        let Some((entry, read)) = entry.and_then(|entry| Some((entry, entry.read.as_ref()?))) else {
            return Err(Unusable::Refused);
        };
        let known = read.on(link);
        let id = match known {
            Some(handle) => handle.id,
            None => self.replica.prepare(&entry.text, &entry.schema, &self.state).await?,
        };
        let Some(read) = self.state.prepared.read_mut(execution.id) else { return Err(Unusable::Refused) };
        let handle = known.unwrap_or_else(|| read.is_on(link, id));
        let Some(connection) = self.replica.connection() else { return Err(Unusable::Down) };
        for command in read.long_data_for(handle) {
            if connection.send_unanswered(&command, self.context.config.write_timeout).await.is_err() {
                self.drop_replica();
                return Err(Unusable::Down);
            }
        }
        connection.begin_forwarded();
        let payload = self.client.command(head);
        read.put_for_replica(&mut connection.framed.tx, payload, handle, execution);
        Ok(())
    }

    /// Forwards rows of a cursor on the replica; the command is in its connection's write buffer.
    pub(super) async fn fetch_from_replica(&mut self, head: Head) -> Result<(), Error> {
        let tried = self.relay_from_replica(Answer::Rows, false).await?;
        self.client.consume(head.len);
        match tried.result {
            Ok(_) => Ok(()),
            Err(relay::Error::Client(error)) => Err(Error::Client(error)),
            Err(relay::Error::Server(error)) => {
                self.drop_replica();
                if tried.sent {
                    return Err(Error::Primary(error));
                }
                self.client.tx.clear();
                self.say(1, &SqlError::cursor_lost().to_payload()).await
            }
        }
    }
}

/// Waits until the monitor finds the replica down. A server that hangs, rather than hangs up, is noticed so.
async fn down(context: &Context, pulse: &mut Interval) {
    loop {
        pulse.tick().await;
        if context.replica.as_ref().is_none_or(|(replica, _)| replica.state() == ReplicaState::Down) {
            return;
        }
    }
}
