//! Where statements go: told by the metrics, and proven by a table whose one row names the server that
//! answered.

use mysql_async::prelude::Queryable;
use mysql_async::{Row, Value};
use ramsplit::config::RouteMode;
use ramsplit::sandbox::Flavor;
use ramsplit::wire::Command;

use crate::bed::{WHERE, connect, on_both, on_replica_alone, own, shared, target, wait_until};
use crate::proxy::Proxy;
use crate::raw;

on_both!(
    statements_by_their_kind,
    transactions,
    autocommit_off,
    user_variables,
    generated_ids_are_the_primarys,
    questions_about_the_last_statement,
    warnings_of_a_read_on_the_replica,
    temporary_tables,
    default_schemas,
    settings_reach_the_replica,
    settings_end_with_a_reset,
    unknown_settings_tie_the_session,
    prepared_statements,
    everything_to_the_primary,
    a_replica_that_fails,
);

async fn statements_by_their_kind(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    session.query_drop("CREATE TABLE kinds (id INT PRIMARY KEY AUTO_INCREMENT, a INT)").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    for (statement, route) in [
        (WHERE, "replica read"),
        ("/* a comment */ select NAME from `here`", "replica read"),
        ("(SELECT name FROM here) UNION ALL (SELECT 'x')", "replica read"),
        ("WITH w AS (SELECT n FROM numbers) SELECT COUNT(*) FROM w", "replica read"),
        ("SELECT NOW(), CONCAT('a', 1), (SELECT MAX(n) FROM numbers)", "replica read"),
        ("SELECT no_such_column FROM here", "primary retry_after_replica_error"),
        ("SELECT name FROM here FOR UPDATE", "primary locking_read"),
        ("SELECT name FROM here LOCK IN SHARE MODE", "primary locking_read"),
        ("SELECT no_such_function(1)", "primary unsafe_function"),
        ("SELECT SLEEP(0)", "primary unsafe_function"),
        ("SELECT @@server_id", "primary session_state"),
        ("SELECT COUNT(*) FROM information_schema.tables", "primary server_state"),
        ("SELECT user FROM mysql.user", "primary server_state"),
        ("SHOW TABLES", "primary server_state"),
        ("EXPLAIN SELECT 1", "primary server_state"),
        ("DESCRIBE here", "primary server_state"),
        ("INSERT INTO kinds (a) VALUES (1)", "primary write"),
        ("UPDATE kinds SET a = 2", "primary write"),
        ("DELETE FROM kinds", "primary write"),
        ("SELECT 1 INTO @kinds", "primary user_variable"),
        ("ALTER TABLE kinds ADD b INT", "primary ddl"),
        ("CALL no_such_procedure()", "primary unsafe_function"),
        ("SELEC 1", "primary unparsed"),
        ("SET @kinds = 1", "primary session_state"),
    ] {
        assert_eq!(proxy.route_of(&mut session, statement).await, route, "{statement}");
        // A write's session waits for the replica; that is another test's matter.
        sandbox.wait_for_replica().await.unwrap();
    }
    assert_eq!(target(&mut session).await, "replica");
}

async fn transactions(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for begin in ["BEGIN", "START TRANSACTION", "START TRANSACTION READ ONLY"] {
        for end in ["COMMIT", "ROLLBACK"] {
            assert_eq!(target(&mut session).await, "replica");
            session.query_drop(begin).await.unwrap();
            assert_eq!(target(&mut session).await, "primary");
            assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary transaction");
            session.query_drop("SAVEPOINT s").await.unwrap();
            session.query_drop("ROLLBACK TO SAVEPOINT s").await.unwrap();
            assert_eq!(target(&mut session).await, "primary");
            session.query_drop(end).await.unwrap();
        }
    }
    session.query_drop("BEGIN").await.unwrap();
    session.query_drop("COMMIT AND CHAIN").await.unwrap();
    assert_eq!(target(&mut session).await, "primary");
    session.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
}

async fn autocommit_off(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    session.query_drop("SET autocommit = 0").await.unwrap();
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary autocommit_off");
    // The first read began a transaction.
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary transaction");
    session.query_drop("COMMIT").await.unwrap();
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary autocommit_off");
    session.query_drop("SET autocommit = 1").await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
}

async fn user_variables(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    session.query_drop("SET @kept = 7").await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
    let row: Option<(String, i64)> = session.query_first("SELECT name, @kept FROM here").await.unwrap();
    assert_eq!(row, Some(("primary".to_owned(), 7)));
    session.query_drop("SELECT n INTO @kept FROM numbers WHERE n = 5").await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
    let row: Option<(String, i64)> = session.query_first("SELECT name, @kept + 1 FROM here").await.unwrap();
    assert_eq!(row, Some(("primary".to_owned(), 6)));
}

