//! What the primary is asked to tell, with each answer, of what a statement changed in the session.

use std::sync::atomic::Ordering;

use super::{Error, Session, replica_link::Unusable};
use crate::{
    backend,
    route::Reason,
    sql::{Dialect, Flavor},
    wire::ok::OkPacket,
};

/// What the proxy asks MySQL to tell with each answer.
/// <https://dev.mysql.com/doc/refman/9.6/en/session-state-tracking.html>
const TRACK_MYSQL: &str = "SET SESSION session_track_system_variables = '*', session_track_gtids = OWN_GTID, \
    session_track_schema = ON, session_track_state_change = ON";
/// The same for MariaDB, whose `*` includes `last_gtid`.
const TRACK_MARIADB: &str = "SET SESSION session_track_system_variables = '*', session_track_schema = ON, \
    session_track_state_change = ON";
/// Back to what a client expects that handles session tracking itself. DEFAULT would be what the server was built
/// with.
const UNTRACK_MYSQL: &str = "SET SESSION session_track_gtids = @@GLOBAL.session_track_gtids, \
    session_track_system_variables = @@GLOBAL.session_track_system_variables, \
    session_track_schema = @@GLOBAL.session_track_schema, \
    session_track_state_change = @@GLOBAL.session_track_state_change";
/// See [`UNTRACK_MYSQL`].
const UNTRACK_MARIADB: &str = "SET SESSION \
    session_track_system_variables = @@GLOBAL.session_track_system_variables, \
    session_track_schema = @@GLOBAL.session_track_schema, \
    session_track_state_change = @@GLOBAL.session_track_state_change";

/// By these the proxy itself reads the session's texts. The other character sets would not stay what they
/// are: a name stands for its default collation, and that shows in the columns of results.
const PARSING: [&str; 2] = ["sql_mode", "character_set_client"];
/// What else a session may begin with other than a replica's would, since it comes from the server's
/// configuration or from SET GLOBAL. A new `max_join_size` chooses `sql_big_selects`, so that this follows it.
const INITIAL: [&str; 11] = [
    "autocommit",
    "default_week_format",
    "div_precision_increment",
    "group_concat_max_len",
    "lc_time_names",
    "max_join_size",
    "max_sort_length",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_select_limit",
    "time_zone",
];
/// In MySQL only.
const INITIAL_MYSQL: [&str; 3] =
    ["max_execution_time", "transaction_isolation", "windowing_use_high_precision"];
/// MariaDB 11.1 has its isolation level by this name too.
const MARIADB_TRANSACTION_ISOLATION: u32 = 110_100;

/// What reads depend on and no session can set for itself: the longest result of a function, and the operators of
/// full-text search.
const SERVER_SETTINGS: &[u8] =
    b"SELECT CAST(CONCAT(@@SESSION.max_allowed_packet, ' ', @@GLOBAL.ft_boolean_syntax) AS BINARY)";

/// The settings that a session's beginning is asked for.
fn initial_settings(dialect: Dialect) -> Vec<&'static str> {
    let own: &[&str] = match dialect.flavor {
        Flavor::MySql => &INITIAL_MYSQL,
        Flavor::MariaDb if dialect.version < MARIADB_TRANSACTION_ISOLATION => {
            &["max_statement_time", "tx_isolation"]
        }
        Flavor::MariaDb => &["max_statement_time", "transaction_isolation"],
    };
    [&PARSING[..], &INITIAL, own].concat()
}

/// Assignments that leave settings as they are: servers tell of them all the same.
fn as_they_are(names: &[&str]) -> String {
    let assignments: Vec<_> = names.iter().map(|name| format!("{name} = @@SESSION.{name}")).collect();
    assignments.join(", ")
}

impl Session {
    /// Asks the primary to tell what each statement changes, and what the session begins with, where a
    /// replica needs to know.
    pub(super) async fn track(&mut self) -> Result<(), Error> {
        if self.context.replica.is_none() {
            return Ok(());
        }
        let tracking = match self.state.dialect.flavor {
            Flavor::MySql => TRACK_MYSQL,
            Flavor::MariaDb => TRACK_MARIADB,
        };
        let settings = as_they_are(&initial_settings(self.state.dialect));
        if let Some(reason) = self.try_set(&format!("{tracking}, {settings}")).await? {
            tracing::debug!(%reason, "the primary does not tell all that a session begins with");
            let settings = as_they_are(&PARSING);
            self.set(&format!("{tracking}, {settings}")).await?;
        }
        Ok(())
    }

