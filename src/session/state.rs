//! What the proxy knows of a session: learned from the primary's answers, replayed on a replica.

use super::{
    locks::TableLocks, position::Position, prepared::Prepared, replay::Replay, temporary::TemporaryTables,
    variables::UserVariables,
};
use crate::{
    route::{Reason, Target},
    sql::{Dialect, Facts, Flavor, Kind, Statement},
    wire::{
        Malformed, StatusFlags,
        ok::{OkPacket, Tracker},
    },
};

/// State of one session.
#[derive(Debug)]
pub(super) struct State {
    /// Status flags of the primary's last answer.
    pub status: StatusFlags,
    /// The variable of that name, as the primary told it last: where it comes from the global one, MySQL's
    /// status flags say that it is on all the same.
    autocommit: bool,
    /// Default schema; empty for none.
    pub schema: Vec<u8>,
    /// How the primary reads this session's texts.
    pub dialect: Dialect,
    /// Why everything stays on the primary, if it does. Ends with a reset of the session.
    pub tie: Option<Reason>,
    /// Where the last statement ran.
    pub last_target: Target,
    /// Where the last statement ran that was not only prepared.
    pub count_target: Target,
    /// Where the last statement ran that gave rows.
    pub rows_target: Target,
    /// How far a replica must be to serve this session.
    pub position: Position,
    /// Session settings that a replica's connection needs.
    pub replay: Replay,
    /// Prepared statements of the binary protocol.
    pub prepared: Prepared,
    /// Temporary tables, which only the primary has.
    temporary: TemporaryTables,
    /// User variables.
    pub variables: UserVariables,
    /// The next transaction has its own isolation level or access mode.
    next_transaction: bool,
    /// Locks on tables that outlive the statement.
    table_locks: TableLocks,
    /// Session tracking is the client's own affair: what servers report goes to it as it comes.
    pub transparent: bool,
    /// The primary ended the last statement without saying what it changed; its next OK will.
    pub unsettled: bool,
    /// COM_RESET_CONNECTION was said: what the login chose, the character set above all, is not what the
    /// session has now.
    pub was_reset: bool,
    /// The connection's collation is not the one that was last reported.
    pub collation_unknown: bool,
}

/// Facts of statements that may change data whatever their kind.
const MAY_WRITE: Facts = Facts::MAY_WRITE.and(Facts::UNSAFE_FUNCTION).and(Facts::SEQUENCE);

/// Whether a statement may show what others wrote.
fn shows_data(statement: &Statement) -> bool {
    match statement.kind {
        Kind::Read | Kind::Explain => !statement.tables.is_empty() || statement.facts.intersects(MAY_WRITE),
        Kind::Write | Kind::Call | Kind::Execute | Kind::Admin | Kind::Unknown => true,
        Kind::Ddl | Kind::Begin | Kind::Commit | Kind::Rollback | Kind::Savepoint | Kind::Lock => false,
        Kind::SetSession => statement.facts.intersects(MAY_WRITE) || !statement.tables.is_empty(),
        Kind::SetGlobal | Kind::Use | Kind::Prepare | Kind::Deallocate | Kind::Show | Kind::Kill => false,
    }
}

/// The text made no sense to the server.
const ER_PARSE_ERROR: u16 = 1064;

impl State {
    /// A session just logged in.
    pub(super) fn new(
        schema: Vec<u8>,
        dialect: Dialect,
        transparent: bool,
        table_locks: TableLocks,
        position: Position,
    ) -> Self {
        Self {
            status: StatusFlags::SERVER_STATUS_AUTOCOMMIT,
            autocommit: true,
            schema,
            dialect,
            tie: None,
            last_target: Target::Primary,
            count_target: Target::Primary,
            rows_target: Target::Primary,
            position,
            replay: Replay::default(),
            prepared: Prepared::default(),
            temporary: TemporaryTables::default(),
            variables: UserVariables::default(),
            next_transaction: false,
            table_locks,
            transparent,
            unsettled: false,
            was_reset: false,
            collation_unknown: false,
        }
    }

    /// Forgets everything but what outlives COM_RESET_CONNECTION: the schema, and how far a replica must
    /// be, since what was written stays written.
    pub(super) fn reset(&mut self, transparent: bool) {
        let locks = self.table_locks.anew();
        let schema = std::mem::take(&mut self.schema);
        let fresh = Self::new(schema, self.dialect, transparent, locks, self.position.clone());
        *self = Self { status: self.status, ..fresh };
    }

    /// Whether a transaction is open on the primary.
    pub(super) const fn in_transaction(&self) -> bool {
        self.status.contains(StatusFlags::SERVER_STATUS_IN_TRANS)
    }

