//! Routing rules: an ordered list from a file of its own. The first rule that matches a statement counts.

mod file;

use std::{net::IpAddr, path::Path};

use ipnet::IpNet;
use regex::Regex;
use wildmatch::WildMatch;

use super::policy::Policy;
use crate::sql::{Dialect, Kind, Statement, TableName, digest, digest_text};

pub use file::Faults;

/// A list of rules.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
}

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name, unique in the list: the label of its metric.
    pub name: String,
    /// What becomes of a statement that it matches.
    pub action: Action,
    conditions: Conditions,
}

/// What must be met together. An empty list is no condition.
#[derive(Debug, Default)]
struct Conditions {
    users: Vec<WildMatch>,
    clients: Vec<IpNet>,
    schemas: Vec<WildMatch>,
    tables: Vec<TablePattern>,
    classes: Vec<Kind>,
    digests: Vec<String>,
    pattern: Option<Regex>,
}

/// What becomes of a statement that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is routed by these wishes.
    Route(Policy),
    /// It is refused with this message.
    Reject(String),
}

/// `schema.table` or `table`, both with `*` and `?`.
#[derive(Debug)]
struct TablePattern {
    schema: Option<WildMatch>,
    name: WildMatch,
}

/// The rules that can match the statements of one session at all, by their place in the list.
#[derive(Debug)]
pub struct Candidates(Box<[usize]>);

/// A statement as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The statement.
    pub statement: &'a Statement,
    /// The text that it was read from.
    pub text: &'a [u8],
    /// How that was read.
    pub dialect: Dialect,
    /// The default schema, to which names without one belong.
    pub schema: &'a [u8],
}

impl Rules {
    /// Reads a file.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, Faults> {
        file::load(path)
    }

    /// The names of the rules, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.name.as_str())
    }

    /// The rules that can match statements of `user` (the name at login) from `client`.
    pub fn candidates(&self, user: &[u8], client: Option<IpAddr>) -> Candidates {
        let user = String::from_utf8_lossy(user);
        let can_match = |Rule { conditions, .. }: &Rule| {
            any(&conditions.users, |pattern| pattern.matches(&user))
                && any(&conditions.clients, |net| {
                    client.is_some_and(|client| net.contains(&client.to_canonical()))
                })
        };
        let places = self.rules.iter().enumerate().filter(|(_, rule)| can_match(rule));
        Candidates(places.map(|(place, _)| place).collect())
    }

    /// The first of `candidates` that matches, with its place in the list.
    pub fn find(&self, candidates: &Candidates, subject: Subject<'_>) -> Option<(usize, &Rule)> {
        let rules = candidates.0.iter().filter_map(|&place| Some((place, self.rules.get(place)?)));
        rules.into_iter().find(|(_, rule)| rule.conditions.are_met(subject))
    }
}

impl Candidates {
    /// Whether no statement of the session needs to be looked at.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Conditions {
    /// Those about the statement. The cheap ones come first: a digest costs as much as reading it again.
    fn are_met(&self, subject: Subject<'_>) -> bool {
        let Subject { statement, text, dialect, schema } = subject;
        any(&self.classes, |class| *class == statement.kind)
            && any(&self.schemas, |pattern| names_schema(pattern, statement, schema))
            && any(&self.tables, |pattern| {
                statement.tables.iter().any(|table| pattern.matches(table, schema))
            })
            && (self.digests.is_empty() || self.digests.contains(&digest(text, dialect).to_string()))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&digest_text(text, dialect)))
    }
}

impl TablePattern {
    fn new(text: &str) -> Self {
        match text.split_once('.') {
            Some((schema, name)) => Self { schema: Some(name_pattern(schema)), name: name_pattern(name) },
            None => Self { schema: None, name: name_pattern(text) },
        }
    }

    fn matches(&self, table: &TableName, default: &[u8]) -> bool {
        self.name.matches(&table.name)
            && self.schema.as_ref().is_none_or(|pattern| is_in(table, pattern, default))
    }
}

/// Whether a table's schema is one of `pattern`.
fn is_in(table: &TableName, pattern: &WildMatch, default: &[u8]) -> bool {
    match &table.schema {
        Some(schema) => pattern.matches(schema),
        None => pattern.matches(&String::from_utf8_lossy(default)),
    }
}

