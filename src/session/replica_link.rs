//! A session's connection to a replica: opened when first needed, brought to the session's state before each
//! use, and let go when anything about it is in doubt.

use std::time::Duration;

use mysql_common::constants::CapabilityFlags;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::{Session, position::Need, state::State};
use crate::{
    auth::Credential,
    backend::{self, Connection, Dialer},
    config::Consistency,
    route::{Policy, Reason, Target},
    sql::Flavor,
    telemetry::{
        Metrics,
        metrics::{BackendGauge, Use, Wait},
    },
    wire::{StatusFlags, login::Login},
};

/// After a failure a session does not try its replica again before this time has passed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Said first on every connection to a replica.
const READ_ONLY: &[u8] = b"SET SESSION TRANSACTION READ ONLY";
/// A user variable of the proxy's own keeps the character set of the client's texts meanwhile.
const SPEAK_UTF8: &[u8] =
    b"SET @_ramsplit_charset = @@SESSION.character_set_client, SESSION character_set_client = utf8mb4";
/// See [`SPEAK_UTF8`].
const SPEAK_AS_BEFORE: &[u8] = b"SET SESSION character_set_client = @_ramsplit_charset";
/// A replica that is waited for is looked up at this interval.
const PULSE: Duration = Duration::from_millis(250);
/// A session whose writes the replica has, and that lately read on the primary what the replica may not have yet,
/// waits so long for it: it would stay on the primary as long as it reads without a pause.
const RETURN_WAIT: Duration = Duration::from_millis(5);
/// A replica must answer the proxy's own short questions within this time.
const ASK_LIMIT: Duration = Duration::from_secs(1);

/// A session's way to a replica.
#[derive(Default)]
pub(super) struct ReplicaLink {
    open: Option<Open>,
    number: u64,
    retry_at: Option<Instant>,
}

struct Open {
    connection: Connection,
    gauge: BackendGauge,
    /// The default schema on this connection.
    schema: Vec<u8>,
    /// Settings up to this one were said on this connection.
    said: u64,
    /// User variables up to this assignment were set on this connection.
    assigned: u64,
    /// A read-only transaction of the session is open here.
    transaction: Transaction,
    /// Looks up now and then while the replica is waited for. Kept, since a timer for each statement would
    /// cost each of them.
    pulse: Interval,
}

/// How far a read-only transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transaction {
    None,
    /// Nothing was read yet.
    Begun,
    /// Data was read, which nobody else can show as it was.
    Reading,
}

/// What opens a connection to a replica.
pub(super) struct Way<'a> {
    /// Whom to call.
    pub dialer: &'a Dialer,
    /// The login that the primary got.
    pub login: &'a Login,
    /// Who the client is.
    pub credential: &'a Credential,
    /// Whether its own connection is encrypted.
    pub encrypt: bool,
    /// For the gauges.
    pub metrics: &'a Metrics,
}

/// Why the replica cannot take a read of this session now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It cannot be reached or logged in to.
    Down,
    /// It does not have the session's writes yet.
    Behind,
    /// It does not take the statement.
    Refused,
}

impl Unusable {
    /// As a reason for the primary.
    pub(super) const fn reason(self) -> Reason {
        match self {
            Self::Down => Reason::ReplicaDown,
            Self::Behind => Reason::ReplicaBehind,
            Self::Refused => Reason::RetryAfterReplicaError,
        }
    }
}

