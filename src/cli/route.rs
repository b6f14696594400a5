//! `ramsplit route`: where a statement would go, and why.

use std::{
    error::Error,
    fmt::Write as _,
    io::{BufRead, stdin},
    net::IpAddr,
    path::PathBuf,
    process::ExitCode,
};

use clap::ValueEnum;

use super::say;
use crate::{
    route::{
        Asked, Reason, Replica, Rules, Session, decide, hint,
        rules::{Action, Candidates, Subject},
    },
    sql::{self, Dialect, Statement, classify, digest, digest_text, leading_comment_hint},
};

/// Explain where a statement would go, and why.
///
/// Nothing is connected to: a healthy replica is assumed that has everything, and a session with autocommit on
/// that has done nothing yet.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The statement. Without one, or with "-", statements are read from standard input, one per line.
    statement: Option<String>,
    /// The server family that the primary is of.
    #[arg(long, value_enum, default_value = "mysql")]
    flavor: Flavor,
    /// The primary's version, such as 8.0.36 or 10.11.6; by default the newest that is known of the family.
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    server_version: Option<u32>,
    /// The session's sql_mode, such as ANSI_QUOTES,NO_BACKSLASH_ESCAPES.
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    sql_mode: Vec<String>,
    /// A file of routing rules; config/rules.toml explains them.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// The user that rules see.
    #[arg(long, default_value = "")]
    user: String,
    /// The default schema.
    #[arg(long, default_value = "")]
    schema: String,
    /// The client's address that rules see.
    #[arg(long, value_name = "ADDRESS")]
    client: Option<IpAddr>,
    /// Print one JSON object per statement.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Flavor {
    /// MySQL 8.0 and later.
    Mysql,
    /// MariaDB 10.6 and later.
    Mariadb,
}

/// `8.0.36` as 80036.
fn parse_version(text: &str) -> Result<u32, String> {
    let parts: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
    match parts.as_deref() {
        Ok([major @ 1..=99, minor @ 0..=99]) => Ok(major * 10_000 + minor * 100),
        Ok([major @ 1..=99, minor @ 0..=99, patch @ 0..=99]) => Ok(major * 10_000 + minor * 100 + patch),
        _ => Err("write it as 8.0.36".to_owned()),
    }
}

/// Explains each statement.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let rules = arguments.rules.as_deref().map_or_else(|| Ok(Rules::default()), Rules::load)?;
    let explainer = Explainer {
        candidates: rules.candidates(arguments.user.as_bytes(), arguments.client),
        rules,
        dialect: dialect(arguments),
        schema: arguments.schema.as_bytes(),
    };
    let print = |text: &[u8]| {
        let explained = explainer.explain(text);
        say(&if arguments.json { explained.json() } else { explained.block() });
    };
    match arguments.statement.as_deref() {
        Some(statement) if statement != "-" => print(statement.as_bytes()),
        _ => {
            // Statements may be of any bytes.
            for line in stdin().lock().split(b'\n') {
                let line = line?;
                if !line.trim_ascii().is_empty() {
                    print(line.trim_ascii());
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn dialect(arguments: &Arguments) -> Dialect {
    let (flavor, newest) = match arguments.flavor {
        Flavor::Mysql => (sql::Flavor::MySql, 90_700),
        Flavor::Mariadb => (sql::Flavor::MariaDb, 120_100),
    };
    let has = |mode: &str| arguments.sql_mode.iter().any(|given| given.trim().eq_ignore_ascii_case(mode));
    Dialect {
        // ANSI stands for several modes.
        ansi_quotes: has("ANSI_QUOTES") || has("ANSI"),
        no_backslash_escapes: has("NO_BACKSLASH_ESCAPES"),
        ..Dialect::new(flavor, arguments.server_version.unwrap_or(newest))
    }
}

struct Explainer<'a> {
    rules: Rules,
    candidates: Candidates,
    dialect: Dialect,
    schema: &'a [u8],
}

struct Explained {
    statement: Statement,
    digest: String,
    text: String,
    rule: Option<String>,
    target: &'static str,
    reason: Reason,
    /// The message of a rule that refuses it.
    rejected: Option<String>,
    /// It has a hint that is not understood.
    misread: bool,
}

impl Explainer<'_> {
    fn explain(&self, text: &[u8]) -> Explained {
        let statement = classify(text, self.dialect);
        let hint = leading_comment_hint(text).map(hint::parse);
        let subject = Subject { statement: &statement, text, dialect: self.dialect, schema: self.schema };
        let rule = self.rules.find(&self.candidates, subject).map(|(_, rule)| rule);
        let (policy, rejected) = match rule.map(|rule| &rule.action) {
            Some(Action::Route(policy)) => (*policy, None),
            Some(Action::Reject(message)) => (Default::default(), Some(message.clone())),
            None => Default::default(),
        };
        let asked = Asked { hint: hint.flatten().unwrap_or_default(), rule: policy };
        let route = decide(&statement, asked, Session::FRESH, Replica::Serving);
        Explained {
            digest: digest(text, self.dialect).to_string(),
            text: digest_text(text, self.dialect),
            rule: rule.map(|rule| rule.name.clone()),
            target: if rejected.is_some() { "none" } else { route.target.label() },
            reason: if rejected.is_some() { Reason::Rejected } else { route.reason },
            misread: hint == Some(None),
            rejected,
            statement,
        }
    }
}

impl Explained {
    fn tables(&self) -> Vec<String> {
        let name = |table: &sql::TableName| match &table.schema {
            Some(schema) => format!("{schema}.{}", table.name),
            None => table.name.clone(),
        };
        self.statement.tables.iter().map(name).collect()
    }

    fn json(&self) -> String {
        serde_json::json!({
            "class": self.statement.kind.label(),
            "tables": self.tables(),
            "functions": self.statement.functions,
            "digest": self.digest,
            "rule": self.rule,
            "target": self.target,
            "reason": self.reason.label(),
        })
        .to_string()
    }

    fn block(&self) -> String {
        let none = |names: String| if names.is_empty() { "-".to_owned() } else { names };
        let mut out = String::new();
        for (key, value) in [
            ("text", self.text.clone()),
            ("digest", self.digest.clone()),
            ("class", self.statement.kind.label().to_owned()),
            ("tables", none(self.tables().join(", "))),
            ("functions", none(self.statement.functions.join(", "))),
            ("facts", none(self.statement.facts.names().collect::<Vec<_>>().join(", "))),
            ("rule", self.rule.clone().unwrap_or_else(|| "-".to_owned())),
            ("target", self.target.to_owned()),
            ("reason", self.reason.label().to_owned()),
        ] {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{key:<10}{value}");
        }
        if let Some(message) = &self.rejected {
            let _ = writeln!(out, "{:<10}{message}", "message");
        }
        if self.misread {
            let _ = writeln!(out, "{:<10}is not understood, and so not followed", "hint");
        }
        out
    }
}
