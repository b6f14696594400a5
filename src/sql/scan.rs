//! The token-level reading of one statement: what its words, calls and variables say. This alone decides
//! whether a read is certain; every doubt becomes a fact.

use super::facts::Facts;
use super::functions::{UNKNOWN, effect, is_syntax};
use super::lexer::{TokenKind, mentions_session_track};
use super::statement::{Kind, Statement, is_system_schema};
use super::view::{View, unquote};
use super::{Dialect, Flavor, set};

/// Adds to `statement`, whose kind is known, all that the tokens say.
pub(super) fn scan(view: View<'_>, dialect: Dialect, statement: &mut Statement) {
    let mut scan = Scan { view, dialect, statement, depth: 0, into: false, writes: false };
    for at in 0..view.tokens.len() {
        scan.token(at);
    }
    let writes = scan.writes;
    let facts = &mut statement.facts;
    let runs_write = match statement.kind {
        Kind::Read => writes,
        Kind::Explain => writes && (0..4).any(|at| view.word(at).as_str() == "analyze"),
        Kind::Write | Kind::Ddl | Kind::Call | Kind::Admin | Kind::Execute => true,
        Kind::Unknown => !view.tokens.is_empty(),
        Kind::Begin
        | Kind::Commit
        | Kind::Rollback
        | Kind::Savepoint
        | Kind::SetSession
        | Kind::SetGlobal
        | Kind::Use
        | Kind::Show
        | Kind::Lock
        | Kind::Prepare
        | Kind::Deallocate
        | Kind::Kill => false,
    };
    if runs_write {
        facts.insert(Facts::MAY_WRITE);
    }
}

struct Scan<'a, 's> {
    view: View<'a>,
    dialect: Dialect,
    statement: &'s mut Statement,
    /// Open parentheses.
    depth: usize,
    /// In the variables after INTO.
    into: bool,
    /// A word that opens a statement that writes.
    writes: bool,
}

impl Scan<'_, '_> {
    fn token(&mut self, at: usize) {
        let Some(kind) = self.view.kind(at) else { return };
        if !matches!(kind, TokenKind::Variable | TokenKind::Comma) {
            self.into = false;
        }
        match kind {
            TokenKind::Open | TokenKind::SpacedOpen => self.depth += 1,
            TokenKind::Close => self.depth = self.depth.saturating_sub(1),
            TokenKind::Word => {
                self.name(at);
                self.word(at);
            }
            TokenKind::Quoted => self.name(at),
            TokenKind::Variable => self.variable(at),
            TokenKind::SystemVariable => self.system_variable(at),
            TokenKind::Hint => self.hint(at),
            TokenKind::TrackText => self.insert(Facts::MENTIONS_SESSION_TRACK),
            TokenKind::Operator if self.view.bytes(at) == b":=" && !self.is_set() => {
                self.insert(Facts::ASSIGNS_VARIABLE);
            }
            _ => {}
        }
    }

    fn insert(&mut self, facts: Facts) {
        self.statement.facts.insert(facts);
    }

    const fn is_set(&self) -> bool {
        matches!(self.statement.kind, Kind::SetSession | Kind::SetGlobal)
    }

    /// What a word says by being there, unquoted. Reserved words need no context.
    fn word(&mut self, at: usize) {
        let view = self.view;
        let before = view.word_before(at);
        match view.word(at).as_str() {
            "into" if !matches!(self.statement.kind, Kind::Write | Kind::Ddl) => {
                self.insert(Facts::INTO);
                self.into = true;
            }
            "into" => self.into = true,
            "outfile" | "dumpfile" => self.insert(Facts::INTO),
            "update" if before.as_str() == "for" => self.insert(Facts::LOCKS_ROWS),
            "share" if before.as_str() == "for" => self.insert(Facts::LOCKS_ROWS),
            "lock" if view.word(at + 1).as_str() == "in" => self.insert(Facts::LOCKS_ROWS),
            "update" | "delete" | "lock" | "call" | "load" | "handler" => self.writes = true,
            "insert" | "replace" if !view.opens(at + 1) => self.writes = true,
            "procedure" if self.statement.kind == Kind::Read => self.insert(UNKNOWN),
            "value" if matches!(before.as_str(), "next" | "previous") => self.sequence(),
            "nextval" | "currval" if view.kind_before(at) == Some(TokenKind::Dot) => self.sequence(),
            "sql_calc_found_rows" => self.insert(Facts::CALC_FOUND_ROWS),
            "current_role" => self.insert(Facts::CONNECTION_LOCAL),
            _ => {}
        }
    }

