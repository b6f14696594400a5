//! Real drivers. Each runs the scenario of `tests/drivers` directly on the primary and through the proxy, and
//! must see the same; its reads must have gone to the replica.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::SHA256;
use mysql_async::prelude::Queryable;
use ramsplit::sandbox::{Flavor, Sandbox};
use tokio::process::Command;

use crate::bed::{on_both, shared};
use crate::proxy::Proxy;
use crate::support::program;

#[path = "../drivers/mysql_async.rs"]
mod mysql_async_driver;
#[path = "../drivers/sqlx.rs"]
mod sqlx_driver;

on_both!(
    mysql_async,
    sqlx,
    pymysql,
    mysqlclient,
    connector,
    sqlalchemy,
    mysql2,
    go,
    jdbc,
    php,
    perl,
    command_line,
);

/// The statements that make the scenario's tables, with empty lines between.
const TABLES: &str = include_str!("../drivers/tables.sql");
/// Statements that fail.
const WRONG: [&str; 3] = ["SELEC 1", "SELECT * FROM no_such_table", "INSERT INTO items (id) VALUES (1)"];
/// Reads that a scenario ends with, in sessions that wrote nothing: as many as text, and as many prepared.
const READS: f64 = 25.0;
/// Where Debian and Ubuntu put what they package.
const PYTHON: &str = "/usr/bin/python3";
const CONNECTOR_J: &str = "/usr/share/java/mariadb-java-client.jar";
const GO_PACKAGES: &str = "/usr/share/gocode";

/// Whom a driver connects to.
struct Target {
    host: String,
    port: u16,
    user: String,
    password: String,
    schema: String,
}

/// What a driver saw.
#[derive(Default)]
struct Transcript(Vec<String>);

impl Transcript {
    fn note(&mut self, label: &str, value: impl Debug) {
        self.0.push(format!("{label}: {value:?}"));
    }
}

/// How a driver sends statements with arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    Prepared,
    InText,
}

async fn mysql_async(flavor: Flavor) {
    compare(flavor, "mysql_async", Arguments::Prepared, async |target| {
        let mut seen = Transcript::default();
        mysql_async_driver::run(&target, &mut seen).await;
        seen.0
    })
    .await;
}

async fn sqlx(flavor: Flavor) {
    compare(flavor, "sqlx", Arguments::Prepared, async |target| {
        let mut seen = Transcript::default();
        sqlx_driver::run(&target, &mut seen).await;
        seen.0
    })
    .await;
}

async fn pymysql(flavor: Flavor) {
    compare_program(flavor, "pymysql", Arguments::InText, &[PYTHON, "pymysql_.py"]).await;
}

async fn mysqlclient(flavor: Flavor) {
    compare_program(flavor, "mysqlclient", Arguments::InText, &[PYTHON, "mysqlclient.py"]).await;
}

async fn connector(flavor: Flavor) {
    let python = installed("venv/bin/python");
    let command = [python.to_str().unwrap(), "connector.py"];
    compare_program(flavor, "connector", Arguments::Prepared, &command).await;
}

async fn sqlalchemy(flavor: Flavor) {
    compare_program(flavor, "sqlalchemy", Arguments::InText, &[PYTHON, "alchemy.py"]).await;
}

async fn mysql2(flavor: Flavor) {
    compare_program(flavor, "mysql2", Arguments::Prepared, &["node", "mysql2.js"]).await;
}

async fn go(flavor: Flavor) {
    compare_program(flavor, "go", Arguments::Prepared, &["go", "run", "gosql.go"]).await;
}

async fn jdbc(flavor: Flavor) {
    compare_program(flavor, "jdbc", Arguments::Prepared, &["java", "-cp", CONNECTOR_J, "Jdbc.java"]).await;
}

async fn php(flavor: Flavor) {
    compare_program(flavor, "php", Arguments::Prepared, &["php", "php_.php"]).await;
}

async fn perl(flavor: Flavor) {
    compare_program(flavor, "perl", Arguments::Prepared, &["perl", "dbd.pl"]).await;
}

