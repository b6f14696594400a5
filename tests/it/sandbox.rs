//! Sandboxes: what they start, what can be done to their servers, and that nothing is left of them.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use ramsplit::sandbox::{Error, Flavor, Program, Sandbox, Server, Single};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{options, program, wait_until_gone};

#[tokio::test]
async fn mariadb_replicates_into_memory_and_leaves_nothing() {
    replicates_into_memory_and_leaves_nothing(Flavor::MariaDb).await;
}

#[tokio::test]
async fn mysql_replicates_into_memory_and_leaves_nothing() {
    replicates_into_memory_and_leaves_nothing(Flavor::MySql).await;
}

async fn replicates_into_memory_and_leaves_nothing(flavor: Flavor) {
    let sandbox = Sandbox::start(options(flavor)).await.unwrap();
    let directories = directories(&sandbox);
    assert!(directories[1].starts_with("/dev/shm"), "{directories:?}");

    // The primary is durable.
    let mut root = sandbox.primary().root().await.unwrap();
    let durable = "SELECT @@innodb_flush_log_at_trx_commit = 1 AND @@sync_binlog = 1 AND CONCAT(@@innodb_doublewrite) IN ('ON', '1') \
                   AND @@log_bin = 1 AND @@global.binlog_format = 'ROW'";
    assert_eq!(root.query_first(durable).await.unwrap(), Some(1));

    // What the application writes there is read from the replica, by the same account.
    let mut writer = application(&sandbox, sandbox.primary()).await;
    writer.query_drop("CREATE TABLE notes (id INT PRIMARY KEY, text VARCHAR(20))").await.unwrap();
    writer.query_drop("INSERT INTO notes VALUES (1, 'one'), (2, 'two')").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    let mut reader = application(&sandbox, sandbox.replica()).await;
    let rows: Vec<(i32, String)> = reader.query("SELECT * FROM notes ORDER BY id").await.unwrap();
    assert_eq!(rows, [(1, "one".to_owned()), (2, "two".to_owned())]);

    // The replica takes no writes, and root does not come in by TCP.
    let error = reader.query_drop("INSERT INTO notes VALUES (3, 'three')").await.unwrap_err();
    assert!(matches!(&error, mysql_async::Error::Server(error) if error.code == 1290), "{error}");
    for server in [sandbox.primary(), sandbox.replica()] {
        let by_tcp = mysql_async::OptsBuilder::from_opts(server.connect_options(sandbox.application()))
            .user(Some("root"))
            .pass(None::<&str>);
        Conn::new(by_tcp).await.unwrap_err();
    }

    // The monitor sees the replication.
    let mut monitor = Conn::new(sandbox.replica().connect_options(sandbox.monitor())).await.unwrap();
    let status = match flavor {
        Flavor::MySql => "SHOW REPLICA STATUS",
        Flavor::MariaDb => "SHOW SLAVE STATUS",
    };
    let row: mysql_async::Row = monitor.query_first(status).await.unwrap().unwrap();
    let port = ["Source_Port", "Master_Port"].into_iter().find_map(|name| row.get::<u16, _>(name));
    assert_eq!(port, Some(sandbox.primary().address().port()));

    sandbox.stop().await.unwrap();
    assert!(directories.iter().all(|directory| !directory.exists()), "{directories:?}");
    wait_until_gone(&directories).await;
}

#[tokio::test]
async fn mariadb_dropped_sandbox_leaves_nothing() {
    let sandbox = Sandbox::start(options(Flavor::MariaDb)).await.unwrap();
    let directories = directories(&sandbox);
    sandbox.replica().pause().await.unwrap();
    drop(sandbox);
    assert!(directories.iter().all(|directory| !directory.exists()), "{directories:?}");
    wait_until_gone(&directories).await;
}

#[tokio::test]
async fn mariadb_faults_and_their_ends() {
    faults_and_their_ends(Flavor::MariaDb).await;
}

#[tokio::test]
async fn mysql_faults_and_their_ends() {
    faults_and_their_ends(Flavor::MySql).await;
}

async fn faults_and_their_ends(flavor: Flavor) {
    let sandbox = Sandbox::start(options(flavor)).await.unwrap();
    let replica = sandbox.replica();
    let mut writer = application(&sandbox, sandbox.primary()).await;
    writer.query_drop("CREATE TABLE notes (id INT PRIMARY KEY)").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();

    // A paused server keeps its connections and does not answer; resumed, it does.
    let mut reader = application(&sandbox, replica).await;
    replica.pause().await.unwrap();
    {
        let mut answer = std::pin::pin!(reader.query_first::<u32, _>("SELECT 1"));
        let early = timeout(Duration::from_millis(300), &mut answer).await;
        assert!(early.is_err(), "{early:?}");
        replica.resume().unwrap();
        assert_eq!(answer.await.unwrap(), Some(1));
    }

    // A killed server is gone, and goes on where it was.
    replica.kill().await;
    assert_eq!(replica.pid(), None);
    assert!(matches!(replica.pause().await, Err(Error::NotRunning(_))));
    replica.root().await.unwrap_err();
    writer.query_drop("INSERT INTO notes VALUES (1)").await.unwrap();
    replica.start().await.unwrap();
    assert_eq!(notes(&sandbox).await, 1);

    // A stopped one as well; a paused one can be stopped.
    replica.pause().await.unwrap();
    replica.stop().await;
    assert_eq!(replica.pid(), None);
    replica.start().await.unwrap();

    // A wiped one is empty until it is joined again.
    replica.wipe().await.unwrap();
    replica.start().await.unwrap();
    let mut root = replica.root().await.unwrap();
    let schemas: Vec<String> = root.query("SHOW DATABASES LIKE 'demo'").await.unwrap();
    assert!(schemas.is_empty(), "{schemas:?}");
    sandbox.join_replica().await.unwrap();
    assert_eq!(notes(&sandbox).await, 1);
    sandbox.stop().await.unwrap();
}