    fn sequence(&mut self) {
        self.insert(sequence(self.dialect.flavor));
    }

    /// What a name says, quoted or not: a server's own schema, a call.
    fn name(&mut self, at: usize) {
        if mentions_session_track(self.view.bytes(at)) {
            self.insert(Facts::MENTIONS_SESSION_TRACK);
        }
        if self.view.kind(at + 1) == Some(TokenKind::Dot)
            && self.view.name(at).is_some_and(|name| is_system_schema(name.as_bytes()))
        {
            self.insert(Facts::SYSTEM_SCHEMA);
        }
        if self.view.opens(at + 1) && self.may_call(at) {
            self.call(at);
        }
    }

    /// Whether a name before a parenthesis can be a call at all, from what stands before it.
    fn may_call(&self, at: usize) -> bool {
        let view = self.view;
        match view.kind_before(at) {
            // After an operand comes an operator, a clause or an alias: `) OVER (`, `'$' COLUMNS (`, `) t (a)`.
            Some(
                TokenKind::Close
                | TokenKind::Number
                | TokenKind::Text
                | TokenKind::TrackText
                | TokenKind::Placeholder
                | TokenKind::Literals,
            ) => false,
            // An alias with columns, or the type of a CAST.
            Some(TokenKind::Word) if view.word_before(at).as_str() == "as" => false,
            _ if matches!(self.statement.kind, Kind::Ddl | Kind::Admin) => false,
            _ if self.statement.kind == Kind::Write && is_target_table(view, at) => false,
            _ => !names_columns_of_cte(view, at),
        }
    }

    fn call(&mut self, at: usize) {
        let view = self.view;
        let unqualified = view.kind_before(at) != Some(TokenKind::Dot);
        let word = view.word(at);
        let name = word.as_str();
        if unqualified && is_syntax(name, self.dialect.flavor) {
            return;
        }
        let touching = view.kind(at + 1) == Some(TokenKind::Open);
        let facts = match name {
            // A quoted name is looked up among stored functions as well.
            "" => UNKNOWN,
            _ if !unqualified => UNKNOWN,
            // MariaDB knows the table function only in FROM; elsewhere the name is free.
            "json_table" if matches!(view.word_before(at).as_str(), "from" | "join") => Facts::empty(),
            "nextval" | "lastval" | "setval" => sequence(self.dialect.flavor),
            // With an argument it sets what the next call answers.
            "last_insert_id" if view.kind(at + 2) != Some(TokenKind::Close) => {
                Facts::LAST_RESULT.and(Facts::UNSAFE_FUNCTION)
            }
            _ => effect(name, touching, self.dialect),
        };
        self.insert(facts);
        if let Some(name) = view.name(at) {
            self.statement.functions.push(name.to_lowercase());
        }
    }

