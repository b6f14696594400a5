//! Sessions write and read registers and growing lists while the replica is held back in every way there is; what
//! they saw is then checked.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use ramsplit::config::Consistency;
use ramsplit::sandbox::{Flavor, Sandbox};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::history::{Event, Kind, Violation, violations};
use crate::bed::{on_both, own};
use crate::proxy::Proxy;

on_both!(each_session_by_itself, all_sessions_together, what_is_not_promised_is_found);

/// Operations of one test, unless RAMSPLIT_CHECK_OPERATIONS says otherwise.
const OPERATIONS: u32 = 40_000;
/// How long the replica is held back at a time, and left alone after that.
const TROUBLE: Duration = Duration::from_millis(500);
const CALM: Duration = Duration::from_millis(800);
const SESSIONS: u32 = 24;
/// Few, so that sessions meet; half of them are the lengths of lists.
const REGISTERS: u32 = 16;
const FIRST_LIST: u32 = REGISTERS / 2;

async fn each_session_by_itself(flavor: Flavor) {
    let run = Run::of(flavor, Consistency::Session, operations()).await;
    run.report("session");
    assert_eq!(violations(&run.history, false), []);
    assert!(run.on_replica > 0.1 * run.reads, "{} of {} reads on the replica", run.on_replica, run.reads);
}

async fn all_sessions_together(flavor: Flavor) {
    let run = Run::of(flavor, Consistency::Global, operations()).await;
    run.report("global");
    assert_eq!(violations(&run.history, true), []);
    assert!(run.on_replica > 0.1 * run.reads, "{} of {} reads on the replica", run.on_replica, run.reads);
}

/// The checker can find what it looks for.
async fn what_is_not_promised_is_found(flavor: Flavor) {
    let run = Run::of(flavor, Consistency::Eventual, OPERATIONS).await;
    run.report("eventual");
    let found = violations(&run.history, true);
    for violation in [Violation::OwnWrite, Violation::EarlierRead, Violation::OthersWrite] {
        let count = found.iter().filter(|(_, kind)| *kind == violation).count();
        println!("eventual: {count} of {violation:?}");
        assert!(count > 0, "{violation:?}");
    }
}

fn operations() -> u32 {
    std::env::var("RAMSPLIT_CHECK_OPERATIONS").map_or(OPERATIONS, |number| number.parse().unwrap())
}

/// What sessions did and saw.
struct Run {
    history: Vec<Event>,
    took: Duration,
    reads: f64,
    on_replica: f64,
    waits: String,
}

impl Run {
    async fn of(flavor: Flavor, consistency: Consistency, operations: u32) -> Self {
        let sandbox = own(flavor).await;
        let proxy = Proxy::start_with(&sandbox, |config| {
            config.consistency = consistency;
            // Each session alone shall do without: it is what the settings say by default.
            config.wait =
                if consistency == Consistency::Global { Duration::from_millis(20) } else { Duration::ZERO };
        })
        .await;
        let mut writer = proxy.connect().await;
        writer.query_drop("CREATE TABLE registers (id INT PRIMARY KEY, v BIGINT NOT NULL)").await.unwrap();
        writer
            .query_drop("CREATE TABLE lists (list INT, n INT AUTO_INCREMENT PRIMARY KEY, KEY (list))")
            .await
            .unwrap();
        for id in 0..FIRST_LIST {
            writer.query_drop(format!("INSERT INTO registers VALUES ({id}, 0)")).await.unwrap();
        }
        let began = Instant::now();
        let mut sessions = JoinSet::new();
        for session in 0..SESSIONS {
            let connection = proxy.connect().await;
            sessions.spawn(work(session, connection, operations / SESSIONS, began));
        }
        let done = CancellationToken::new();
        let (histories, ()) = tokio::join!(
            async {
                let histories = sessions.join_all().await;
                done.cancel();
                histories
            },
            disturb(&sandbox, &done),
        );
        let took = began.elapsed();
        let history: Vec<_> = histories.into_iter().flatten().collect();
        let metrics = proxy.metrics();
        let reads = history.iter().filter(|event| event.kind == Kind::Read).count() as f64;
        let waits = ["arrived", "late"]
            .map(|outcome| {
                let count = metrics.sum("ramsplit_replica_wait_seconds_count", &[("outcome", outcome)]);
                let sum = metrics.sum("ramsplit_replica_wait_seconds_sum", &[("outcome", outcome)]);
                format!("{count} waits {outcome}, {:.2} ms on average", sum / count.max(1.0) * 1e3)
            })
            .join("; ");
        let on_replica = metrics.queries("replica", "read");
        sandbox.stop().await.unwrap();
        Self { history, took, reads, on_replica, waits }
    }

