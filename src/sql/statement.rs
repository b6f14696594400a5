//! What a text means, as the router sees it.

use super::facts::Facts;
use std::ops::Range;

/// What kind of statement a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// SELECT, WITH ... SELECT, VALUES, TABLE. Look at the facts before calling it a read.
    Read,
    /// INSERT, UPDATE, DELETE, REPLACE, LOAD DATA, WITH ... DELETE.
    Write,
    /// CREATE, ALTER, DROP, RENAME, TRUNCATE.
    Ddl,
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK of the whole transaction.
    Rollback,
    /// SAVEPOINT, ROLLBACK TO, RELEASE SAVEPOINT.
    Savepoint,
    /// SET of session variables, user variables, names, role.
    SetSession,
    /// SET with a GLOBAL or PERSIST part.
    SetGlobal,
    /// USE.
    Use,
    /// SHOW, HELP.
    Show,
    /// CALL.
    Call,
    /// LOCK, UNLOCK.
    Lock,
    /// Administration: GRANT, FLUSH, ANALYZE TABLE, CHANGE REPLICATION SOURCE and their like.
    Admin,
    /// PREPARE.
    Prepare,
    /// EXECUTE, EXECUTE IMMEDIATE.
    Execute,
    /// DEALLOCATE PREPARE, DROP PREPARE.
    Deallocate,
    /// KILL.
    Kill,
    /// EXPLAIN, DESCRIBE, ANALYZE of a statement.
    Explain,
    /// Anything else, several kinds in one text, or a read of uncertain bytes.
    Unknown,
}

impl Kind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 20] = [
        Self::Read,
        Self::Write,
        Self::Ddl,
        Self::Begin,
        Self::Commit,
        Self::Rollback,
        Self::Savepoint,
        Self::SetSession,
        Self::SetGlobal,
        Self::Use,
        Self::Show,
        Self::Call,
        Self::Lock,
        Self::Admin,
        Self::Prepare,
        Self::Execute,
        Self::Deallocate,
        Self::Kill,
        Self::Explain,
        Self::Unknown,
    ];

    /// The value of the `kind` label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Ddl => "ddl",
            Self::Begin => "begin",
            Self::Commit => "commit",
            Self::Rollback => "rollback",
            Self::Savepoint => "savepoint",
            Self::SetSession => "set_session",
            Self::SetGlobal => "set_global",
            Self::Use => "use",
            Self::Show => "show",
            Self::Call => "call",
            Self::Lock => "lock",
            Self::Admin => "admin",
            Self::Prepare => "prepare",
            Self::Execute => "execute",
            Self::Deallocate => "deallocate",
            Self::Kill => "kill",
            Self::Explain => "explain",
            Self::Unknown => "unknown",
        }
    }
}

/// A table, view or sequence as the text names it; case is kept, bytes that are not UTF-8 are replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The schema before the dot, when there is one.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
}

/// `KILL [HARD | SOFT] [CONNECTION | QUERY] <number>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// Where the digits of the connection id are in the text.
    pub number: Range<usize>,
    /// `KILL QUERY`: the connection stays.
    pub query_only: bool,
}

/// A classified text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The kind; with several statements in one text their common kind, else `Unknown`.
    pub kind: Kind,
    /// What the text says about itself.
    pub facts: Facts,
    /// The tables named. Exact for a read that sqlparser understood; else at least the tables, and maybe
    /// names that are none (common table expressions, the argument of `EXTRACT(YEAR FROM d)`).
    pub tables: Vec<TableName>,
    /// The temporary tables and sequences that it creates.
    pub temporary: Vec<TableName>,
    /// The functions called, in lower case, without the schema of qualified ones.
    pub functions: Vec<String>,
    /// The user variables read, in lower case, without `@`.
    pub variables_read: Vec<String>,
    /// The user variables written, in lower case, without `@`.
    pub variables_written: Vec<String>,
    /// Set for a KILL with a plain number; `None` for KILL USER, KILL QUERY ID and expressions.
    pub kill: Option<Kill>,
    /// The tokens alone decided: sqlparser refused the text, it was over the parser's bounds, or its bytes
    /// were ambiguous. Says nothing about whether the server accepts it.
    pub unparsed: bool,
}

