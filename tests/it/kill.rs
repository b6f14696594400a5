//! KILL by every id that a client can know, and Ctrl-C in the command-line clients.

use std::path::PathBuf;
use std::process::Stdio;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use ramsplit::sandbox::{Flavor, Sandbox, Server};
use ramsplit::wire::Command;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinHandle;

use crate::bed::{
    account, connect, create_user, on_both, shared, target, threads_of, wait_for_no_statement,
    wait_for_statement, wait_until,
};
use crate::proxy::Proxy;
use crate::raw;
use crate::support::program;

on_both!(
    a_query_on_the_replica,
    a_query_on_the_primary,
    a_session_that_reads_on_the_replica,
    a_session_that_waits_on_the_primary,
    an_idle_session,
    an_idle_session_by_command,
    a_session_by_its_id_at_the_server,
    only_ones_own_sessions,
    no_such_session,
    control_c_while_the_replica_reads,
    control_c_while_the_primary_reads,
);

/// The servers' words for a killed statement.
const INTERRUPTED: u16 = 1317;

async fn a_query_on_the_replica(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let victim = proxy.connect().await;
    let id = victim.id();
    let running = run(victim, certain_read("query_on_replica"));
    wait_for_statement(sandbox.replica(), "query_on_replica").await;
    let mut killer = proxy.connect().await;
    killer.query_drop(format!("KILL QUERY {id}")).await.unwrap();
    let (mut victim, error) = running.await.unwrap();
    assert_eq!(server_code(&error), INTERRUPTED);
    wait_for_no_statement(sandbox.replica(), "query_on_replica").await;
    assert_eq!(target(&mut victim).await, "replica", "the session lives on");
    assert_eq!(proxy.metrics().queries("primary", "retry_after_replica_error"), 0.0);
}

async fn a_query_on_the_primary(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let victim = proxy.connect().await;
    let id = victim.id();
    let running = run(victim, read_on_primary("query_on_primary"));
    wait_for_statement(sandbox.primary(), "query_on_primary").await;
    let mut killer = proxy.connect().await;
    killer.query_drop(format!("kill /* now */ query {id}")).await.unwrap();
    let (mut victim, error) = running.await.unwrap();
    assert_eq!(server_code(&error), INTERRUPTED);
    assert_eq!(target(&mut victim).await, "replica", "the session lives on");
}

async fn a_session_that_reads_on_the_replica(flavor: Flavor) {
    a_session_that_runs(flavor, Sandbox::replica, certain_read("session_on_replica"), "session_on_replica")
        .await;
}

async fn a_session_that_waits_on_the_primary(flavor: Flavor) {
    a_session_that_runs(
        flavor,
        Sandbox::primary,
        read_on_primary("session_on_primary"),
        "session_on_primary",
    )
    .await;
}

async fn a_session_that_runs(
    flavor: Flavor,
    server: fn(&Sandbox) -> &Server,
    statement: String,
    marker: &'static str,
) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let user = account(&marker.replace("session", "victim"), "s3cret");
    create_user(sandbox, &user.user, "IDENTIFIED BY 's3cret'").await;
    let victim = connect(proxy.address(), &user).await;
    let id = victim.id();
    let running = run(victim, statement);
    wait_for_statement(server(sandbox), marker).await;
    let mut killer = connect(proxy.address(), &user).await;
    killer.query_drop(format!("KILL {id}")).await.unwrap();
    let (mut victim, _) = running.await.unwrap();
    victim.query_drop("SELECT 1").await.unwrap_err();
    wait_for_no_statement(server(sandbox), marker).await;
    killer.disconnect().await.unwrap();
    wait_until_gone(&proxy, sandbox, &user.user).await;
}

async fn an_idle_session(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let user = account("idle", "s3cret");
    create_user(sandbox, &user.user, "IDENTIFIED BY 's3cret'").await;
    let mut victim = connect(proxy.address(), &user).await;
    assert_eq!(target(&mut victim).await, "replica", "it has a connection to each server");
    let mut killer = connect(proxy.address(), &user).await;
    killer.query_drop(format!("KILL CONNECTION {}", victim.id())).await.unwrap();
    killer.disconnect().await.unwrap();
    wait_until_gone(&proxy, sandbox, &user.user).await;
    victim.query_drop("SELECT 1").await.unwrap_err();
}

/// COM_PROCESS_KILL, the deprecated command that KILL stands for.
async fn an_idle_session_by_command(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut victim = proxy.connect().await;
    let mut killer = raw::log_in(proxy.address(), sandbox.application()).await;
    raw::send(&mut killer, Command::COM_PROCESS_KILL, &victim.id().to_le_bytes()).await;
    assert_eq!(raw::receive(&mut killer).await.first(), Some(&0));
    wait_until("the session ends", async || proxy.metrics().clients() == 1.0).await;
    victim.query_drop("SELECT 1").await.unwrap_err();
    assert!(raw::is_alive(&mut killer).await);
}

