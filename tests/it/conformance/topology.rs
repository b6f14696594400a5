//! Servers as the suites expect them, with a replica, behind a proxy.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use ramsplit::config::Consistency;
use ramsplit::sandbox::{Flavor, Options, Program, Sandbox, Server};
use tempfile::TempDir;
use tokio::process::Command;

use super::{Suite, mtr};
use crate::bed::{account, on_both, on_replica_alone, wait_until};
use crate::proxy::{Proxy, config};
use crate::support::RAMSPLIT;

on_both!(what_is_wrong_is_noticed);

/// Errors of a server that takes no writes: it is a replica, or the transaction may only read.
const REFUSED: [u16; 2] = [1290, 1792];

/// Arguments of both servers. The suites' results were recorded with these.
const MYSQL: &[&str] = &[
    "--max-connections=151",
    "--explain-format=TRADITIONAL_STRICT",
    "--log-output=file",
    "--connect-timeout=60",
    "--log-bin-trust-function-creators=1",
    "--performance-schema-session-connect-attrs-size=2048",
    // Without durability: the disk's speed is not what is tested.
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    // The default. Statements would not give the replica the same data: MySQL does not tell it
    // div_precision_increment, for one.
    "--binlog-format=ROW",
    // Several would insert rows in an order of their own, which shows without ORDER BY.
    "--replica-parallel-workers=1",
    // Tests stop at nothing; whether both have the same data is seen in the end.
    "--replica-exec-mode=IDEMPOTENT",
    "--replica-skip-errors=all",
];
/// See [`MYSQL`].
const MARIADB: &[&str] = &[
    "--max-connections=151",
    "--max-allowed-packet=16M",
    "--character-set-server=latin1",
    "--connect-timeout=60",
    "--plugin-maturity=unknown",
    "--log-bin-trust-function-creators=1",
    "--key-buffer-size=1M",
    "--sort-buffer-size=256K",
    "--max-heap-table-size=1M",
    "--binlog-direct-non-transactional-updates",
    "--default-storage-engine=myisam",
    "--use-stat-tables=preferably",
    "--histogram-type=json_hb",
    "--loose-pam-debug",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    // The default. From rows, MyISAM gathers other statistics, and the optimizer joins in another order.
    "--binlog-format=MIXED",
    "--gtid-strict-mode=OFF",
    "--slave-exec-mode=IDEMPOTENT",
    "--slave-skip-errors=all",
];

/// A primary and a replica, for as long as no test fails.
pub(super) struct Topology {
    sandbox: Sandbox,
    scratch: TempDir,
    _programs: TempDir,
}

impl Topology {
    /// Starts the servers.
    pub(super) async fn start(suite: Suite, arguments: &[String]) -> Self {
        let scratch = tempfile::Builder::new().prefix("mtr").tempdir().unwrap();
        // MariaDB's runner writes there before it makes the folder.
        std::fs::create_dir(scratch.path().join("log")).unwrap();
        let programs = tempfile::tempdir().unwrap();
        let mut options = options(suite.flavor, scratch.path(), programs.path());
        options.arguments.extend_from_slice(arguments);
        let sandbox = Sandbox::start(options).await.unwrap();
        leave_only_root(&sandbox).await;
        load(&sandbox, suite.flavor).await;
        sandbox.wait_for_replica().await.unwrap();
        // Leap seconds are read when a server starts.
        for server in [sandbox.replica(), sandbox.primary()] {
            server.stop().await;
            server.start().await.unwrap();
        }
        sandbox.wait_for_replica().await.unwrap();
        Self { sandbox, scratch, _programs: programs }
    }

    /// A proxy in front of them.
    pub(super) async fn proxy(&self) -> Proxy {
        let mut config = config(&self.sandbox);
        let root = account("root", "");
        config.monitor = Some(root.clone());
        // Tests have several sessions, and expect of each to see what another one has just done.
        config.consistency = Consistency::Global;
        config.wait = Duration::from_secs(5);
        // Tests turn the primary's clock, and with it the lag in seconds.
        config.max_lag = Duration::from_secs(86_400);
        let proxy = Proxy::run(config, &root).await;
        wait_until("the replica serves", async || proxy.replica_is_up()).await;
        proxy
    }

    /// Where the primary listens.
    pub(super) fn primary(&self) -> SocketAddr {
        self.sandbox.primary().address()
    }

