//! The decision itself.

use super::{
    Reason, Route, Target,
    policy::{Policy, Wish},
};
use crate::{
    config::RouteMode,
    sql::{Facts, Kind, Statement},
};

/// What a decision needs to know of the session.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// Where statements may go at all.
    pub mode: RouteMode,
    /// Where the open transaction runs.
    pub transaction: Transaction,
    /// SERVER_STATUS_AUTOCOMMIT in the primary's last answer.
    pub autocommit: bool,
    /// What earlier statements left on the primary's connection alone and this one needs, if there is
    /// anything.
    pub tie: Option<Reason>,
    /// The replica's connection can have the same values in the user variables that the statement reads.
    pub knows_variables: bool,
    /// Where the last statement ran.
    pub last_target: Target,
    /// Where the last statement ran that was not only prepared.
    pub count_target: Target,
    /// Where the last statement ran that gave rows.
    pub rows_target: Target,
}

impl Session {
    /// A session that has done nothing yet, with autocommit on.
    pub const FRESH: Self = Self {
        mode: RouteMode::Auto,
        transaction: Transaction::None,
        autocommit: true,
        tie: None,
        knows_variables: false,
        last_target: Target::Primary,
        count_target: Target::Primary,
        rows_target: Target::Primary,
    };
}

/// What was asked for beyond the statement itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// By a hint in the statement.
    pub hint: Policy,
    /// By the first rule that matches.
    pub rule: Policy,
}

impl Asked {
    /// Both together: a hint counts more.
    pub const fn policy(self) -> Policy {
        self.hint.or(self.rule)
    }
}

/// Where the session's transaction runs: SERVER_STATUS_IN_TRANS in that server's last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// None is open.
    None,
    /// On the primary.
    Primary,
    /// It only reads, and runs on the replica.
    Replica,
    /// It only reads; statements that must not run on the replica have begun it on the primary as well.
    Both,
}

impl Transaction {
    const fn is_on_replica(self) -> bool {
        matches!(self, Self::Replica | Self::Both)
    }
}

/// Whether a replica can take this session's reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replica {
    /// It can.
    Serving,
    /// It cannot.
    Unusable(Reason),
}

/// Where `statement` goes. First what ties the session, then what was asked for, then what the statement is,
/// then whether a replica is there: only a certain read leaves the primary, and a transaction that only reads.
pub fn decide(statement: &Statement, asked: Asked, session: Session, replica: Replica) -> Route {
    if session.transaction == Transaction::Primary {
        return Route::primary(Reason::Transaction);
    }
    if asks_about_last_result(statement) {
        // The number of rows without LIMIT outlives statements that give no rows.
        let target = if statement.calls("found_rows") {
            session.rows_target
        } else if statement.calls("row_count") {
            session.count_target
        } else {
            session.last_target
        };
        return Route { target, reason: Reason::LastResult };
    }
    let wish = asked.policy().wish;
    if wish == Some(Wish::Primary) && !session.transaction.is_on_replica() {
        let by_hint = asked.hint.wish.is_some();
        return Route::primary(if by_hint { Reason::Hint } else { Reason::Rule });
    }
    let on_replica = match reason_to_stay(statement, session.knows_variables) {
        None => Reason::Read,
        Some(_) if goes_with_transaction(statement, session.transaction) => Reason::Transaction,
        Some(_) if begins_to_read(statement) => Reason::ReadOnlyTransaction,
        Some(_) if session.transaction.is_on_replica() => return Route::primary(Reason::Transaction),
        Some(_) if wish == Some(Wish::Replica) => return Route::primary(Reason::UnsafeHint),
        Some(reason) => return Route::primary(reason),
    };
    if session.mode == RouteMode::Primary {
        return Route::primary(Reason::Forced);
    }
    if let Some(reason) = session.tie {
        return Route::primary(reason);
    }
    if session.transaction.is_on_replica() && on_replica != Reason::ReadOnlyTransaction {
        return Route { target: Target::Replica, reason: Reason::ReadOnlyTransaction };
    }
    if !session.autocommit {
        return Route::primary(Reason::AutocommitOff);
    }
    match replica {
        Replica::Serving => Route { target: Target::Replica, reason: on_replica },
        Replica::Unusable(reason) => Route::primary(reason),
    }
}

/// START TRANSACTION READ ONLY.
fn begins_to_read(statement: &Statement) -> bool {
    statement.kind == Kind::Begin
        && statement.facts.contains(Facts::READ_ONLY_BEGIN)
        && !statement.facts.contains(Facts::MULTI)
}

/// Statements about a transaction on the replica, unless the primary has to end it too, or to hang up.
const fn goes_with_transaction(statement: &Statement, transaction: Transaction) -> bool {
    let goes = match statement.kind {
        Kind::Commit | Kind::Rollback => matches!(transaction, Transaction::Replica),
        Kind::Savepoint => transaction.is_on_replica(),
        _ => false,
    };
    goes && !statement.facts.intersects(Facts::RELEASES.and(Facts::MULTI))
}

/// Whether it asks for row counts or warnings, which are on the connection that ran the last statement.
/// LAST_INSERT_ID is not: only the primary ever generates one.
pub fn asks_about_last_result(statement: &Statement) -> bool {
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
        && !statement.calls("last_insert_id")
}

