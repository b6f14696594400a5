//! How much memory streams and connections take: none that stays, and little meanwhile. Measured at a process
//! of its own.

use std::net::SocketAddr;

use mysql_async::prelude::Queryable;
use ramsplit::backend::Connection;
use ramsplit::config::Account;
use ramsplit::sandbox::Flavor;
use ramsplit::wire::Command;
use ramsplit::wire::command::Answer;
use ramsplit::wire::response::{Event, Kind, Scanner};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::bed::{WHERE, account, create_user, on_both, shared, threads_of, wait_until};
use crate::proxy::Process;
use crate::raw;

on_both!(
    large_answers_pass_in_little_memory,
    large_commands_pass_in_little_memory,
    connections_leave_nothing_behind,
);

/// Growth of the proxy's memory that no stream may exceed, in bytes.
const LITTLE: u64 = 16 << 20;

async fn large_answers_pass_in_little_memory(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let process = Process::start(sandbox).await;
    // Long rows and short ones, from either server.
    for (what, rows, size) in [("", 1_000, 1_000_000), ("@a,", 1_000, 1_000_000), ("", 200_000, 1_000)] {
        let mut client = raw::log_in(process.address(), sandbox.application()).await;
        client.ask(format!("SELECT name, {what} 1 FROM here").as_bytes(), raw::LIMIT).await.unwrap();
        process.forget_peak();
        let before = process.memory();
        let rows_of = format!(
            "SELECT {what} REPEAT('x', {size}) FROM numbers a, numbers b WHERE b.n <= {} LIMIT {rows}",
            rows / 1000
        );
        raw::send_query(&mut client, rows_of.as_bytes()).await;
        let len = take_answer(&mut client).await;
        assert!(len > rows * size, "{len}");
        let grown = process.peak().saturating_sub(before);
        println!("{flavor}: {rows} rows of {size} bytes: {} kB more", grown / 1024);
        assert!(grown < LITTLE, "{grown} bytes for {what}{rows} rows of {size} bytes");
    }
}

async fn large_commands_pass_in_little_memory(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let mut root = sandbox.primary().root().await.unwrap();
    // For connections opened from now on.
    root.query_drop("SET GLOBAL max_allowed_packet = 1073741824").await.unwrap();
    let process = Process::start(sandbox).await;
    const LEN: usize = 300_000_000;

    // As one text.
    let mut client = raw::log_in(process.address(), sandbox.application()).await;
    assert!(raw::is_alive(&mut client).await);
    process.forget_peak();
    let before = process.memory();
    send_large(&mut client, b"\x03SELECT LENGTH('", LEN, b"')").await;
    assert_eq!(first_row(&mut client).await, LEN.to_string().as_bytes());
    let grown = process.peak().saturating_sub(before);
    println!("{flavor}: a text of {LEN} bytes: {} kB more", grown / 1024);
    assert!(grown < LITTLE, "{grown} bytes");

    // As long data of a prepared statement.
    raw::send(&mut client, Command::COM_STMT_PREPARE, b"SELECT LENGTH(?)").await;
    let prepared = raw::receive(&mut client).await;
    assert_eq!(prepared[0], 0);
    let id = &prepared[1..5];
    // The definitions of the parameter and the column.
    raw::receive(&mut client).await;
    raw::receive(&mut client).await;
    process.forget_peak();
    let before = process.memory();
    for _ in 0..LEN / 10_000_000 {
        let data = [&[Command::COM_STMT_SEND_LONG_DATA as u8], id, &[0, 0], &vec![b'x'; 10_000_000]].concat();
        client.framed.put(0, &data);
        client.framed.flush(raw::LIMIT).await.unwrap();
    }
    // No cursor, once, no NULL, types follow: a BLOB.
    let execute = [id, &[0, 1, 0, 0, 0, 0, 1, 0xFC, 0]].concat();
    raw::send(&mut client, Command::COM_STMT_EXECUTE, &execute).await;
    assert_eq!(raw::receive(&mut client).await, [1], "one column");
    raw::receive(&mut client).await;
    let row = raw::receive(&mut client).await;
    assert_eq!(row[2..6], u32::try_from(LEN).unwrap().to_le_bytes(), "{row:?}");
    let grown = process.peak().saturating_sub(before);
    println!("{flavor}: long data of {LEN} bytes: {} kB more", grown / 1024);
    assert!(grown < LITTLE, "{grown} bytes");
}

