//! GTID replication from the primary to the replica.

use std::time::Duration;

use mysql_async::Row;
use mysql_async::prelude::Queryable;

use super::error::Error;
use super::program::{Flavor, Program, Version};
use super::server::Server;
use crate::config::Account;

/// Makes `replica` follow `primary` from its own position.
pub(super) async fn join(primary: &Server, replica: &Server, account: &Account) -> Result<(), Error> {
    let words = Words::of(replica.program());
    let Words { change, source, replica: word, position } = words;
    let address = primary.address();
    let mut root = replica.root().await?;
    root.query_drop(format!(
        "{change} TO {source}_HOST = '{}', {source}_PORT = {}, {source}_USER = '{}', {source}_PASSWORD = '{}', \
         {source}_CONNECT_RETRY = 1, {position}",
        address.ip(),
        address.port(),
        account.user,
        account.password.as_str(),
    ))
    .await?;
    root.query_drop(format!("START {word}")).await?;
    Ok(root.disconnect().await?)
}

/// Waits until `replica` has executed all that `primary` has.
pub(super) async fn wait(primary: &Server, replica: &Server) -> Result<(), Error> {
    let (ask, reached) = match primary.program().flavor {
        Flavor::MySql => ("SELECT @@global.gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET"),
        Flavor::MariaDb => ("SELECT @@global.gtid_binlog_pos", "MASTER_GTID_WAIT"),
    };
    let seconds = LIMIT.as_secs();
    let mut root = primary.root().await?;
    let position: String = root.query_first(ask).await?.unwrap_or_default();
    root.disconnect().await?;

    let mut root = replica.root().await?;
    let late: Option<i64> = root.query_first(format!("SELECT {reached}('{position}', {seconds})")).await?;
    if late == Some(0) {
        return Ok(root.disconnect().await?);
    }
    let Words { replica: word, .. } = Words::of(replica.program());
    let status: Option<Row> = root.query_first(format!("SHOW {word} STATUS")).await?;
    Err(Error::Behind { position, seconds, reason: reason(status.as_ref()) })
}

/// Ends the connections on which replicas follow `server`. A shutdown of MySQL waits 8 s for idle ones.
pub(super) async fn release(server: &Server) -> Result<(), Error> {
    if server.program().flavor == Flavor::MariaDb {
        return Ok(());
    }
    let mut root = server.root().await?;
    let followers: Vec<u64> = root
        .query("SELECT processlist_id FROM performance_schema.threads WHERE processlist_command LIKE 'Binlog Dump%'")
        .await?;
    for follower in followers {
        root.query_drop(format!("KILL {follower}")).await?;
    }
    Ok(root.disconnect().await?)
}

/// The errors in a row of `SHOW REPLICA STATUS`.
fn reason(status: Option<&Row>) -> String {
    let Some(status) = status else { return "replication is not set up".to_owned() };
    let errors: Vec<String> = ["Last_IO_Error", "Last_SQL_Error"]
        .into_iter()
        .filter_map(|column| status.get_opt::<String, _>(column)?.ok())
        .filter(|error| !error.is_empty())
        .collect();
    if errors.is_empty() { "it reports no error".to_owned() } else { errors.join("; ") }
}

/// The words of the replication statements, which MySQL 8.4 changed.
struct Words {
    change: &'static str,
    source: &'static str,
    replica: &'static str,
    /// Use GTIDs; and for an account of `caching_sha2_password`, get the key for its password.
    position: &'static str,
}

impl Words {
    fn of(program: &Program) -> Self {
        match program.flavor {
            Flavor::MySql if program.version >= Version(8, 4, 0) => Self {
                change: "CHANGE REPLICATION SOURCE",
                source: "SOURCE",
                replica: "REPLICA",
                position: "SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1",
            },
            Flavor::MySql => Self {
                change: "CHANGE MASTER",
                source: "MASTER",
                replica: "SLAVE",
                position: "MASTER_AUTO_POSITION = 1, GET_MASTER_PUBLIC_KEY = 1",
            },
            Flavor::MariaDb => Self {
                change: "CHANGE MASTER",
                source: "MASTER",
                replica: "SLAVE",
                position: "MASTER_USE_GTID = slave_pos",
            },
        }
    }
}

/// How long a replica may take to catch up with what the sandbox itself has written.
const LIMIT: Duration = Duration::from_secs(60);
