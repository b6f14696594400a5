//! Where statements go: told by the metrics, and proven by a table whose one row names the server that
//! answered.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use ramsplit::config::{Consistency, RouteMode};
use ramsplit::sandbox::{Flavor, Sandbox};
use ramsplit::wire::Command;
use tokio::time::sleep;

use crate::bed::{
    WHERE, account, connect, create_user, on_both, on_replica_alone, own, shared, target, wait_until,
};
use crate::proxy::Proxy;
use crate::raw;

on_both!(
    statements_by_their_kind,
    transactions,
    read_only_transactions,
    the_next_transactions_isolation,
    autocommit_off,
    user_variables,
    user_variables_in_triggers,
    generated_ids_are_the_primarys,
    questions_about_the_last_statement,
    warnings_of_a_read_on_the_replica,
    errors_of_a_failed_statement,
    temporary_tables,
    temporary_tables_of_procedures,
    table_locks,
    default_schemas,
    settings_reach_the_replica,
    settings_of_the_whole_server,
    results_in_utf16,
    counters_of_the_session,
    system_schemas,
    settings_end_with_a_reset,
    unknown_settings_tie_the_session,
    prepared_statements_in_sql,
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
        ("SELEC 1", "primary unparsed"),
        ("SET @kinds = 1", "primary session_state"),
    ] {
        assert_eq!(proxy.route_of(&mut session, statement).await, route, "{statement}");
        // A write's session waits for the replica; that is another test's matter.
        sandbox.wait_for_replica().await.unwrap();
    }
    assert_eq!(target(&mut session).await, "replica");
    // What code that failed has done before is not known on MariaDB.
    for statement in ["SELECT no_such_function(1)", "CALL no_such_procedure()"] {
        assert_eq!(proxy.route_of(&mut session, statement).await, "primary unsafe_function", "{statement}");
    }
    let after = if flavor == Flavor::MySql { "replica" } else { "primary" };
    assert_eq!(target(&mut session).await, after);
}

