//! Statements: COM_QUERY by its route, prepared statements on the primary.

use std::{ops::ControlFlow, sync::Arc};

use tokio::time::{Instant, Interval};

use super::{
    Context, Error, Session,
    relay::{self, Listener, Outcome, Relay},
    replica_link::Unusable,
};
use crate::{
    replica::State as ReplicaState,
    route::{self, Reason, Route, Target, decide},
    sql::{self, Facts, Kind, Statement},
    wire::{
        Command,
        command::Answer,
        framed::{self, Head},
        query,
        reader::Reader,
    },
};

/// Waits until the monitor finds the replica down. A server that hangs, rather than hangs up, is noticed so.
async fn down(context: &Context, pulse: &mut Interval) {
    loop {
        pulse.tick().await;
        if context.replica.as_ref().is_none_or(|(replica, _)| replica.state() == ReplicaState::Down) {
            return;
        }
    }
}

/// A replica's error that is the answer all the same: the statement was killed, or ran too long.
const FINAL_ERRORS: [u16; 4] = [
    1317, // ER_QUERY_INTERRUPTED
    1969, // MariaDB's ER_STATEMENT_TIMEOUT
    3024, // ER_QUERY_TIMEOUT
    1028, // ER_FILSORT_ABORT
];

/// The id that MariaDB's clients send for the statement prepared last.
/// <https://mariadb.com/kb/en/com_stmt_execute/>
const LAST_PREPARED: u32 = u32::MAX;

impl Session {
    /// COM_QUERY.
    pub(super) async fn query(&mut self, head: Head) -> Result<(), Error> {
        let started = Instant::now();
        let Some(statement) = self.classify(head) else {
            return self.long_query(head, started).await;
        };
        if statement.kill.is_some() {
            self.kill(head, &statement, started).await?;
            return Ok(());
        }
        if statement.facts.contains(Facts::MENTIONS_SESSION_TRACK) {
            self.give_up_tracking().await?;
        }
        if self.state.unsettled {
            self.settle().await?;
        }
        let mut route = decide(&statement, self.view(), self.replica_view());
        if route.target == Target::Replica {
            route = match self.try_replica(head, route).await? {
                ControlFlow::Break(()) => {
                    self.count(route, statement.kind, started);
                    self.state.last_target = Target::Replica;
                    return Ok(());
                }
                ControlFlow::Continue(reason) => Route::primary(reason),
            };
        }
        self.run_on_primary(head, Answer::Results, Some(&statement)).await?;
        self.count(route, statement.kind, started);
        Ok(())
    }

    /// A statement that is too long to be looked at as a whole, or comes with malformed attributes: to the
    /// primary. More statements may follow its beginning, so that only what the primary reports is known of
    /// its effects.
    async fn long_query(&mut self, head: Head, started: Instant) -> Result<(), Error> {
        let beginning = query::text(self.payload(head), self.capabilities).unwrap_or_default();
        let mut statement = sql::classify(beginning, self.state.dialect);
        let kind = statement.kind;
        statement.facts.insert(Facts::MULTI.and(Facts::MAY_WRITE));
        if kind != Kind::Write {
            statement.kind = Kind::Unknown;
            statement.facts.insert(Facts::SETS_UNREPORTED);
        }
        self.run_on_primary(head, Answer::Results, Some(&statement)).await?;
        self.count(Route::primary(Reason::Unparsed), kind, started);
        Ok(())
    }

    /// The statement in the command at the front of the client's buffer, if all of it is there.
    fn classify(&self, head: Head) -> Option<Arc<Statement>> {
        let text = self.text(head)?;
        Some(self.context.statements.classify(text, self.state.dialect))
    }

    fn text(&self, head: Head) -> Option<&[u8]> {
        if !head.is_complete() {
            return None;
        }
        query::text(self.payload(head), self.capabilities).ok()
    }

    fn view(&self) -> route::Session {
        route::Session {
            mode: self.context.config.route,
            in_transaction: self.state.in_transaction(),
            autocommit: self.state.autocommit(),
            tie: self.state.tie,
            last_target: self.state.last_target,
        }
    }

    fn replica_view(&self) -> route::Replica {
        let Some((replica, _)) = &self.context.replica else {
            return route::Replica::Unusable(Reason::NoReplica);
        };
        match replica.state() {
            ReplicaState::Serving if self.credential.is_none() => {
                route::Replica::Unusable(Reason::NoCredentials)
            }
            ReplicaState::Serving => route::Replica::Serving,
            ReplicaState::Lagging => route::Replica::Unusable(Reason::ReplicaLagging),
            ReplicaState::Joining | ReplicaState::Broken | ReplicaState::Down => {
                route::Replica::Unusable(Reason::ReplicaDown)
            }
        }
    }

    /// Runs a read on the replica. `Continue` says why the primary must run it instead: nothing of an
    /// answer has reached the client then, and the command is still in its buffer.
    async fn try_replica(&mut self, head: Head, route: Route) -> Result<ControlFlow<(), Reason>, Error> {
        // Questions about the last statement are for the connection that ran it, as it is.
        let ready = if route.reason == Reason::LastResult {
            self.replica.is_open()
        } else {
            match self.prepare_replica().await? {
                Ok(()) => true,
                Err(unusable) => return Ok(ControlFlow::Continue(unusable.reason())),
            }
        };
        if !ready {
            return Ok(ControlFlow::Continue(route.reason));
        }
        self.begin_statement(Target::Replica);
        let Some((server, pulse)) = self.replica.connection_and_pulse() else {
            return Ok(ControlFlow::Continue(route.reason));
        };
        let mut relay = Relay {
            client: &mut self.client,
            server,
            write_limit: self.context.config.write_timeout,
            sent: false,
        };
        let mut listener = Listener {
            state: None,
            statement: None,
            client: self.capabilities,
            hold_errors: true,
            prepared: None,
        };
        let work = async {
            relay.send_copy(head).await?;
            relay.answer(Answer::Results, &mut listener).await
        };
        let result = tokio::select! {
            biased;
            result = work => result,
            () = down(&self.context, pulse) => Err(relay::Error::Server(framed::Error::Io(std::io::ErrorKind::TimedOut.into()))),
            () = self.handle.killed.cancelled() => return Err(Error::Killed),
        };
        let sent = relay.sent;
        self.end_statement(Target::Replica);
        self.after_replica(head, result, sent).await
    }

