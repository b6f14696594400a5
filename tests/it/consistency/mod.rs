//! A session reads what it wrote, however far the replica is.

mod checker;
pub(crate) mod history;

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use ramsplit::sandbox::{Flavor, Sandbox};
use tokio::task::JoinSet;

use crate::bed::{WHERE, on_both, own, shared, target, wait_until};
use crate::proxy::Proxy;
use crate::raw;

on_both!(
    text_after_text,
    text_after_prepared,
    prepared_after_prepared,
    writes_that_the_replica_lacks,
    a_replica_that_applies_nothing,
);

/// Pairs of a write and a read of it; by as many sessions at a time, so that their commits share the disk's
/// time.
const PAIRS: u32 = 10_000;
const SESSIONS: u32 = 20;

async fn text_after_text(flavor: Flavor) {
    pairs(flavor, "text_pairs", false, false).await;
}

async fn text_after_prepared(flavor: Flavor) {
    pairs(flavor, "mixed_pairs", true, false).await;
}

async fn prepared_after_prepared(flavor: Flavor) {
    pairs(flavor, "prepared_pairs", true, true).await;
}

async fn pairs(flavor: Flavor, table: &'static str, prepared_write: bool, prepared_read: bool) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| config.wait = Duration::ZERO).await;
    let mut session = proxy.connect().await;
    session.query_drop(format!("CREATE TABLE {table} (id INT PRIMARY KEY, n INT NOT NULL)")).await.unwrap();
    for id in 0..SESSIONS {
        session.query_drop(format!("INSERT INTO {table} VALUES ({id}, 0)")).await.unwrap();
    }
    let mut sessions = JoinSet::new();
    for id in 0..SESSIONS {
        let mut session = proxy.connect().await;
        sessions.spawn(async move {
            for n in 1..=PAIRS / SESSIONS {
                let write = format!("UPDATE {table} SET n = {n} WHERE id = {id}");
                if prepared_write {
                    let statement = format!("UPDATE {table} SET n = ? WHERE id = ?");
                    session.exec_drop(statement, (n, id)).await.unwrap();
                } else {
                    session.query_drop(write).await.unwrap();
                }
                let found: Option<u32> = if prepared_read {
                    session.exec_first(format!("SELECT n FROM {table} WHERE id = ?"), (id,)).await.unwrap()
                } else {
                    session.query_first(format!("SELECT n FROM {table} WHERE id = {id}")).await.unwrap()
                };
                assert_eq!(found, Some(n), "session {id}");
            }
            (id, session)
        });
    }
    for (id, mut session) in sessions.join_all().await {
        // When the replica has come so far, it serves the session again, and has all of it.
        wait_until("reads are on the replica", async || target(&mut session).await == "replica").await;
        let found: Option<u32> =
            session.query_first(format!("SELECT n FROM {table} WHERE id = {id}")).await.unwrap();
        assert_eq!(found, Some(PAIRS / SESSIONS));
    }
    assert_eq!(proxy.metrics().queries("primary", "retry_after_replica_error"), 0.0);
}

