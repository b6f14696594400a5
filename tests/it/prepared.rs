//! Prepared statements of the binary protocol: reads run on the replica, with all that a client sends only
//! once, and with the session's state.

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Value};
use ramsplit::backend::Connection;
use ramsplit::sandbox::{Flavor, Sandbox};
use ramsplit::wire::ok::EOF_HEADER;
use ramsplit::wire::reader::Reader;
use ramsplit::wire::response::PreparedOk;
use ramsplit::wire::{Command, StatusFlags, ok};

use crate::bed::{WHERE, connect, on_both, own, shared};
use crate::proxy::Proxy;
use crate::raw;

on_both!(
    questions_about_the_last_result,
    reads_run_on_the_replica,
    tables_are_those_of_the_schema_at_the_time,
    settings_that_change_the_text_keep_it_on_the_primary,
    a_changed_table,
    a_table_that_the_replica_lacks,
    there_is_a_bound,
    types_are_sent_once,
    long_data,
    cursors,
    a_cursor_ends_with_its_replica,
    questions_about_the_last_statement,
);

async fn reads_run_on_the_replica(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for id in [3, 4] {
        let row: Option<(String, u32)> =
            session.exec_first("SELECT name, n FROM here, numbers WHERE n = ?", (id,)).await.unwrap();
        assert_eq!(row, Some(("replica".to_owned(), id)));
    }
    assert_eq!(proxy.metrics().queries("replica", "read"), 2.0);
    for (statement, params, reason) in [
        ("SELECT name FROM here FOR UPDATE", Params::Empty, "locking_read"),
        ("SELECT name FROM here WHERE CONNECTION_ID() > ?", (0,).into(), "server_state"),
        ("UPDATE numbers SET n = n WHERE n = ?", (1,).into(), "write"),
    ] {
        session.exec_drop(statement, params).await.unwrap();
        assert_eq!(proxy.metrics().queries("primary", reason), 1.0, "{statement}");
    }
    session.query_drop("BEGIN").await.unwrap();
    let found: Option<String> = session.exec_first(WHERE, ()).await.unwrap();
    assert_eq!(found.as_deref(), Some("primary"));
}

/// The default schema of the time of preparing holds, wherever the statement runs.
async fn tables_are_those_of_the_schema_at_the_time(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut root = sandbox.primary().root().await.unwrap();
    for statement in [
        "CREATE DATABASE another",
        "CREATE TABLE another.here SELECT 'another' AS name",
        "GRANT ALL ON another.* TO app",
    ] {
        root.query_drop(statement).await.unwrap();
    }
    sandbox.wait_for_replica().await.unwrap();
    let mut answers = Vec::new();
    for address in [sandbox.primary().address(), proxy.address()] {
        let mut session = connect(address, sandbox.application()).await;
        let prepared = session.prep("SELECT name, DATABASE() FROM here").await.unwrap();
        for schema in ["another", Sandbox::SCHEMA] {
            session.query_drop(format!("USE {schema}")).await.unwrap();
            let row: Option<(String, String)> = session.exec_first(&prepared, ()).await.unwrap();
            answers.push(row.unwrap());
        }
    }
    let (direct, proxied) = answers.split_at(2);
    assert!(direct.iter().all(|(name, _)| name == "primary"), "{direct:?}");
    assert!(proxied.iter().all(|(name, _)| name == "replica"), "{proxied:?}");
    let schemas =
        |rows: &[(String, String)]| rows.iter().map(|(_, schema)| schema.clone()).collect::<Vec<_>>();
    assert_eq!(schemas(direct), schemas(proxied));
}

async fn settings_that_change_the_text_keep_it_on_the_primary(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    let text = r#"SELECT CONCAT(name, "!") FROM here"#;
    let prepared = session.prep(text).await.unwrap();
    session.query_drop("SET sql_mode = 'ANSI_QUOTES'").await.unwrap();
    // Prepared on the replica now, the text would name a column.
    let found: Option<String> = session.exec_first(&prepared, ()).await.unwrap();
    assert_eq!(found.as_deref(), Some("primary!"));
    // What is prepared since then may go.
    let found: Option<String> = session.exec_first(WHERE, ()).await.unwrap();
    assert_eq!(found.as_deref(), Some("replica"));
}

async fn a_changed_table(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut session = proxy.connect().await;
    let prepared = session.prep("SELECT * FROM here").await.unwrap();
    let row: Option<mysql_async::Row> = session.exec_first(&prepared, ()).await.unwrap();
    assert_eq!(row.unwrap().unwrap(), [Value::from("replica")]);
    session.query_drop("ALTER TABLE here ADD added INT DEFAULT 5").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    let row: Option<mysql_async::Row> = session.exec_first(&prepared, ()).await.unwrap();
    let row = row.unwrap();
    assert_eq!(row.columns_ref()[1].name_str(), "added");
    assert_eq!(row.unwrap(), [Value::from("replica"), Value::Int(5)]);
}

