//! The accounts of a sandbox, with passwords made up at every start.

use mysql_async::prelude::Queryable;
use zeroize::Zeroizing;

use super::error::Error;
use super::program::Flavor;
use super::server::Server;
use crate::config::Account;

/// The accounts beside `root`.
pub(super) struct Accounts {
    pub(super) application: Account,
    pub(super) monitor: Account,
    pub(super) replicator: Account,
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accounts").finish_non_exhaustive()
    }
}

/// The schema that the application's account owns.
pub(super) const SCHEMA: &str = "demo";

/// Creates schema and accounts on the primary, with the server's default mechanism; replication brings them
/// to the replica.
pub(super) async fn create(primary: &Server) -> Result<Accounts, Error> {
    let accounts = Accounts {
        application: account("app")?,
        monitor: account("monitor")?,
        replicator: account("replicator")?,
    };
    let mut root = primary.root().await?;
    for statement in statements(primary.program().flavor, &accounts) {
        root.query_drop(statement).await?;
    }
    root.disconnect().await?;
    Ok(accounts)
}

/// A word of hexadecimal digits that nobody can guess, two a byte, 32 bytes at most.
pub(super) fn random_word(bytes: usize) -> Result<String, Error> {
    let random: [u8; 32] = random_bytes()?;
    Ok(random.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect())
}

/// Bytes that nobody can guess.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes)
}

fn account(user: &str) -> Result<Account, Error> {
    Ok(Account { user: user.to_owned(), password: Zeroizing::new(random_word(12)?) })
}

fn statements(flavor: Flavor, accounts: &Accounts) -> Vec<String> {
    let create = |account: &Account| {
        format!("CREATE USER '{}'@'%' IDENTIFIED BY '{}'", account.user, account.password.as_str())
    };
    let mut statements = vec![
        format!("CREATE DATABASE {SCHEMA}"),
        create(&accounts.application),
        create(&accounts.monitor),
        create(&accounts.replicator),
        format!("GRANT ALL ON {SCHEMA}.* TO app"),
        "GRANT REPLICATION SLAVE ON *.* TO replicator".to_owned(),
        // The account tables hold what a pass-through login needs.
        "GRANT SELECT ON mysql.* TO monitor".to_owned(),
    ];
    let flavored: &[&str] = match flavor {
        Flavor::MySql => &[
            "GRANT REPLICATION CLIENT, PROCESS ON *.* TO monitor",
            "GRANT SELECT ON performance_schema.* TO monitor",
        ],
        Flavor::MariaDb => &[
            "GRANT BINLOG MONITOR, SLAVE MONITOR, PROCESS ON *.* TO monitor",
            // MariaDB's set-up opens these to TCP, without a password.
            "DROP USER IF EXISTS root@'127.0.0.1', root@'::1'",
        ],
    };
    statements.extend(flavored.iter().map(|statement| (*statement).to_owned()));
    statements
}
