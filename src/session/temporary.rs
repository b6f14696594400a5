//! The session's temporary tables, by name: statements that name one belong to the primary's connection.

use crate::sql::{Facts, Kind, Statement, TableName};

/// More than this are not told apart any more.
const MOST: usize = 256;

/// Schema and name, both in lower case: whether servers tell cases apart does not matter, since a name too
/// much only keeps a read on the primary.
#[derive(Debug, Default)]
pub(super) struct TemporaryTables(Vec<(String, String)>);

impl TemporaryTables {
    /// `statement` is about to run on the primary, with this default schema. False when not all its temporary
    /// tables will be known.
    #[must_use]
    pub(super) fn before(&mut self, statement: &Statement, schema: &[u8]) -> bool {
        let creates = statement.facts.contains(Facts::TEMPORARY_TABLE)
            && !statement.facts.contains(Facts::DROPS_TABLES)
            && statement.kind == Kind::Ddl;
        let mut known = !creates || !statement.temporary.is_empty();
        // ALTER TABLE and RENAME TABLE may give one another name.
        let renames = statement.kind == Kind::Ddl
            && !statement.facts.intersects(Facts::TEMPORARY_TABLE.and(Facts::DROPS_TABLES))
            && self.is_named(statement, schema);
        let names = if renames { &statement.tables } else { &statement.temporary };
        for table in names {
            known &= self.add(table, schema);
        }
        known
    }

    /// `statement` succeeded.
    pub(super) fn after(&mut self, statement: &Statement, schema: &[u8]) {
        let drops = statement.facts.contains(Facts::DROPS_TABLES) && !statement.facts.contains(Facts::MULTI);
        if drops && !self.0.is_empty() {
            for table in &statement.tables {
                let key = key(table, schema);
                self.0.retain(|known| *known != key);
            }
        }
    }

    /// Whether `statement` names one of them.
    pub(super) fn is_named(&self, statement: &Statement, schema: &[u8]) -> bool {
        !self.0.is_empty() && statement.tables.iter().any(|table| self.0.contains(&key(table, schema)))
    }

    fn add(&mut self, table: &TableName, schema: &[u8]) -> bool {
        let key = key(table, schema);
        if self.0.contains(&key) {
            return true;
        }
        if self.0.len() == MOST {
            return false;
        }
        self.0.push(key);
        true
    }
}

fn key(table: &TableName, default: &[u8]) -> (String, String) {
    let schema = table.schema.clone().unwrap_or_else(|| String::from_utf8_lossy(default).into_owned());
    (schema.to_lowercase(), table.name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Dialect, Flavor, classify};

    fn of(text: &str) -> Statement {
        classify(text.as_bytes(), Dialect::new(Flavor::MariaDb, 101_119))
    }

    fn run(tables: &mut TemporaryTables, text: &str) {
        assert!(tables.before(&of(text), b"db"), "{text}");
        tables.after(&of(text), b"db");
    }

    #[test]
    fn they_are_known_by_name_until_they_are_dropped() {
        let mut tables = TemporaryTables::default();
        assert!(!tables.is_named(&of("SELECT * FROM t"), b"db"));
        run(&mut tables, "CREATE TEMPORARY TABLE t SELECT * FROM u");
        for (text, named) in [
            ("SELECT * FROM t", true),
            ("SELECT * FROM u JOIN DB.`T`", true),
            ("SELECT * FROM (SELECT 1 FROM t) x", true),
            ("SELECT * FROM u", false),
            ("SELECT * FROM other.t", false),
        ] {
            assert_eq!(tables.is_named(&of(text), b"db"), named, "{text}");
        }
        assert!(!tables.is_named(&of("SELECT * FROM t"), b"other"));
        run(&mut tables, "ALTER TABLE t RENAME TO v");
        assert!(tables.is_named(&of("SELECT * FROM v"), b"db"));
        run(&mut tables, "DROP TEMPORARY TABLE v");
        assert!(!tables.is_named(&of("SELECT * FROM v"), b"db"));
        run(&mut tables, "DROP TABLE t");
        assert!(!tables.is_named(&of("SELECT * FROM t"), b"db"));
    }

    #[test]
    fn there_is_a_bound() {
        let mut tables = TemporaryTables::default();
        for number in 0..MOST {
            run(&mut tables, &format!("CREATE TEMPORARY TABLE t{number} (a INT)"));
        }
        assert!(!tables.before(&of("CREATE TEMPORARY TABLE u (a INT)"), b"db"));
    }
}