    /// Whether each statement is a transaction of its own.
    pub(super) const fn autocommit(&self) -> bool {
        self.autocommit && self.status.contains(StatusFlags::SERVER_STATUS_AUTOCOMMIT)
    }

    /// The session goes to the primary for good, unless it does already.
    pub(super) fn tie(&mut self, reason: Reason) {
        self.tie.get_or_insert(reason);
    }

    /// `statement` is about to run on the primary.
    pub(super) fn before(&mut self, statement: &Statement) {
        let many = statement.facts.contains(Facts::MULTI) && !statement.is_certain_read();
        if many || statement.facts.intersects(MAY_WRITE) {
            self.position.will_write(many);
        }
        if shows_data(statement) {
            self.position.will_look();
        }
        self.variables.before(statement);
        if !self.temporary.before(statement, &self.schema) {
            self.tie(Reason::TemporaryTable);
        }
        // BACKUP LOCK, LOCK INSTANCE and their like; GET_LOCK.
        let other_locks = statement.kind == Kind::Lock
            && !statement.facts.intersects(Facts::LOCKS_TABLES.and(Facts::UNLOCKS_TABLES));
        if other_locks || statement.calls("get_lock") {
            self.tie(Reason::SessionState);
        }
    }

    /// Why this statement, whose names belong to the default `schema`, must stay on the primary.
    pub(super) fn tie_of(&self, statement: &Statement, schema: &[u8]) -> Option<Reason> {
        let temporary = || self.temporary.is_named(statement, schema).then_some(Reason::TemporaryTable);
        let locked = self.table_locks.are_held() || self.next_transaction;
        let locked = locked.then_some(Reason::SessionState);
        let server = self.table_locks.others_write() || statement.is_of_system_schema(schema);
        let server = server.then_some(Reason::ServerState);
        self.tie.or(locked).or_else(temporary).or(server)
    }

    /// Whether a replica's connection can have what `statement` reads of user variables.
    pub(super) fn knows_variables(&self, statement: &Statement) -> bool {
        statement.facts.contains(Facts::READS_USER_VARIABLE)
            && self.variables.are_known(statement, self.replay.parsing())
    }

    /// `statement` ran on `target`.
    pub(super) const fn ran(&mut self, statement: &Statement, target: Target) {
        self.last_target = target;
        self.count_target = target;
        let gives_rows = matches!(statement.kind, Kind::Read | Kind::Show | Kind::Explain);
        // SHOW WARNINGS leaves FOUND_ROWS() alone.
        let is_question =
            matches!(statement.kind, Kind::Show) && statement.facts.contains(Facts::LAST_RESULT);
        if gives_rows && !is_question {
            self.rows_target = target;
        }
    }

    /// The primary ended a result of `statement` with `ok`.
    ///
    /// # Errors
    /// When its session state is malformed.
    pub(super) fn observe(
        &mut self,
        ok: &OkPacket<'_>,
        statement: Option<&Statement>,
    ) -> Result<(), Malformed> {
        self.observe_status(ok.status);
        let mut changes = Changes::default();
        let mut trackers = ok.trackers();
        while let Some(entry) = trackers.next_entry()? {
            entry.for_each(|tracker| self.observe_tracker(tracker, &mut changes))?;
        }
        match (changes.character_set, changes.collation) {
            (_, true) => self.collation_unknown = false,
            (true, false) => self.collation_unknown = true,
            (false, false) => {}
        }
        match statement {
            Some(statement) => self.observe_effects(statement, &changes),
            // What an earlier statement did without saying so.
            None if self.unsettled && changes.other => self.tie(Reason::TemporaryTable),
            None => {}
        }
        self.unsettled = false;
        self.settle_position();
        Ok(())
    }

