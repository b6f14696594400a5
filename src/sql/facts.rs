//! The small set of things that a text says about itself.

use std::fmt;

/// A set of facts about a statement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Facts(u32);

impl Facts {
    /// `START TRANSACTION READ ONLY`.
    pub const READ_ONLY_BEGIN: Self = Self(1);
    /// `FOR UPDATE`, `FOR SHARE` or `LOCK IN SHARE MODE`, at any depth.
    pub const LOCKS_ROWS: Self = Self(1 << 1);
    /// A select whose rows go to a file or to variables.
    pub const INTO: Self = Self(1 << 2);
    /// Gives a user variable a value: `:=`, `SET @x`, `INTO @x`, arguments of `CALL`.
    pub const ASSIGNS_VARIABLE: Self = Self(1 << 3);
    /// Needs the value of a user variable.
    pub const READS_USER_VARIABLE: Self = Self(1 << 4);
    /// Needs the value of a system variable (`@@x`).
    pub const READS_SYSTEM_VARIABLE: Self = Self(1 << 5);
    /// Calls a function that is not known to be a harmless one: stored or loadable functions, locks, waits.
    pub const UNSAFE_FUNCTION: Self = Self(1 << 6);
    /// The answer belongs to one server connection: `CONNECTION_ID()`, the current role, `SHOW PROFILES`.
    pub const CONNECTION_LOCAL: Self = Self(1 << 7);
    /// The answer is about the statement before: `FOUND_ROWS()`, `LAST_INSERT_ID()`, `SHOW WARNINGS`.
    pub const LAST_RESULT: Self = Self(1 << 8);
    /// Names one of the servers' own schemas, whose content differs from server to server.
    pub const SYSTEM_SCHEMA: Self = Self(1 << 9);
    /// `CREATE` or `DROP TEMPORARY`.
    pub const TEMPORARY_TABLE: Self = Self(1 << 10);
    /// More than one statement in the text.
    pub const MULTI: Self = Self(1 << 11);
    /// Not proven to leave data unchanged. Transaction control alone does not set it.
    pub const MAY_WRITE: Self = Self(1 << 12);
    /// A name or a string has `session_track` in it: the client may turn off what the proxy learns from.
    pub const MENTIONS_SESSION_TRACK: Self = Self(1 << 13);
    /// `SET [SESSION | GLOBAL] TRANSACTION ...`.
    pub const SETS_TRANSACTION_CHARACTERISTICS: Self = Self(1 << 14);
    /// Nothing but `SET NAMES` or `SET CHARACTER SET` with a plain value.
    pub const SETS_NAMES: Self = Self(1 << 15);
    /// Uses a sequence: `NEXT VALUE FOR s`, `NEXTVAL(s)`, `s.nextval`.
    pub const SEQUENCE: Self = Self(1 << 16);
    /// `SQL_CALC_FOUND_ROWS`: a later `FOUND_ROWS()` must go to the server that ran this.
    pub const CALC_FOUND_ROWS: Self = Self(1 << 17);
    /// Servers, versions or character sets may read these bytes in different ways: versioned comments,
    /// quotes or comments without an end, NUL, names that are not plain UTF-8. Other facts are best effort.
    pub const AMBIGUOUS: Self = Self(1 << 18);
    /// May set session variables in a way that MariaDB's session trackers do not report: `SET @@x` without a
    /// word that says whose variable it is, or code that is not in the text.
    pub const SETS_UNREPORTED: Self = Self(1 << 19);

    /// `COMMIT RELEASE`, `ROLLBACK RELEASE`: the server hangs up afterwards.
    pub const RELEASES: Self = Self(1 << 20);
    /// `DROP [TEMPORARY] TABLE`: what it names is gone.
    pub const DROPS_TABLES: Self = Self(1 << 21);
    /// `LOCK TABLES`; `FLUSH TABLES` with a lock that stays.
    pub const LOCKS_TABLES: Self = Self(1 << 22);
    /// `UNLOCK TABLES`.
    pub const UNLOCKS_TABLES: Self = Self(1 << 23);
    /// Shows or clears what a server counts of one connection's work: `SHOW SESSION STATUS`, `FLUSH STATUS`.
    pub const SESSION_COUNTERS: Self = Self(1 << 24);
    /// `LOCK TABLES ... WRITE`: nobody else can read them meanwhile.
    pub const LOCKS_FOR_WRITE: Self = Self(1 << 25);

    /// What keeps a statement of kind `Read` from being a certain read.
    pub(super) const UNCERTAIN: Self = Self::LOCKS_ROWS
        .and(Self::INTO)
        .and(Self::ASSIGNS_VARIABLE)
        .and(Self::READS_USER_VARIABLE)
        .and(Self::READS_SYSTEM_VARIABLE)
        .and(Self::UNSAFE_FUNCTION)
        .and(Self::CONNECTION_LOCAL)
        .and(Self::LAST_RESULT)
        .and(Self::SYSTEM_SCHEMA)
        .and(Self::MAY_WRITE)
        .and(Self::SEQUENCE)
        .and(Self::AMBIGUOUS);

    /// The empty set.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// The facts of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The facts that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all facts of `other` hold.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether at least one fact of `other` holds.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds the facts of `other`.
    pub const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The facts that hold, by name, for people.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| *name)
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The name of each bit, lowest first.
const NAMES: [&str; 26] = [
    "read_only_begin",
    "locks_rows",
    "into",
    "assigns_variable",
    "reads_user_variable",
    "reads_system_variable",
    "unsafe_function",
    "connection_local",
    "last_result",
    "system_schema",
    "temporary_table",
    "multi",
    "may_write",
    "mentions_session_track",
    "sets_transaction_characteristics",
    "sets_names",
    "sequence",
    "calc_found_rows",
    "ambiguous",
    "sets_unreported",
    "releases",
    "drops_tables",
    "locks_tables",
    "unlocks_tables",
    "session_counters",
    "locks_for_write",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_bits() {
        let mut facts = Facts::empty();
        assert_eq!(facts.names().count(), 0);
        facts.insert(Facts::INTO);
        facts.insert(Facts::AMBIGUOUS);
        assert_eq!(facts.names().collect::<Vec<_>>(), ["into", "ambiguous"]);
        assert!(facts.contains(Facts::INTO) && !facts.contains(Facts::MULTI));
        assert!(facts.intersects(Facts::UNCERTAIN));
    }
}