    fn variable(&mut self, at: usize) {
        let view = self.view;
        let Some(token) = view.token(at) else { return };
        // `'user'@'host'`: an account.
        if matches!(self.statement.kind, Kind::Ddl | Kind::Admin | Kind::Show | Kind::Kill)
            && matches!(
                view.kind_before(at),
                Some(TokenKind::Word | TokenKind::Quoted | TokenKind::Text | TokenKind::TrackText)
            )
        {
            return;
        }
        let name = match token.bytes(view.text).strip_prefix(b"@").unwrap_or_default() {
            quoted @ [b'`' | b'\'' | b'"', ..] => unquote(quoted),
            plain => String::from_utf8_lossy(plain).into_owned(),
        };
        let name = name.to_lowercase();
        let is_target = self.is_set() && self.depth == 0 && set::is_target(view, at);
        let assigned = is_target || self.into || view.is_operator(at + 1, b":=");
        // An argument of CALL may be read, written or both; so may what LOAD DATA and GET DIAGNOSTICS name.
        let either =
            matches!(self.statement.kind, Kind::Call | Kind::Unknown) || view.word(0).as_str() == "load";
        if assigned || either {
            self.insert(Facts::ASSIGNS_VARIABLE);
            self.statement.variables_written.push(name.clone());
        }
        if !assigned || either {
            self.insert(Facts::READS_USER_VARIABLE);
            self.statement.variables_read.push(name);
        }
    }

    fn system_variable(&mut self, at: usize) {
        if self.is_set() && self.depth == 0 && set::is_target(self.view, at) {
            if set::is_unscoped(self.view, at) {
                self.insert(Facts::SETS_UNREPORTED);
            }
            return;
        }
        // `@@session.warning_count`: the name is the last of the parts.
        let parts = (at + 1..).step_by(2);
        let is_last = |at: &usize| self.view.kind(at + 1) != Some(TokenKind::Dot);
        let name = parts.take(3).find(is_last).and_then(|at| self.view.name(at)).unwrap_or_default();
        let is = |variable: &str| name.eq_ignore_ascii_case(variable);
        self.insert(match () {
            () if is("warning_count") || is("error_count") => Facts::LAST_RESULT,
            () if is("identity") || is("last_insert_id") => {
                Facts::LAST_RESULT.and(Facts::READS_SYSTEM_VARIABLE)
            }
            () => Facts::READS_SYSTEM_VARIABLE,
        });
    }

    /// A hint may set a variable for the statement; quotes in one may move its end.
    fn hint(&mut self, at: usize) {
        let hint = self.view.bytes(at).to_ascii_lowercase();
        let names = |word: &[u8]| hint.windows(word.len()).any(|found| found == word);
        if names(b"set_var") || names(b"resource_group") {
            self.insert(Facts::UNSAFE_FUNCTION);
        }
        if hint.iter().any(|byte| matches!(byte, b'`' | b'"' | b'\'')) {
            self.insert(Facts::AMBIGUOUS);
        }
        if mentions_session_track(&hint) {
            self.insert(Facts::MENTIONS_SESSION_TRACK);
        }
    }
}

/// Use of a sequence; what MySQL, which has none, takes for a function may be anyone's.
const fn sequence(flavor: Flavor) -> Facts {
    match flavor {
        Flavor::MariaDb => Facts::SEQUENCE.and(Facts::MAY_WRITE),
        Flavor::MySql => Facts::SEQUENCE.and(UNKNOWN),
    }
}

/// `WITH name (a, b) AS (`, or a further one after a comma.
fn names_columns_of_cte(view: View<'_>, at: usize) -> bool {
    let opens_list = view.kind_before(at) == Some(TokenKind::Comma)
        || matches!(view.word_before(at).as_str(), "with" | "recursive");
    let mut end = at + 2;
    while matches!(view.kind(end), Some(TokenKind::Word | TokenKind::Quoted | TokenKind::Comma)) {
        end += 1;
    }
    opens_list
        && view.kind(end) == Some(TokenKind::Close)
        && view.word(end + 1).as_str() == "as"
        && view.opens(end + 2)
}

/// `INSERT INTO t (`, `REPLACE s.t (`: a table with its columns.
fn is_target_table(view: View<'_>, at: usize) -> bool {
    let start = if view.kind_before(at) == Some(TokenKind::Dot) { at.saturating_sub(2) } else { at };
    matches!(
        view.word_before(start).as_str(),
        "into" | "insert" | "replace" | "ignore" | "delayed" | "low_priority" | "high_priority" | "table"
    )
}