    /// The folder that the suites' runner works in, and that servers may read and write files in.
    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// What is wrong with the servers after the tests.
    pub(super) async fn faults(&self) -> Vec<String> {
        if let Err(error) = self.sandbox.wait_for_replica().await {
            return vec![format!("the replica has not what the primary has: {error}")];
        }
        let (primary, replica) =
            (checksums(self.sandbox.primary()).await, checksums(self.sandbox.replica()).await);
        let mut faults: Vec<_> = primary
            .iter()
            .filter(|(table, sum)| replica.get(*table) != Some(*sum))
            .map(|(table, _)| format!("{table} differs"))
            .collect();
        faults.extend(
            replica
                .keys()
                .filter(|table| !primary.contains_key(*table))
                .map(|table| format!("{table} is extra")),
        );
        let refused = refusals(self.sandbox.replica()).await;
        if !refused.is_empty() {
            faults.push(format!("the replica refused writes: {refused:?}"));
        }
        faults
    }

    /// Ends all of it.
    pub(super) async fn stop(self) {
        self.sandbox.stop().await.unwrap();
    }
}

fn options(flavor: Flavor, scratch: &Path, programs: &Path) -> Options {
    let server = mtr::server(flavor);
    let mut options = Options::new(Program::find(Some(flavor), Some(&server)).unwrap(), RAMSPLIT);
    // The suites' clocks stand three hours east of Greenwich, and in MySQL the flag cannot be taken back.
    let script = programs.join(server.file_name().unwrap());
    let text = format!(
        "#!/bin/sh\nfor argument; do shift; [ \"$argument\" = --skip-name-resolve ] || set -- \"$@\" \"$argument\"; done\n\
         TZ=GMT-3 exec {} \"$@\"\n",
        server.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    options.program.path = script;
    let own: &[&str] = match flavor {
        Flavor::MySql => MYSQL,
        Flavor::MariaDb => MARIADB,
    };
    options.arguments = own.iter().map(|argument| (*argument).to_owned()).collect();
    options.arguments.push(format!("--secure-file-priv={}", scratch.display()));
    if flavor == Flavor::MariaDb {
        options.arguments.push(format!("--plugin-dir={}", mtr::plugins(flavor).display()));
    }
    if flavor == Flavor::MySql {
        for (option, file) in [("ca", "cacert"), ("cert", "server-cert"), ("key", "server-key")] {
            let file = mtr::runner(flavor).0.join("std_data").join(file).with_extension("pem");
            options.arguments.push(format!("--ssl-{option}={}", file.display()));
        }
    }
    options
}

/// Tests show accounts and schemas: there is to be none but what a fresh server has.
async fn leave_only_root(sandbox: &Sandbox) {
    let mut replica = sandbox.replica().root().await.unwrap();
    let statements: &[&str] = match sandbox.replica().program().flavor {
        Flavor::MySql => &[
            "STOP REPLICA",
            "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'root', SOURCE_PASSWORD = ''",
            "START REPLICA",
        ],
        // Its errors go to a file.
        Flavor::MariaDb => &[
            "STOP SLAVE",
            "CHANGE MASTER TO MASTER_USER = 'root', MASTER_PASSWORD = ''",
            "START SLAVE",
            "INSTALL SONAME 'sql_errlog'",
        ],
    };
    for statement in statements {
        replica.query_drop(*statement).await.unwrap();
    }
    replica.disconnect().await.unwrap();
    let mut primary = sandbox.primary().root().await.unwrap();
    for user in ["app", "monitor", "replicator"] {
        primary.query_drop(format!("DROP USER {user}")).await.unwrap();
    }
    primary.query_drop(format!("DROP DATABASE {}", Sandbox::SCHEMA)).await.unwrap();
    primary.disconnect().await.unwrap();
}

/// What the suites' own runner gives the servers that it starts itself.
async fn load(sandbox: &Sandbox, flavor: Flavor) {
    let (folder, _) = mtr::runner(flavor);
    let read = |path: PathBuf| {
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // They are written for servers that start, which take any line that begins with two hyphens for a comment.
        // To MariaDB's client the second semicolon would be a part of the delimiter, which `use` does not end at.
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let lines =
            lines.filter(|line| !line.trim_ascii_start().starts_with(b"--") && !line.starts_with(b"use mtr"));
        let lines = lines.map(|line| if line == b"delimiter ||;\n" { b"delimiter ||\n" } else { line });
        lines.collect::<Vec<_>>().concat()
    };
    let (time_zones, before, after) = match flavor {
        Flavor::MySql => (
            folder.join("include/mtr_test_data_timezone.sql"),
            "CREATE DATABASE test; CREATE DATABASE mtr;
             INSERT INTO mysql.db VALUES ('%', 'test', '', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'N', 'Y', 'Y', 'Y', 'Y', 'Y',
                 'Y', 'Y', 'Y', 'N', 'N', 'Y', 'Y');
             DELETE FROM mysql.proxies_priv WHERE user = 'root';
             INSERT INTO mysql.proxies_priv VALUES ('localhost', 'root', '', '', TRUE, '', NOW());
             USE mtr;",
            "FLUSH PRIVILEGES;",
        ),
        Flavor::MariaDb => (
            folder.with_file_name("mysql_test_data_timezone.sql"),
            "CREATE DATABASE IF NOT EXISTS test CHARACTER SET latin1 COLLATE latin1_swedish_ci;
             DELETE FROM mysql.global_priv WHERE user = '' OR host <> 'localhost';
             CREATE DATABASE IF NOT EXISTS mtr CHARSET = latin1; FLUSH PRIVILEGES; USE mtr;",
            "",
        ),
    };
    let text = [
        b"USE mysql;\n".to_vec(),
        read(time_zones),
        before.as_bytes().to_vec(),
        read(folder.join("include/mtr_warnings.sql")),
        b"delimiter ;\n".to_vec(),
        read(folder.join("include/mtr_check.sql")),
        b"delimiter ;\n".to_vec(),
        after.as_bytes().to_vec(),
    ]
    .concat();
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), text).unwrap();
    let output = Command::new(mtr::client(flavor))
        .args(["--no-defaults", "--user=root"])
        .arg(format!("--socket={}", sandbox.primary().socket().display()))
        .stdin(Stdio::from(std::fs::File::open(script.path()).unwrap()))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The checksum of each table that replication brings to a replica.
