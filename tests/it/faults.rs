//! Bad input and broken peers: the one connection is told or ends, and nothing else notices.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use ramsplit::auth::Plugin;
use ramsplit::config::{Backend, ClientTls};
use ramsplit::sandbox::{Flavor, Sandbox};
use ramsplit::wire::command::Answer;
use ramsplit::wire::response::{Event, Scanner};
use ramsplit::wire::{Command, writer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bed::{
    WHERE, account, connect, create_user, on_both, shared, target, threads_of, wait_for_statement, wait_until,
};
use crate::meddler::{Harm, Meddler};
use crate::proxy::{Process, Proxy};
use crate::raw;

on_both!(
    bad_handshakes,
    slow_handshakes,
    packets_out_of_order,
    unknown_commands,
    text_that_is_no_text,
    a_client_that_stops_reading,
    a_client_that_vanishes,
    a_replica_that_breaks_off,
    a_replica_that_falls_silent,
    a_primary_that_breaks_off,
    servers_that_talk_garbage,
    large_answers_pass_in_little_memory,
    large_commands_pass_in_little_memory,
    connections_leave_nothing_behind,
);

/// Growth of the proxy's memory that no stream may exceed, in bytes.
const LITTLE: u64 = 16 << 20;

async fn bad_handshakes(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| config.client_tls = ClientTls::Off).await;
    let mut other = proxy.connect().await;
    let login = raw::login(sandbox.application(), Plugin::Native, vec![0; 20]);
    let mut good = Vec::new();
    login.put(&mut good);
    let packet = |seq, payload: &[u8]| {
        let mut packet = Vec::new();
        writer::put_packet(&mut packet, seq, payload);
        packet
    };
    let mut old = good.clone();
    old[1] &= !2; // CLIENT_PROTOCOL_41
    let mut tls = good[..32].to_vec();
    tls[1] |= 8; // CLIENT_SSL
    let mut cases = vec![
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("TLS from the first byte", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        ("zeros", vec![0; 4096]),
        ("ones", vec![0xFF; 4096]),
        ("an empty packet", packet(1, b"")),
        ("one byte", packet(1, b"x")),
        ("a header without a packet", vec![100, 0, 0, 1]),
        ("half a header", vec![100, 0]),
        ("a packet of 16 MiB", vec![0xFF, 0xFF, 0xFF, 1]),
        ("protocol 3.20", packet(1, &old)),
        ("TLS that was not offered", packet(1, &tls)),
        ("another number", packet(7, &good)),
        ("the number of the greeting", packet(0, &good)),
    ];
    for len in [3, 31, 32, 33, 36, 45, 56] {
        cases.push(("a login that is cut", packet(1, &good[..len])));
    }
    for (name, bytes) in cases {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.write_all(&bytes).await.unwrap();
        // The proxy may have hung up in the meantime.
        let _ = client.shutdown().await;
        let mut answer = Vec::new();
        let end = timeout(raw::LIMIT, client.read_to_end(&mut answer)).await;
        assert!(end.is_ok(), "{name}: the connection does not end");
        let greeting = 4 + usize::from(answer[0]);
        // A reset by the proxy may take its last words away; what arrives must be an error.
        if let Some(last_words) = answer.get(greeting + 4..) {
            assert!(
                matches!(raw::code(last_words), Some(1043 | 1045 | 1156 | 1251)),
                "{name}: {last_words:?}"
            );
        }
        assert_eq!(target(&mut other).await, "replica", "{name}");
    }
    wait_until("they are gone", async || proxy.metrics().clients() == 1.0).await;
    assert_eq!(proxy.metrics().backends(), 2.0, "those of the one session");
}

async fn slow_handshakes(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| config.login_timeout = Duration::from_millis(300)).await;
    let mut silent = TcpStream::connect(proxy.address()).await.unwrap();
    let mut stuck = TcpStream::connect(proxy.address()).await.unwrap();
    stuck.write_all(&[100, 0, 0, 1, 5]).await.unwrap();
    let mut in_tls = TcpStream::connect(proxy.address()).await.unwrap();
    let mut request = Vec::new();
    let mut login = raw::login(sandbox.application(), Plugin::Native, Vec::new());
    login.capabilities = login.capabilities.with(mysql_common::constants::CapabilityFlags::CLIENT_SSL);
    login.put_tls_request(&mut request);
    let mut packet = Vec::new();
    writer::put_packet(&mut packet, 1, &request);
    in_tls.write_all(&packet).await.unwrap();
    for client in [&mut silent, &mut stuck, &mut in_tls] {
        let mut answer = Vec::new();
        let end = timeout(raw::LIMIT, client.read_to_end(&mut answer)).await;
        assert!(end.is_ok(), "the connection does not end");
    }
    wait_until("they are gone", async || proxy.metrics().clients() == 0.0).await;
    assert_eq!(target(&mut proxy.connect().await).await, "replica");
}