    /// Before the client has the end of an answer, it is known what others must see who read after that.
    fn settle_position(&mut self) {
        if !self.status.contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS) {
            self.position.settle(self.in_transaction());
        }
    }

    /// The primary ended `statement` with an EOF packet, which carries no trackers.
    pub(super) fn observe_eof(&mut self, status: StatusFlags, statement: &Statement) {
        let changed = status.contains(StatusFlags::SERVER_SESSION_STATE_CHANGED);
        self.settle_position();
        match self.dialect.flavor {
            Flavor::MySql => self.unsettled |= statement.may_run_code(),
            // Tells that something changed, and later packets do not say what.
            Flavor::MariaDb if changed && statement.may_run_code() => self.tie(Reason::SessionState),
            Flavor::MariaDb => {}
        }
    }

    /// The primary ended `statement` with an error, which carries neither trackers nor status flags.
    pub(super) fn observe_error(&mut self, code: u16, statement: Option<&Statement>) {
        self.position.settle(self.in_transaction());
        // Nothing ran of what the server could not read.
        if code == ER_PARSE_ERROR {
            return;
        }
        if let Some(statement) = statement {
            self.table_locks.failed(statement);
        }
        let runs_code = statement.is_none_or(Statement::may_run_code);
        match self.dialect.flavor {
            // A trigger may have done something before the write failed.
            Flavor::MySql => {
                self.unsettled |=
                    runs_code || statement.is_some_and(|statement| statement.kind == Kind::Write);
            }
            // No later packet tells.
            Flavor::MariaDb if runs_code && statement.is_some() => self.tie(Reason::SessionState),
            Flavor::MariaDb => {}
        }
    }

    /// The primary ended a result with these status flags.
    pub(super) const fn observe_status(&mut self, status: StatusFlags) {
        let ends = self.in_transaction() && !status.contains(StatusFlags::SERVER_STATUS_IN_TRANS);
        self.next_transaction &= !ends;
        // Of what was tracked nothing is left to tell when these flags are said again.
        self.status = status.difference(StatusFlags::SERVER_SESSION_STATE_CHANGED);
        self.dialect.no_backslash_escapes = status.contains(StatusFlags::SERVER_STATUS_NO_BACKSLASH_ESCAPES);
    }

    fn observe_tracker(&mut self, tracker: Tracker<'_>, changes: &mut Changes) {
        match tracker {
            Tracker::Schema(schema) => self.schema = schema.to_vec(),
            Tracker::Gtids(gtids) | Tracker::Variable { name: b"last_gtid", value: gtids } => {
                self.position.committed(self.dialect.flavor, gtids);
            }
            Tracker::Variable { name: b"statement_id", .. } => {}
            Tracker::Variable { name, value } => {
                changes.variables = true;
                // SET NAMES reports no collation, whether it chose one or not.
                changes.character_set |= name == b"character_set_connection";
                changes.collation |= name == b"collation_connection";
                self.observe_variable(name, value);
            }
            Tracker::StateChange => changes.other = true,
            Tracker::Other(_) => {}
        }
    }

    fn observe_variable(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"sql_mode" => {
                let modes = || value.split(|&b| b == b',');
                self.dialect.ansi_quotes = modes().any(|mode| mode == b"ANSI_QUOTES");
                self.dialect.no_backslash_escapes = modes().any(|mode| mode == b"NO_BACKSLASH_ESCAPES");
            }
            b"character_set_client" => {
                self.dialect.ascii_safe =
                    !matches!(value, b"big5" | b"cp932" | b"gb18030" | b"gbk" | b"sjis");
            }
            b"autocommit" => self.autocommit = value == b"ON",
            _ => {}
        }
        if !self.replay.variable(name, value) {
            self.tie(Reason::SessionState);
        }
    }

    /// State that has no tracker of its own.
    fn observe_effects(&mut self, statement: &Statement, changes: &Changes) {
        self.temporary.after(statement, &self.schema);
        self.variables.after(self.replay.parsing());
        self.table_locks.after(statement);
        // A SET that changed no variable has set the next transaction's isolation, a role or the like.
        let sets = matches!(statement.kind, Kind::SetSession);
        if sets && !changes.variables && statement.variables_written.is_empty() {
            if statement.facts.contains(Facts::SETS_TRANSACTION_CHARACTERISTICS) {
                self.next_transaction = true;
            } else {
                self.tie(Reason::SessionState);
            }
        }
        // What else changed may be a temporary table, unless the text says what it is.
        let explained = matches!(
            statement.kind,
            Kind::SetSession | Kind::SetGlobal | Kind::Use | Kind::Prepare | Kind::Deallocate
        ) || statement.facts.intersects(Facts::ASSIGNS_VARIABLE.and(Facts::TEMPORARY_TABLE))
            || statement.kind == Kind::Ddl && self.temporary.is_named(statement, &self.schema);
        if changes.other && (!explained || statement.facts.contains(Facts::MULTI)) {
            self.tie(Reason::TemporaryTable);
        }
        if self.dialect.flavor == Flavor::MariaDb && statement.facts.contains(Facts::SETS_UNREPORTED) {
            self.tie(Reason::SessionState);
        }
    }
}

/// Kinds of changes that one answer reported.
#[derive(Debug, Default)]
struct Changes {
    variables: bool,
    character_set: bool,
    collation: bool,
    other: bool,
}
