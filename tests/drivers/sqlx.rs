//! sqlx: everything but raw SQL is prepared on the server, and kept.

use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions, MySqlRow, MySqlSslMode};
use sqlx::{
    Column as _, Connection as _, Executor as _, MySqlConnection, Row as _, TypeInfo as _, ValueRef as _,
    raw_sql,
};

use super::{TABLES, Target, Transcript, WRONG, digest};

const COUNT: &str = "SELECT COUNT(*) FROM items WHERE v LIKE ?";

pub(crate) async fn run(target: &Target, seen: &mut Transcript) {
    let options = MySqlConnectOptions::new()
        .host(&target.host)
        .port(target.port)
        .username(&target.user)
        .password(&target.password)
        .database(&target.schema)
        .ssl_mode(MySqlSslMode::Disabled);
    MySqlConnection::connect_with(&options).await.unwrap().close().await.unwrap();
    let options = options.ssl_mode(MySqlSslMode::Preferred);
    let mut conn = MySqlConnection::connect_with(&options).await.unwrap();
    for statement in TABLES.split("\n\n") {
        conn.execute(raw_sql(statement)).await.unwrap();
    }
    types(&mut conn, seen).await;
    writes(&mut conn, seen).await;
    altered(&mut conn, seen).await;
    transactions(&mut conn, seen).await;
    errors(&mut conn, seen).await;
    for n in 0..500 {
        let text = format!("SELECT v FROM items WHERE id = ? AND {n} >= 0");
        sqlx::query(&text).bind(2).fetch_one(&mut conn).await.unwrap();
    }
    conn.clear_cached_statements().await.unwrap();
    conn.execute(raw_sql("USE information_schema")).await.unwrap();
    seen.note("schema", columns(&conn.fetch_one("SELECT DATABASE()").await.unwrap()));
    conn.ping().await.unwrap();
    conn.close().await.unwrap();

    let pool = MySqlPoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
    for n in 1..=25 {
        let row = sqlx::query("SELECT n FROM numbers WHERE n = ?").bind(n).fetch_one(&pool).await.unwrap();
        seen.note("read", columns(&row));
        let text = format!("SELECT n FROM numbers WHERE n = {n}");
        seen.note("read", columns(&pool.fetch_one(raw_sql(&text)).await.unwrap()));
    }
    pool.close().await;
}

/// Name, type and bytes of each column.
fn columns(row: &MySqlRow) -> Vec<(String, String, Option<Vec<u8>>)> {
    let column = |at: usize| {
        let value = row.try_get_raw(at).unwrap();
        let bytes = if value.is_null() { None } else { row.try_get_unchecked(at).ok() };
        (row.column(at).name().to_owned(), row.column(at).type_info().name().to_owned(), bytes)
    };
    (0..row.len()).map(column).collect()
}

async fn types(conn: &mut MySqlConnection, seen: &mut Transcript) {
    for row in conn.fetch_all(raw_sql("SELECT * FROM typed ORDER BY id")).await.unwrap() {
        seen.note("text", columns(&row));
    }
    for id in [1, 2, 3, 3, 1] {
        let query = sqlx::query("SELECT * FROM typed WHERE id = ?").bind(id);
        seen.note("prepared", columns(&query.fetch_one(&mut *conn).await.unwrap()));
    }
    let echo = "SELECT CAST(? AS CHAR), n FROM numbers WHERE n = 1";
    for query in [
        sqlx::query(echo).bind(-5_i64),
        sqlx::query(echo).bind(u64::MAX),
        sqlx::query(echo).bind(None::<i32>),
        sqlx::query(echo).bind(1.5),
        sqlx::query(echo).bind("it's \\ \u{1f600}"),
        sqlx::query(echo).bind(""),
    ] {
        seen.note("parameter", columns(&query.fetch_one(&mut *conn).await.unwrap()));
    }
}