async fn generated_ids_are_the_primarys(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    session
        .query_drop("CREATE TABLE ids (id INT PRIMARY KEY AUTO_INCREMENT) AUTO_INCREMENT = 41")
        .await
        .unwrap();
    session.query_drop("INSERT INTO ids VALUES (NULL)").await.unwrap();
    assert_eq!(session.last_insert_id(), Some(41));
    sandbox.wait_for_replica().await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
    let row: Option<(String, u64)> =
        session.query_first("SELECT name, LAST_INSERT_ID() FROM here").await.unwrap();
    assert_eq!(row, Some(("primary".to_owned(), 41)));
}

async fn questions_about_the_last_statement(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    // On the replica.
    session.query_drop("SELECT SQL_CALC_FOUND_ROWS n FROM numbers LIMIT 1").await.unwrap();
    assert_eq!(proxy.metrics().queries("replica", "read"), 1.0);
    assert_eq!(proxy.route_of(&mut session, "SELECT ROW_COUNT()").await, "replica last_result");
    session.query_drop("SELECT SQL_CALC_FOUND_ROWS n FROM numbers LIMIT 1").await.unwrap();
    assert_eq!(session.query_first("SELECT FOUND_ROWS()").await.unwrap(), Some(1000));
    // On the primary.
    session.query_drop("SELECT SQL_CALC_FOUND_ROWS n, @a FROM numbers WHERE n > 10 LIMIT 1").await.unwrap();
    assert_eq!(session.query_first("SELECT FOUND_ROWS()").await.unwrap(), Some(990));
    session.query_drop("CREATE TABLE counted (a INT)").await.unwrap();
    session.query_drop("INSERT INTO counted VALUES (1), (2), (3)").await.unwrap();
    assert_eq!(session.query_first("SELECT ROW_COUNT()").await.unwrap(), Some(3));
}

async fn warnings_of_a_read_on_the_replica(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for (statement, server) in [
        ("SELECT name, CAST('x1' AS SIGNED) FROM here", "replica"),
        ("SELECT name, CAST('x2' AS SIGNED), @a FROM here", "primary"),
    ] {
        let row: Option<Row> = session.query_first(statement).await.unwrap();
        assert_eq!(row.unwrap().get::<String, _>(0).as_deref(), Some(server));
        assert_eq!(session.get_warnings(), 1);
        let warnings: Vec<(String, u16, String)> = session.query("SHOW WARNINGS").await.unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].1, 1292);
        let value = if server == "replica" { "x1" } else { "x2" };
        assert!(warnings[0].2.contains(value), "{warnings:?}");
        let count: Option<Row> = session.query_first("SHOW COUNT(*) WARNINGS").await.unwrap();
        assert_eq!(count.unwrap().get::<u64, _>(0), Some(1));
    }
}

async fn temporary_tables(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    assert_eq!(target(&mut session).await, "replica");
    // Of the name of a table that both servers have.
    session.query_drop("CREATE TEMPORARY TABLE here (name VARCHAR(20))").await.unwrap();
    session.query_drop("INSERT INTO here VALUES ('temporary')").await.unwrap();
    assert_eq!(target(&mut session).await, "temporary");
    session.query_drop("DROP TEMPORARY TABLE here").await.unwrap();
    assert_eq!(target(&mut session).await, "primary");
    session.reset().await.unwrap();
    wait_until("a reset makes it free", async || target(&mut session).await == "replica").await;
}

async fn default_schemas(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut root = sandbox.primary().root().await.unwrap();
    for statement in [
        "CREATE DATABASE elsewhere",
        "CREATE TABLE elsewhere.here SELECT 'elsewhere' AS name",
        "GRANT ALL ON elsewhere.* TO app",
    ] {
        root.query_drop(statement).await.unwrap();
    }
    sandbox.wait_for_replica().await.unwrap();
    let mut session = proxy.connect().await;
    assert_eq!(target(&mut session).await, "replica");
    session.query_drop("USE elsewhere").await.unwrap();
    assert_eq!(target(&mut session).await, "elsewhere");
    session.query_drop("USE no_such_schema").await.unwrap_err();
    assert_eq!(target(&mut session).await, "elsewhere");
    session.query_drop("USE demo").await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
    let reads = proxy.metrics().queries("replica", "read");
    assert_eq!(reads, 4.0);

    let mut client = raw::log_in(proxy.address(), sandbox.application()).await;
    for (schema, answer) in
        [("elsewhere", &b"elsewhere"[..]), ("demo", b"replica"), ("elsewhere", b"elsewhere")]
    {
        raw::send(&mut client, Command::COM_INIT_DB, schema.as_bytes()).await;
        assert_eq!(raw::receive(&mut client).await.first(), Some(&0));
        let found = client.ask(WHERE.as_bytes(), raw::LIMIT).await.unwrap();
        assert_eq!(found.as_deref(), Some(answer));
    }
}