/// 10,000 connections, some of which are dropped before, in and after the login.
async fn connections_leave_nothing_behind(flavor: Flavor) {
    const CONNECTIONS: usize = 10_000;
    const AT_A_TIME: usize = 50;
    let sandbox = shared(flavor).await;
    let user = account("passing", "s3cret");
    create_user(sandbox, &user.user, "IDENTIFIED BY 's3cret'").await;
    let process = Process::start(sandbox).await;
    let storm = async |count: usize| {
        let mut clients = JoinSet::new();
        for number in 0..count {
            if clients.len() == AT_A_TIME {
                clients.join_next().await.unwrap().unwrap();
            }
            clients.spawn(pass_by(process.address(), user.clone(), number));
        }
        clients.join_all().await;
    };
    let is_quiet = async || {
        let metrics = process.metrics().await;
        metrics.clients() == 0.0
            && metrics.backends() == 0.0
            && threads_of(sandbox.primary(), &user.user).await == 0
            && threads_of(sandbox.replica(), &user.user).await == 0
    };
    // What every kind needs once is there when the counting begins.
    storm(CONNECTIONS / 10).await;
    wait_until("nothing is left of the first", is_quiet).await;
    let before = process.memory();
    storm(CONNECTIONS).await;
    wait_until("nothing is left", is_quiet).await;
    let grown = process.memory().saturating_sub(before);
    println!("{flavor}: {CONNECTIONS} connections: {} kB more", grown / 1024);
    assert!(grown < LITTLE, "{grown} bytes more for {CONNECTIONS} connections");
}

/// A connection that is dropped at one of several moments.
async fn pass_by(address: SocketAddr, user: Account, number: usize) {
    match number % 5 {
        0 => drop(TcpStream::connect(address).await.unwrap()),
        1 => drop(raw::greet(address).await),
        2 => {
            // In the middle of the login: the proxy waits for the rest.
            let (mut client, _) = raw::greet(address).await;
            client.tx.extend_from_slice(&[200, 0, 0, 1, 0x8D, 0xA6]);
            client.flush(raw::LIMIT).await.unwrap();
        }
        3 => drop(raw::log_in(address, &user).await),
        _ => {
            let mut client = raw::log_in(address, &user).await;
            client.ask(WHERE.as_bytes(), raw::LIMIT).await.unwrap();
        }
    }
}

/// Takes a whole answer and gives its length in bytes.
async fn take_answer(client: &mut Connection) -> usize {
    let mut scanner = Scanner::new(client.capabilities, Answer::Results);
    let mut total = 0;
    while !scanner.is_done() {
        let len = match scanner.next(client.framed.received()).unwrap() {
            Event::Pass(len) => len,
            Event::Packet { kind, len } => {
                assert_ne!(kind, Kind::Err, "after {total} bytes");
                len
            }
            Event::NeedMore => {
                assert!(client.framed.fill().await.unwrap());
                0
            }
        };
        client.framed.consume(len);
        total += len;
    }
    total
}

/// Sends a command of `len` bytes between two texts, in pieces.
async fn send_large(client: &mut Connection, head: &[u8], len: usize, tail: &[u8]) {
    const PIECE: usize = 0xFF_FFFF;
    let total = head.len() + len + tail.len();
    let piece = |at: usize, size: usize| -> Vec<u8> {
        (at..at + size)
            .map(|at| match at {
                at if at < head.len() => head[at],
                at if at < head.len() + len => b'x',
                at => tail[at - head.len() - len],
            })
            .collect()
    };
    let mut seq = 0_u8;
    for at in (0..=total).step_by(PIECE) {
        let size = PIECE.min(total - at);
        let [a, b, c, _] = u32::try_from(size).unwrap().to_le_bytes();
        client.framed.tx.extend_from_slice(&[a, b, c, seq]);
        client.framed.tx.extend(piece(at, size));
        client.framed.flush(raw::LIMIT).await.unwrap();
        seq = seq.wrapping_add(1);
    }
}

/// The one value of a result that has one.
async fn first_row(client: &mut Connection) -> Vec<u8> {
    let count = raw::receive(client).await;
    assert_eq!(count, [1], "one column, or {:?}", raw::code(&count));
    raw::receive(client).await;
    let row = raw::receive(client).await;
    assert_eq!(raw::receive(client).await[0], 0xFE);
    row[1..].to_vec()
}
