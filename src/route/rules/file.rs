//! The rules file: TOML to checked rules. Every fault is found at once, with its line and key.

use std::{
    collections::HashSet,
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use ipnet::IpNet;
use regex::Regex;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use wildmatch::WildMatch;

use super::{Action, Conditions, Rule, Rules, TablePattern, name_pattern};
use crate::{
    config::Consistency,
    route::policy::{Policy, Wish, parse_duration},
    sql::Kind,
};

/// All that is wrong with a rules file.
#[derive(Debug, thiserror::Error)]
pub enum Faults {
    /// It cannot be read.
    #[error("cannot read the rules file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What is in it.
    #[error("the rules file {path} has {} fault(s):{}", .faults.len(), listed(.faults))]
    Content {
        /// The file.
        path: PathBuf,
        /// Each with line and key.
        faults: Vec<Fault>,
    },
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, counted from one.
    pub line: usize,
    /// The key, such as `rule[2].table`; empty for the file as a whole.
    pub key: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, key, message } = self;
        if key.is_empty() {
            write!(f, "line {line}: {message}")
        } else {
            write!(f, "line {line}: {key}: {message}")
        }
    }
}

fn listed(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("\n  {fault}")).collect()
}

/// Reads the file at `path`.
pub(super) fn load(path: &Path) -> Result<Rules, Faults> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Faults::Read { path: path.to_owned(), source })?;
    parse(&text).map_err(|faults| Faults::Content { path: path.to_owned(), faults })
}

/// Reads the text of a rules file.
pub(super) fn parse(text: &str) -> Result<Rules, Vec<Fault>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { text, faults: Vec::new(), names: HashSet::new() };
    for error in errors {
        let start = error.span().map_or(0, |span| span.start);
        reader.fault(start, String::new(), error.message());
    }
    // What follows a syntax error may be read wrongly.
    let rules = if reader.faults.is_empty() { reader.document(document.get_ref()) } else { Vec::new() };
    if reader.faults.is_empty() {
        return Ok(Rules { rules });
    }
    reader.faults.sort_by_key(|fault| fault.line);
    Err(reader.faults)
}

struct Reader<'t> {
    text: &'t str,
    faults: Vec<Fault>,
    names: HashSet<String>,
}

type Value<'t> = Spanned<DeValue<'t>>;

impl Reader<'_> {
    fn fault(&mut self, start: usize, key: String, message: impl Into<String>) {
        let before = self.text.get(..start).unwrap_or(self.text);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        self.faults.push(Fault { line, key, message: message.into() });
    }

    fn document(&mut self, document: &DeTable<'_>) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (key, value) in document {
            if key.get_ref() != "rule" {
                self.fault(
                    key.span().start,
                    key.get_ref().to_string(),
                    "is no known key; rules are written as [[rule]]",
                );
                continue;
            }
            let Some(list) = value.get_ref().as_array() else {
                self.fault(value.span().start, "rule".to_owned(), "rules are written as [[rule]]");
                continue;
            };
            for (place, rule) in list.iter().enumerate() {
                rules.extend(self.rule(place, rule));
            }
        }
        rules
    }

    /// `None` for a rule that is switched off, or has faults.
    fn rule(&mut self, place: usize, value: &Value<'_>) -> Option<Rule> {
        let path = format!("rule[{place}]");
        let start = value.span().start;
        let Some(table) = value.get_ref().as_table() else {
            self.fault(start, path, "rules are written as [[rule]]");
            return None;
        };
        let mut draft = Draft::default();
        let mut is_read = true;
        for (key, value) in table {
            let key_path = format!("{path}.{}", key.get_ref());
            if let Err(message) = draft.set(key.get_ref(), value.get_ref()) {
                let at = if matches!(message, Complaint::Key(_)) { key.span() } else { value.span() };
                self.fault(at.start, key_path, message.text());
                is_read = false;
            }
        }
        let name = draft.name.clone().unwrap_or_default();
        match &draft.name {
            None => {
                self.fault(start, format!("{path}.name"), "is missing: metrics and logs call the rule by it")
            }
            Some(name) if !self.names.insert(name.clone()) => {
                self.fault(start, format!("{path}.name"), format!("'{name}' is the name of an earlier rule"));
            }
            Some(_) => {}
        }
        let enabled = draft.enabled.unwrap_or(true);
        match draft.finish(name) {
            Ok(rule) => Some(rule).filter(|_| enabled),
            Err(message) => {
                // Of a rule that was not understood it would mislead.
                if is_read {
                    self.fault(start, path, message);
                }
                None
            }
        }
    }
}

/// A rule of which some keys were read.
#[derive(Default)]
struct Draft {
    name: Option<String>,
    enabled: Option<bool>,
    conditions: Conditions,
    policy: Policy,
    reject: Option<String>,
}