async fn packets_out_of_order(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut other = proxy.connect().await;
    for seq in [1, 255] {
        let mut client = raw::log_in(proxy.address(), sandbox.application()).await;
        client.framed.put(seq, b"\x03SELECT 1");
        client.framed.flush(raw::LIMIT).await.unwrap();
        assert_eq!(raw::code(&raw::receive(&mut client).await), Some(1156));
        assert!(client.framed.read_packet(1024).await.is_err(), "the connection has ended");
    }
    // Inside a command of several packets.
    let mut client = raw::log_in(proxy.address(), sandbox.application()).await;
    let mut packets = Vec::new();
    writer::put_packet(&mut packets, 0, &[b"\x03SELECT ".as_slice(), &vec![b' '; 0xFF_FFFF]].concat());
    packets[4 + 0xFF_FFFF + 3] = 9;
    client.framed.tx = packets;
    // The proxy may hang up while this goes out.
    let _ = client.framed.flush(raw::LIMIT).await;
    let answer = timeout(raw::LIMIT, client.framed.read_packet(1024)).await.unwrap();
    assert!(answer.is_err() || raw::code(&answer.unwrap().payload) == Some(1156));
    assert_eq!(target(&mut other).await, "replica");
    wait_until("they are gone", async || proxy.metrics().clients() == 1.0).await;
}

async fn unknown_commands(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut client = raw::log_in(proxy.address(), sandbox.application()).await;
    // COM_SLEEP, COM_CONNECT, COM_TIME, COM_DELAYED_INSERT, COM_CONNECT_OUT, COM_DAEMON are the servers' own.
    let inner = [0, 11, 15, 16, 20, 29];
    let unknown = (33..=255).filter(|byte| *byte != 0xFA);
    for byte in inner.into_iter().chain(unknown) {
        client.framed.put(0, &[byte, 1, 2, 3]);
        client.framed.flush(raw::LIMIT).await.unwrap();
        let answer = raw::receive(&mut client).await;
        assert_eq!(raw::code(&answer), Some(1047), "command {byte}: {answer:?}");
        assert!(raw::is_alive(&mut client).await, "after command {byte}");
    }
    // Nothing at all is no command either.
    client.framed.put(0, &[]);
    client.framed.flush(raw::LIMIT).await.unwrap();
    assert!(raw::code(&raw::receive(&mut client).await).is_some());
    assert!(raw::is_alive(&mut client).await);
    assert_eq!(client.ask(WHERE.as_bytes(), raw::LIMIT).await.unwrap().as_deref(), Some(&b"replica"[..]));
}

/// Bytes of no character set: whatever the server makes of them.
async fn text_that_is_no_text(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    for text in [
        &b"SELECT '\xFF\xFE'"[..],
        b"SELECT HEX('\xC3(') FROM here",
        b"SELECT \xE9 FROM here",
        b"\xFF\xFF\xFF\xFF",
        b"SELECT 1 /* \x80 */",
        b"SELECT '\0'",
        b"",
        b"\0",
        b";",
        b"SELECT 'unterminated",
    ] {
        let mut answers = Vec::new();
        for address in [sandbox.primary().address(), proxy.address()] {
            let mut session = connect(address, sandbox.application()).await;
            let rows = session.query::<Vec<u8>, _>(text).await.map_err(|error| error.to_string());
            answers.push((rows, session.get_warnings()));
            session.ping().await.unwrap();
        }
        assert_eq!(answers[0], answers[1], "{}", text.escape_ascii());
    }
}