async fn a_table_that_the_replica_lacks(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut session = proxy.connect().await;
    let prepared = session.prep(WHERE).await.unwrap();
    crate::bed::on_replica_alone(&sandbox, "RENAME TABLE demo.here TO demo.away").await;
    let found: Option<String> = session.exec_first(&prepared, ()).await.unwrap();
    assert_eq!(found.as_deref(), Some("primary"));
    assert_eq!(proxy.metrics().queries("primary", "retry_after_replica_error"), 1.0);
    crate::bed::on_replica_alone(&sandbox, "RENAME TABLE demo.away TO demo.here").await;
    let found: Option<String> = session.exec_first(&prepared, ()).await.unwrap();
    assert_eq!(found.as_deref(), Some("replica"));
    crate::bed::on_replica_alone(&sandbox, "RENAME TABLE demo.here TO demo.away").await;
    let found: Option<String> = session.exec_first(&prepared, ()).await.unwrap();
    assert_eq!(found.as_deref(), Some("primary"));
}

async fn there_is_a_bound(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| config.max_prepared_statements = 2).await;
    let mut session = proxy.connect().await;
    let first = session.prep("SELECT 1").await.unwrap();
    session.prep("SELECT 2").await.unwrap();
    let refused = session.prep("SELECT 3").await.unwrap_err();
    assert!(refused.to_string().contains("1461"), "{refused}");
    session.close(first).await.unwrap();
    let row: Option<u32> = session.exec_first("SELECT 4", ()).await.unwrap();
    assert_eq!(row, Some(4));
}

/// A session that sends commands of the binary protocol byte by byte.
struct Raw {
    client: Connection,
}

impl Raw {
    async fn connect(proxy: &Proxy, sandbox: &Sandbox) -> Self {
        Self { client: raw::log_in(proxy.address(), sandbox.application()).await }
    }

    async fn query(&mut self, text: &str) {
        raw::send_query(&mut self.client, text.as_bytes()).await;
        let payload = raw::receive(&mut self.client).await;
        assert_eq!(payload[0], ok::OK_HEADER, "{text}");
    }

    async fn prepare(&mut self, text: &str) -> u32 {
        raw::send(&mut self.client, Command::COM_STMT_PREPARE, text.as_bytes()).await;
        let payload = raw::receive(&mut self.client).await;
        let prepared = PreparedOk::parse(&payload, self.client.capabilities).unwrap();
        for _ in 0..prepared.definition_packets(self.client.capabilities) {
            raw::receive(&mut self.client).await;
        }
        prepared.id
    }

    /// Sends COM_STMT_EXECUTE with what follows the iteration count.
    async fn execute(&mut self, id: u32, cursor: u8, parameters: &[u8]) {
        let argument = [&id.to_le_bytes()[..], &[cursor, 1, 0, 0, 0], parameters].concat();
        raw::send(&mut self.client, Command::COM_STMT_EXECUTE, &argument).await;
    }

    /// The columns of the rows that come, as strings, up to their end; its status flags.
    async fn rows(&mut self) -> (Vec<Vec<String>>, StatusFlags) {
        let mut rows = Vec::new();
        loop {
            let payload = raw::receive(&mut self.client).await;
            if payload[0] == EOF_HEADER {
                return (rows, ok::OkPacket::parse(&payload).unwrap().status);
            }
            assert_eq!(payload[0], 0, "{payload:?}");
            rows.push(strings(&payload));
        }
    }

    /// The first column of the one row of an executed statement whose columns are strings.
    async fn row(&mut self) -> Vec<String> {
        let count = raw::receive(&mut self.client).await;
        assert!(raw::code(&count).is_none(), "{count:?}");
        for _ in 0..count[0] {
            raw::receive(&mut self.client).await;
        }
        let (mut rows, _) = self.rows().await;
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }
}

/// The columns of a binary row, all of them strings and not NULL: a header byte and a NULL bitmap, then the
/// values. <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>
fn strings(row: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(&row[2..]);
    let mut strings = Vec::new();
    while !reader.is_empty() {
        strings.push(String::from_utf8(reader.lenenc_bytes("value").unwrap().to_vec()).unwrap());
    }
    strings
}