/// What is wrong: the key, or its value.
enum Complaint {
    Key(&'static str),
    Value(String),
}

impl Complaint {
    fn text(self) -> String {
        match self {
            Self::Key(text) => text.to_owned(),
            Self::Value(text) => text,
        }
    }
}

impl From<String> for Complaint {
    fn from(text: String) -> Self {
        Self::Value(text)
    }
}

impl Draft {
    fn set(&mut self, key: &str, value: &DeValue<'_>) -> Result<(), Complaint> {
        let conditions = &mut self.conditions;
        match key {
            "name" => self.name = Some(name(value)?),
            "enabled" => {
                self.enabled = Some(value.as_bool().ok_or_else(|| "must be true or false".to_owned())?)
            }
            "user" => conditions.users = list(value, |text| Ok(WildMatch::new(text)))?,
            "client" => conditions.clients = list(value, network)?,
            "schema" => conditions.schemas = list(value, |text| Ok(name_pattern(text)))?,
            "table" => conditions.tables = list(value, |text| Ok(TablePattern::new(text)))?,
            "class" => conditions.classes = list(value, class)?,
            "digest" => conditions.digests = list(value, digest)?,
            "pattern" => {
                let pattern = Regex::new(string(value)?);
                conditions.pattern =
                    Some(pattern.map_err(|error| format!("is no regular expression: {error}"))?);
            }
            "route" => self.policy.wish = Some(one_of(value, Wish::parse, "primary, replica or auto")?),
            "consistency" => {
                self.policy.consistency = Some(one_of(value, Consistency::parse, Consistency::NAMES)?);
            }
            "max_lag" => self.policy.max_lag = Some(duration(value)?),
            "wait" => self.policy.wait = Some(duration(value)?),
            "reject" => self.reject = Some(string(value)?.to_owned()),
            _ => return Err(Complaint::Key("is no known key")),
        }
        Ok(())
    }

    fn finish(self, name: String) -> Result<Rule, String> {
        let action = match (self.reject, self.policy == Policy::default()) {
            (Some(message), true) => Action::Reject(message),
            (Some(_), false) => {
                return Err("a statement that is rejected is not routed: reject stands alone".to_owned());
            }
            (None, true) => {
                return Err("does nothing: give route, consistency, max_lag, wait or reject".to_owned());
            }
            (None, false) => Action::Route(self.policy),
        };
        Ok(Rule { name, action, conditions: self.conditions })
    }
}

fn string<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("must be a string, not {}", value.type_str()))
}

/// A string, or a list of them that is not empty.
fn list<T>(value: &DeValue<'_>, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    match value.as_array() {
        Some(items) if items.is_empty() => Err("is empty, and so would match nothing".to_owned()),
        Some(items) => items.iter().map(|item| read(string(item.get_ref())?)).collect(),
        None => Ok(vec![read(string(value)?)?]),
    }
}

/// Names are labels of a metric.
fn name(value: &DeValue<'_>) -> Result<String, String> {
    const LONGEST: usize = 64;
    let name = string(value)?;
    if name.is_empty() || name.len() > LONGEST || name.contains(char::is_control) {
        return Err(format!("must be 1 to {LONGEST} bytes of text"));
    }
    Ok(name.to_owned())
}

fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address
        .or_else(|_| text.parse())
        .map_err(|_| format!("'{text}' is no address and no network such as 10.0.0.0/8"))
}

fn class(text: &str) -> Result<Kind, String> {
    Kind::ALL.into_iter().find(|kind| kind.label() == text).ok_or_else(|| {
        let known: Vec<_> = Kind::ALL.iter().map(|kind| kind.label()).collect();
        format!("'{text}' is no class; there are {}", known.join(", "))
    })
}

fn digest(text: &str) -> Result<String, String> {
    let is_digest = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_digest.then(|| text.to_owned()).ok_or_else(|| format!("'{text}' is no digest (16 digits 0-9a-f)"))
}

fn one_of<T>(value: &DeValue<'_>, read: impl Fn(&str) -> Option<T>, known: &str) -> Result<T, String> {
    let text = string(value)?;
    read(text).ok_or_else(|| format!("'{text}' is none of {known}"))
}

fn duration(value: &DeValue<'_>) -> Result<Duration, String> {
    let text = string(value)?;
    parse_duration(text).ok_or_else(|| format!("'{text}' is no time such as 50ms, 1.5s or 200us"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_listed_with_its_line() {
        let text = "colour = 1\n\
            [[rule]]\nname = 'a'\nroute = 'elsewhere'\n\
            [[rule]]\nname = 'a'\nclass = ['read', 'reed']\nclient = '10.0.0.0/33'\nroute = 'primary'\n\
            [[rule]]\nmax_lag = 50\nwait = '1h'\ntable = []\npattern = '('\n\
            [[rule]]\nname = 'b'\nroute = 'auto'\nreject = 'no'\n\
            [[rule]]\nname = 'c'\ndigest = 'x'\nenabled = 'yes'\nuser = 5\nlevel = 'session'\n";
        let faults = parse(text).unwrap_err();
        let found: Vec<_> = faults.iter().map(|fault| (fault.line, fault.key.as_str())).collect();
        for expected in [
            (1, "colour"),
            (4, "rule[0].route"),
            (5, "rule[1].name"),
            (7, "rule[1].class"),
            (8, "rule[1].client"),
            (10, "rule[2].name"),
            (11, "rule[2].max_lag"),
            (12, "rule[2].wait"),
            (13, "rule[2].table"),
            (14, "rule[2].pattern"),
            (15, "rule[3]"),
            (21, "rule[4].digest"),
            (22, "rule[4].enabled"),
            (23, "rule[4].user"),
            (24, "rule[4].level"),
        ] {
            assert!(found.contains(&expected), "{expected:?} is not in {found:?}");
        }
        assert!(found.is_sorted_by_key(|(line, _)| *line));
    }

    #[test]
    fn syntax_errors_have_a_line_too() {
        let faults = parse("[[rule]]\nname = 'a'\nroute = \n").unwrap_err();
        assert_eq!(faults[0].line, 3, "{faults:?}");
    }

    #[test]
    fn the_example_is_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/rules.toml");
        let rules = load(&path).unwrap();
        assert!(rules.names().count() > 3);
    }
}