/// A condition that a rule does not have holds for everything.
fn any<T>(wanted: &[T], holds: impl FnMut(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(holds)
}

/// Whether a statement is about a schema: one of its tables is in it, or it names no table and the schema is
/// the default one.
fn names_schema(pattern: &WildMatch, statement: &Statement, default: &[u8]) -> bool {
    if statement.tables.is_empty() {
        return pattern.matches(&String::from_utf8_lossy(default));
    }
    statement.tables.iter().any(|table| is_in(table, pattern, default))
}

/// Servers may or may not tell cases apart (`lower_case_table_names`); rules do not.
fn name_pattern(text: &str) -> WildMatch {
    WildMatch::new_case_insensitive(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Flavor, classify};

    const DIALECT: Dialect = Dialect::new(Flavor::MySql, 80_036);

    fn found(rules: &str, user: &str, client: &str, text: &str) -> Option<String> {
        let rules = file::parse(rules).unwrap();
        let candidates = rules.candidates(user.as_bytes(), Some(client.parse().unwrap()));
        let statement = classify(text.as_bytes(), DIALECT);
        let subject =
            Subject { statement: &statement, text: text.as_bytes(), dialect: DIALECT, schema: b"Shop" };
        rules.find(&candidates, subject).map(|(_, rule)| rule.name.clone())
    }

    #[test]
    fn conditions_are_met_together() {
        let digest = digest(b"SELECT 1", DIALECT);
        for (conditions, text, matches) in [
            ("", "SELECT 1", true),
            ("user = 'app*'", "SELECT 1", true),
            ("user = ['x', 'a?p1']", "SELECT 1", true),
            ("user = 'APP*'", "SELECT 1", false),
            ("client = '10.0.0.0/8'", "SELECT 1", true),
            ("client = ['192.168.0.0/16', '10.1.2.3']", "SELECT 1", true),
            ("client = '10.1.2.4'", "SELECT 1", false),
            ("class = 'read'", "SELECT 1", true),
            ("class = ['write', 'ddl']", "SELECT 1", false),
            ("class = ['write', 'ddl']", "DELETE FROM t", true),
            ("schema = 'shop'", "SELECT 1", true),
            ("schema = 'sh*'", "SELECT * FROM a, other.b", true),
            ("schema = 'other'", "SELECT * FROM a, other.b", true),
            ("schema = 'other'", "SELECT * FROM a", false),
            ("schema = 'shop'", "SELECT * FROM other.b", false),
            ("table = 'audit*'", "SELECT * FROM a JOIN Audit_log USING (id)", true),
            ("table = ['x', 'shop.audit']", "SELECT * FROM audit", true),
            ("table = 'shop.audit'", "SELECT * FROM other.audit", false),
            ("table = '*'", "SELECT 1", false),
            ("table = '*', class = 'read'", "DELETE FROM t", false),
            (&format!("digest = '{digest}'"), "SELECT  2", true),
            (&format!("digest = '{digest}'"), "SELECT 2, 3", false),
            ("pattern = '^SELECT . FROM'", "SELECT 7 FROM t", true),
            ("pattern = '(?i)for update'", "SELECT a FROM t FOR UPDATE", true),
            ("pattern = '7'", "SELECT 7", false),
        ] {
            let conditions = conditions.replace(", class", "\nclass");
            let rules = format!("[[rule]]\nname = 'r'\n{conditions}\nroute = 'primary'\n");
            let expected = matches.then(|| "r".to_owned());
            assert_eq!(found(&rules, "app1", "10.1.2.3", text), expected, "{conditions}: {text}");
        }
    }

    #[test]
    fn the_first_match_counts() {
        let rules = "[[rule]]\nname = 'off'\nenabled = false\nroute = 'primary'\n\
            [[rule]]\nname = 'first'\ntable = 't'\nroute = 'primary'\n\
            [[rule]]\nname = 'second'\nroute = 'auto'\n";
        assert_eq!(found(rules, "u", "::1", "SELECT * FROM t").as_deref(), Some("first"));
        assert_eq!(found(rules, "u", "::1", "SELECT * FROM u").as_deref(), Some("second"));
        // An IPv4 client of a socket that listens on IPv6.
        let rules = "[[rule]]\nname = 'r'\nclient = '10.0.0.0/8'\nroute = 'primary'\n";
        assert_eq!(found(rules, "u", "::ffff:10.0.0.1", "SELECT 1").as_deref(), Some("r"));
    }
}