async fn transactions(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for begin in ["BEGIN", "START TRANSACTION", "START TRANSACTION READ WRITE"] {
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

/// Whole on the replica, until a statement comes that must not run there.
async fn read_only_transactions(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut session = proxy.connect().await;
    let before = proxy.metrics().sum("ramsplit_queries_total", &[("route", "primary")]);
    for end in ["COMMIT", "ROLLBACK"] {
        assert_eq!(
            proxy.route_of(&mut session, "START TRANSACTION READ ONLY").await,
            "replica read_only_transaction"
        );
        assert_eq!(proxy.route_of(&mut session, WHERE).await, "replica read_only_transaction");
        session.query_drop("SAVEPOINT s").await.unwrap();
        session.query_drop("ROLLBACK TO SAVEPOINT s").await.unwrap();
        let found: Option<String> = session.exec_first(WHERE, ()).await.unwrap();
        assert_eq!(found.as_deref(), Some("replica"));
        assert_eq!(proxy.route_of(&mut session, end).await, "replica read_only_transaction");
        assert_eq!(proxy.route_of(&mut session, WHERE).await, "replica read");
    }
    assert_eq!(proxy.metrics().sum("ramsplit_queries_total", &[("route", "primary")]), before);

    session.query_drop("START TRANSACTION READ ONLY").await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
    let refused = session.query_drop("UPDATE here SET name = 'x'").await.unwrap_err();
    assert!(refused.to_string().contains("1792"), "{refused}");
    assert_eq!(proxy.route_of(&mut session, "SELECT @@version").await, "primary transaction");
    assert_eq!(target(&mut session).await, "replica");
    // It has a transaction on both servers now, and ends both.
    wait_for_transactions(&sandbox, 1).await;
    session.query_drop("COMMIT").await.unwrap();
    wait_for_transactions(&sandbox, 0).await;
    session.query_drop("UPDATE numbers SET n = n WHERE n = 1").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();

    // Another transaction ends it, and so does a statement that commits.
    for (statement, after) in
        [("BEGIN", "primary transaction"), ("CREATE TABLE IF NOT EXISTS unused (a INT)", "replica read")]
    {
        session.query_drop("START TRANSACTION READ ONLY").await.unwrap();
        assert_eq!(target(&mut session).await, "replica");
        session.query_drop(statement).await.unwrap();
        sandbox.wait_for_replica().await.unwrap();
        assert_eq!(proxy.route_of(&mut session, WHERE).await, after, "{statement}");
        session.query_drop("COMMIT").await.unwrap();
        wait_for_transactions(&sandbox, 0).await;
    }
}

/// Waits until the application has this many open transactions on the replica.
async fn wait_for_transactions(sandbox: &Sandbox, expected: u64) {
    let mut root = sandbox.replica().root().await.unwrap();
    let statement = "SELECT COUNT(*) FROM information_schema.innodb_trx t \
        JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.user = ?";
    let user = &sandbox.application().user;
    wait_until("transactions are as many", async || {
        // The servers do not look again while they are asked more often than every 100 ms.
        sleep(Duration::from_millis(150)).await;
        root.exec_first(statement, (user,)).await.unwrap() == Some(expected)
    })
    .await;
    root.disconnect().await.unwrap();
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

/// SET TRANSACTION without SESSION holds for one transaction, which must find it where it runs.
async fn the_next_transactions_isolation(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for set in ["SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET TRANSACTION READ ONLY"] {
        assert_eq!(target(&mut session).await, "replica");
        session.query_drop(set).await.unwrap();
        assert_eq!(proxy.route_of(&mut session, "START TRANSACTION").await, "primary transaction");
        assert_eq!(target(&mut session).await, "primary", "{set}");
        session.query_drop("COMMIT").await.unwrap();
        assert_eq!(target(&mut session).await, "replica", "{set}");
    }
    for set in
        ["SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"]
    {
        session.query_drop(set).await.unwrap();
        assert_eq!(target(&mut session).await, "replica", "{set}");
    }
}

async fn user_variables(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    let read = "SELECT name, CONCAT(COALESCE(@kept, 'NULL'), '') FROM here";
    let mut kept = async |set: &str| {
        session.query_drop(set).await.unwrap();
        session.query_first::<(String, String), _>(read).await.unwrap().unwrap()
    };
    // A literal can be said again on the replica; anything else only the primary knows.
    for (set, server, value) in [
        ("SET @other = 1", "primary", "NULL"),
        ("SET @kept = 7", "replica", "7"),
        ("SET @KEPT := -7.5, @other = 'x'", "replica", "-7.5"),
        ("SET @kept = 'x y'", "replica", "x y"),
        ("SET @kept = NULL", "replica", "NULL"),
        ("SET @kept = 3 + 4", "primary", "7"),
        ("SET @kept = 8", "replica", "8"),
        ("SELECT n INTO @kept FROM numbers WHERE n = 5", "primary", "5"),
        ("SET @kept = 9", "replica", "9"),
        ("SELECT @kept := 10", "primary", "10"),
        ("SET @kept = 'late'", "replica", "late"),
        // The text would be of another character set.
        ("SET NAMES latin1", "primary", "late"),
        ("SET @kept = 11", "replica", "11"),
        ("SET @kept = 12, @kept = 13", "replica", "13"),
    ] {
        assert_eq!(kept(set).await, (server.to_owned(), value.to_owned()), "{set}");
    }
    session.query_drop("SET @kept = 14").await.unwrap();
    let row: Option<(String, i64)> =
        session.exec_first("SELECT name, @kept + ? FROM here", (1,)).await.unwrap();
    assert_eq!(row, Some(("replica".to_owned(), 15)));
    // A failed statement says nothing of what it did before it failed.
    session.query_drop("SET @kept = 15, @other = no_such_function()").await.unwrap_err();
    assert_eq!(
        session.query_first::<String, _>("SELECT name FROM here WHERE @kept > 1").await.unwrap().as_deref(),
        Some("primary")
    );
    session.reset().await.unwrap();
    let after: Option<(String, String)> = session.query_first(read).await.unwrap();
    assert_eq!(after, Some(("primary".to_owned(), "NULL".to_owned())));
}

/// Code behind a statement may assign user variables, too.
async fn user_variables_in_triggers(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut root = sandbox.primary().root().await.unwrap();
    for statement in [
        "CREATE TABLE demo.fired (a INT PRIMARY KEY)",
        "CREATE TRIGGER demo.fire BEFORE INSERT ON demo.fired FOR EACH ROW SELECT NEW.a INTO @kept",
    ] {
        root.query_drop(statement).await.unwrap();
    }
    for (insert, succeeds) in
        [("INSERT INTO fired VALUES (1)", true), ("INSERT INTO fired VALUES (2), (1)", false)]
    {
        sandbox.wait_for_replica().await.unwrap();
        let mut session = proxy.connect().await;
        session.query_drop("SET @kept = 100").await.unwrap();
        let read = "SELECT name, @kept FROM here";
        assert_eq!(session.query_first(read).await.unwrap(), Some(("replica".to_owned(), 100)));
        assert_eq!(session.query_drop(insert).await.is_ok(), succeeds);
        sandbox.wait_for_replica().await.unwrap();
        assert_eq!(session.query_first(read).await.unwrap(), Some(("primary".to_owned(), 1)), "{insert}");
    }
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
    // Statements without rows in between.
    session.query_drop("SELECT SQL_CALC_FOUND_ROWS n FROM numbers LIMIT 1").await.unwrap();
    session.query_drop("SET @between = 1").await.unwrap();
    assert_eq!(session.query_first("SELECT FOUND_ROWS()").await.unwrap(), Some(1000));
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
        session.query_drop(statement).await.unwrap();
        assert_eq!(session.query_first("SELECT @@warning_count").await.unwrap(), Some(1));
    }
}

async fn temporary_tables(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    let prepared = session.prep(WHERE).await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
    // Of the name of a table that both servers have.
    session.query_drop("CREATE TEMPORARY TABLE here (name VARCHAR(20))").await.unwrap();
    session.query_drop("INSERT INTO here VALUES ('temporary')").await.unwrap();
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary temporary_table");
    assert_eq!(target(&mut session).await, "temporary");
    let found: Option<String> = session.exec_first(&prepared, ()).await.unwrap();
    assert_eq!(found.as_deref(), Some("temporary"));
    // Other tables are where they were.
    sandbox.wait_for_replica().await.unwrap();
    assert_eq!(proxy.route_of(&mut session, "SELECT n FROM numbers WHERE n = 1").await, "replica read");
    session.query_drop("ALTER TABLE here RENAME TO numbers").await.unwrap();
    assert_eq!(proxy.route_of(&mut session, "SELECT * FROM numbers").await, "primary temporary_table");
    session.query_drop("DROP TABLE numbers").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    assert_eq!(proxy.route_of(&mut session, "SELECT n FROM numbers WHERE n = 1").await, "replica read");
    session.reset().await.unwrap();
    wait_until("a reset makes it free", async || target(&mut session).await == "replica").await;
}

/// Temporary tables that no text names.
async fn temporary_tables_of_procedures(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut root = sandbox.primary().root().await.unwrap();
    for statement in [
        "CREATE PROCEDURE demo.hide() CREATE TEMPORARY TABLE demo.here (name CHAR(9) DEFAULT 'made')",
        "CREATE PROCEDURE demo.made() CREATE TEMPORARY TABLE demo.other SELECT 'made' AS name",
    ] {
        root.query_drop(statement).await.unwrap();
    }
    sandbox.wait_for_replica().await.unwrap();
    let mut session = proxy.connect().await;
    assert_eq!(target(&mut session).await, "replica");
    session.query_drop("CALL hide()").await.unwrap();
    session.query_drop("INSERT INTO here VALUES ()").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    assert_eq!(target(&mut session).await, "made");
    // Neither server says that this one was made; the replica does not have it.
    let mut session = proxy.connect().await;
    session.query_drop("CALL made()").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    assert_eq!(session.query_first("SELECT name FROM other").await.unwrap(), Some("made".to_owned()));
}

async fn table_locks(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut session = proxy.connect().await;
    for (lock, unlock) in [
        ("LOCK TABLES here READ", "UNLOCK TABLES"),
        ("LOCK TABLES here READ", "START TRANSACTION"),
        ("LOCK TABLES numbers WRITE, here WRITE", "UNLOCK TABLES"),
    ] {
        assert_eq!(target(&mut session).await, "replica");
        session.query_drop(lock).await.unwrap();
        assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary session_state", "{lock}");
        session.query_drop(unlock).await.unwrap();
        session.query_drop("COMMIT").await.unwrap();
        sandbox.wait_for_replica().await.unwrap();
        assert_eq!(target(&mut session).await, "replica", "{lock} {unlock}");
    }
    // Nobody reads what is being changed, wherever that is.
    let mut other = proxy.connect().await;
    session.query_drop("LOCK TABLES numbers WRITE, here WRITE").await.unwrap();
    session.query_drop("UPDATE numbers SET n = 10001 WHERE n = 1").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    let (changed, ()) =
        tokio::join!(other.query_first("SELECT COUNT(*) FROM numbers WHERE n > 10000"), async {
            sleep(Duration::from_millis(200)).await;
            session.query_drop("UPDATE numbers SET n = 10002 WHERE n = 2").await.unwrap();
            session.query_drop("UNLOCK TABLES").await.unwrap();
        });
    assert_eq!(changed.unwrap(), Some(2));
    session.query_drop("LOCK TABLES no_such_table WRITE").await.unwrap_err();
    sandbox.wait_for_replica().await.unwrap();
    assert_eq!(proxy.route_of(&mut other, WHERE).await, "replica read");
    // Tables that are not locked cannot be read.
    session.query_drop("LOCK TABLES numbers READ").await.unwrap();
    session.query_drop(WHERE).await.unwrap_err();
    session.query_drop("UNLOCK TABLES").await.unwrap();
    session.query_drop("SELECT GET_LOCK('a', 0)").await.unwrap();
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary session_state");
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
    for statement in [
        "CREATE DATABASE `sch\u{f6}n`",
        "CREATE TABLE `sch\u{f6}n`.here SELECT 'sch\u{f6}n' AS name",
        "GRANT ALL ON `sch\u{f6}n`.* TO app",
    ] {
        root.query_drop(statement).await.unwrap();
    }
    sandbox.wait_for_replica().await.unwrap();
    let statement = "SELECT DATABASE() = name, name FROM here";
    for charset in ["utf8mb4", "latin1"] {
        session.query_drop("USE elsewhere").await.unwrap();
        session.query_drop("SET NAMES utf8mb4").await.unwrap();
        session.query_drop("USE `sch\u{f6}n`").await.unwrap();
        session.query_drop(format!("SET NAMES {charset}")).await.unwrap();
        assert_eq!(proxy.route_of(&mut session, statement).await, "replica read", "{charset}");
        let row: Option<Row> = session.query_first(statement).await.unwrap();
        assert_eq!(row.unwrap().get::<u8, _>(0), Some(1), "{charset}");
    }
    session.query_drop("USE elsewhere").await.unwrap();
    assert_eq!(target(&mut session).await, "elsewhere");
    session.query_drop("USE demo").await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
    let reads = proxy.metrics().queries("replica", "read");
    assert_eq!(reads, 8.0);

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

/// What the proxy asks after a failed statement must not come between.
async fn errors_of_a_failed_statement(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for (failing, code) in [("INSERT INTO numbers VALUES (1)", 1062), ("CALL no_such_procedure()", 1305)] {
        for question in ["SHOW WARNINGS", "SHOW ERRORS"] {
            session.query_drop(failing).await.unwrap_err();
            let errors: Vec<(String, u16, String)> = session.query(question).await.unwrap();
            assert_eq!(
                errors.iter().map(|error| error.1).collect::<Vec<_>>(),
                [code],
                "{failing}; {question}"
            );
        }
        session.query_drop(failing).await.unwrap_err();
        assert_eq!(session.query_first("SELECT @@error_count").await.unwrap(), Some(1), "{failing}");
    }
    session.query_drop("SELECT SQL_CALC_FOUND_ROWS n, @a FROM numbers LIMIT 1").await.unwrap();
    session.query_drop("INSERT INTO numbers VALUES (1)").await.unwrap_err();
    session.query_drop("SET @between = 1").await.unwrap();
    assert_eq!(session.query_first("SELECT FOUND_ROWS()").await.unwrap(), Some(1000));
}

/// What a variable means for reads must be known.
async fn unknown_settings_tie_the_session(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    for set in ["SET rand_seed1 = 5", "SET ROLE NONE"] {
        let mut session = proxy.connect().await;
        assert_eq!(target(&mut session).await, "replica");
        session.query_drop(set).await.unwrap();
        assert_eq!(target(&mut session).await, "primary", "{set}");
        session.disconnect().await.unwrap();
        wait_until("the session ends", async || proxy.metrics().clients() == 0.0).await;
    }
}

async fn prepared_statements_in_sql(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
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

/// Sessions begin with what SET GLOBAL chose on the primary, and so do their reads on the replica.
async fn settings_of_the_whole_server(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut root = sandbox.primary().root().await.unwrap();
    for (setting, read, expected) in [
        ("time_zone = '+03:00'", "SELECT FROM_UNIXTIME(0)", "1970-01-01 03:00:00"),
        ("group_concat_max_len = 5", "SELECT GROUP_CONCAT(n ORDER BY n) FROM numbers", "1,2,3"),
        ("sql_mode = 'ANSI_QUOTES'", "SELECT \"name\" FROM here", "replica"),
        ("lc_time_names = 'de_DE'", "SELECT MONTHNAME('2026-12-01')", "Dezember"),
        ("div_precision_increment = 1", "SELECT 1 / 3", "0.3"),
        ("sql_select_limit = 2", "SELECT COUNT(*) FROM (SELECT 1) x, here", "1"),
        ("default_week_format = 3", "SELECT WEEK('2027-01-01')", "53"),
    ] {
        root.query_drop(format!("SET GLOBAL {setting}")).await.unwrap();
        let mut session = proxy.connect().await;
        let before = proxy.metrics().queries("replica", "read");
        let value: Option<String> = session.query_first(read).await.unwrap();
        assert_eq!(value.as_deref().map(|value| value.trim_end_matches(",")), Some(expected), "{setting}");
        assert_eq!(proxy.metrics().queries("replica", "read"), before + 1.0, "{setting}");
    }
    // No session can set this.
    let long = "SELECT LENGTH(REPEAT('x', 2000)), name FROM here";
    assert_eq!(proxy.route_of(&mut proxy.connect().await, long).await, "replica read");
    let root_by_proxy = account("superuser", "s3cret");
    create_user(&sandbox, &root_by_proxy.user, "IDENTIFIED BY 's3cret'").await;
    root.query_drop("GRANT ALL ON *.* TO superuser").await.unwrap();
    let mut setter = connect(proxy.address(), &root_by_proxy).await;
    setter.query_drop("SET GLOBAL max_allowed_packet = 1024").await.unwrap();
    let mut session = proxy.connect().await;
    let (length, name): (Option<u64>, String) = session.query_first(long).await.unwrap().unwrap();
    assert_eq!((length, name.as_str()), (None, "primary"));
    setter.query_drop("SET GLOBAL max_allowed_packet = 67108864").await.unwrap();
    assert_eq!(proxy.route_of(&mut proxy.connect().await, long).await, "replica read");
    root.query_drop("SET GLOBAL autocommit = 0").await.unwrap();
    let mut session = proxy.connect().await;
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary autocommit_off");
    session.query_drop("COMMIT").await.unwrap();
    session.query_drop("SET autocommit = 1").await.unwrap();
    assert_eq!(proxy.route_of(&mut session, WHERE).await, "replica read");
}

/// What the proxy asks for itself must not come in the client's character set.
async fn results_in_utf16(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| {
        config.wait = Duration::from_secs(5);
        config.consistency = Consistency::Global;
    })
    .await;
    let mut client = raw::log_in(proxy.address(), sandbox.application()).await;
    for statement in ["SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET character_set_results = utf16"] {
        client.set(statement.as_bytes(), raw::LIMIT).await.unwrap();
    }
    let name = client.ask(WHERE.as_bytes(), raw::LIMIT).await.unwrap();
    assert_eq!(name.as_deref(), Some(&b"\0r\0e\0p\0l\0i\0c\0a"[..]));
}

/// Whoever looks at them sees what the next statements do.
async fn counters_of_the_session(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    session.query_drop("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await.unwrap();
    session.query_drop("SHOW GLOBAL STATUS").await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
    let counted = "SHOW STATUS LIKE 'Com_select'";
    let count = async |session: &mut Conn| {
        let (_, count): (String, u64) = session.query_first(counted).await.unwrap().unwrap();
        count
    };
    let before = count(&mut session).await;
    for _ in 0..3 {
        assert_eq!(proxy.route_of(&mut session, WHERE).await, "primary session_state");
    }
    assert_eq!(count(&mut session).await, before + 3);
    session.reset().await.unwrap();
    assert_eq!(target(&mut session).await, "replica");
}

/// A server's own tables are not the replica's, by whatever name they are called.
async fn system_schemas(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    session.query_drop("USE information_schema").await.unwrap();
    let read = "SELECT COUNT(*) FROM tables";
    assert_eq!(proxy.route_of(&mut session, read).await, "primary server_state");
    assert_eq!(proxy.route_of(&mut session, "SELECT name FROM demo.here").await, "replica read");
}
