//! Routing rules and hints, on real servers, and `ramsplit route`, which tells beforehand what they will do.

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
use ramsplit::sandbox::{Flavor, Sandbox};
use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::bed::{WHERE, account, connect, create_user, on_both, own, shared, target, wait_until};
use crate::proxy::Proxy;
use crate::support::RAMSPLIT;

on_both!(
    rules_choose_the_server,
    rules_refuse,
    rules_go_by_user_and_client,
    hints_count_more,
    hints_that_are_not_understood,
    consistency_can_be_chosen,
    lag_can_be_limited,
);

/// A rules file that lasts as long as the value.
fn rules(text: &str) -> TempPath {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.into_temp_path()
}

async fn proxy_with(sandbox: &Sandbox, path: &Path) -> Proxy {
    Proxy::start_with(sandbox, |config| {
        config.rules = Some(path.to_owned());
        config.max_lag = Duration::from_secs(3600);
    })
    .await
}

fn hits(proxy: &Proxy, rule: &str) -> f64 {
    proxy.metrics().sum("ramsplit_rule_hits_total", &[("rule", rule)])
}

async fn rules_choose_the_server(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let file = rules(
        r#"
        [[rule]]
        name = "off"
        enabled = false
        route = "primary"

        [[rule]]
        name = "numbers"
        table = "demo.numb*"
        route = "primary"

        [[rule]]
        name = "everything"
        class = ["write", "read"]
        route = "replica"
        "#,
    );
    let proxy = proxy_with(sandbox, &file).await;
    let mut session = proxy.connect().await;
    // The driver's own question at the beginning is a read too.
    let before = hits(&proxy, "everything");
    for (statement, route) in [
        ("SELECT COUNT(*) FROM numbers", "primary rule"),
        (WHERE, "replica read"),
        ("UPDATE here SET name = 'primary' WHERE name = 'none'", "primary unsafe_hint"),
        ("SELECT name FROM here FOR UPDATE", "primary unsafe_hint"),
        ("SHOW TABLES", "primary server_state"),
    ] {
        assert_eq!(proxy.route_of(&mut session, statement).await, route, "{statement}");
    }
    for n in [1, 2] {
        session.exec_drop("SELECT n FROM numbers WHERE n = ?", (n,)).await.unwrap();
    }
    session.ping().await.unwrap();
    assert_eq!(proxy.metrics().queries("primary", "rule"), 3.0, "prepared ones too");
    assert_eq!((hits(&proxy, "off"), hits(&proxy, "numbers")), (0.0, 3.0));
    assert_eq!(hits(&proxy, "everything"), before + 3.0);
    // An open transaction is where it is.
    session.query_drop("BEGIN").await.unwrap();
    assert_eq!(target(&mut session).await, "primary");
    session.query_drop("ROLLBACK").await.unwrap();
}

async fn rules_refuse(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let file = rules(
        r#"
        [[rule]]
        name = "no ddl"
        class = "ddl"
        reject = "not here"

        [[rule]]
        name = "no scan"
        pattern = "FROM numbers$"
        reject = "by its key, please"
        "#,
    );
    let proxy = proxy_with(sandbox, &file).await;
    let mut session = proxy.connect().await;
    for (statement, message) in [
        ("CREATE TABLE refused (a INT)", "not here"),
        ("SELECT * FROM numbers", "by its key, please"),
        ("DROP TABLE no_such_table", "not here"),
    ] {
        let told = session.query_drop(statement).await.unwrap_err();
        assert_eq!(server_error(told), (1644, "45000".to_owned(), message.to_owned()));
    }
    let prepared = session.exec_drop("SELECT * FROM numbers", ()).await.unwrap_err();
    assert_eq!(server_error(prepared).0, 1644);
    assert_eq!(target(&mut session).await, "replica", "the session lives on");
    let kept: Option<u32> = session.query_first("SELECT n FROM numbers WHERE n = 7").await.unwrap();
    assert_eq!(kept, Some(7));
    assert_eq!((hits(&proxy, "no ddl"), hits(&proxy, "no scan")), (2.0, 2.0));
    let tables: Vec<String> = session.query("SHOW TABLES LIKE 'refused'").await.unwrap();
    assert_eq!(tables, Vec::<String>::new());
}