async fn writes(conn: &mut MySqlConnection, seen: &mut Transcript) {
    for statement in [
        "INSERT INTO items (v) VALUES ('one')",
        "INSERT INTO items (v) VALUES ('two'), ('three')",
        "UPDATE items SET v = 'same' WHERE id < 3",
        "UPDATE items SET v = 'same' WHERE id < 4",
        "DELETE FROM items WHERE id = 3",
    ] {
        let done = conn.execute(statement).await.unwrap();
        seen.note(statement, (done.rows_affected(), done.last_insert_id()));
    }
    let mut stale = 0;
    for n in 0..200 {
        let wanted = format!("v{n}");
        let insert = sqlx::query("INSERT INTO items (v) VALUES (?)").bind(&wanted);
        let id = insert.execute(&mut *conn).await.unwrap().last_insert_id();
        let read = sqlx::query_scalar("SELECT v FROM items WHERE id = ?").bind(id);
        let found: Option<String> = read.fetch_optional(&mut *conn).await.unwrap();
        stale += u32::from(found != Some(wanted));
    }
    seen.note("stale reads", stale);
    let long: Vec<u8> = (0..=250).cycle().take(2 * 1024 * 1024).collect();
    sqlx::query("INSERT INTO files VALUES (1, ?)").bind(long).execute(&mut *conn).await.unwrap();
    let data: Vec<u8> = sqlx::query_scalar("SELECT data FROM files").fetch_one(&mut *conn).await.unwrap();
    seen.note("long", digest(&data));
}

async fn altered(conn: &mut MySqlConnection, seen: &mut Transcript) {
    for alter in ["DO 0", "ALTER TABLE items ADD extra INT DEFAULT 7"] {
        conn.execute(alter).await.unwrap();
        let row =
            sqlx::query("SELECT * FROM items WHERE id = ?").bind(1).fetch_one(&mut *conn).await.unwrap();
        seen.note(alter, columns(&row));
    }
}

async fn transactions(conn: &mut MySqlConnection, seen: &mut Transcript) {
    let insert = "INSERT INTO items (v) VALUES (?)";
    let mut outer = conn.begin().await.unwrap();
    sqlx::query(insert).bind("tx1").execute(&mut *outer).await.unwrap();
    // A savepoint.
    let mut inner = outer.begin().await.unwrap();
    sqlx::query(insert).bind("tx2").execute(&mut *inner).await.unwrap();
    seen.note(
        "inside",
        sqlx::query_scalar::<_, i64>(COUNT).bind("tx%").fetch_one(&mut *inner).await.unwrap(),
    );
    inner.rollback().await.unwrap();
    outer.commit().await.unwrap();
    seen.note(
        "committed",
        sqlx::query_scalar::<_, i64>(COUNT).bind("tx%").fetch_one(&mut *conn).await.unwrap(),
    );
    let mut outer = conn.begin_with("START TRANSACTION READ ONLY").await.unwrap();
    seen.note(
        "read only",
        sqlx::query_scalar::<_, i64>(COUNT).bind("tx%").fetch_one(&mut *outer).await.unwrap(),
    );
    seen.note("read only", outer.execute("DELETE FROM items").await.unwrap_err().to_string());
    outer.rollback().await.unwrap();
}

async fn errors(conn: &mut MySqlConnection, seen: &mut Transcript) {
    for wrong in WRONG {
        seen.note("text", conn.execute(raw_sql(wrong)).await.unwrap_err().to_string());
        seen.note("prepared", conn.execute(wrong).await.unwrap_err().to_string());
    }
    conn.execute("SELECT CAST('x1' AS SIGNED)").await.unwrap();
    for row in conn.fetch_all(raw_sql("SHOW WARNINGS")).await.unwrap() {
        seen.note("warnings", columns(&row));
    }
    let text = "SELECT 1; UPDATE items SET v = 'm' WHERE id = 1; SELECT v FROM items WHERE id = 1; CALL two_results(5)";
    for row in conn.fetch_all(raw_sql(text)).await.unwrap() {
        seen.note("multi", columns(&row));
    }
}