async fn settings_reach_the_replica(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for (set, question, answer) in [
        ("SET NAMES latin1", "CHARSET('a')", "latin1"),
        ("SET NAMES utf8mb4 COLLATE utf8mb4_bin", "COLLATION('a')", "utf8mb4_bin"),
        ("SET NAMES latin1 COLLATE latin1_bin, @v = 1", "COLLATION('a')", "latin1_bin"),
        ("SET sql_mode = '', NAMES utf8mb4 COLLATE utf8mb4_bin", "COLLATION('a')", "utf8mb4_bin"),
        ("SET CHARACTER SET latin1", "CHARSET('a')", "utf8mb4"),
        ("SET NAMES utf8mb4", "CHARSET('a')", "utf8mb4"),
        ("SET collation_connection = latin1_german2_ci", "COLLATION('a')", "latin1_german2_ci"),
        ("SET NAMES utf8mb4", "CHARSET('a')", "utf8mb4"),
        ("SET time_zone = '+05:30'", "TIMEDIFF(NOW(), UTC_TIMESTAMP())", "05:30:00"),
        ("SET time_zone = '-03:00'", "FROM_UNIXTIME(0)", "1969-12-31 21:00:00"),
        ("SET sql_mode = 'PIPES_AS_CONCAT'", "'a' || 'b'", "ab"),
        ("SET sql_mode = ''", "'1' || '0'", "1"),
        ("SET sql_mode = 'ANSI_QUOTES'", "\"name\"", "replica"),
        ("SET sql_mode = ''", "\"name\"", "name"),
        ("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", r"LENGTH('\n')", "2"),
        ("SET sql_mode = DEFAULT", r"LENGTH('\n')", "1"),
        (
            "SET SESSION group_concat_max_len = 8",
            "(SELECT GROUP_CONCAT(n ORDER BY n) FROM numbers)",
            "1,2,3,4,",
        ),
        ("SET group_concat_max_len = 10, div_precision_increment = 2", "1 / 3", "0.33"),
        ("SET @@session.lc_time_names = 'de_DE'", "DAYNAME('2026-12-01')", "Dienstag"),
        ("SET default_week_format = 1", "WEEK('2026-01-04')", "1"),
        ("SET sql_select_limit = 1", "(SELECT COUNT(*) FROM numbers)", "1000"),
    ] {
        session.query_drop(set).await.unwrap();
        let statement = format!("SELECT here.name, CONCAT({question}) FROM here");
        let row: Option<(String, String)> = session.query_first(&statement).await.unwrap();
        assert_eq!(row, Some(("replica".to_owned(), answer.to_owned())), "{set}; {statement}");
    }
    let rows: Vec<u32> = session.query("SELECT n FROM numbers").await.unwrap();
    assert_eq!(rows.len(), 1, "sql_select_limit");
}

async fn settings_end_with_a_reset(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    session.query_drop("SET sql_mode = 'PIPES_AS_CONCAT', time_zone = '+05:30'").await.unwrap();
    let statement = "SELECT name, '1' || '0', TIMEDIFF(NOW(), UTC_TIMESTAMP()) <> '00:00:00' FROM here";
    let row: Option<(String, String, bool)> = session.query_first(statement).await.unwrap();
    assert_eq!(row, Some(("replica".to_owned(), "10".to_owned(), true)));
    assert!(session.reset().await.unwrap());
    let row: Option<(String, String)> =
        session.query_first("SELECT name, '1' || '0' FROM here").await.unwrap();
    assert_eq!(row, Some(("replica".to_owned(), "1".to_owned())));
}

