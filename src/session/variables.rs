//! User variables whose values are known, because a SET with a literal gave them: a replica's connection can
//! get them too. Servers do not say which variables change, and of `:=` and `INTO @a` in stored programs nothing
//! at all (MySQL 9.7, MariaDB 10.11), so whatever may run such code makes all of them unknown.

use crate::sql::{Assignment, Facts, Kind, Statement};

/// More are not remembered.
const MOST: usize = 256;

/// The user variables that are known.
#[derive(Debug, Default)]
pub(super) struct UserVariables {
    known: Vec<Known>,
    /// Counts assignments.
    version: u64,
    /// What the running statement assigns, if it succeeds.
    pending: Vec<Assignment>,
}

#[derive(Debug)]
struct Known {
    assignment: Assignment,
    /// The settings by which the literal was read, see [`super::replay::Replay::parsing`].
    parsing: u64,
    version: u64,
}

impl UserVariables {
    /// `statement` is about to run on the primary.
    pub(super) fn before(&mut self, statement: &Statement) {
        // A write may have triggers, and of several statements one may be anything.
        let runs_code = statement.may_run_code()
            || statement.kind == Kind::Write
            || statement.facts.contains(Facts::MULTI);
        if runs_code {
            self.known.clear();
        }
        for variable in &statement.variables_written {
            self.known.retain(|known| known.assignment.variable != *variable);
        }
    }

    /// The statement that is about to run assigns these.
    pub(super) fn will_assign(&mut self, assignments: Vec<Assignment>) {
        self.pending = assignments;
    }

    /// The statement succeeded.
    pub(super) fn after(&mut self, parsing: u64) {
        for assignment in std::mem::take(&mut self.pending) {
            self.known.retain(|known| known.assignment.variable != assignment.variable);
            if self.known.len() < MOST {
                self.version += 1;
                self.known.push(Known { assignment, parsing, version: self.version });
            }
        }
    }

    /// Whether all that `statement` reads are known, by settings that still hold.
    pub(super) fn are_known(&self, statement: &Statement, parsing: u64) -> bool {
        statement.variables_read.iter().all(|variable| {
            self.known.iter().any(|known| {
                known.assignment.variable == *variable
                    && (!known.assignment.is_text || known.parsing == parsing)
            })
        })
    }

    /// The number of the last assignment.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// One statement that makes the assignments made after `version` by settings that still hold.
    pub(super) fn since(&self, version: u64, parsing: u64) -> Option<Vec<u8>> {
        let new = self.known.iter().filter(|known| {
            known.version > version && (!known.assignment.is_text || known.parsing == parsing)
        });
        let assignments: Vec<_> = new
            .map(|known| {
                let name = known.assignment.variable.replace('`', "``");
                [b"@`", name.as_bytes(), b"`=", &known.assignment.literal].concat()
            })
            .collect();
        (!assignments.is_empty()).then(|| [b"SET ", assignments.join(&b", "[..]).as_slice()].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Dialect, Flavor, classify, literal_assignments};

    const DIALECT: Dialect = Dialect::new(Flavor::MySql, 80_036);

    fn run(variables: &mut UserVariables, text: &str) {
        let statement = classify(text.as_bytes(), DIALECT);
        variables.before(&statement);
        variables.will_assign(literal_assignments(text.as_bytes(), DIALECT).unwrap_or_default());
        variables.after(1);
    }

    fn knows(variables: &UserVariables, text: &str) -> bool {
        variables.are_known(&classify(text.as_bytes(), DIALECT), 1)
    }

    #[test]
    fn literals_are_known_until_something_else_is_assigned() {
        let mut variables = UserVariables::default();
        run(&mut variables, "SET @a = 1, @b = 'x'");
        assert!(knows(&variables, "SELECT @a, @B"));
        assert!(!knows(&variables, "SELECT @a, @c"));
        assert_eq!(variables.since(0, 1).as_deref(), Some(&b"SET @`a`=1, @`b`='x'"[..]));
        assert_eq!(variables.since(0, 2).as_deref(), Some(&b"SET @`a`=1"[..]));
        assert_eq!(variables.since(variables.version(), 1), None);
        run(&mut variables, "SET @a = @b");
        assert!(!knows(&variables, "SELECT @a") && knows(&variables, "SELECT @b"));
        run(&mut variables, "SELECT a INTO @b FROM t");
        assert!(!knows(&variables, "SELECT @b"));
    }

    #[test]
    fn code_may_assign_anything() {
        for text in ["CALL p()", "SELECT f()", "INSERT INTO t VALUES (1)", "EXECUTE p", "SET @b = f()"] {
            let mut variables = UserVariables::default();
            run(&mut variables, "SET @a = 1");
            run(&mut variables, text);
            assert!(!knows(&variables, "SELECT @a"), "{text}");
        }
    }

    #[test]
    fn a_failed_set_assigns_nothing() {
        let mut variables = UserVariables::default();
        run(&mut variables, "SET @a = 1");
        let failing = classify(b"SET @a = 2", DIALECT);
        variables.before(&failing);
        variables.will_assign(literal_assignments(b"SET @a = 2", DIALECT).unwrap());
        variables.will_assign(Vec::new());
        assert!(!knows(&variables, "SELECT @a"));
    }
}
