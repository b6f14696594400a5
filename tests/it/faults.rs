//! Bad input and broken peers: the one connection is told or ends, and nothing else notices.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use ramsplit::auth::Plugin;
use ramsplit::config::{Backend, ClientTls};
use ramsplit::sandbox::{Flavor, Sandbox};
use ramsplit::wire::writer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bed::{
    WHERE, account, connect, create_user, on_both, own, shared, target, threads_of, wait_for_statement,
    wait_until, with_schema,
};
use crate::meddler::{Harm, Meddler};
use crate::proxy::Proxy;
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
    a_primary_that_dies,
    servers_that_talk_garbage,
);

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

/// Its sessions end as they would without a proxy, and new ones begin when it is back.
async fn a_primary_that_dies(flavor: Flavor) {
    let sandbox = own(flavor).await;
    let proxy = Proxy::start(&sandbox).await;
    let mut idle = proxy.connect().await;
    let mut busy = proxy.connect().await;
    let running = tokio::spawn(async move { busy.query_drop("SELECT SLEEP(60), 'dies'").await });
    wait_for_statement(sandbox.primary(), "'dies'").await;
    sandbox.primary().kill().await;
    let error = running.await.unwrap().unwrap_err();
    assert!(error.is_fatal(), "{error}");
    idle.query_drop("SELECT 1").await.unwrap_err();
    let refusal = Conn::new(with_schema(proxy.address(), sandbox.application())).await.unwrap_err();
    assert!(matches!(&refusal, mysql_async::Error::Server(error) if error.code == 1429), "{refusal}");
    wait_until("nothing is left", async || proxy.metrics().clients() + proxy.metrics().backends() == 0.0)
        .await;
    sandbox.primary().start().await.unwrap();
    let mut session = proxy.connect().await;
    session.query_drop("CREATE TABLE reborn (a INT)").await.unwrap();
    wait_until("reads are back on the replica", async || target(&mut session).await == "replica").await;
    sandbox.stop().await.unwrap();
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