async fn rules_go_by_user_and_client(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let file = rules(
        r#"
        [[rule]]
        name = "far"
        client = "10.0.0.0/8"
        route = "primary"

        [[rule]]
        name = "reports"
        user = "report*"
        client = ["127.0.0.0/8", "::1"]
        route = "primary"
        "#,
    );
    let proxy = proxy_with(sandbox, &file).await;
    let reporter = account("reporter", "s3cret");
    create_user(sandbox, &reporter.user, "IDENTIFIED BY 's3cret'").await;
    let mut reports = connect(proxy.address(), &reporter).await;
    let before = hits(&proxy, "reports");
    assert_eq!(target(&mut reports).await, "primary");
    assert_eq!(target(&mut proxy.connect().await).await, "replica");
    assert_eq!((hits(&proxy, "far"), hits(&proxy, "reports")), (0.0, before + 1.0));
}

async fn hints_count_more(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let file = rules("[[rule]]\nname = \"all\"\nclass = \"read\"\nroute = \"primary\"\n");
    let proxy = proxy_with(sandbox, &file).await;
    let mut session = proxy.connect().await;
    for (statement, route) in [
        (WHERE, "primary rule"),
        ("/* ramsplit: replica */ SELECT name FROM here", "replica read"),
        ("/* ramsplit: primary */ SELECT name FROM here", "primary hint"),
        ("/* ramsplit: replica */ DELETE FROM here WHERE name = 'none'", "primary unsafe_hint"),
        ("SELECT /* ramsplit: replica */ name FROM here", "primary rule"),
    ] {
        assert_eq!(proxy.route_of(&mut session, statement).await, route, "{statement}");
        sandbox.wait_for_replica().await.unwrap();
    }
    let prepared = "/* ramsplit: replica */ SELECT name FROM here";
    let found: Option<String> = session.exec_first(prepared, ()).await.unwrap();
    assert_eq!(found.as_deref(), Some("replica"));
}

async fn hints_that_are_not_understood(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    let misread = "/* ramsplit: primary, and quickly */ SELECT name FROM here";
    assert_eq!(proxy.route_of(&mut session, misread).await, "replica read");
    assert_eq!(proxy.metrics().sum("ramsplit_hints_misread_total", &[]), 1.0);
}

