//! The decision itself.

use super::{Reason, Route, Target};
use crate::{
    config::RouteMode,
    sql::{Facts, Kind, Statement},
};

/// What a decision needs to know of the session.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// Where statements may go at all.
    pub mode: RouteMode,
    /// SERVER_STATUS_IN_TRANS in the primary's last answer.
    pub in_transaction: bool,
    /// SERVER_STATUS_AUTOCOMMIT in the primary's last answer.
    pub autocommit: bool,
    /// Why everything of this session stays on the primary, if it does.
    pub tie: Option<Reason>,
    /// Where the last statement ran.
    pub last_target: Target,
}

/// Whether a replica can take this session's reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replica {
    /// It can.
    Serving,
    /// It cannot.
    Unusable(Reason),
}

/// Where `statement` goes. First what ties the session, then what the statement is, then whether a replica
/// is there: only a certain read outside of any transaction leaves the primary.
pub fn decide(statement: &Statement, session: Session, replica: Replica) -> Route {
    if session.in_transaction {
        return Route::primary(Reason::Transaction);
    }
    if asks_about_last_result(statement) {
        return Route { target: session.last_target, reason: Reason::LastResult };
    }
    if let Some(reason) = reason_to_stay(statement) {
        return Route::primary(reason);
    }
    if session.mode == RouteMode::Primary {
        return Route::primary(Reason::Forced);
    }
    if !session.autocommit {
        return Route::primary(Reason::AutocommitOff);
    }
    if let Some(reason) = session.tie {
        return Route::primary(reason);
    }
    match replica {
        Replica::Serving => Route { target: Target::Replica, reason: Reason::Read },
        Replica::Unusable(reason) => Route::primary(reason),
    }
}

/// Row counts and warnings are on the connection that ran the last statement. LAST_INSERT_ID is not: only
/// the primary ever generates one.
fn asks_about_last_result(statement: &Statement) -> bool {
    statement.facts.contains(Facts::LAST_RESULT)
        && matches!(statement.kind, Kind::Read | Kind::Show)
        && statement.tables.is_empty()
        && !statement.facts.intersects(
            Facts::MAY_WRITE
                .and(Facts::MULTI)
                .and(Facts::READS_SYSTEM_VARIABLE)
                .and(Facts::READS_USER_VARIABLE)
                .and(Facts::ASSIGNS_VARIABLE)
                .and(Facts::INTO),
        )
        && !statement.functions.iter().any(|function| function == "last_insert_id")
}

/// Why this statement must run on the primary whatever the session, if it must.
fn reason_to_stay(statement: &Statement) -> Option<Reason> {
    if statement.is_certain_read() {
        return None;
    }
    let by_fact = [
        (Facts::MULTI, Reason::MultiStatement),
        (Facts::LOCKS_ROWS, Reason::LockingRead),
        (Facts::LAST_RESULT, Reason::LastResult),
        (Facts::ASSIGNS_VARIABLE.and(Facts::READS_USER_VARIABLE), Reason::UserVariable),
        (Facts::SYSTEM_SCHEMA.and(Facts::CONNECTION_LOCAL), Reason::ServerState),
        (Facts::READS_SYSTEM_VARIABLE, Reason::SessionState),
        (Facts::UNSAFE_FUNCTION.and(Facts::SEQUENCE), Reason::UnsafeFunction),
        (Facts::INTO.and(Facts::MAY_WRITE), Reason::Write),
    ];
    Some(match statement.kind {
        Kind::Read => by_fact
            .into_iter()
            .find(|(facts, _)| statement.facts.intersects(*facts))
            .map_or(Reason::Unparsed, |(_, reason)| reason),
        Kind::Write => Reason::Write,
        Kind::Ddl => Reason::Ddl,
        Kind::Begin | Kind::Commit | Kind::Rollback | Kind::Savepoint | Kind::Lock => Reason::Transaction,
        Kind::SetSession | Kind::Use | Kind::Prepare | Kind::Execute | Kind::Deallocate => {
            Reason::SessionState
        }
        Kind::SetGlobal | Kind::Show | Kind::Admin | Kind::Kill | Kind::Explain => Reason::ServerState,
        Kind::Call => Reason::UnsafeFunction,
        Kind::Unknown if statement.facts.contains(Facts::MULTI) => Reason::MultiStatement,
        Kind::Unknown => Reason::Unparsed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Dialect, Flavor, classify};

    const CALM: Session = Session {
        mode: RouteMode::Auto,
        in_transaction: false,
        autocommit: true,
        tie: None,
        last_target: Target::Primary,
    };

    fn route(sql: &str, session: Session) -> (Target, &'static str) {
        let dialect = Dialect::new(Flavor::MySql, 90704);
        let route = decide(&classify(sql.as_bytes(), dialect), session, Replica::Serving);
        (route.target, route.reason.label())
    }

    #[test]
    fn only_certain_reads_leave_the_primary() {
        assert_eq!(route("SELECT a FROM t WHERE id = 1", CALM), (Target::Replica, "read"));
        for (sql, reason) in [
            ("SELECT a FROM t FOR UPDATE", "locking_read"),
            ("SELECT @a", "user_variable"),
            ("SELECT @@version", "session_state"),
            ("SELECT LAST_INSERT_ID()", "last_result"),
            ("SELECT get_lock('a', 1)", "unsafe_function"),
            ("SELECT a FROM information_schema.tables", "server_state"),
            ("SELECT 1 INTO OUTFILE '/tmp/x'", "write"),
            ("SELECT 1; DELETE FROM t", "multi_statement"),
            ("INSERT INTO t VALUES (1)", "write"),
            ("CREATE TABLE t (a INT)", "ddl"),
            ("BEGIN", "transaction"),
            ("SET sql_mode = ''", "session_state"),
            ("SHOW TABLES", "server_state"),
            ("CALL p()", "unsafe_function"),
        ] {
            assert_eq!(route(sql, CALM), (Target::Primary, reason), "{sql}");
        }
    }

    #[test]
    fn a_session_can_be_tied() {
        let read = "SELECT a FROM t";
        for (session, reason) in [
            (Session { in_transaction: true, ..CALM }, "transaction"),
            (Session { autocommit: false, ..CALM }, "autocommit_off"),
            (Session { mode: RouteMode::Primary, ..CALM }, "forced"),
            (Session { tie: Some(Reason::TemporaryTable), ..CALM }, "temporary_table"),
        ] {
            assert_eq!(route(read, session), (Target::Primary, reason));
        }
    }

    #[test]
    fn diagnostics_follow_the_last_statement() {
        let after_replica = Session { last_target: Target::Replica, ..CALM };
        for sql in ["SHOW WARNINGS", "SELECT FOUND_ROWS()", "SELECT ROW_COUNT()"] {
            assert_eq!(route(sql, after_replica), (Target::Replica, "last_result"), "{sql}");
            assert_eq!(route(sql, CALM), (Target::Primary, "last_result"), "{sql}");
        }
        assert_eq!(route("SELECT LAST_INSERT_ID()", after_replica), (Target::Primary, "last_result"));
    }
}