impl ReplicaLink {
    /// Whether there is a connection.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Tells one connection from the next. Meaningless while there is none.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// The connection.
    pub(super) const fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.open {
            Some(open) => Some(&mut open.connection),
            None => None,
        }
    }

    /// The connection, and what to look up by while it is waited for.
    pub(super) const fn connection_and_pulse(&mut self) -> Option<(&mut Connection, &mut Interval)> {
        match &mut self.open {
            Some(open) => Some((&mut open.connection, &mut open.pulse)),
            None => None,
        }
    }

    /// For the gauges.
    pub(super) fn set_use(&mut self, state: Use) {
        if let Some(open) = &mut self.open {
            open.gauge.set(state);
        }
    }

    /// A statement ended with these status flags.
    pub(super) const fn observe(&mut self, status: StatusFlags) {
        if let Some(open) = &mut self.open {
            let inside = status.contains(StatusFlags::SERVER_STATUS_IN_TRANS);
            open.transaction = match (inside, open.transaction) {
                (false, _) => Transaction::None,
                (true, Transaction::None) => Transaction::Begun,
                (true, Transaction::Begun | Transaction::Reading) => Transaction::Reading,
            };
        }
    }

    /// Whether the session's transaction runs here.
    pub(super) fn in_transaction(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.transaction != Transaction::None)
    }

    /// Whether that transaction has shown data.
    pub(super) fn has_read(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.transaction == Transaction::Reading)
    }

    /// Ends that transaction.
    pub(super) async fn roll_back(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| open.transaction != Transaction::None) else {
            return;
        };
        match open.connection.set(b"ROLLBACK", ASK_LIMIT).await {
            Ok(_) => open.transaction = Transaction::None,
            Err(error) => {
                tracing::info!(%error, "the replica does not end a transaction");
                self.fail();
            }
        }
    }

    /// The connection is in no known state: it is dropped, and not tried again for a while.
    pub(super) fn fail(&mut self) {
        self.open = None;
        self.retry_at = Some(Instant::now() + RETRY_AFTER);
    }

    /// Takes leave of the replica.
    pub(super) async fn close(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.connection.quit().await;
        }
    }

    /// Makes sure that there is a connection with the session's schema and settings.
    pub(super) async fn bring_up(&mut self, way: &Way<'_>, state: &State) -> Result<(), Unusable> {
        if self.open.is_none() {
            self.dial(way, state).await?;
        }
        self.catch_up(state).await
    }

    /// Whether there is no way to the session's state but a new connection: none leads back to no schema.
    pub(super) fn is_stuck(&self, state: &State) -> bool {
        self.open.as_ref().is_some_and(|open| state.schema.is_empty() && !open.schema.is_empty())
    }

    /// Brings the connection to the session's schema and settings.
    pub(super) async fn catch_up(&mut self, state: &State) -> Result<(), Unusable> {
        let Some(open) = &mut self.open else { return Err(Unusable::Down) };
        if open.said == state.replay.version() && open.schema == state.schema {
            return Ok(());
        }
        if let Err(error) = open.catch_up(state).await {
            tracing::info!(%error, "the replica does not take the session's settings");
            self.fail();
            return Err(Unusable::Down);
        }
        Ok(())
    }

    /// Gives the connection the user variables that are known.
    pub(super) async fn assign(&mut self, state: &State) -> Result<(), Unusable> {
        let Some(open) = &mut self.open else { return Err(Unusable::Down) };
        if let Some(statement) = state.variables.since(open.assigned, state.replay.parsing())
            && let Err(error) = open.connection.ask(&statement, ASK_LIMIT).await
        {
            tracing::info!(%error, "the replica does not take the session's variables");
            self.fail();
            return Err(Unusable::Down);
        }
        open.assigned = state.variables.version();
        Ok(())
    }

    /// Prepares a statement as it was prepared on the primary, when `schema` was the default one, and gives
    /// its id.
    pub(super) async fn prepare(
        &mut self,
        text: &[u8],
        schema: &[u8],
        state: &State,
    ) -> Result<u32, Unusable> {
        let Some(open) = &mut self.open else { return Err(Unusable::Down) };
        match open.prepare(text, schema, state).await {
            Ok(id) => Ok(id),
            Err(backend::Error::Refused(_)) => Err(Unusable::Refused),
            Err(error) => {
                tracing::info!(%error, "the replica does not prepare a statement");
                self.fail();
                Err(Unusable::Down)
            }
        }
    }

    /// Closes a statement's cursor.
    pub(super) async fn reset_statement(&mut self, id: u32) {
        let Some(open) = &mut self.open else { return };
        match open.connection.reset_statement(id, ASK_LIMIT).await {
            Ok(()) | Err(backend::Error::Refused(_)) => {}
            Err(_) => self.fail(),
        }
    }

    /// Lets go of a statement.
    pub(super) async fn close_statement(&mut self, id: u32) {
        let Some(open) = &mut self.open else { return };
        if open.connection.close_statement(id, ASK_LIMIT).await.is_err() {
            self.fail();
        }
    }

    async fn dial(&mut self, way: &Way<'_>, state: &State) -> Result<(), Unusable> {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(Unusable::Down);
        }
        // In a login, a name is of the login's character set.
        let schema = if state.schema.is_ascii() { state.schema.clone() } else { Vec::new() };
        let mut login = Login { schema: schema.clone(), ..way.login.clone() };
        if !login.schema.is_empty() {
            login.capabilities = login.capabilities.with(CapabilityFlags::CLIENT_CONNECT_WITH_DB);
        }
        let opened = match way.dialer.open(login, way.credential, way.encrypt).await {
            // A read that writes after all, behind a view or a function, is refused even to those whom the
            // server's read_only does not hold back, and then runs on the primary.
            Ok(mut opened) => {
                begin(&mut opened.connection, state.was_reset).await.map(|()| opened.connection)
            }
            Err(error) => Err(error),
        };
        match opened {
            Ok(connection) => {
                let mut pulse = interval(PULSE);
                // It rests between statements; what it missed meanwhile does not count.
                pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
                self.number += 1;
                self.open = Some(Open {
                    connection,
                    gauge: way.metrics.backend(Target::Replica),
                    schema,
                    said: 0,
                    assigned: 0,
                    transaction: Transaction::None,
                    pulse,
                });
                Ok(())
            }
            Err(error) => {
                tracing::info!(%error, "no connection to the replica");
                self.fail();
                Err(Unusable::Down)
            }
        }
    }
}