    async fn after_replica(
        &mut self,
        head: Head,
        result: Result<Outcome, relay::Error>,
        sent: bool,
    ) -> Result<ControlFlow<(), Reason>, Error> {
        let retry = Ok(ControlFlow::Continue(Reason::RetryAfterReplicaError));
        match result {
            Ok(Outcome::Delivered) => {
                self.client.consume(head.len);
                Ok(ControlFlow::Break(()))
            }
            Ok(Outcome::Rejected(err)) if err.code().is_some_and(|code| FINAL_ERRORS.contains(&code)) => {
                self.client.consume(head.len);
                self.client.tx.extend_from_slice(&err.packet);
                self.client.flush(self.context.config.write_timeout).await.map_err(Error::client_io)?;
                Ok(ControlFlow::Break(()))
            }
            Ok(Outcome::Rejected(_)) => {
                self.client.tx.clear();
                retry
            }
            Err(relay::Error::Client(error)) => Err(Error::Client(error)),
            Err(relay::Error::Server(error)) => {
                tracing::info!(%error, sent, "a read broke off on the replica");
                self.handle.set_thread(Target::Replica, 0);
                self.replica.fail();
                if sent {
                    return Err(Error::Primary(error));
                }
                self.client.tx.clear();
                retry
            }
        }
    }

    /// Makes the replica's connection fit for this session's next read.
    pub(super) async fn prepare_replica(&mut self) -> Result<Result<(), Unusable>, Error> {
        if self.state.collation_unknown {
            self.ask_collation().await?;
        }
        let (Some((_, dialer)), Some(credential)) = (&self.context.replica, &self.credential) else {
            return Ok(Err(Unusable::Down));
        };
        if !self.replica.is_open() {
            self.state.position.ask_anew();
        }
        let encrypt = self.client.stream().is_encrypted();
        let opened = self
            .replica
            .bring_up(dialer, &self.login, credential, encrypt, &self.state, &self.context.metrics)
            .await;
        if let Err(unusable) = opened {
            return Ok(Err(unusable));
        }
        if let Some(connection) = self.replica.connection() {
            self.handle.set_thread(Target::Replica, connection.thread_id);
        }
        self.check_position().await
    }

    /// COM_STMT_PREPARE: classified, so that what it will do is known when it runs.
    pub(super) async fn prepare(&mut self, head: Head) -> Result<(), Error> {
        let statement = self.prepared_text(head);
        if statement.as_ref().is_some_and(|s| s.facts.contains(Facts::MENTIONS_SESSION_TRACK)) {
            self.give_up_tracking().await?;
        }
        let id = self.run_on_primary(head, Answer::Prepared, None).await?;
        if let (Some(id), Some(statement)) = (id, statement) {
            self.state.prepared.insert(id, Arc::clone(&statement));
            self.state.prepared.insert(LAST_PREPARED, statement);
        }
        Ok(())
    }

    fn prepared_text(&self, head: Head) -> Option<Arc<Statement>> {
        let text = self.payload(head).get(1..).filter(|_| head.is_complete())?;
        Some(self.context.statements.classify(text, self.state.dialect))
    }

    /// COM_STMT_EXECUTE and MariaDB's COM_STMT_BULK_EXECUTE.
    pub(super) async fn execute(&mut self, head: Head) -> Result<(), Error> {
        let started = Instant::now();
        let shape = if self.asks_for_cursor(head) { Answer::CursorOrResults } else { Answer::Results };
        let statement = self.statement_id(head).and_then(|id| self.state.prepared.get(&id).cloned());
        if statement.is_none() {
            // A text that was too long to be looked at.
            self.state.position.will_write(true);
            self.state.tie(Reason::SessionState);
        }
        self.run_on_primary(head, shape, statement.as_deref()).await?;
        let kind = statement.as_ref().map_or(Kind::Unknown, |statement| statement.kind);
        self.count(Route::primary(Reason::Prepared), kind, started);
        Ok(())
    }

    /// COM_STMT_CLOSE has no answer.
    pub(super) async fn close_statement(&mut self, head: Head) -> Result<(), Error> {
        if let Some(id) = self.statement_id(head) {
            self.state.prepared.remove(&id);
        }
        self.run_on_primary(head, Answer::None, None).await?;
        Ok(())
    }

    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html>: a cursor type
    /// stands behind the statement id; other bits there are about parameters.
    fn asks_for_cursor(&self, head: Head) -> bool {
        const CURSOR_TYPES: u8 = 0b0111;
        let payload = self.payload(head);
        payload.first() == Some(&(Command::COM_STMT_EXECUTE as u8))
            && payload.get(5).is_some_and(|flags| flags & CURSOR_TYPES != 0)
    }

    fn statement_id(&self, head: Head) -> Option<u32> {
        Reader::new(self.payload(head).get(1..)?).u32("statement id").ok()
    }
}