    fn report(&self, level: &str) {
        println!(
            "{level}: {} operations in {:.1} s, {} of {} reads on the replica; {}",
            self.history.len(),
            self.took.as_secs_f64(),
            self.on_replica,
            self.reads,
            self.waits
        );
    }
}

/// One session's operations: a third writes. By a generator of its own, so that a run can be had again.
async fn work(session: u32, mut connection: Conn, operations: u32, began: Instant) -> Vec<Event> {
    let mut history = Vec::with_capacity(operations as usize);
    let mut random = fastrand::Rng::with_seed(session.into());
    for _ in 0..operations {
        let register = random.u32(..REGISTERS);
        let kind = if random.u32(..3) == 0 { Kind::Write } else { Kind::Read };
        let (prepared, on_primary) = (random.bool(), random.u32(..10) == 0);
        let begin = began.elapsed();
        let value = match kind {
            Kind::Write => write(&mut connection, register, prepared).await,
            Kind::Read => read(&mut connection, register, prepared, on_primary).await,
        };
        let end = began.elapsed();
        history.push(Event { session, register, kind, value, begin, end });
    }
    history
}

/// Raises a register or appends to a list, and gives the register's value or the new key.
async fn write(connection: &mut Conn, register: u32, prepared: bool) -> u64 {
    let is_list = register >= FIRST_LIST;
    let statement = if is_list {
        "INSERT INTO lists (list) VALUES (?)"
    } else {
        "UPDATE registers SET v = LAST_INSERT_ID(v + 1) WHERE id = ?"
    };
    if prepared {
        connection.exec_drop(statement, (register,)).await.unwrap();
    } else {
        connection.query_drop(statement.replace('?', &register.to_string())).await.unwrap();
    }
    connection.last_insert_id().unwrap()
}

/// Of a list, the greatest key: whoever appends has that key or a greater one from then on.
async fn read(connection: &mut Conn, register: u32, prepared: bool, on_primary: bool) -> u64 {
    let statement = if register >= FIRST_LIST {
        "SELECT COALESCE(MAX(n), 0) FROM lists WHERE list = ?"
    } else {
        "SELECT v FROM registers WHERE id = ?"
    };
    // What was seen there counts for the next read as well.
    let hint = if on_primary { "/* ramsplit: primary */ " } else { "" };
    let statement = format!("{hint}{statement}");
    let value = if prepared {
        connection.exec_first(statement, (register,)).await
    } else {
        connection.query_first(statement.replace('?', &register.to_string())).await
    };
    value.unwrap().unwrap()
}

/// Holds the replica back in every way, with some time between in which it serves.
async fn disturb(sandbox: &Sandbox, done: &CancellationToken) {
    let replica = sandbox.replica();
    let (word, change, delay) = match replica.program().flavor {
        Flavor::MySql => ("REPLICA", "CHANGE REPLICATION SOURCE", "SOURCE_DELAY"),
        Flavor::MariaDb => ("SLAVE", "CHANGE MASTER", "MASTER_DELAY"),
    };
    let statements = [
        ("FLUSH TABLES WITH READ LOCK".to_owned(), "UNLOCK TABLES".to_owned()),
        (
            format!("STOP {word}; {change} TO {delay} = 1; START {word}"),
            format!("STOP {word}; {change} TO {delay} = 0; START {word}"),
        ),
        (format!("STOP {word} SQL_THREAD"), format!("START {word} SQL_THREAD")),
    ];
    let mut root = replica.root().await.unwrap();
    loop {
        for (hold, release) in &statements {
            if done.run_until_cancelled(sleep(CALM)).await.is_none() {
                return;
            }
            root.query_drop(hold).await.unwrap();
            sleep(TROUBLE).await;
            root.query_drop(release).await.unwrap();
        }
        if done.run_until_cancelled(sleep(CALM)).await.is_none() {
            return;
        }
        replica.pause().await.unwrap();
        sleep(TROUBLE).await;
        replica.resume().unwrap();
    }
}