async fn a_client_that_stops_reading(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| config.write_timeout = Duration::from_millis(500)).await;
    let mut other = proxy.connect().await;
    assert_eq!(target(&mut other).await, "replica");
    for what in ["", "@a,"] {
        let mut client = raw::log_in(proxy.address(), sandbox.application()).await;
        raw::send_query(&mut client, large_answer(what, 1_000_000).as_bytes()).await;
        wait_until("it is ended", async || {
            assert_eq!(target(&mut other).await, "replica", "others go on");
            proxy.metrics().clients() == 1.0
        })
        .await;
        assert_eq!(proxy.metrics().backends(), 2.0, "those of the other session");
        drop(client);
    }
}

async fn a_client_that_vanishes(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let user = account("vanishing", "s3cret");
    create_user(sandbox, &user.user, "IDENTIFIED BY 's3cret'").await;
    for (statement, server) in [
        ("SELECT SLEEP(1), 'vanishing_1'".to_owned(), sandbox.primary()),
        (large_answer("'vanishing_2',", 1_000_000), sandbox.replica()),
    ] {
        let mut client = raw::log_in(proxy.address(), &user).await;
        raw::send_query(&mut client, statement.as_bytes()).await;
        wait_for_statement(server, "vanishing_").await;
        drop(client);
        wait_until("the session ends everywhere", async || {
            proxy.metrics().clients() == 0.0
                && proxy.metrics().backends() == 0.0
                && threads_of(sandbox.primary(), &user.user).await == 0
                && threads_of(sandbox.replica(), &user.user).await == 0
        })
        .await;
    }
}

/// Before its first byte and anywhere behind, as long as the client has nothing of the answer.
async fn a_replica_that_breaks_off(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    for keep in [0, 1, 3, 4, 5, 9, 30, 60] {
        for harm in [Harm::Close, Harm::Instead(b"\x07\x00\x00\x63garbage")] {
            let meddler = Meddler::start(sandbox.replica().address(), "broken off", keep, harm).await;
            let proxy = behind(sandbox, None, Some(&meddler)).await;
            let mut session = proxy.connect().await;
            assert_eq!(target(&mut session).await, "replica");
            let read = "SELECT name, 'broken off' FROM here";
            let row: Option<(String, String)> = session.query_first(read).await.unwrap();
            assert_eq!(row.unwrap().0, "primary", "after {keep} bytes, {harm:?}");
            assert_eq!(proxy.metrics().queries("primary", "retry_after_replica_error"), 1.0);
            wait_until("reads are back", async || target(&mut session).await == "replica").await;
        }
    }
    // Too late for another try: the client has part of the answer.
    let meddler = Meddler::start(sandbox.replica().address(), "broken off", 10_000_000, Harm::Close).await;
    let proxy = behind(sandbox, None, Some(&meddler)).await;
    let mut other = proxy.connect().await;
    let mut session = proxy.connect().await;
    session.query_drop(large_answer("'broken off',", 100_000)).await.unwrap_err();
    wait_until("the session ends", async || proxy.metrics().clients() == 1.0).await;
    assert_eq!(target(&mut other).await, "replica");
}

async fn a_replica_that_falls_silent(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let meddler = Meddler::start(sandbox.replica().address(), "silence", 20, Harm::Silence).await;
    let proxy = behind(sandbox, None, Some(&meddler)).await;
    let mut session = proxy.connect().await;
    let mut killer = proxy.connect().await;
    let id = session.id();
    let running = tokio::spawn(async move { session.query_drop("SELECT name, 'silence' FROM here").await });
    wait_until("the read runs", async || {
        proxy.metrics().sum("ramsplit_backend_connections", &[("route", "replica"), ("state", "active")])
            == 1.0
    })
    .await;
    killer.query_drop(format!("KILL {id}")).await.unwrap();
    running.await.unwrap().unwrap_err();
    wait_until("the session ends", async || proxy.metrics().clients() == 1.0).await;
}