/// MariaDB's trackers are silent about `SET @@x`, even beside settings that they report.
#[tokio::test]
async fn mariadb_settings_that_are_not_reported() {
    let sandbox = shared(Flavor::MariaDb).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    session.query_drop("CREATE PROCEDURE quiet() SET @@time_zone = '+05:30'").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    for (set, question, answer) in [
        ("SET @@sql_mode = 'PIPES_AS_CONCAT', time_zone = '+02:00'", "'a' || 'b'", "ab"),
        ("SET time_zone = '+02:00', @@`sql_mode` = 'PIPES_AS_CONCAT'", "'a' || 'b'", "ab"),
        ("SET @@lc_time_names = 'de_DE'", "DAYNAME('2026-12-01')", "Dienstag"),
        ("CALL quiet()", "TIMEDIFF(NOW(), UTC_TIMESTAMP())", "05:30:00"),
        ("EXECUTE IMMEDIATE 'SET @@time_zone = \"+05:30\"'", "TIMEDIFF(NOW(), UTC_TIMESTAMP())", "05:30:00"),
        ("BEGIN NOT ATOMIC SET @@time_zone = '+05:30'; END", "TIMEDIFF(NOW(), UTC_TIMESTAMP())", "05:30:00"),
    ] {
        let mut session = proxy.connect().await;
        assert_eq!(target(&mut session).await, "replica");
        session.query_drop(set).await.unwrap();
        let row: Option<(String, String)> =
            session.query_first(format!("SELECT here.name, CONCAT({question}) FROM here")).await.unwrap();
        assert_eq!(row, Some(("primary".to_owned(), answer.to_owned())), "{set}");
    }
}

/// What a variable means for reads must be known.
async fn unknown_settings_tie_the_session(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    for set in ["SET rand_seed1 = 5", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET ROLE NONE"] {
        let mut session = proxy.connect().await;
        assert_eq!(target(&mut session).await, "replica");
        session.query_drop(set).await.unwrap();
        assert_eq!(target(&mut session).await, "primary", "{set}");
        session.disconnect().await.unwrap();
        wait_until("the session ends", async || proxy.metrics().clients() == 0.0).await;
    }
}

async fn prepared_statements(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for id in [3, 4] {
        let row: Option<(String, u32)> =
            session.exec_first("SELECT name, n FROM here, numbers WHERE n = ?", (id,)).await.unwrap();
        assert_eq!(row, Some(("primary".to_owned(), id)));
    }
    assert_eq!(proxy.metrics().queries("primary", "prepared"), 2.0);
    session.query_drop("PREPARE p FROM 'SELECT name FROM here WHERE ? = 1'").await.unwrap();
    session.query_drop("SET @one = 1").await.unwrap();
    assert_eq!(session.query_first("EXECUTE p USING @one").await.unwrap(), Some("primary".to_owned()));
    assert_eq!(proxy.route_of(&mut session, "EXECUTE p USING @one").await, "primary session_state");
}

async fn everything_to_the_primary(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| config.route = RouteMode::Primary).await;
    let mut session = proxy.connect().await;
    assert_eq!(target(&mut session).await, "primary");
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary forced");
    // The client's own session tracking is untouched by the proxy's.
    let tracked: Option<Value> =
        session.query_first("SELECT @@session_track_system_variables").await.unwrap();
    let mut direct = connect(sandbox.primary().address(), sandbox.application()).await;
    assert_eq!(tracked, direct.query_first("SELECT @@session_track_system_variables").await.unwrap());
    assert_eq!(proxy.metrics().sum("ramsplit_queries_total", &[("route", "replica")]), 0.0);
}

/// No read fails, whatever happens to the replica, and reads come back to it by themselves.
async fn a_replica_that_fails(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let replica = sandbox.replica();
    let mut session = proxy.connect().await;

    // What the replica refuses is not the client's answer.
    session.query_drop("CREATE TABLE lost SELECT 42 AS answer").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    on_replica_alone(&sandbox, "DROP TABLE demo.lost").await;
    wait_until("the replica serves", async || target(&mut session).await == "replica").await;
    assert_eq!(session.query_first("SELECT answer FROM lost").await.unwrap(), Some(42));
    assert_eq!(
        proxy.route_of(&mut session, "SELECT answer FROM lost").await,
        "primary retry_after_replica_error"
    );

    for fault in ["stop", "pause", "kill"] {
        assert_eq!(target(&mut session).await, "replica", "before {fault}");
        match fault {
            "stop" => replica.stop().await,
            "pause" => replica.pause().await.unwrap(),
            _ => replica.kill().await,
        }
        // At once, when the proxy cannot know yet, and when it does.
        assert_eq!(target(&mut session).await, "primary", "after {fault}");
        assert_eq!(target(&mut proxy.connect().await).await, "primary", "a new session after {fault}");
        wait_until("the proxy knows", async || !proxy.replica_is_up()).await;
        assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary replica_down");
        match fault {
            "pause" => replica.resume().unwrap(),
            _ => replica.start().await.unwrap(),
        }
        wait_until("reads are back", async || target(&mut session).await == "replica").await;
    }
    sandbox.stop().await.unwrap();
}
