//! Looks at the servers at intervals and keeps what sessions need to know of them.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, Opts, OptsBuilder, Row, Value, prelude::Queryable};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{
    Replica, State,
    health::{Report, judge},
};
use crate::{
    config::{Account, Backend},
    telemetry::metrics::ReplicaGauges,
};

/// Looks at one replica until it is dropped.
pub struct Monitor {
    /// What sessions see.
    pub replica: Arc<Replica>,
    /// The replica's address.
    pub server: Backend,
    /// The primary, which the replica must follow.
    pub primary: Backend,
    /// Who looks.
    pub account: Account,
    /// Time between two looks.
    pub interval: Duration,
    /// A look that takes longer finds the replica down.
    pub timeout: Duration,
    /// A replica later than this does not serve.
    pub max_lag: Duration,
    /// Where it shows.
    pub gauges: ReplicaGauges,
}

/// Connections of the monitor's own, opened when needed and kept.
#[derive(Default)]
struct Connections {
    primary: Option<Conn>,
    replica: Option<Conn>,
}

/// What a replica must prove before it serves: a restart may have emptied it, and what follows the primary from
/// the beginning knows of no lag at first. Whenever the connection to it is a new one, it has to prove it anew.
#[derive(Debug, Default)]
struct Proof {
    /// Where the primary was when the replica was met.
    target: Option<String>,
    complete: bool,
    /// The position that the replica had at the last look.
    position: String,
}

impl Monitor {
    /// Looks for ever. Ends only by being dropped.
    pub async fn run(self) {
        let mut connections = Connections::default();
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The primary's identity is kept while it is away: a replica may serve without it.
        let mut primary = None;
        let mut proof = Proof::default();
        loop {
            ticks.tick().await;
            if connections.replica.is_none() {
                proof = Proof::default();
            }
            let asked = self.identify(&mut connections.primary, &mut proof);
            if let Ok(Ok(identity)) = timeout(self.timeout, asked).await {
                primary = Some(identity);
            } else {
                connections.primary = None;
            }
            let look = timeout(self.timeout, self.look(&mut connections.replica, &mut proof)).await;
            let (state, lag) = match (look, &primary) {
                (Ok(Ok(report)), Some(primary)) => (judge(&report, primary, self.max_lag), report.lag),
                (Ok(Ok(report)), None) => (State::Joining, report.lag),
                (Ok(Err(error)), _) => {
                    tracing::debug!(replica = self.replica.name, %error, "the replica cannot be asked");
                    connections.replica = None;
                    (State::Down, None)
                }
                (Err(_), _) => {
                    connections.replica = None;
                    (State::Down, None)
                }
            };
            self.publish(state, lag);
        }
    }

    fn publish(&self, state: State, lag: Option<Duration>) {
        self.gauges.set(state == State::Serving, lag);
        self.replica.set_lag(lag);
        let before = self.replica.set_state(state);
        if before != state {
            tracing::info!(replica = self.replica.name, ?before, ?state, ?lag, "replica changed state");
        }
    }

    /// What replicas call this primary: its server uuid on MySQL, its server id on MariaDB. Notes where it is for
    /// a replica that has to prove itself.
    async fn identify(
        &self,
        connection: &mut Option<Conn>,
        proof: &mut Proof,
    ) -> mysql_async::Result<String> {
        let connection = open(connection, &self.primary, &self.account).await?;
        let words = Words::of(connection).await?;
        let question = format!("SELECT {}, {}", words.identity, words.written);
        let answer: Option<(Value, Value)> = connection.query_first(question).await?;
        let (identity, written) = answer
            .as_ref()
            .map_or_else(Default::default, |(identity, written)| (text(identity), text(written)));
        proof.target.get_or_insert(written);
        Ok(identity)
    }

    async fn look(&self, connection: &mut Option<Conn>, proof: &mut Proof) -> mysql_async::Result<Report> {
        let connection = open(connection, &self.server, &self.account).await?;
        let columns = Words::of(connection).await?;
        proof.examine(connection, columns).await?;
        let Some(status): Option<Row> = connection.query_first(columns.statement).await? else {
            return Ok(Report::default());
        };
        let field = |name: &str| status.get_opt::<Value, _>(name).and_then(Result::ok);
        let yes = |name: &str| field(name).is_some_and(|value| text(&value) == "Yes");
        let read_only: Option<Value> = connection.query_first("SELECT @@global.read_only").await?;
        Ok(Report {
            receiving: yes(columns.receiving),
            applying: yes(columns.applying),
            source: field(columns.source).as_ref().map(text).unwrap_or_default(),
            lag: field(columns.lag).and_then(|lag| text(&lag).parse().ok()).map(Duration::from_secs),
            // A number, or a word where the variable has more than two values.
            read_only: read_only.is_some_and(|value| !matches!(text(&value).as_str(), "" | "0" | "OFF")),
            complete: proof.complete,
        })
    }
}