/// Every way to write, each in a session whose reads went to the replica before. The replica is held back by a
/// lock on the one table that is written: it serves, and whatever is not known to be written reads stale.
async fn writes_that_the_replica_lacks(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start_with(&sandbox, |config| {
        config.max_lag = Duration::from_secs(3600);
        config.wait = Duration::ZERO;
    })
    .await;
    create_routines(&sandbox).await;
    let flavored = if flavor == Flavor::MariaDb { MARIADB_WRITES } else { &[] };
    let mut sessions = Vec::new();
    for write in WRITES.iter().chain(flavored) {
        sessions.push((*write, reader(&proxy).await));
    }
    let mut failing = Vec::new();
    for write in FAILING_WRITES {
        failing.push((*write, reader(&proxy).await));
    }
    let mut preparing = reader(&proxy).await;
    let mut plain = raw::log_in_with_eof(proxy.address(), sandbox.application()).await;
    assert_eq!(plain.ask(WHERE.as_bytes(), raw::LIMIT).await.unwrap().as_deref(), Some(&b"replica"[..]));
    let mut lock = sandbox.replica().root().await.unwrap();
    lock.query_drop("LOCK TABLES demo.writes READ").await.unwrap();
    let mut expected = 0;
    for (write, mut session) in sessions {
        assert_eq!(target(&mut session).await, "replica");
        for statement in write {
            session.query_drop(*statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        expected += 1;
        assert_eq!(number(&mut session).await, expected, "{write:?}");
        assert_eq!(target(&mut session).await, "primary", "{write:?}");
        // Nor does a reset let it forget.
        session.reset().await.unwrap();
        assert_eq!(number(&mut session).await, expected, "{write:?}, and a reset");
    }
    // Errors tell nothing of what was written before.
    for (write, mut session) in failing {
        assert_eq!(target(&mut session).await, "replica");
        session.query_drop(write).await.unwrap_err();
        expected += 1;
        assert_eq!(number(&mut session).await, expected, "{write}");
    }
    // Nor do EOF packets.
    for write in ["SELECT raised()", "CALL raise()"] {
        plain.ask(write.as_bytes(), raw::LIMIT).await.unwrap();
        expected += 1;
        let found = plain.ask(b"SELECT n FROM writes", raw::LIMIT).await.unwrap().unwrap();
        assert_eq!(found, expected.to_string().as_bytes(), "{write}");
    }
    // The same by a prepared statement of the binary protocol.
    assert_eq!(target(&mut preparing).await, "replica");
    preparing.exec_drop("UPDATE writes SET n = n + ?", (1,)).await.unwrap();
    expected += 1;
    assert_eq!(number(&mut preparing).await, expected);
    assert!(proxy.metrics().queries("primary", "replica_behind") > 0.0);

    lock.query_drop("UNLOCK TABLES").await.unwrap();
    wait_until("the replica has caught up", async || target(&mut preparing).await == "replica").await;
    assert_eq!(number(&mut preparing).await, expected);
    sandbox.stop().await.unwrap();
}

/// A replica that applies nothing takes no reads at all, and is back when it applies again.
async fn a_replica_that_applies_nothing(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start_with(&sandbox, |config| config.wait = Duration::ZERO).await;
    create_routines(&sandbox).await;
    let word = if flavor == Flavor::MySql { "REPLICA" } else { "SLAVE" };
    let mut session = proxy.connect().await;
    let mut root = sandbox.replica().root().await.unwrap();
    root.query_drop(format!("STOP {word} SQL_THREAD")).await.unwrap();
    for expected in 1..=100 {
        session.query_drop("UPDATE writes SET n = n + 1").await.unwrap();
        assert_eq!(number(&mut session).await, expected);
        assert_eq!(target(&mut session).await, "primary");
    }
    wait_until("the proxy knows", async || !proxy.replica_is_up()).await;
    assert_eq!(target(&mut proxy.connect().await).await, "primary");
    root.query_drop(format!("START {word} SQL_THREAD")).await.unwrap();
    wait_until("the replica has caught up", async || target(&mut session).await == "replica").await;
    assert_eq!(number(&mut session).await, 100);
    sandbox.stop().await.unwrap();
}

/// A session whose reads go to the replica.
async fn reader(proxy: &Proxy) -> Conn {
    let mut session = proxy.connect().await;
    assert_eq!(target(&mut session).await, "replica");
    session
}

/// A table with one number, and routines that raise it.
async fn create_routines(sandbox: &Sandbox) {
    let mut root = sandbox.primary().root().await.unwrap();
    for statement in [
        "USE demo",
        "CREATE TABLE writes (id INT PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO writes VALUES (1, 0)",
        "CREATE TABLE fires (a INT)",
        "CREATE TRIGGER fire AFTER INSERT ON fires FOR EACH ROW UPDATE writes SET n = n + 1",
        "CREATE PROCEDURE raise() UPDATE writes SET n = n + 1",
        "CREATE PROCEDURE raise_and_tell() BEGIN UPDATE writes SET n = n + 1; SELECT n FROM writes; END",
        "CREATE FUNCTION raised() RETURNS INT DETERMINISTIC MODIFIES SQL DATA \
         BEGIN UPDATE writes SET n = n + 1; RETURN 1; END",
        "CREATE PROCEDURE raise_and_fail() BEGIN UPDATE writes SET n = n + 1; SIGNAL SQLSTATE '45000'; END",
    ] {
        root.query_drop(statement).await.unwrap();
    }
    sandbox.wait_for_replica().await.unwrap();
}

async fn number(session: &mut Conn) -> u32 {
    session.query_first("SELECT n FROM writes").await.unwrap().unwrap()
}

const UPDATE: &str = "UPDATE writes SET n = n + 1";

/// Ways to raise the number by one.
const WRITES: &[&[&str]] = &[
    &[UPDATE],
    &["update\nwrites as w set w.n = w.n + 1 where exists (select 1)"],
    &["/* SELECT */ UPDATE writes SET n = n + 1 -- a comment"],
    &["/*!50000 UPDATE writes SET n = n + 1 */"],
    &["INSERT INTO writes VALUES (1, 0) ON DUPLICATE KEY UPDATE n = n + 1"],
    &["REPLACE INTO writes SELECT 1, n + 1 FROM (SELECT n FROM writes) AS w"],
    &["INSERT INTO fires VALUES (1)"],
    &["BEGIN", UPDATE, "COMMIT"],
    &["START TRANSACTION", "SELECT n FROM writes", UPDATE, "SELECT n FROM writes", "COMMIT"],
    &["BEGIN", "SAVEPOINT s", UPDATE, "ROLLBACK TO s", UPDATE, "COMMIT"],
    &["BEGIN", UPDATE, "CREATE TABLE IF NOT EXISTS implied (a INT)"],
    &["BEGIN", UPDATE, "BEGIN", "ROLLBACK"],
    &["SET autocommit = 0", UPDATE, "COMMIT", "SET autocommit = 1"],
    &["SET autocommit = 0", UPDATE, "SET autocommit = 1"],
    &["SELECT 1; UPDATE writes SET n = n + 1"],
    &["UPDATE writes SET n = n + 1; SELECT 1"],
    &["UPDATE writes SET n = n + 1; UPDATE writes SET n = n - 1; UPDATE writes SET n = n + 1"],
    &["BEGIN; UPDATE writes SET n = n + 1; COMMIT"],
    &["SET @a = 1; UPDATE writes SET n = n + @a"],
    &["CALL raise()"],
    &["CALL raise_and_tell()"],
    &["SELECT raised()"],
    &["SELECT `raised` ()"],
    &["DO raised()"],
    &["SET @a = raised()"],
    &["PREPARE p FROM 'UPDATE writes SET n = n + ?'", "SET @one = 1", "EXECUTE p USING @one"],
    &["LOCK TABLES writes WRITE", UPDATE, "UNLOCK TABLES"],
    &["XA START 'x'", UPDATE, "XA END 'x'", "XA COMMIT 'x' ONE PHASE"],
    &["XA START 'y'", UPDATE, "XA END 'y'", "XA PREPARE 'y'", "XA COMMIT 'y'"],
];

/// Those that end with an error all the same.
const FAILING_WRITES: &[&str] = &[
    "CALL raise_and_fail()",
    "UPDATE writes SET n = n + 1; SELECT no_such_column FROM writes",
    "UPDATE writes SET n = n + 1; SELEC 1",
];

/// Those that only MariaDB has.
const MARIADB_WRITES: &[&[&str]] = &[
    &["INSERT INTO writes VALUES (1, 0) ON DUPLICATE KEY UPDATE n = n + 1 RETURNING n"],
    &["REPLACE INTO writes SELECT 1, n + 1 FROM (SELECT n FROM writes) AS w RETURNING id"],
    &["BEGIN NOT ATOMIC UPDATE writes SET n = n + 1; END"],
    &["EXECUTE IMMEDIATE 'UPDATE writes SET n = n + 1'"],
    &["SET STATEMENT max_statement_time = 10 FOR UPDATE writes SET n = n + 1"],
    &["/*M! UPDATE writes SET n = n + 1 */"],
    &["ANALYZE UPDATE writes SET n = n + 1"],
];