/// The id that SHOW PROCESSLIST and CONNECTION_ID() tell.
async fn a_session_by_its_id_at_the_server(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut victim = proxy.connect().await;
    let id: u32 = victim.query_first("SELECT CONNECTION_ID()").await.unwrap().unwrap();
    let mut killer = proxy.connect().await;
    let listed: Vec<mysql_async::Row> = killer.query("SHOW PROCESSLIST").await.unwrap();
    assert!(listed.iter().any(|row| row.get::<u32, _>(0) == Some(id)), "{id} is not in {listed:?}");
    killer.query_drop(format!("KILL {id}")).await.unwrap();
    wait_until("the session ends", async || proxy.metrics().clients() == 1.0).await;
    victim.query_drop("SELECT 1").await.unwrap_err();
}

async fn only_ones_own_sessions(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let stranger = account("outsider", "s3cret");
    create_user(sandbox, &stranger.user, "IDENTIFIED BY 's3cret'").await;
    let mut owner = proxy.connect().await;
    let mut killer = connect(proxy.address(), &stranger).await;
    for what in ["QUERY", "CONNECTION"] {
        let error = killer.query_drop(format!("KILL {what} {}", owner.id())).await.unwrap_err();
        assert_eq!(server_code(&error), 1095, "{error}");
    }
    owner.ping().await.unwrap();

    // Nor a read on the replica.
    let id = owner.id();
    let running = run(owner, certain_read("not_my_read"));
    wait_for_statement(sandbox.replica(), "not_my_read").await;
    for what in ["QUERY", "CONNECTION"] {
        let error = killer.query_drop(format!("KILL {what} {id}")).await.unwrap_err();
        assert_eq!(server_code(&error), 1095, "{error}");
    }
    wait_for_statement(sandbox.replica(), "not_my_read").await;
    proxy.connect().await.query_drop(format!("KILL QUERY {id}")).await.unwrap();
    assert_eq!(server_code(&running.await.unwrap().1), INTERRUPTED);
}

async fn no_such_session(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut direct = connect(sandbox.primary().address(), sandbox.application()).await;
    let mut killer = proxy.connect().await;
    for id in [4_000_000_000_u32, 2_000_000_000] {
        for what in ["", "QUERY "] {
            let statement = format!("KILL {what}{id}");
            let expected = direct.query_drop(&statement).await.unwrap_err();
            assert_eq!(server_code(&expected), 1094);
            let error = killer.query_drop(&statement).await.unwrap_err();
            assert_eq!(error.to_string(), expected.to_string());
        }
    }
}

async fn control_c_while_the_replica_reads(flavor: Flavor) {
    control_c(flavor, Sandbox::replica, certain_read("interrupted_replica"), "interrupted_replica").await;
}

async fn control_c_while_the_primary_reads(flavor: Flavor) {
    control_c(flavor, Sandbox::primary, read_on_primary("interrupted_primary"), "interrupted_primary").await;
}

/// The client opens a second connection then, and kills the statement by the id in its greeting.
async fn control_c(flavor: Flavor, server: fn(&Sandbox) -> &Server, statement: String, marker: &str) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let account = sandbox.application();
    let client = tokio::process::Command::new(client_program(flavor))
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
        .arg(format!("--port={}", proxy.address().port()))
        .arg(format!("--user={}", account.user))
        .args(["-e", &statement, Sandbox::SCHEMA])
        .env("MYSQL_PWD", account.password.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("the command-line client of {flavor} is needed: {error}"));
    let pid = Pid::from_raw(client.id().unwrap().cast_signed()).unwrap();
    wait_for_statement(server(sandbox), marker).await;
    kill_process(pid, Signal::INT).unwrap();
    let output = client.wait_with_output().await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("ERROR 1317 (70100)"), "{output:?}");
    wait_for_no_statement(server(sandbox), marker).await;
    wait_until("the sessions end", async || proxy.metrics().clients() == 0.0).await;
}

/// A read of hours that goes to the replica, with `marker` in its text.
fn certain_read(marker: &str) -> String {
    format!(
        "SELECT '{marker}', COUNT(*) FROM numbers a, numbers b, numbers c, numbers d WHERE a.n + b.n + c.n + d.n = 0"
    )
}

/// The same for the primary.
fn read_on_primary(marker: &str) -> String {
    certain_read(marker).replace("SELECT", "SELECT @a,")
}

/// Runs a statement that is to fail, and gives the session and the error.
fn run(mut session: Conn, statement: String) -> JoinHandle<(Conn, mysql_async::Error)> {
    tokio::spawn(async move {
        let error = session.query_drop(statement).await.unwrap_err();
        (session, error)
    })
}

fn server_code(error: &mysql_async::Error) -> u16 {
    match error {
        mysql_async::Error::Server(error) => error.code,
        other => panic!("{other}"),
    }
}

/// Waits until neither proxy nor servers have a session of `user`.
async fn wait_until_gone(proxy: &Proxy, sandbox: &Sandbox, user: &str) {
    wait_until("the session ends everywhere", async || {
        proxy.metrics().clients() == 0.0
            && proxy.metrics().backends() == 0.0
            && threads_of(sandbox.primary(), user).await == 0
            && threads_of(sandbox.replica(), user).await == 0
    })
    .await;
}

/// MySQL's client lies beside its server, MariaDB's is on PATH.
fn client_program(flavor: Flavor) -> PathBuf {
    match flavor {
        Flavor::MariaDb => "mariadb".into(),
        Flavor::MySql => {
            let beside = program(flavor).path.with_file_name("mysql");
            if beside.exists() { beside } else { "mysql".into() }
        }
    }
}