impl Statement {
    /// Whether it is certain that this only reads tables, and that any server with the same data gives the
    /// same answer (clock and random values aside). With several statements, that each of them does.
    pub const fn is_certain_read(&self) -> bool {
        matches!(self.kind, Kind::Read) && !self.facts.intersects(Facts::UNCERTAIN)
    }

    /// The same for a server whose session has the same values in the user variables that it reads.
    pub const fn is_certain_read_of_variables(&self) -> bool {
        matches!(self.kind, Kind::Read)
            && !self.facts.intersects(Facts::UNCERTAIN.without(Facts::READS_USER_VARIABLE))
    }

    /// Whether it calls the function of this name (in lower case).
    pub fn calls(&self, name: &str) -> bool {
        self.functions.iter().any(|function| function == name)
    }

    /// Whether it names a table of a server's own schemas without saying so, given the default schema.
    pub fn is_of_system_schema(&self, default: &[u8]) -> bool {
        is_system_schema(default) && self.tables.iter().any(|table| table.schema.is_none())
    }

    /// Whether it shows or clears what its server counts of this connection's work, given the default schema.
    pub fn uses_session_counters(&self, default: &[u8]) -> bool {
        let is_counter = |table: &TableName| {
            let schema = table.schema.as_ref().map_or(default, |schema| schema.as_bytes());
            let begins = |start: &&str| {
                table.name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
            };
            is_system_schema(schema) && SESSION_COUNTERS.iter().any(begins)
        };
        self.facts.contains(Facts::SESSION_COUNTERS) || self.tables.iter().any(is_counter)
    }

    /// Whether it may do things that its text does not show. The triggers of a write are not counted.
    pub const fn may_run_code(&self) -> bool {
        matches!(self.kind, Kind::Call | Kind::Execute | Kind::Unknown)
            || self.facts.contains(Facts::UNSAFE_FUNCTION)
    }

    /// A statement of this kind of which nothing is known yet.
    pub(super) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            facts: Facts::empty(),
            tables: Vec::new(),
            temporary: Vec::new(),
            functions: Vec::new(),
            variables_read: Vec::new(),
            variables_written: Vec::new(),
            kill: None,
            unparsed: false,
        }
    }

    /// Takes in what another statement of the same text says.
    pub(super) fn merge(&mut self, other: Self) {
        if self.kind != other.kind {
            self.kind = Kind::Unknown;
        }
        self.facts.insert(other.facts);
        self.tables.extend(other.tables);
        self.temporary.extend(other.temporary);
        self.functions.extend(other.functions);
        self.variables_read.extend(other.variables_read);
        self.variables_written.extend(other.variables_written);
        self.unparsed |= other.unparsed;
    }

    /// Sorts the lists and drops what is named twice.
    pub(super) fn settle(&mut self) {
        self.tables.sort_unstable();
        self.tables.dedup();
        for names in [&mut self.functions, &mut self.variables_read, &mut self.variables_written] {
            names.sort_unstable();
            names.dedup();
        }
    }
}

/// How tables of a server's own begin that count and list what its connections do, in `performance_schema` and
/// MariaDB's `information_schema`.
const SESSION_COUNTERS: [&str; 3] = ["session_status", "status_by_thread", "events_statements_"];

/// In any case of ASCII: neither server folds other letters here (`İnformation_schema` is unknown to both).
pub(super) fn is_system_schema(name: &[u8]) -> bool {
    ["information_schema", "performance_schema", "mysql", "sys"]
        .iter()
        .any(|schema| name.eq_ignore_ascii_case(schema.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn labels_are_distinct() {
        let labels: HashSet<_> = Kind::ALL.iter().map(|kind| kind.label()).collect();
        assert_eq!(labels.len(), Kind::ALL.len());
    }
}
