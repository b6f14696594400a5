//! mysql_async: `query_*` sends text, `exec_*` prepares on the server and keeps the statement.

use mysql_async::prelude::Queryable;
use mysql_async::{
    ChangeUserOpts, Conn, IsolationLevel, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, Row, TxOpts,
    Value,
};

use super::{TABLES, Target, Transcript, WRONG, digest};

const COUNT: &str = "SELECT COUNT(*) FROM items WHERE v LIKE 'tx%'";

pub(crate) async fn run(target: &Target, seen: &mut Transcript) {
    let mut conn = Conn::new(options(target)).await.unwrap();
    seen.note("server", conn.server_version());
    for statement in TABLES.split("\n\n") {
        conn.query_drop(statement).await.unwrap();
    }
    types(&mut conn, seen).await;
    writes(&mut conn, seen).await;
    altered(&mut conn, seen).await;
    transactions(&mut conn, seen).await;
    errors(&mut conn, seen).await;
    results(&mut conn, seen).await;
    session(&mut conn, target, seen).await;
    conn.disconnect().await.unwrap();
    reads(target, seen).await;
}

fn options(target: &Target) -> OptsBuilder {
    OptsBuilder::from_opts(Opts::default())
        .ip_or_hostname(&target.host)
        .tcp_port(target.port)
        .user(Some(&target.user))
        .pass(Some(&target.password))
        .db_name(Some(&target.schema))
        // By default the driver asks a server on this machine for its Unix socket, and goes there.
        .prefer_socket(false)
}

async fn types(conn: &mut Conn, seen: &mut Transcript) {
    let rows: Vec<Row> = conn.query("SELECT * FROM typed ORDER BY id").await.unwrap();
    let columns = rows[0].columns_ref().iter();
    seen.note("columns", columns.map(|c| (c.name_str(), c.column_type(), c.flags())).collect::<Vec<_>>());
    seen.note("text", rows);
    for id in [1, 2, 3, 3, 1] {
        let row: Option<Row> = conn.exec_first("SELECT * FROM typed WHERE id = ?", (id,)).await.unwrap();
        seen.note("prepared", row);
    }
    let values = [
        Value::from(1),
        i64::MIN.into(),
        u64::MAX.into(),
        1.5.into(),
        "it's \\ \u{1f600}".into(),
        Value::NULL,
        true.into(),
        Value::Date(2026, 1, 2, 3, 4, 5, 678),
        Value::Time(true, 1, 2, 3, 4, 5),
        Value::from(&[0_u8, 255][..]),
        "".into(),
    ];
    let echo = conn.prep("SELECT ?, n FROM numbers WHERE n = ?").await.unwrap();
    for value in values {
        let row: Option<Row> = conn.exec_first(&echo, (value, 1)).await.unwrap();
        seen.note("parameter", row);
    }
    conn.close(echo).await.unwrap();
}

async fn writes(conn: &mut Conn, seen: &mut Transcript) {
    for statement in [
        "INSERT INTO items (v) VALUES ('one')",
        "INSERT INTO items (v) VALUES ('two'), ('three')",
        "UPDATE items SET v = 'same' WHERE id < 3",
        "UPDATE items SET v = 'same' WHERE id < 4",
        "DELETE FROM items WHERE id = 3",
    ] {
        conn.query_drop(statement).await.unwrap();
        seen.note(statement, (conn.affected_rows(), conn.last_insert_id(), conn.info().into_owned()));
    }
    let mut stale = 0;
    for n in 0..200 {
        let wanted = Some(format!("v{n}"));
        conn.exec_drop("INSERT INTO items (v) VALUES (?)", (&wanted,)).await.unwrap();
        let id = conn.last_insert_id().unwrap();
        let prepared = conn.exec_first("SELECT v FROM items WHERE id = ?", (id,)).await.unwrap();
        let text = conn.query_first(format!("SELECT v FROM items WHERE id = {id}")).await.unwrap();
        stale += u32::from(prepared != wanted) + u32::from(text != wanted);
    }
    seen.note("stale reads", stale);
    let long: Vec<u8> = (0..=250).cycle().take(2 * 1024 * 1024).collect();
    conn.exec_drop("INSERT INTO files VALUES (1, ?)", (long,)).await.unwrap();
    let data: Option<Vec<u8>> = conn.exec_first("SELECT data FROM files WHERE id = ?", (1,)).await.unwrap();
    seen.note("long", digest(&data.unwrap()));
}

async fn altered(conn: &mut Conn, seen: &mut Transcript) {
    let all = conn.prep("SELECT * FROM items WHERE id = ?").await.unwrap();
    for alter in ["DO 0", "ALTER TABLE items ADD extra INT DEFAULT 7"] {
        conn.query_drop(alter).await.unwrap();
        let rows: Vec<Row> = conn.exec(&all, (1,)).await.unwrap();
        seen.note(alter, rows);
    }
}