/// What a read must see, and how long it may wait for it, while the replica applies nothing.
async fn consistency_can_be_chosen(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let file = rules(
        r#"
        [[rule]]
        name = "stale"
        table = "stale"
        consistency = "eventual"

        [[rule]]
        name = "everybody's"
        table = "everybodys"
        consistency = "global"
        "#,
    );
    let proxy = Proxy::start_with(&sandbox, |config| {
        config.rules = Some(file.to_path_buf());
        config.max_lag = Duration::from_secs(3600);
        config.wait = Duration::ZERO;
    })
    .await;
    let mut session = proxy.connect().await;
    let mut other = proxy.connect().await;
    for table in ["stale", "own", "everybodys"] {
        session.query_drop(format!("CREATE TABLE {table} (n INT)")).await.unwrap();
        session.query_drop(format!("INSERT INTO {table} VALUES (1)")).await.unwrap();
    }
    sandbox.wait_for_replica().await.unwrap();
    for session in [&mut session, &mut other] {
        assert_eq!(target(session).await, "replica");
    }
    let mut replica = sandbox.replica().root().await.unwrap();
    hold(&mut replica, true).await;
    for table in ["stale", "own", "everybodys"] {
        session.query_drop(format!("UPDATE {table} SET n = 2")).await.unwrap();
    }
    for (who, table, hint, n, route) in [
        ("writer", "stale", "", 1, "replica read"),
        ("writer", "own", "", 2, "primary replica_behind"),
        ("writer", "own", "/* ramsplit: consistency=eventual */ ", 1, "replica read"),
        ("writer", "stale", "/* ramsplit: consistency=session */ ", 2, "primary replica_behind"),
        ("writer", "own", "/* ramsplit: wait=50ms */ ", 2, "primary replica_behind"),
        ("other", "own", "", 1, "replica read"),
        ("other", "everybodys", "", 2, "primary replica_behind"),
        ("other", "own", "/* ramsplit: consistency=global */ ", 2, "primary replica_behind"),
    ] {
        let session = if who == "writer" { &mut session } else { &mut other };
        let read = format!("{hint}SELECT n FROM {table}");
        assert_eq!(proxy.route_of(session, &read).await, route, "{read}");
        assert_eq!(session.query_first(&read).await.unwrap(), Some(n), "{read}");
    }
    // A read that may wait gets what it must see from the replica, when that has it.
    let waiting = "/* ramsplit: wait=30s */ SELECT own.n, name FROM own, here";
    let (row, ()) = tokio::join!(session.query_first(waiting), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        hold(&mut replica, false).await;
    });
    let row: Option<(u32, String)> = row.unwrap();
    assert_eq!(row, Some((2, "replica".to_owned())));
}

async fn lag_can_be_limited(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let file = rules(
        "[[rule]]\nname = \"fresh\"\ntable = \"here\"\nconsistency = \"eventual\"\nmax_lag = \"500ms\"\n\n\
         [[rule]]\nname = \"any\"\ntable = \"numbers\"\nconsistency = \"eventual\"\n",
    );
    let proxy = proxy_with(&sandbox, &file).await;
    let mut session = proxy.connect().await;
    // Servers tell it in whole seconds, and of what made this sandbox one may be left.
    wait_until("no lag is left", async || proxy.route_of(&mut session, WHERE).await == "replica read").await;
    let mut replica = sandbox.replica().root().await.unwrap();
    hold(&mut replica, true).await;
    session.query_drop("UPDATE numbers SET n = 1001 WHERE n = 1").await.unwrap();
    wait_until("the replica lags", async || proxy.metrics().sum("ramsplit_replica_lag_seconds", &[]) >= 1.0)
        .await;
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary replica_lagging");
    assert_eq!(proxy.route_of(&mut session, "SELECT COUNT(*) FROM numbers").await, "replica read");
    hold(&mut replica, false).await;
}

/// The replica applies nothing, or goes on, by a lock: its replication keeps running.
async fn hold(replica: &mut Conn, on: bool) {
    replica.query_drop(if on { "FLUSH TABLES WITH READ LOCK" } else { "UNLOCK TABLES" }).await.unwrap();
}

fn server_error(error: Error) -> (u16, String, String) {
    match error {
        Error::Server(error) => (error.code, error.state, error.message),
        other => panic!("{other}"),
    }
}

async fn route(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(RAMSPLIT)
        .arg("route")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    child.wait_with_output().await.unwrap()
}

