//! The replica is lost in every way there is, again and again, under load: no read fails or shows a wrong row, and
//! the replica serves again each time.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use ramsplit::config::Backend;
use ramsplit::sandbox::{Flavor, Sandbox};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bed::{WHERE, on_both, own_with, wait_until};
use crate::consistency::history::{Event, Kind, violations};
use crate::proxy::Proxy;
use crate::support::options;

on_both!(a_replica_that_is_lost_again_and_again);

/// Rounds of one test, unless RAMSPLIT_ROUNDS says otherwise: each fault once.
const ROUNDS: usize = FAULTS.len();
const SESSIONS: u32 = 6;
const FAULTS: [Fault; 6] =
    [Fault::Emptied, Fault::Paused, Fault::Cut, Fault::AppliesNothing, Fault::WrongSource, Fault::Killed];

/// What happens to the replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is killed, and comes back without any data.
    Emptied,
    /// It stands still, and its connections stay open.
    Paused,
    /// Nothing reaches the proxy any more, and no connection is closed.
    Cut,
    /// Its applier stops.
    AppliesNothing,
    /// It follows nobody.
    WrongSource,
    /// It is killed, and comes back with its data.
    Killed,
}

async fn a_replica_that_is_lost_again_and_again(flavor: Flavor) {
    let rounds = std::env::var("RAMSPLIT_ROUNDS").map_or(ROUNDS, |number| number.parse().unwrap());
    let sandbox = own_with(options(flavor)).await;
    let network = Network::to(sandbox.replica().address()).await;
    let proxy = Proxy::start_with(&sandbox, |config| {
        config.replicas = vec![Backend { name: "replica".to_owned(), address: network.address.to_string() }];
        config.wait = Duration::ZERO;
    })
    .await;
    let mut writer = proxy.connect().await;
    writer.query_drop("CREATE TABLE registers (id INT PRIMARY KEY, v BIGINT NOT NULL)").await.unwrap();
    for id in 0..SESSIONS {
        writer.query_drop(format!("INSERT INTO registers VALUES ({id}, 0)")).await.unwrap();
    }
    let done = CancellationToken::new();
    let began = Instant::now();
    let mut sessions = JoinSet::new();
    for session in 0..SESSIONS {
        sessions.spawn(work(session, proxy.connect().await, done.clone(), began));
    }
    for (round, fault) in FAULTS.into_iter().cycle().take(rounds).enumerate() {
        sleep(Duration::from_millis(300)).await;
        let took = suffer(fault, &sandbox, &network, &proxy).await;
        println!("{flavor} round {round}: {fault:?}, serving again after {:.2} s", took.as_secs_f64());
    }
    done.cancel();
    let history: Vec<_> = sessions.join_all().await.into_iter().flatten().collect();
    let reads = history.iter().filter(|event| event.kind == Kind::Read).count();
    let on_replica = proxy.metrics().queries("replica", "read");
    println!(
        "{flavor}: {} operations, {on_replica} of {reads} reads on the replica, none failed",
        history.len()
    );
    assert_eq!(violations(&history, false), []);
    assert!(on_replica > 0.0);
    sandbox.stop().await.unwrap();
}

/// Brings a fault about and ends it; gives the time from its end until the replica serves.
async fn suffer(fault: Fault, sandbox: &Sandbox, network: &Network, proxy: &Proxy) -> Duration {
    let replica = sandbox.replica();
    let mysql = replica.program().flavor == Flavor::MySql;
    let (word, change, port) = if mysql {
        ("REPLICA", "CHANGE REPLICATION SOURCE", "SOURCE_PORT")
    } else {
        ("SLAVE", "CHANGE MASTER", "MASTER_PORT")
    };
    let say = async |statements: String| {
        let mut root = replica.root().await.unwrap();
        for statement in statements.split("; ") {
            root.query_drop(statement).await.unwrap();
        }
        root.disconnect().await.unwrap();
    };
    let follow = |source: u16| format!("STOP {word}; {change} TO {port} = {source}; START {word}");
    match fault {
        Fault::Emptied => replica.wipe().await.unwrap(),
        Fault::Paused => replica.pause().await.unwrap(),
        Fault::Cut => network.cut(true),
        Fault::AppliesNothing => say(format!("STOP {word} SQL_THREAD")).await,
        Fault::WrongSource => say(follow(1)).await,
        Fault::Killed => replica.kill().await,
    }
    wait_until("the proxy knows", async || !proxy.replica_is_up()).await;
    sleep(Duration::from_millis(300)).await;
    let ended = Instant::now();
    match fault {
        Fault::Emptied => {
            replica.start().await.unwrap();
            sandbox.join_replica().await.unwrap();
        }
        Fault::Paused => replica.resume().unwrap(),
        Fault::Cut => network.cut(false),
        Fault::AppliesNothing => say(format!("START {word} SQL_THREAD")).await,
        Fault::WrongSource => say(follow(sandbox.primary().address().port())).await,
        Fault::Killed => replica.start().await.unwrap(),
    }
    wait_until("the replica serves", async || proxy.replica_is_up()).await;
    ended.elapsed()
}

/// Raises a register of its own, reads it, and reads what never changes, until it is told to stop.
async fn work(session: u32, mut connection: Conn, done: CancellationToken, began: Instant) -> Vec<Event> {
    let mut history = Vec::new();
    let mut value = 0;
    while !done.is_cancelled() {
        let mut event = |kind, value, begin| {
            history.push(Event { session, register: session, kind, value, begin, end: began.elapsed() });
        };
        let begin = began.elapsed();
        value += 1;
        connection.exec_drop("UPDATE registers SET v = ? WHERE id = ?", (value, session)).await.unwrap();
        event(Kind::Write, value, begin);
        for _ in 0..8 {
            let begin = began.elapsed();
            let read: Option<u64> =
                connection.exec_first("SELECT v FROM registers WHERE id = ?", (session,)).await.unwrap();
            event(Kind::Read, read.unwrap(), begin);
            let sum: Option<(u64, u64)> =
                connection.query_first("SELECT COUNT(*), SUM(n) FROM numbers").await.unwrap();
            assert_eq!(sum, Some((1000, 500_500)));
            let name: Option<String> = connection.query_first(WHERE).await.unwrap();
            assert!(name.is_some());
            sleep(Duration::from_millis(2)).await;
        }
    }
    history
}

/// The way to a server, which can be cut: then nothing passes, and nothing ends.
struct Network {
    address: SocketAddr,
    cut: watch::Sender<bool>,
    _stop: DropGuard,
}

impl Network {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = watch::Sender::new(false);
        let stop = CancellationToken::new();
        let state = cut.subscribe();
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                connections.spawn(relay(client, server, state.clone()));
            }
        }));
        Self { address, cut, _stop: stop.drop_guard() }
    }

    fn cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }
}

/// Ends with either side, or with an error that is its end.
async fn relay(client: TcpStream, server: SocketAddr, mut cut: watch::Receiver<bool>) -> std::io::Result<()> {
    let _ = cut.wait_for(|cut| !cut).await;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = TcpStream::connect(server).await?.into_split();
    tokio::select! {
        ended = pass(from_client, to_server, cut.clone()) => ended,
        ended = pass(from_server, to_client, cut) => ended,
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut cut: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let len = from.read(&mut piece).await?;
        let _ = cut.wait_for(|cut| !cut).await;
        if len == 0 {
            return Ok(());
        }
        to.write_all(&piece[..len]).await?;
    }
}