async fn transactions(conn: &mut Conn, seen: &mut Transcript) {
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::Serializable] {
        let mut options = TxOpts::default();
        options.with_isolation_level(level);
        let mut transaction = conn.start_transaction(options.clone()).await.unwrap();
        transaction.exec_drop("INSERT INTO items (v) VALUES (?)", ("tx1",)).await.unwrap();
        transaction.query_drop("SAVEPOINT here").await.unwrap();
        transaction.exec_drop("INSERT INTO items (v) VALUES (?)", ("tx2",)).await.unwrap();
        seen.note("inside", transaction.query_first::<u32, _>(COUNT).await.unwrap());
        transaction.query_drop("ROLLBACK TO SAVEPOINT here").await.unwrap();
        transaction.commit().await.unwrap();
        seen.note("committed", conn.query_first::<u32, _>(COUNT).await.unwrap());
        let mut transaction = conn.start_transaction(options).await.unwrap();
        transaction.exec_drop("DELETE FROM items WHERE v LIKE ?", ("tx%",)).await.unwrap();
        transaction.rollback().await.unwrap();
        seen.note("rolled back", conn.exec_first::<u32, _, _>(COUNT, ()).await.unwrap());
    }
    let mut options = TxOpts::default();
    options.with_readonly(true);
    let mut transaction = conn.start_transaction(options).await.unwrap();
    seen.note("read only", transaction.exec_first::<u32, _, _>(COUNT, ()).await.unwrap());
    seen.note("read only", transaction.query_drop("DELETE FROM items").await.unwrap_err().to_string());
    transaction.commit().await.unwrap();
}

async fn errors(conn: &mut Conn, seen: &mut Transcript) {
    for wrong in WRONG {
        seen.note("text", conn.query_drop(wrong).await.unwrap_err().to_string());
        seen.note("prepared", conn.exec_drop(wrong, ()).await.unwrap_err().to_string());
    }
    conn.query_drop("SELECT CAST('x1' AS SIGNED)").await.unwrap();
    seen.note("warnings", conn.get_warnings());
    seen.note("warnings", conn.query::<Row, _>("SHOW WARNINGS").await.unwrap());
}

async fn results(conn: &mut Conn, seen: &mut Transcript) {
    let text = "SELECT 1; UPDATE items SET v = 'm' WHERE id = 1; SELECT v FROM items WHERE id = 1; CALL two_results(5)";
    let mut results = conn.query_iter(text).await.unwrap();
    while !results.is_empty() {
        seen.note("multi", results.collect::<Row>().await.unwrap());
    }
    drop(results);
    let mut results = conn.exec_iter("CALL two_results(?)", (5,)).await.unwrap();
    while !results.is_empty() {
        seen.note("call", results.collect::<Row>().await.unwrap());
    }
    drop(results);
    conn.exec_drop("CALL twice(?, @b)", (21,)).await.unwrap();
    seen.note("out", conn.query_first::<u32, _>("SELECT @b").await.unwrap());
    for n in 0..500 {
        let statement = conn.prep(format!("SELECT v FROM items WHERE id = ? AND {n} >= 0")).await.unwrap();
        conn.exec_drop(&statement, (2,)).await.unwrap();
        conn.close(statement).await.unwrap();
    }
}

async fn session(conn: &mut Conn, target: &Target, seen: &mut Transcript) {
    conn.query_drop("USE information_schema").await.unwrap();
    seen.note("schema", conn.query_first::<String, _>("SELECT DATABASE()").await.unwrap());
    let user = ChangeUserOpts::default()
        .with_user(Some(target.user.clone()))
        .with_pass(Some(target.password.clone()))
        .with_db_name(Some(target.schema.clone()));
    conn.change_user(user).await.unwrap();
    seen.note("changed user", conn.query_first::<Row, _>("SELECT DATABASE(), @b").await.unwrap());
    conn.query_drop("SET @b = 1").await.unwrap();
    conn.reset().await.unwrap();
    conn.ping().await.unwrap();
    let row: Option<Row> =
        conn.exec_first("SELECT @b, COUNT(*) FROM items WHERE id < ?", (9,)).await.unwrap();
    seen.note("reset", row);
    seen.note("reset", conn.query_first::<Row, _>("SELECT @@autocommit, @@sql_mode").await.unwrap());
}

async fn reads(target: &Target, seen: &mut Transcript) {
    let constraints = PoolConstraints::new(1, 2).unwrap();
    let pool_options = PoolOpts::default().with_constraints(constraints).with_reset_connection(true);
    let options = options(target)
        .pool_opts(pool_options)
        .init(vec!["SET time_zone = '+00:00'"])
        .client_found_rows(true);
    let pool = Pool::new(options);
    for n in 1..=25 {
        let mut conn = pool.get_conn().await.unwrap();
        let row: Option<Row> = conn.exec_first("SELECT n FROM numbers WHERE n = ?", (n,)).await.unwrap();
        seen.note("read", row);
        let row: Option<Row> =
            conn.query_first(format!("SELECT n FROM numbers WHERE n = {n}")).await.unwrap();
        seen.note("read", row);
    }
    let mut conn = pool.get_conn().await.unwrap();
    for _ in 0..2 {
        conn.query_drop("UPDATE items SET v = 'found' WHERE id < 3").await.unwrap();
        seen.note("found", conn.affected_rows());
    }
    drop(conn);
    pool.disconnect().await.unwrap();
}