async fn route_json(arguments: &[&str], input: &str) -> Vec<Value> {
    let output = route(&[&["--json"], arguments].concat(), input).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn the_command_prints_one_object_a_statement() {
    let input = "SELECT COUNT(a) FROM shop.t JOIN u\n\n  UPDATE t SET a = f(1)\nSELECT NEXTVAL(s)\n";
    let explained = route_json(&[], input).await;
    let keys: Vec<_> = explained[0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["class", "digest", "functions", "reason", "rule", "tables", "target"]);
    let of = |at: usize, key: &str| explained[at][key].clone();
    assert_eq!(explained.len(), 3);
    assert_eq!(
        (of(0, "class"), of(0, "target"), of(0, "reason")),
        ("read".into(), "replica".into(), "read".into())
    );
    assert_eq!(of(0, "tables"), serde_json::json!(["u", "shop.t"]));
    assert_eq!(of(0, "functions"), serde_json::json!(["count"]));
    assert_eq!(of(0, "rule"), Value::Null);
    assert_eq!(
        (of(1, "class"), of(1, "target"), of(1, "reason")),
        ("write".into(), "primary".into(), "write".into())
    );
    assert_eq!((of(2, "target"), of(2, "reason")), ("primary".into(), "unsafe_function".into()));
    let again = route_json(&["SELECT COUNT(a) FROM shop.t JOIN u"], "").await;
    assert_eq!(again, [explained[0].clone()]);
    assert_eq!(route_json(&["-"], "SELECT 1").await.len(), 1);
}

#[tokio::test]
async fn the_command_reads_as_the_server_would() {
    let target = async |arguments: &[&str]| route_json(arguments, "").await[0]["target"].clone();
    let ansi = "SELECT \"a\" FROM t WHERE b = '\\' OR f(1) OR '";
    assert_eq!(target(&[ansi]).await, "replica", "a string hides the call");
    assert_eq!(target(&["--sql-mode", "ANSI,NO_BACKSLASH_ESCAPES", ansi]).await, "primary");
    let sequence = "SELECT LASTVAL(s)";
    let reason = async |flavor| route_json(&["--flavor", flavor, sequence], "").await[0]["reason"].clone();
    assert_eq!(
        (reason("mysql").await, reason("mariadb").await),
        ("unsafe_function".into(), "unsafe_function".into())
    );
    let newer = "SELECT ST_POINTATDISTANCE(p, 1) FROM t";
    assert_eq!(target(&["--server-version", "8.0.23", newer]).await, "primary");
    assert_eq!(target(&["--server-version", "8.0.24", newer]).await, "replica");
    assert_eq!(target(&["--flavor", "mariadb", newer]).await, "primary", "it has no such function");
}

#[tokio::test]
async fn the_command_follows_rules_and_says_what_is_wrong_with_them() {
    let file = rules("[[rule]]\nname = \"mine\"\nuser = \"me\"\nschema = \"s\"\nreject = \"go away\"\n");
    let path = file.to_str().unwrap();
    let mine = route_json(&["--rules", path, "--user", "me", "--schema", "s", "SELECT 1 FROM t"], "").await;
    assert_eq!((&mine[0]["rule"], &mine[0]["target"]), (&"mine".into(), &"none".into()));
    assert_eq!(mine[0]["reason"], "rejected");
    let others = route_json(&["--rules", path, "--schema", "s", "SELECT 1 FROM t"], "").await;
    assert_eq!((&others[0]["rule"], &others[0]["target"]), (&Value::Null, &"replica".into()));
    let text = String::from_utf8(
        route(&["--rules", path, "--user", "me", "--schema", "s", "SELECT 1"], "").await.stdout,
    );
    assert!(text.unwrap().contains("go away"));

    let wrong = rules("[[rule]]\nname = \"a\"\nroute = \"nowhere\"\n");
    let output = route(&["--rules", wrong.to_str().unwrap(), "SELECT 1"], "").await;
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && errors.contains("line 3: rule[0].route") && errors.contains("1 fault"),
        "{errors}"
    );
}

#[tokio::test]
async fn the_example_is_what_the_command_explains() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/rules.toml");
    let explained = route_json(
        &["--rules", path, "--client", "10.1.2.3", "--user", "report_1"],
        "SELECT 1 FROM payments\nALTER TABLE t ADD a INT\nSELECT 1 FROM t\n",
    )
    .await;
    let rules: Vec<_> = explained.iter().map(|one| one["rule"].as_str().unwrap_or("-")).collect();
    assert_eq!(rules, ["payments", "no ddl from the web", "reports"]);
}