/// Rows that the replica has when it has caught up.
async fn notes(sandbox: &Sandbox) -> u64 {
    sandbox.wait_for_replica().await.unwrap();
    let mut reader = application(sandbox, sandbox.replica()).await;
    reader.query_first("SELECT COUNT(*) FROM notes").await.unwrap().unwrap()
}

/// Exit code 16: the server asks to be started again.
#[tokio::test]
async fn mysql_restart_statement_brings_the_server_back() {
    let single = Single::start(options(Flavor::MySql)).await.unwrap();
    let before = single.server().pid().unwrap();
    let mut root = single.server().root().await.unwrap();
    // The answer may or may not come before the connection ends.
    let _ = root.query_drop("RESTART").await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let after = loop {
        assert!(Instant::now() < deadline, "the server does not come back");
        match (single.server().pid(), single.server().root().await) {
            (Some(pid), Ok(_)) if pid != before => break pid,
            _ => sleep(Duration::from_millis(50)).await,
        }
    };
    single.server().stop().await;
    assert!(!PathBuf::from(format!("/proc/{after}")).exists());
    single.stop().await.unwrap();
}

/// A program that starts the server as its child and waits for it.
#[tokio::test]
async fn mariadb_behind_a_script() {
    let script = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let server = program(Flavor::MariaDb).path;
    std::fs::write(&script, format!("#!/bin/sh\n{} \"$@\"\nexit $?\n", server.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = options(Flavor::MariaDb);
    options.program = Program::find(None, Some(&script)).unwrap();
    let single = Single::start(options).await.unwrap();
    let data = single.server().data();

    single.server().kill().await;
    assert_eq!(single.server().pid(), None);
    single.server().start().await.unwrap();
    let mut connection = Conn::new(single.server().connect_options(single.application())).await.unwrap();
    assert_eq!(connection.query_first("SELECT 1").await.unwrap(), Some(1));
    single.stop().await.unwrap();
    wait_until_gone(&[data]).await;
}

#[tokio::test]
async fn mariadb_too_little_memory_is_refused_before_anything_starts() {
    let mut options = options(Flavor::MariaDb);
    options.memory = 1 << 50;
    let parent = tempfile::tempdir_in("/var/tmp").unwrap();
    options.directory = Some(parent.path().join("new"));
    let error = Sandbox::start(options).await.unwrap_err();
    assert!(matches!(error, Error::TooLittleMemory { needed, .. } if needed > 1 << 50), "{error}");
    assert!(!parent.path().join("new").exists());
}

#[tokio::test]
async fn mariadb_disk_is_not_memory_and_memory_is_no_disk() {
    let mut on_disk = options(Flavor::MariaDb);
    on_disk.memory_directory = Some("/var/tmp".into());
    assert!(matches!(Sandbox::start(on_disk).await, Err(Error::NotInMemory(_))));
    let mut in_memory = options(Flavor::MariaDb);
    in_memory.directory = Some("/dev/shm/ramsplit-test-not-a-disk".into());
    assert!(matches!(Sandbox::start(in_memory).await, Err(Error::NotADisk(_))));
}

#[tokio::test]
async fn mariadb_failed_start_says_why_and_leaves_nothing() {
    let mut options = options(Flavor::MariaDb);
    options.arguments = vec!["--no-such-option".to_owned()];
    let parent = tempfile::tempdir_in("/var/tmp").unwrap();
    options.directory = Some(parent.path().join("new"));
    let error = Single::start(options).await.unwrap_err();
    assert!(matches!(&error, Error::Ended { log, .. } if log.contains("no-such-option")), "{error}");
    assert!(!parent.path().join("new").exists());
}

async fn application(sandbox: &Sandbox, server: &Server) -> Conn {
    let options = mysql_async::OptsBuilder::from_opts(server.connect_options(sandbox.application()));
    Conn::new(options.db_name(Some(Sandbox::SCHEMA))).await.unwrap()
}

fn directories(sandbox: &Sandbox) -> [PathBuf; 2] {
    [sandbox.directory().to_owned(), sandbox.memory().directory.clone()]
}