async fn a_primary_that_breaks_off(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    for keep in [0, 2, 5, 40] {
        let meddler = Meddler::start(sandbox.primary().address(), "broken off", keep, Harm::Close).await;
        let proxy = behind(sandbox, Some(&meddler), None).await;
        let mut other = proxy.connect().await;
        let mut session = proxy.connect().await;
        let error = session.query_drop("SELECT 'broken off', @a, name FROM here").await.unwrap_err();
        // Its connection ends as its own to the server would.
        assert!(!matches!(&error, mysql_async::Error::Server(_)), "it hears {error}");
        wait_until("the session ends", async || proxy.metrics().clients() == 1.0).await;
        assert_eq!(target(&mut other).await, "replica");
        other.query_drop("SELECT @a").await.unwrap();
        session = proxy.connect().await;
        session.ping().await.unwrap();
    }
}

async fn servers_that_talk_garbage(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    for garbage in [
        &b"\x00\x00\x00\x01"[..],
        b"\x01\x00\x00\x01\xFD",
        b"\x03\x00\x00\x01\xFC\xFF",
        b"\x09\x00\x00\x01\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
        b"\x07\x00\x00\x01\x00\xFC\xFF\xFF\xFF\xFF\xFF",
        b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    ] {
        let harm = Harm::Instead(garbage);
        let meddler = Meddler::start(sandbox.primary().address(), "garbage", 0, harm).await;
        let proxy = behind(sandbox, Some(&meddler), None).await;
        let mut client = raw::log_in(proxy.address(), sandbox.application()).await;
        raw::send_query(&mut client, b"SELECT 'garbage', @a").await;
        timeout(raw::LIMIT, async { while client.framed.fill().await.is_ok_and(|more| more) {} })
            .await
            .unwrap();
        wait_until("the session ends", async || proxy.metrics().clients() == 0.0).await;
        assert_eq!(target(&mut proxy.connect().await).await, "replica");
    }
}

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
async fn pass_by(address: std::net::SocketAddr, user: ramsplit::config::Account, number: usize) {
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

/// A proxy with a meddler in the place of a server.
async fn behind(sandbox: &Sandbox, primary: Option<&Meddler>, replica: Option<&Meddler>) -> Proxy {
    Proxy::start_with(sandbox, |config| {
        let meddled = |name: &str, meddler: &Meddler| Backend {
            name: name.to_owned(),
            address: meddler.address().to_string(),
        };
        if let Some(meddler) = primary {
            config.primary = meddled("primary", meddler);
        }
        if let Some(meddler) = replica {
            config.replicas = vec![meddled("replica", meddler)];
        }
    })
    .await
}

/// A read of `rows` rows of 1000 bytes.
fn large_answer(what: &str, rows: u32) -> String {
    format!("SELECT {what} REPEAT('x', 1000) FROM numbers a, numbers b LIMIT {rows}")
}

/// Takes a whole answer and gives its length in bytes.
async fn take_answer(client: &mut ramsplit::backend::Connection) -> usize {
    let mut scanner = Scanner::new(client.capabilities, Answer::Results);
    let mut total = 0;
    while !scanner.is_done() {
        let len = match scanner.next(client.framed.received()).unwrap() {
            Event::Pass(len) => len,
            Event::Packet { kind, len } => {
                assert_ne!(kind, ramsplit::wire::response::Kind::Err, "after {total} bytes");
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
async fn send_large(client: &mut ramsplit::backend::Connection, head: &[u8], len: usize, tail: &[u8]) {
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
async fn first_row(client: &mut ramsplit::backend::Connection) -> Vec<u8> {
    let count = raw::receive(client).await;
    assert_eq!(count, [1], "one column, or {:?}", raw::code(&count));
    raw::receive(client).await;
    let row = raw::receive(client).await;
    assert_eq!(raw::receive(client).await[0], 0xFE);
    row[1..].to_vec()
}