/// The first words on a new connection.
async fn begin(connection: &mut Connection, reset: bool) -> Result<(), backend::Error> {
    if reset {
        connection.reset(ASK_LIMIT).await?;
    }
    connection.ask(READ_ONLY, ASK_LIMIT).await.map(|_| ())
}

impl Open {
    async fn catch_up(&mut self, state: &State) -> Result<(), backend::Error> {
        self.select_schema(&state.schema).await?;
        if let Some(statement) = state.replay.since(self.said) {
            self.connection.ask(&statement, ASK_LIMIT).await?;
        }
        self.said = state.replay.version();
        Ok(())
    }

    async fn select_schema(&mut self, schema: &[u8]) -> Result<(), backend::Error> {
        if self.schema == schema {
            return Ok(());
        }
        // Servers tell the name in UTF-8, and take it in the client's character set.
        if schema.is_ascii() {
            self.connection.select_schema(schema, ASK_LIMIT).await?;
        } else {
            self.connection.ask(SPEAK_UTF8, ASK_LIMIT).await?;
            let selected = self.connection.select_schema(schema, ASK_LIMIT).await;
            self.connection.ask(SPEAK_AS_BEFORE, ASK_LIMIT).await?;
            selected?;
        }
        self.schema = schema.to_vec();
        Ok(())
    }

    async fn prepare(&mut self, text: &[u8], schema: &[u8], state: &State) -> Result<u32, backend::Error> {
        self.select_schema(schema).await?;
        let prepared = self.connection.prepare(text, ASK_LIMIT).await;
        self.select_schema(&state.schema).await?;
        Ok(prepared?.id)
    }
}

impl Session {
    /// Whether the replica has what a read must see, within the time that it may take.
    pub(super) async fn check_position(&mut self, policy: Policy) -> Result<(), Unusable> {
        let Some((replica, _)) = &self.context.replica else { return Err(Unusable::Down) };
        let progress = &replica.progress;
        let need = match policy.consistency.unwrap_or(self.context.config.consistency) {
            Consistency::Eventual => return Ok(()),
            Consistency::Session => self.state.position.need(),
            Consistency::Global => {
                let newest = self.context.history.newest();
                Need { wrote: newest, seen: newest }
            }
        };
        if progress.has(need.seen) {
            return Ok(());
        }
        let mut wait = policy.wait.unwrap_or(self.context.config.wait);
        if progress.has(need.wrote) && progress.lag().is_some_and(|lag| lag < RETURN_WAIT) {
            wait = wait.max(RETURN_WAIT);
        }
        if wait.is_zero() {
            return Err(Unusable::Behind);
        }
        let began = Instant::now();
        let arrived = progress.wait_for(need.seen, wait).await;
        let (outcome, result) =
            if arrived { (Wait::Arrived, Ok(())) } else { (Wait::Late, Err(Unusable::Behind)) };
        self.context.metrics.replica_wait(began.elapsed(), outcome);
        result
    }

    /// Whether the server at the other end of a new connection is the one whose progress is known, not one that was
    /// emptied since and comes back at the same address.
    pub(super) async fn check_identity(&mut self) -> Result<(), Unusable> {
        let Some((replica, _)) = &self.context.replica else { return Err(Unusable::Down) };
        let gtids = replica.progress.gtids();
        if gtids.is_empty() {
            return Ok(());
        }
        let Some(connection) = self.replica.connection() else { return Err(Unusable::Down) };
        let question = has_executed(self.state.dialect.flavor, gtids.as_bytes());
        match connection.ask(&question, ASK_LIMIT).await {
            Ok(Some(answer)) if answer == b"1" => Ok(()),
            Ok(_) => {
                tracing::warn!(replica = replica.name, "the replica lacks what it had before");
                self.replica.fail();
                Err(Unusable::Down)
            }
            Err(error) => {
                tracing::info!(%error, "the replica does not tell its position");
                self.replica.fail();
                Err(Unusable::Down)
            }
        }
    }
}

/// A question that is answered with 1 when the server has executed all of `gtids`. In a session whose
/// `character_set_connection` is utf16, a literal without its own character set would be no GTID at all; where
/// `character_set_results` is, MariaDB sends numbers in it too.
fn has_executed(flavor: Flavor, gtids: &[u8]) -> Vec<u8> {
    let (before, after): (&[u8], &[u8]) = match flavor {
        Flavor::MySql => (b"GTID_SUBSET(_latin1'", b"', @@GLOBAL.gtid_executed)"),
        Flavor::MariaDb => (b"MASTER_GTID_WAIT(_latin1'", b"', 0) = 0"),
    };
    [b"SELECT CAST(", before, gtids, after, b" AS BINARY)"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_do_not_depend_on_the_sessions_character_set() {
        for flavor in [Flavor::MySql, Flavor::MariaDb] {
            let question = String::from_utf8(has_executed(flavor, b"g")).unwrap();
            assert!(question.contains("(_latin1'g'"), "{question}");
        }
    }
}
