//! What differs between the server families in what the control plane asks.

use mysql_async::{Conn, Opts, OptsBuilder, Value, prelude::Queryable};

use crate::{
    config::{Account, Backend},
    sql::Flavor,
};

/// Names and questions of one server family.
pub(super) struct Words {
    /// Whose they are.
    pub flavor: Flavor,
    /// What replicas call a primary.
    pub identity: &'static str,
    /// Where a primary is; empty when it has no GTIDs.
    pub written: &'static str,
    /// Where a replica is.
    pub executed: &'static str,
    /// Waits on a replica until it has executed these GTIDs, for a number of seconds at most; 1 when it has.
    pub wait: &'static str,
    /// Tells how a replica fares.
    pub status: &'static str,
    /// Columns of `status`.
    pub receiving: &'static str,
    pub applying: &'static str,
    pub source: &'static str,
    pub lag: &'static str,
}

/// <https://dev.mysql.com/doc/refman/en/show-replica-status.html>,
/// <https://dev.mysql.com/doc/refman/en/gtid-functions.html>
static MYSQL: Words = Words {
    flavor: Flavor::MySql,
    identity: "@@global.server_uuid",
    // A set from before GTIDs were switched off covers nothing that was written since.
    written: "IF(@@global.gtid_mode LIKE 'ON%', @@global.gtid_executed, '')",
    executed: "@@global.gtid_executed",
    wait: "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?) = 0",
    status: "SHOW REPLICA STATUS",
    receiving: "Replica_IO_Running",
    applying: "Replica_SQL_Running",
    source: "Source_UUID",
    lag: "Seconds_Behind_Source",
};

/// <https://mariadb.com/kb/en/show-replica-status/>, <https://mariadb.com/kb/en/master_gtid_wait/>
static MARIADB: Words = Words {
    flavor: Flavor::MariaDb,
    identity: "@@global.server_id",
    written: "@@global.gtid_binlog_pos",
    executed: "@@global.gtid_slave_pos",
    wait: "SELECT MASTER_GTID_WAIT(?, ?) = 0",
    status: "SHOW SLAVE STATUS",
    receiving: "Slave_IO_Running",
    applying: "Slave_SQL_Running",
    source: "Master_Server_Id",
    lag: "Seconds_Behind_Master",
};

impl Words {
    /// Those of the server at the other end. MariaDB names itself in its version; mysql_async gives only numbers.
    pub(super) async fn of(connection: &mut Conn) -> mysql_async::Result<&'static Self> {
        let version: Option<String> = connection.query_first("SELECT VERSION()").await?;
        let mariadb = version.is_some_and(|version| version.contains("MariaDB"));
        Ok(if mariadb { &MARIADB } else { &MYSQL })
    }
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

/// A value as text; NULL is empty.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::NULL => String::new(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        other => other.as_sql(true),
    }
}