/// One parameter that is a string, with its type.
fn typed(text: &str) -> Vec<u8> {
    [&[0, 1, STRING, 0, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// The same without the type.
fn untyped(text: &str) -> Vec<u8> {
    [&[0, 0, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// MYSQL_TYPE_VAR_STRING.
const STRING: u8 = 0xFD;

async fn types_are_sent_once(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = Raw::connect(&proxy, sandbox).await;
    let id = session.prepare("SELECT name, CONCAT(?, '!') FROM here").await;
    // The types go to the server that runs the first execution; then the other one needs them.
    session.execute(id, 0, &typed("a")).await;
    assert_eq!(session.row().await, ["replica", "a!"]);
    session.execute(id, 0, &untyped("b")).await;
    assert_eq!(session.row().await, ["replica", "b!"]);
    session.query("BEGIN").await;
    session.execute(id, 0, &untyped("c")).await;
    assert_eq!(session.row().await, ["primary", "c!"]);
    // Other types on the primary, which the replica must use then: a number of eight bytes.
    let number = [&[0, 1, 8, 0], &7_u64.to_le_bytes()[..]].concat();
    session.execute(id, 0, &number).await;
    assert_eq!(session.row().await, ["primary", "7!"]);
    session.query("COMMIT").await;
    let number = [&[0, 0], &8_u64.to_le_bytes()[..]].concat();
    session.execute(id, 0, &number).await;
    assert_eq!(session.row().await, ["replica", "8!"]);

    // A command too long to be looked at as a whole goes to the primary, which has no types yet.
    let id = session.prepare("SELECT name, CAST(LENGTH(?) AS CHAR) FROM here").await;
    session.execute(id, 0, &typed("a")).await;
    assert_eq!(session.row().await, ["replica", "1"]);
    let mut long = vec![0, 0, 0xFD];
    long.extend_from_slice(&1_000_000_u32.to_le_bytes()[..3]);
    long.resize(long.len() + 1_000_000, b'x');
    session.execute(id, 0, &long).await;
    assert_eq!(session.row().await, ["primary", "1000000"]);
}

async fn long_data(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = Raw::connect(&proxy, sandbox).await;
    let id = session.prepare("SELECT name, CAST(LENGTH(?) AS CHAR), ? FROM here").await;
    let first = [&id.to_le_bytes()[..], &[0, 0]].concat();
    // Both parameters have types, the value of the second alone is in the command.
    let execute = [&[0, 1, STRING, 0, STRING, 0, 1], &b"z"[..]].concat();
    for (pieces, len, server) in [(2, 1000, "replica"), (3, 60_000, "primary"), (1, 10, "replica")] {
        for _ in 0..pieces {
            let piece = [first.as_slice(), &vec![b'x'; len]].concat();
            raw::send(&mut session.client, Command::COM_STMT_SEND_LONG_DATA, &piece).await;
        }
        session.execute(id, 0, &execute).await;
        assert_eq!(session.row().await, [server, &(pieces * len).to_string(), "z"]);
    }
    // A reset drops what was sent ahead.
    raw::send(&mut session.client, Command::COM_STMT_SEND_LONG_DATA, &[&first[..], b"dropped"].concat())
        .await;
    raw::send(&mut session.client, Command::COM_STMT_RESET, &id.to_le_bytes()).await;
    assert_eq!(raw::receive(&mut session.client).await[0], ok::OK_HEADER);
    raw::send(&mut session.client, Command::COM_STMT_SEND_LONG_DATA, &[&first[..], b"kept"].concat()).await;
    session.execute(id, 0, &execute).await;
    assert_eq!(session.row().await, ["replica", "4", "z"]);
}

/// Opens a cursor over the thousand numbers and gives where it is, by the name of the server.
async fn open_cursor(session: &mut Raw, id: u32) {
    const READ_ONLY_CURSOR: u8 = 1;
    session.execute(id, READ_ONLY_CURSOR, &[]).await;
    let count = raw::receive(&mut session.client).await;
    assert_eq!(count[0], 2);
    for _ in 0..2 {
        raw::receive(&mut session.client).await;
    }
    let end = raw::receive(&mut session.client).await;
    let status = ok::OkPacket::parse(&end).unwrap().status;
    assert!(status.contains(StatusFlags::SERVER_STATUS_CURSOR_EXISTS));
}

async fn send_fetch(session: &mut Raw, id: u32, count: u32) {
    let argument = [id.to_le_bytes(), count.to_le_bytes()].concat();
    raw::send(&mut session.client, Command::COM_STMT_FETCH, &argument).await;
}

async fn fetch(session: &mut Raw, id: u32, count: u32) -> (Vec<Vec<String>>, StatusFlags) {
    send_fetch(session, id, count).await;
    session.rows().await
}

/// The code of the error that a fetch is answered with.
async fn fetch_error(session: &mut Raw, id: u32) -> Option<u16> {
    send_fetch(session, id, 1).await;
    raw::code(&raw::receive(&mut session.client).await)
}

const NUMBERS: &str = "SELECT name, CAST(n AS CHAR) FROM here, numbers ORDER BY n";

async fn cursors(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = Raw::connect(&proxy, sandbox).await;
    let id = session.prepare(NUMBERS).await;
    for server in ["replica", "primary"] {
        if server == "primary" {
            session.query("BEGIN").await;
        }
        open_cursor(&mut session, id).await;
        let (rows, _) = fetch(&mut session, id, 10).await;
        assert_eq!((rows.len(), &rows[0]), (10, &vec![server.to_owned(), "1".to_owned()]));
        // Other statements do not disturb it.
        session.query("SET @between = 1").await;
        let other = session.prepare("SELECT name FROM here").await;
        session.execute(other, 0, &[]).await;
        assert_eq!(session.row().await, [server]);
        let (rows, status) = fetch(&mut session, id, 2000).await;
        assert_eq!((rows.len(), &rows[0][1][..]), (990, "11"));
        assert!(status.contains(StatusFlags::SERVER_STATUS_LAST_ROW_SENT));
    }
    session.query("COMMIT").await;
    open_cursor(&mut session, id).await;
    raw::send(&mut session.client, Command::COM_STMT_RESET, &id.to_le_bytes()).await;
    assert_eq!(raw::receive(&mut session.client).await[0], ok::OK_HEADER);
    assert_eq!(fetch_error(&mut session, id).await, Some(1421));
}

async fn a_cursor_ends_with_its_replica(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut session = Raw::connect(&proxy, &sandbox).await;
    let id = session.prepare(NUMBERS).await;
    open_cursor(&mut session, id).await;
    assert_eq!(fetch(&mut session, id, 1).await.0[0][0], "replica");
    sandbox.replica().kill().await;
    assert_eq!(fetch_error(&mut session, id).await, Some(1421));
    // Executed again it runs where it can.
    open_cursor(&mut session, id).await;
    assert_eq!(fetch(&mut session, id, 1).await.0[0][0], "primary");
}

/// They go where that statement ran, whenever they were prepared.
async fn questions_about_the_last_statement(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    // MySQL prepares no SHOW WARNINGS.
    let question = match flavor {
        Flavor::MySql => "SELECT FOUND_ROWS()",
        Flavor::MariaDb => "SHOW COUNT(*) WARNINGS",
    };
    let question = session.prep(question).await.unwrap();
    let on_replica = "SELECT n, CAST('x1' AS SIGNED) FROM numbers WHERE n < 8";
    let on_primary = "SELECT n, CAST('x1' AS SIGNED), CONNECTION_ID() FROM numbers WHERE n < 4";
    for (statement, target, count) in
        [(on_replica, "replica", 7), (on_primary, "primary", 3), (on_replica, "replica", 7)]
    {
        let before = proxy.metrics().queries(target, "last_result");
        session.exec_drop(statement, ()).await.unwrap();
        let answer: Option<u64> = session.exec_first(&question, ()).await.unwrap();
        assert_eq!(answer, Some(count), "{statement}");
        assert_eq!(proxy.metrics().queries(target, "last_result"), before + 1.0, "{statement}");
    }
}

/// Preparing comes between a statement and the questions about it.
async fn questions_about_the_last_result(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut answers = Vec::new();
    for address in [sandbox.primary().address(), proxy.address()] {
        let mut session = connect(address, sandbox.application()).await;
        let mut seen = Vec::new();
        for prepared in
            [WHERE, "SELECT ROW_COUNT()", "SHOW WARNINGS", "SELECT 'a' + 1", "DELETE FROM here WHERE 0"]
        {
            session.query_drop("DROP TABLE IF EXISTS no_such_table").await.unwrap();
            session.query_drop("SELECT CAST('x1' AS SIGNED)").await.unwrap();
            // Not every server prepares each of them; refusals leave traces as well.
            let _ = session.prep(prepared).await;
            let warnings: Vec<mysql_async::Row> = session.query("SHOW WARNINGS").await.unwrap();
            seen.push(format!("{prepared}: {warnings:?}"));
            session.query_drop("DROP TABLE IF EXISTS no_such_table").await.unwrap();
            session.query_drop("SELECT 1").await.unwrap();
            let _ = session.prep(prepared).await;
            let rows: Option<i64> = session.query_first("SELECT ROW_COUNT()").await.unwrap();
            seen.push(format!("{prepared}: {rows:?}"));
        }
        session.query_drop("DROP TABLE IF EXISTS no_such_table").await.unwrap();
        session.query_drop("SELECT 1").await.unwrap();
        let rows: Option<i64> = session.exec_first("SELECT ROW_COUNT()", ()).await.unwrap();
        seen.push(format!("executed: {rows:?}"));
        answers.push(seen);
    }
    assert_eq!(answers[0], answers[1]);
}
