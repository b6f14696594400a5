//! A session's connection to a replica: opened when first needed, brought to the session's state before each
//! use, and let go when anything about it is in doubt.

use std::time::Duration;

use mysql_common::constants::CapabilityFlags;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::{Error, Session, position::Need, state::State};
use crate::{
    auth::Credential,
    backend::{self, Connection, Dialer},
    route::{Reason, Target},
    sql::Flavor,
    telemetry::{
        Metrics,
        metrics::{BackendGauge, Use},
    },
    wire::login::Login,
};

/// After a failure a session does not try its replica again before this time has passed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Said first on every connection to a replica.
const READ_ONLY: &[u8] = b"SET SESSION TRANSACTION READ ONLY";
/// A replica that is waited for is looked up at this interval.
const PULSE: Duration = Duration::from_millis(250);
/// A replica must answer the proxy's own short questions within this time.
const ASK_LIMIT: Duration = Duration::from_secs(1);

/// A session's way to a replica.
#[derive(Default)]
pub(super) struct ReplicaLink {
    open: Option<Open>,
    retry_at: Option<Instant>,
}

struct Open {
    connection: Connection,
    gauge: BackendGauge,
    /// The default schema on this connection.
    schema: Vec<u8>,
    /// Settings up to this one were said on this connection.
    said: u64,
    /// Looks up now and then while the replica is waited for. Kept, since a timer for each statement would
    /// cost each of them.
    pulse: Interval,
}

/// Why the replica cannot take a read of this session now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It cannot be reached or logged in to.
    Down,
    /// It does not have the session's writes yet.
    Behind,
}

impl Unusable {
    /// As a reason for the primary.
    pub(super) const fn reason(self) -> Reason {
        match self {
            Self::Down => Reason::ReplicaDown,
            Self::Behind => Reason::ReplicaBehind,
        }
    }
}

impl ReplicaLink {
    /// Whether there is a connection.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
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
    pub(super) async fn bring_up(
        &mut self,
        dialer: &Dialer,
        login: &Login,
        credential: &Credential,
        encrypt: bool,
        state: &State,
        metrics: &Metrics,
    ) -> Result<(), Unusable> {
        // There is no way back to no schema at all but a new connection.
        if self.open.as_ref().is_some_and(|open| state.schema.is_empty() && !open.schema.is_empty()) {
            self.close().await;
        }
        if self.open.is_none() {
            self.dial(dialer, login, credential, encrypt, state, metrics).await?;
        }
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

    async fn dial(
        &mut self,
        dialer: &Dialer,
        login: &Login,
        credential: &Credential,
        encrypt: bool,
        state: &State,
        metrics: &Metrics,
    ) -> Result<(), Unusable> {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(Unusable::Down);
        }
        let mut login = Login { schema: state.schema.clone(), ..login.clone() };
        if !login.schema.is_empty() {
            login.capabilities = login.capabilities.with(CapabilityFlags::CLIENT_CONNECT_WITH_DB);
        }
        match dialer.open(login, credential, encrypt).await {
            Ok(mut opened) => {
                // A read that writes after all, behind a view or a function, is refused even to those whom
                // the server's read_only does not hold back, and then runs on the primary.
                if let Err(error) = begin(&mut opened.connection, state.was_reset).await {
                    tracing::info!(%error, "the replica does not take a session that only reads");
                    self.fail();
                    return Err(Unusable::Down);
                }
                let mut pulse = interval(PULSE);
                // It rests between statements; what it missed meanwhile does not count.
                pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
                self.open = Some(Open {
                    connection: opened.connection,
                    gauge: metrics.backend(Target::Replica),
                    schema: state.schema.clone(),
                    said: 0,
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
        if self.schema != state.schema {
            self.connection.select_schema(&state.schema, ASK_LIMIT).await?;
            self.schema.clone_from(&state.schema);
        }
        if let Some(statement) = state.replay.since(self.said) {
            self.connection.ask(&statement, ASK_LIMIT).await?;
        }
        self.said = state.replay.version();
        Ok(())
    }
}

impl Session {
    /// Whether the replica has what this session wrote. The simple form: the replica is asked.
    pub(super) async fn check_position(&mut self) -> Result<Result<(), Unusable>, Error> {
        if self.state.position.need(Instant::now()) == Need::Primary {
            self.ask_primary_position().await?;
        }
        let flavor = self.state.dialect.flavor;
        let question = match self.state.position.need(Instant::now()) {
            Need::Nothing => return Ok(Ok(())),
            Need::Primary | Need::Time => return Ok(Err(Unusable::Behind)),
            Need::Gtids(gtids) => covers(flavor, gtids),
        };
        let Some(connection) = self.replica.connection() else { return Ok(Err(Unusable::Down)) };
        match connection.ask(&question, ASK_LIMIT).await {
            Ok(Some(answer)) if answer == b"1" => {
                self.state.position.covered();
                Ok(Ok(()))
            }
            Ok(_) => Ok(Err(Unusable::Behind)),
            Err(error) => {
                tracing::info!(%error, "the replica does not tell its position");
                self.replica.fail();
                Ok(Err(Unusable::Down))
            }
        }
    }

    /// Something may have been written and no GTID was told: the primary's own position covers it.
    async fn ask_primary_position(&mut self) -> Result<(), Error> {
        let question: &[u8] = match self.state.dialect.flavor {
            // A set from before GTIDs were switched off covers nothing that was written since.
            Flavor::MySql => b"SELECT IF(@@GLOBAL.gtid_mode LIKE 'ON%', @@GLOBAL.gtid_executed, '')",
            Flavor::MariaDb => b"SELECT @@GLOBAL.gtid_binlog_pos",
        };
        match self.primary.ask(question, self.context.config.connect_timeout).await {
            Ok(Some(gtids)) if !gtids.is_empty() => self.state.position.primary_is_at(gtids),
            Ok(_) | Err(backend::Error::Refused(_)) => {
                // The replica may serve while it is this much behind.
                let hold = self.context.config.unknown_position_hold + self.context.config.max_lag;
                self.state.position.hold_until(Instant::now() + hold);
            }
            Err(error) => return Err(self.ask_failed(error).await),
        }
        Ok(())
    }
}

/// A question that is answered with 1 when the server has executed all of `gtids`.
fn covers(flavor: Flavor, gtids: &[u8]) -> Vec<u8> {
    match flavor {
        Flavor::MySql => [b"SELECT GTID_SUBSET('", gtids, b"', @@GLOBAL.gtid_executed)"].concat(),
        Flavor::MariaDb => [b"SELECT MASTER_GTID_WAIT('", gtids, b"', 0) = 0"].concat(),
    }
}