impl Proof {
    /// Looks at the replica's position: whether it covers what must be there, and whether it went back, as it
    /// does when somebody resets the replica without a restart.
    async fn examine(&mut self, replica: &mut Conn, words: &Words) -> mysql_async::Result<()> {
        let position: Option<Value> = replica.query_first(format!("SELECT {}", words.executed)).await?;
        let position = position.as_ref().map(text).unwrap_or_default();
        if position != self.position && !covers(replica, words, &self.position).await? {
            *self = Self::default();
        }
        if let Some(target) = self.target.as_ref().filter(|_| !self.complete) {
            self.complete = covers(replica, words, target).await?;
        }
        self.position = position;
        Ok(())
    }
}

/// Whether the replica has executed all of `gtids`.
async fn covers(replica: &mut Conn, words: &Words, gtids: &str) -> mysql_async::Result<bool> {
    let answer: Option<Value> = replica.exec_first(words.covers, (gtids,)).await?;
    Ok(answer.is_some_and(|answer| text(&answer) == "1"))
}

/// Names that differ between the server families.
struct Words {
    /// What replicas call a primary.
    identity: &'static str,
    /// Where a primary is.
    written: &'static str,
    /// Where a replica is.
    executed: &'static str,
    /// Asks a replica whether it has executed these GTIDs.
    covers: &'static str,
    statement: &'static str,
    receiving: &'static str,
    applying: &'static str,
    source: &'static str,
    lag: &'static str,
}

impl Words {
    /// Those of the server at the other end.
    async fn of(connection: &mut Conn) -> mysql_async::Result<&'static Self> {
        Ok(if is_mariadb(connection).await? { &MARIADB } else { &MYSQL })
    }
}

/// <https://dev.mysql.com/doc/refman/en/show-replica-status.html>
const MYSQL: Words = Words {
    identity: "@@global.server_uuid",
    written: "@@global.gtid_executed",
    executed: "@@global.gtid_executed",
    covers: "SELECT GTID_SUBSET(?, @@global.gtid_executed)",
    statement: "SHOW REPLICA STATUS",
    receiving: "Replica_IO_Running",
    applying: "Replica_SQL_Running",
    source: "Source_UUID",
    lag: "Seconds_Behind_Source",
};

/// <https://mariadb.com/kb/en/show-replica-status/>
const MARIADB: Words = Words {
    identity: "@@global.server_id",
    written: "@@global.gtid_binlog_pos",
    executed: "@@global.gtid_slave_pos",
    covers: "SELECT MASTER_GTID_WAIT(?, 0) = 0",
    statement: "SHOW SLAVE STATUS",
    receiving: "Slave_IO_Running",
    applying: "Slave_SQL_Running",
    source: "Master_Server_Id",
    lag: "Seconds_Behind_Master",
};

async fn open<'a>(
    connection: &'a mut Option<Conn>,
    server: &Backend,
    account: &Account,
) -> mysql_async::Result<&'a mut Conn> {
    let opened = match connection.take() {
        Some(opened) => opened,
        None => Conn::new(options(server, account)).await?,
    };
    Ok(connection.insert(opened))
}

/// How the control plane connects.
pub fn options(server: &Backend, account: &Account) -> Opts {
    let (host, port) = server.host_and_port();
    OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port)
        .user(Some(&account.user))
        .pass(Some(account.password.as_str()))
        .prefer_socket(false)
        .into()
}

/// MariaDB names itself in its version; mysql_async gives only the numbers.
async fn is_mariadb(connection: &mut Conn) -> mysql_async::Result<bool> {
    let version: Option<String> = connection.query_first("SELECT VERSION()").await?;
    Ok(version.is_some_and(|version| version.contains("MariaDB")))
}

fn text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::NULL => String::new(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        other => other.as_sql(true),
    }
}
