//! The suites' own runner, against a server that is there already (`--extern`).
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_MYSQL_TEST_RUN.html>,
//! <https://mariadb.com/kb/en/mysqltest/>

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ramsplit::sandbox::Flavor;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::Suite;

/// What the runner says of a test.
#[derive(Debug)]
pub(super) struct Outcome {
    pub test: String,
    pub verdict: Verdict,
}

/// How a test went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    /// It does not apply to this server.
    Skip,
    /// With the runner's first words about it.
    Fail(String),
}

/// Runs tests in order until one fails. What the runner prints is kept in `target/conformance`.
pub(super) async fn run(suite: Suite, proxy: SocketAddr, scratch: &Path, tests: &[String]) -> Vec<Outcome> {
    let (folder, script) = runner(suite.flavor);
    let port = proxy.port().to_string();
    let mut log = log_of(suite, &tests[0]).await;
    let mut command = Command::new("perl");
    command
        .arg(script)
        .args(["--extern", "host=127.0.0.1", "--extern", "user=root", "--extern", "protocol=tcp"])
        .args(["--extern", &format!("port={port}")])
        .arg(format!("--vardir={}", scratch.display()))
        .arg(format!("--tmpdir={}", scratch.join("tmp").display()))
        .args(["--retry=0", "--nocheck-testcases", "--noreorder", "--nowarnings", "--timer"])
        // In minutes.
        .args(["--testcase-timeout=2", "--suite-timeout=600"])
        .args(suite.arguments)
        .args(tests)
        .current_dir(&folder)
        // Some tests open connections of their own.
        .env("MASTER_MYPORT", &port)
        .env("MASTER_MYSOCK", "/nonexistent")
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log.try_clone().await.unwrap().into_std().await))
        .kill_on_drop(true);
    match suite.flavor {
        Flavor::MySql => {
            command.arg(format!("--client-bindir={}", server(suite.flavor).parent().unwrap().display()))
        }
        Flavor::MariaDb => command.args(["--skip-rpl", "--parallel=1"]),
    };
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).split(b'\n');
    let mut outcomes: Vec<Outcome> = Vec::new();
    while let Some(line) = lines.next_segment().await.unwrap() {
        log.write_all(&line).await.unwrap();
        log.write_all(b"\n").await.unwrap();
        let line = String::from_utf8_lossy(&line);
        match parse(&line) {
            Some(outcome) if tests.contains(&outcome.test) => note(&mut outcomes, outcome),
            _ => explain(&mut outcomes, &line),
        }
    }
    child.wait().await.unwrap();
    log.flush().await.unwrap();
    outcomes
}

/// A test may run several times, in different combinations of options.
fn note(outcomes: &mut Vec<Outcome>, outcome: Outcome) {
    match outcomes.last_mut().filter(|last| last.test == outcome.test) {
        None => outcomes.push(outcome),
        Some(last) if last.verdict == Verdict::Pass || matches!(outcome.verdict, Verdict::Fail(_)) => {
            last.verdict = outcome.verdict;
        }
        Some(_) => {}
    }
}

/// Notes the first words about a failure.
fn explain(outcomes: &mut [Outcome], line: &str) {
    let telling = line.starts_with("mysqltest: ") || line.starts_with('+') || line.starts_with('-');
    if let Some(Outcome { verdict: Verdict::Fail(why), .. }) = outcomes.last_mut()
        && telling
        && why.len() < 200
        && !line.starts_with("---")
        && !line.starts_with("+++")
    {
        why.push_str(line);
        why.push(' ');
    }
}

/// `[ 12%] main.alias 'innodb' w1   [ pass ]   27`.
fn parse(line: &str) -> Option<Outcome> {
    let line = match line.strip_prefix('[') {
        Some(rest) => rest.split_once("%]")?.1,
        None => line,
    };
    let (head, rest) = line.split_once(" [ ")?;
    let verdict = match rest.split_once(" ]")?.0 {
        "pass" => Verdict::Pass,
        "skipped" | "disabled" => Verdict::Skip,
        "fail" => Verdict::Fail(String::new()),
        _ => return None,
    };
    let test = head.split_whitespace().next().filter(|name| name.contains('.'))?.to_owned();
    Some(Outcome { test, verdict })
}

async fn log_of(suite: Suite, first: &str) -> tokio::fs::File {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(suite.name);
    tokio::fs::create_dir_all(&folder).await.unwrap();
    tokio::fs::File::create(folder.join(format!("{first}.log"))).await.unwrap()
}

/// The server that comes with its own test suite.
pub(super) fn server(flavor: Flavor) -> PathBuf {
    let variable = match flavor {
        Flavor::MySql => "RAMSPLIT_TEST_MYSQL_SUITE",
        Flavor::MariaDb => "RAMSPLIT_TEST_MARIADB_SUITE",
    };
    let path = std::env::var_os(variable);
    path.unwrap_or_else(|| panic!("{variable} is not set: run the tests by scripts/test-env.sh")).into()
}

/// A client program of the same version.
pub(super) fn client(flavor: Flavor) -> PathBuf {
    match flavor {
        Flavor::MySql => server(flavor).with_file_name("mysql"),
        Flavor::MariaDb => root(flavor).join("usr/bin/mariadb"),
    }
}

/// The folder of a family's tests, and the runner in it.
pub(super) fn runner(flavor: Flavor) -> (PathBuf, &'static str) {
    match flavor {
        Flavor::MySql => (root(flavor).join("usr/lib/mysql-test"), "mysql-test-run.pl"),
        Flavor::MariaDb => (root(flavor).join("usr/share/mysql/mysql-test"), "mariadb-test-run.pl"),
    }
}

/// The folder of a family's plugins.
pub(crate) fn plugins(flavor: Flavor) -> PathBuf {
    root(flavor).join("usr/lib/mysql/plugin")
}

/// Where the packages were unpacked: `bin/mysqld` is there, or `usr/sbin/mariadbd`.
fn root(flavor: Flavor) -> PathBuf {
    let up = match flavor {
        Flavor::MySql => 2,
        Flavor::MariaDb => 3,
    };
    server(flavor).ancestors().nth(up).unwrap().to_owned()
}

#[test]
fn verdicts_are_read() {
    for (line, expected) in [
        (
            "[ 12%] main.alias                               [ pass ]     27",
            Some(("main.alias", Verdict::Pass)),
        ),
        ("main.alias 'innodb,x' w2 [ skipped ]  Test needs", Some(("main.alias", Verdict::Skip))),
        ("json.array_index   [ fail ]", Some(("json.array_index", Verdict::Fail(String::new())))),
        ("Completed: All 3 tests were successful.", None),
        ("a [ pass ] 1", None),
    ] {
        let found = parse(line).map(|outcome| (outcome.test, outcome.verdict));
        assert_eq!(found, expected.map(|(test, verdict)| (test.to_owned(), verdict)), "{line}");
    }
}