    /// Runs a statement of the proxy's own on the primary; one that is refused ties the session to it.
    pub(super) async fn set(&mut self, statement: &str) -> Result<(), Error> {
        if let Some(reason) = self.try_set(statement).await? {
            tracing::warn!(%reason, statement, "the primary refuses: the session's reads stay on it");
            self.state.tie(Reason::SessionState);
        }
        Ok(())
    }

    /// Runs a statement of the proxy's own on the primary; gives the reason when it is refused.
    async fn try_set(&mut self, statement: &str) -> Result<Option<backend::Error>, Error> {
        match self.primary.set(statement.as_bytes(), self.context.config.connect_timeout).await {
            Ok(payload) => self.observe_own(&payload).map(|()| None),
            Err(refused @ backend::Error::Refused(_)) => Ok(Some(refused)),
            Err(backend::Error::Stream(error)) => Err(Error::Primary(error)),
            Err(error) => Err(Error::Login(error)),
        }
    }

    /// The primary ended a command of the proxy's own.
    fn observe_own(&mut self, payload: &[u8]) -> Result<(), Error> {
        let ok = OkPacket::parse(payload).map_err(|malformed| Error::Primary(malformed.into()))?;
        self.state.observe(&ok, None).map_err(|malformed| Error::Primary(malformed.into()))
    }

    /// The client is about to look at or change session tracking itself: from here on it has it to itself,
    /// and its reads stay on the primary.
    pub(super) async fn give_up_tracking(&mut self) -> Result<(), Error> {
        if self.state.transparent {
            return Ok(());
        }
        let statement = match self.state.dialect.flavor {
            Flavor::MySql => UNTRACK_MYSQL,
            Flavor::MariaDb => UNTRACK_MARIADB,
        };
        self.set(statement).await?;
        self.state.transparent = true;
        self.state.tie(Reason::SessionState);
        Ok(())
    }

    /// The primary's next OK tells what the last statement changed without saying so. That of a ping comes
    /// without a statement, and so without an end to warnings and row counts.
    pub(super) async fn settle(&mut self) -> Result<(), Error> {
        if self.state.transparent {
            self.state.unsettled = false;
            return Ok(());
        }
        match self.primary.ping(self.context.config.connect_timeout).await {
            Ok(payload) => self.observe_own(&payload),
            Err(error) => Err(self.ask_failed(error).await),
        }
    }

    /// Whether both servers have the same in what reads depend on and no session can set; where they have not,
    /// the session stays on the primary. They are asked only after somebody has changed a setting of the whole
    /// server through the proxy.
    pub(super) async fn check_settings(&mut self) -> Result<Result<(), Unusable>, Error> {
        if !self.context.server_changed.load(Ordering::Relaxed) {
            return Ok(Ok(()));
        }
        let limit = self.context.config.connect_timeout;
        let on_primary = match self.primary.ask(SERVER_SETTINGS, limit).await {
            Ok(settings) => settings,
            Err(error) => return Err(self.ask_failed(error).await),
        };
        let Some(replica) = self.replica.connection() else { return Ok(Err(Unusable::Down)) };
        match replica.ask(SERVER_SETTINGS, limit).await {
            Ok(on_replica) if on_replica == on_primary => Ok(Ok(())),
            Ok(_) => {
                self.replica.close().await;
                self.state.tie(Reason::SessionState);
                Ok(Err(Unusable::Refused))
            }
            Err(error) => {
                tracing::info!(%error, "the replica does not tell its settings");
                self.replica.fail();
                Ok(Err(Unusable::Down))
            }
        }
    }

    /// SET NAMES is reported without its collation.
    pub(super) async fn ask_collation(&mut self) -> Result<(), Error> {
        const NAME: &str = "collation_connection";
        // Whatever the client has chosen for results, this is to be read here.
        let question = format!("SELECT CAST(@@SESSION.{NAME} AS BINARY)");
        let answer = self.primary.ask(question.as_bytes(), self.context.config.connect_timeout).await;
        match answer {
            Ok(collation) => {
                self.state.collation_unknown = false;
                if !self.state.replay.variable(NAME.as_bytes(), &collation.unwrap_or_default()) {
                    self.state.tie(Reason::SessionState);
                }
                Ok(())
            }
            Err(error) => Err(self.ask_failed(error).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_without_being_changed() {
        assert_eq!(as_they_are(&["a", "b"]), "a = @@SESSION.a, b = @@SESSION.b");
    }

    #[test]
    fn every_server_is_asked_by_names_that_it_has() {
        let of = |flavor, version| initial_settings(Dialect::new(flavor, version));
        assert!(of(Flavor::MySql, 80_036).contains(&"transaction_isolation"));
        assert!(of(Flavor::MariaDb, 100_600).contains(&"tx_isolation"));
        assert!(of(Flavor::MariaDb, 110_400).contains(&"transaction_isolation"));
    }
}