async fn checksums(server: &Server) -> BTreeMap<String, Option<u64>> {
    let mut root = server.root().await.unwrap();
    // Kept by each server for itself.
    let tables: Vec<String> = root
        .query(
            "SELECT CONCAT('`', REPLACE(table_schema, '`', '``'), '`.`', REPLACE(table_name, '`', '``'), '`')
             FROM information_schema.tables
             WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('information_schema', 'performance_schema', 'sys')
                 AND NOT (table_schema = 'mysql' AND (table_name IN
                     ('gtid_executed', 'gtid_slave_pos', 'general_log', 'slow_log', 'plugin', 'component', 'engine_cost',
                      'server_cost', 'table_stats', 'column_stats', 'index_stats', 'global_priv')
                     OR table_name LIKE 'innodb%' OR table_name LIKE 'slave%' OR table_name LIKE 'replication%'))",
        )
        .await
        .unwrap();
    let mut sums = BTreeMap::new();
    for table in tables {
        let row: Row = root.query_first(format!("CHECKSUM TABLE {table}")).await.unwrap().unwrap();
        sums.insert(table, row.get::<Option<u64>, _>(1).flatten());
    }
    root.disconnect().await.unwrap();
    sums
}

/// Writes that the replica refused, as far as it tells.
async fn refusals(server: &Server) -> Vec<String> {
    let mut root: Conn = server.root().await.unwrap();
    let refused = match server.program().flavor {
        Flavor::MySql => {
            let numbers = REFUSED.map(|number| number.to_string()).join(", ");
            let statement = format!(
                "SELECT CONCAT(error_name, ': ', sum_error_raised)
                 FROM performance_schema.events_errors_summary_global_by_error
                 WHERE error_number IN ({numbers}) AND sum_error_raised > 0"
            );
            root.query(statement).await.unwrap()
        }
        Flavor::MariaDb => {
            let log = std::fs::read(server.data().join("sql_errors.log")).unwrap();
            let is_refusal =
                |line: &&str| REFUSED.iter().any(|number| line.contains(&format!("ERROR {number}:")));
            String::from_utf8_lossy(&log).lines().filter(is_refusal).map(str::to_owned).collect()
        }
    };
    root.disconnect().await.unwrap();
    refused
}

/// The checks find what they are for.
async fn what_is_wrong_is_noticed(flavor: Flavor) {
    let topology = Topology::start(Suite { name: "checks", flavor, arguments: &[] }, &[]).await;
    let sandbox = &topology.sandbox;
    let mut primary = sandbox.primary().root().await.unwrap();
    primary.query_drop("CREATE TABLE test.checked (a INT)").await.unwrap();
    assert_eq!(topology.faults().await, Vec::<String>::new());
    let mut replica = sandbox.replica().root().await.unwrap();
    replica.query_drop("START TRANSACTION READ ONLY").await.unwrap();
    replica.query_drop("INSERT INTO test.checked VALUES (1)").await.unwrap_err();
    replica.query_drop("ROLLBACK").await.unwrap();
    on_replica_alone(sandbox, "INSERT INTO test.checked VALUES (2)").await;
    on_replica_alone(sandbox, "CREATE TABLE test.extra (a INT)").await;
    let faults = topology.faults().await.join("; ");
    for fault in ["`test`.`checked` differs", "`test`.`extra` is extra", "the replica refused writes"] {
        assert!(faults.contains(fault), "{fault}: {faults}");
    }
    drop((primary, replica));
    topology.stop().await;
}