/// MariaDB's client on both servers, and MySQL's own where that is the server.
async fn command_line(flavor: Flavor) {
    compare_program(flavor, "command_line", Arguments::InText, &["sh", "command_line.sh", "mariadb"]).await;
    if flavor == Flavor::MySql {
        // Beside the server where that was unpacked, else on PATH.
        let beside = program(flavor).path.with_file_name("mysql");
        let client = if beside.exists() { beside } else { PathBuf::from("mysql") };
        let command = ["sh", "command_line.sh", client.to_str().unwrap()];
        compare_program(flavor, "command_line", Arguments::InText, &command).await;
    }
}

/// What `scripts/drivers.sh` installed.
fn installed(path: &str) -> PathBuf {
    let folder = std::env::var("RAMSPLIT_TEST_DRIVERS")
        .expect("RAMSPLIT_TEST_DRIVERS is not set: run the tests by scripts/test-env.sh");
    Path::new(&folder).join(path)
}

/// Compares what a program prints.
async fn compare_program(flavor: Flavor, name: &str, arguments: Arguments, command: &[&str]) {
    compare(flavor, name, arguments, async |target| {
        let output = Command::new(command[0])
            .args(&command[1..])
            .args([&target.host, &target.port.to_string(), &target.user, &target.password, &target.schema])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers"))
            .env("NODE_PATH", installed("node_modules"))
            .env("GO111MODULE", "off")
            .env("GOPATH", GO_PACKAGES)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .kill_on_drop(true)
            .output()
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", command[0]));
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}{errors}", output.status);
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.last().map(String::as_str), Some("end"), "{text}{errors}");
        lines
    })
    .await;
}

/// Runs a driver directly and through the proxy, in a schema of its own.
async fn compare(flavor: Flavor, name: &str, arguments: Arguments, run: impl AsyncFn(Target) -> Vec<String>) {
    let sandbox = shared(flavor).await;
    let schema = format!("drivers_{name}");
    make_schema(sandbox, &schema).await;
    let direct = run(target(sandbox.primary().address(), sandbox, &schema)).await;
    sandbox.wait_for_replica().await.unwrap();
    let proxy = Proxy::start(sandbox).await;
    let proxied = run(target(proxy.address(), sandbox, &schema)).await;

    assert!(direct.len() > 50, "{direct:#?}");
    let stale = direct.iter().filter(|line| line.starts_with("stale reads"));
    assert!(stale.clone().all(|line| line == "stale reads: 0"), "{:?}", stale.collect::<Vec<_>>());
    for (at, line) in direct.iter().enumerate() {
        assert_eq!(Some(line), proxied.get(at), "line {at}, after {:?}", direct.get(at.wrapping_sub(1)));
    }
    assert_eq!(direct.len(), proxied.len());
    let least = if arguments == Arguments::Prepared { 2.0 * READS } else { READS };
    let reads = proxy.metrics().queries("replica", "read");
    assert!(reads >= least, "{reads} reads went to the replica");
}

fn target(address: SocketAddr, sandbox: &Sandbox, schema: &str) -> Target {
    let application = sandbox.application();
    Target {
        host: address.ip().to_string(),
        port: address.port(),
        user: application.user.clone(),
        password: application.password.to_string(),
        schema: schema.to_owned(),
    }
}

/// A schema with the table that a scenario reads only, on both servers.
async fn make_schema(sandbox: &Sandbox, schema: &str) {
    let mut root = sandbox.primary().root().await.unwrap();
    for statement in [
        format!("CREATE DATABASE IF NOT EXISTS {schema}"),
        format!("GRANT ALL ON {schema}.* TO {}", sandbox.application().user),
        format!("CREATE TABLE IF NOT EXISTS {schema}.numbers (n INT PRIMARY KEY)"),
        format!("REPLACE INTO {schema}.numbers SELECT n FROM {}.numbers", Sandbox::SCHEMA),
    ] {
        root.query_drop(statement).await.unwrap();
    }
    root.disconnect().await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
}

/// Length and SHA-256 of long data.
fn digest(data: &[u8]) -> (usize, Vec<u8>) {
    (data.len(), aws_lc_rs::digest::digest(&SHA256, data).as_ref().to_vec())
}
