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

impl Monitor {
    /// Looks for ever. Ends only by being dropped.
    pub async fn run(self) {
        let mut connections = Connections::default();
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The primary's identity is kept while it is away: a replica may serve without it.
        let mut primary = None;
        loop {
            ticks.tick().await;
            if let Ok(Ok(identity)) = timeout(self.timeout, self.identify(&mut connections.primary)).await {
                primary = Some(identity);
            } else {
                connections.primary = None;
            }
            let look = timeout(self.timeout, self.look(&mut connections.replica)).await;
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

    /// What replicas call this primary: its server uuid on MySQL, its server id on MariaDB.
    async fn identify(&self, connection: &mut Option<Conn>) -> mysql_async::Result<String> {
        let connection = open(connection, &self.primary, &self.account).await?;
        let column =
            if is_mariadb(connection).await? { "@@global.server_id" } else { "@@global.server_uuid" };
        let identity: Option<Value> = connection.query_first(format!("SELECT {column}")).await?;
        Ok(identity.as_ref().map(text).unwrap_or_default())
    }

    async fn look(&self, connection: &mut Option<Conn>) -> mysql_async::Result<Report> {
        let connection = open(connection, &self.server, &self.account).await?;
        let mariadb = is_mariadb(connection).await?;
        let columns = if mariadb { &MARIADB_COLUMNS } else { &MYSQL_COLUMNS };
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
        })
    }
}

/// Names that differ between the server families.
struct Columns {
    statement: &'static str,
    receiving: &'static str,
    applying: &'static str,
    source: &'static str,
    lag: &'static str,
}

/// <https://dev.mysql.com/doc/refman/en/show-replica-status.html>
const MYSQL_COLUMNS: Columns = Columns {
    statement: "SHOW REPLICA STATUS",
    receiving: "Replica_IO_Running",
    applying: "Replica_SQL_Running",
    source: "Source_UUID",
    lag: "Seconds_Behind_Source",
};

/// <https://mariadb.com/kb/en/show-replica-status/>
const MARIADB_COLUMNS: Columns = Columns {
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