/// Why this statement must run on the primary whatever the session, if it must.
fn reason_to_stay(statement: &Statement, knows_variables: bool) -> Option<Reason> {
    if statement.is_certain_read() || knows_variables && statement.is_certain_read_of_variables() {
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

    const CALM: Session = Session::FRESH;

    fn route(sql: &str, session: Session) -> (Target, &'static str) {
        let dialect = Dialect::new(Flavor::MySql, 90704);
        let route = decide(&classify(sql.as_bytes(), dialect), Asked::default(), session, Replica::Serving);
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
            (Session { transaction: Transaction::Primary, ..CALM }, "transaction"),
            (Session { autocommit: false, ..CALM }, "autocommit_off"),
            (Session { mode: RouteMode::Primary, ..CALM }, "forced"),
            (Session { tie: Some(Reason::TemporaryTable), ..CALM }, "temporary_table"),
        ] {
            assert_eq!(route(read, session), (Target::Primary, reason));
        }
    }

    #[test]
    fn diagnostics_follow_the_last_statement() {
        let after_replica = Session { last_target: Target::Replica, count_target: Target::Replica, ..CALM };
        for sql in ["SHOW WARNINGS", "SELECT ROW_COUNT()", "SELECT @@warning_count"] {
            assert_eq!(route(sql, after_replica), (Target::Replica, "last_result"), "{sql}");
            assert_eq!(route(sql, CALM), (Target::Primary, "last_result"), "{sql}");
        }
        let prepared_since = Session { last_target: Target::Primary, ..after_replica };
        assert_eq!(route("SHOW WARNINGS", prepared_since), (Target::Primary, "last_result"));
        assert_eq!(route("SELECT ROW_COUNT()", prepared_since), (Target::Replica, "last_result"));
        let rows_from_replica = Session { rows_target: Target::Replica, ..CALM };
        assert_eq!(route("SELECT FOUND_ROWS()", rows_from_replica), (Target::Replica, "last_result"));
        assert_eq!(route("SELECT FOUND_ROWS()", after_replica), (Target::Primary, "last_result"));
        assert_eq!(route("SELECT LAST_INSERT_ID()", after_replica), (Target::Primary, "last_result"));
    }

    #[test]
    fn read_only_transactions_run_on_the_replica() {
        let begin = "START TRANSACTION READ ONLY";
        assert_eq!(route(begin, CALM), (Target::Replica, "read_only_transaction"));
        assert_eq!(route(begin, Session { autocommit: false, ..CALM }), (Target::Primary, "autocommit_off"));
        assert_eq!(
            route(begin, Session { tie: Some(Reason::SessionState), ..CALM }),
            (Target::Primary, "session_state")
        );
        let inside = Session { transaction: Transaction::Replica, ..CALM };
        for sql in
            ["SELECT a FROM t", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "COMMIT AND CHAIN"]
        {
            assert_eq!(route(sql, inside), (Target::Replica, "read_only_transaction"), "{sql}");
        }
        for sql in ["INSERT INTO t VALUES (1)", "SELECT @a", "SHOW TABLES", "BEGIN", "COMMIT RELEASE"] {
            assert_eq!(route(sql, inside), (Target::Primary, "transaction"), "{sql}");
        }
        let both = Session { transaction: Transaction::Both, ..CALM };
        assert_eq!(route("SELECT a FROM t", both), (Target::Replica, "read_only_transaction"));
        assert_eq!(route("COMMIT", both), (Target::Primary, "transaction"));
        let tied = Session { tie: Some(Reason::TemporaryTable), ..inside };
        assert_eq!(route("SELECT a FROM t", tied), (Target::Primary, "temporary_table"));
    }

    #[test]
    fn known_user_variables_keep_no_read() {
        let known = Session { knows_variables: true, ..CALM };
        assert_eq!(route("SELECT a FROM t WHERE b = @x", known), (Target::Replica, "read"));
        assert_eq!(route("SELECT a INTO @y FROM t WHERE b = @x", known), (Target::Primary, "user_variable"));
    }

    #[test]
    fn wishes_are_heard_where_they_are_safe() {
        let dialect = Dialect::new(Flavor::MySql, 90704);
        let to = |wish| Policy { wish: Some(wish), ..Policy::default() };
        let by_hint = |wish| Asked { hint: to(wish), rule: Policy::default() };
        let by_rule = |wish| Asked { hint: Policy::default(), rule: to(wish) };
        let inside = Session { transaction: Transaction::Primary, ..CALM };
        for (sql, asked, session, expected) in [
            ("SELECT 1", by_hint(Wish::Primary), CALM, (Target::Primary, "hint")),
            ("SELECT 1", by_rule(Wish::Primary), CALM, (Target::Primary, "rule")),
            ("SELECT 1", by_hint(Wish::Replica), CALM, (Target::Replica, "read")),
            ("SELECT 1", by_rule(Wish::Auto), CALM, (Target::Replica, "read")),
            ("SELECT 1", by_hint(Wish::Replica), inside, (Target::Primary, "transaction")),
            ("DELETE FROM t", by_hint(Wish::Replica), CALM, (Target::Primary, "unsafe_hint")),
            ("SELECT a FROM t FOR UPDATE", by_rule(Wish::Replica), CALM, (Target::Primary, "unsafe_hint")),
            ("DELETE FROM t", by_rule(Wish::Primary), CALM, (Target::Primary, "rule")),
        ] {
            let route = decide(&classify(sql.as_bytes(), dialect), asked, session, Replica::Serving);
            assert_eq!((route.target, route.reason.label()), expected, "{sql}");
        }
        let both = Asked { hint: to(Wish::Replica), rule: to(Wish::Primary) };
        let route = decide(&classify(b"SELECT 1", dialect), both, CALM, Replica::Serving);
        assert_eq!(route.target, Target::Replica);
    }
}
