//! What most tests stand on: real servers with the tables that show where a statement ran. Tests that do
//! their servers no harm share a sandbox a flavor, which lives until the process ends and is then swept by
//! its guard; the others start one of their own.

use std::sync::LazyLock;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use ramsplit::config::Account;
use ramsplit::sandbox::{Flavor, Options, Sandbox, Server, connect_options};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use crate::support::options;

/// A certain read whose answer is the server that gave it: `primary` or `replica`.
pub(crate) const WHERE: &str = "SELECT name FROM here";

/// Makes each `async fn(Flavor)` a test on MariaDB and one on MySQL.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod mariadb {
            $(#[tokio::test] async fn $test() { super::$test(ramsplit::sandbox::Flavor::MariaDb).await; })*
        }
        mod mysql {
            $(#[tokio::test] async fn $test() { super::$test(ramsplit::sandbox::Flavor::MySql).await; })*
        }
    };
}
pub(crate) use on_both;

/// The servers that tests share.
pub(crate) async fn shared(flavor: Flavor) -> &'static Sandbox {
    static MARIADB: OnceCell<Sandbox> = OnceCell::const_new();
    static MYSQL: OnceCell<Sandbox> = OnceCell::const_new();
    // Its tasks watch the servers, so it must outlive the test that came first.
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    let cell = match flavor {
        Flavor::MariaDb => &MARIADB,
        Flavor::MySql => &MYSQL,
    };
    cell.get_or_init(|| async move { RUNTIME.spawn(own(flavor)).await.unwrap() }).await
}

/// Servers for one test alone.
pub(crate) async fn own(flavor: Flavor) -> Sandbox {
    own_with(options(flavor)).await
}

/// Servers for one test alone, made of something else than usual.
pub(crate) async fn own_with(options: Options) -> Sandbox {
    let sandbox = Sandbox::start(options).await.unwrap();
    let mut writer = connect(sandbox.primary().address(), sandbox.application()).await;
    for statement in [
        "CREATE TABLE here (name VARCHAR(10) NOT NULL)",
        "INSERT INTO here VALUES ('primary')",
        "CREATE TABLE numbers (n INT PRIMARY KEY)",
        "INSERT INTO numbers WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s",
    ] {
        writer.query_drop(statement).await.unwrap();
    }
    sandbox.wait_for_replica().await.unwrap();
    on_replica_alone(&sandbox, "UPDATE demo.here SET name = 'replica'").await;
    sandbox
}

/// Runs a write on the replica that the primary does not have.
pub(crate) async fn on_replica_alone(sandbox: &Sandbox, statement: &str) {
    let flavored = match sandbox.replica().program().flavor {
        Flavor::MySql => ["SET GLOBAL super_read_only = OFF", "SET GLOBAL super_read_only = ON"],
        // There, root may write.
        Flavor::MariaDb => ["DO 0", "DO 0"],
    };
    let mut root = sandbox.replica().root().await.unwrap();
    for statement in ["SET sql_log_bin = 0", flavored[0], statement, flavored[1]] {
        root.query_drop(statement).await.unwrap();
    }
    root.disconnect().await.unwrap();
}

/// A new account with all rights on the schema of the tests, on both servers; `how` is what follows its
/// name in CREATE USER.
pub(crate) async fn create_user(sandbox: &Sandbox, user: &str, how: &str) {
    let mut root = sandbox.primary().root().await.unwrap();
    root.query_drop(format!("CREATE USER {user}@'%' {how}")).await.unwrap();
    root.query_drop(format!("GRANT ALL ON {}.* TO {user}@'%'", Sandbox::SCHEMA)).await.unwrap();
    root.disconnect().await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
}

/// Name and password as an account.
pub(crate) fn account(user: &str, password: &str) -> Account {
    Account { user: user.to_owned(), password: Zeroizing::new(password.to_owned()) }
}

/// How to connect as `account` with the schema of the tests.
pub(crate) fn with_schema(address: std::net::SocketAddr, account: &Account) -> OptsBuilder {
    connect_options(address, account).db_name(Some(Sandbox::SCHEMA))
}

/// A connection as `account` with the schema of the tests.
pub(crate) async fn connect(address: std::net::SocketAddr, account: &Account) -> Conn {
    Conn::new(with_schema(address, account)).await.unwrap()
}

/// Where the session's reads go now.
pub(crate) async fn target(session: &mut Conn) -> String {
    session.query_first(WHERE).await.unwrap().unwrap()
}

/// Connections of `user` at a server.
pub(crate) async fn threads_of(server: &Server, user: &str) -> u64 {
    let mut root = server.root().await.unwrap();
    let statement = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?";
    let count = root.exec_first(statement, (user,)).await.unwrap().unwrap();
    root.disconnect().await.unwrap();
    count
}

/// The id of the connection that runs a statement with `marker` in it; waits until there is one.
pub(crate) async fn wait_for_statement(server: &Server, marker: &str) -> u64 {
    let mut found = None;
    wait_until("the statement runs", async || {
        found = statement(server, marker).await;
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// Waits until no statement with `marker` in it runs.
pub(crate) async fn wait_for_no_statement(server: &Server, marker: &str) {
    wait_until("the statement ends", async || statement(server, marker).await.is_none()).await;
}

async fn statement(server: &Server, marker: &str) -> Option<u64> {
    let mut root = server.root().await.unwrap();
    let statement =
        "SELECT id FROM information_schema.processlist WHERE info LIKE ? AND id <> CONNECTION_ID()";
    let found = root.exec_first(statement, (format!("%{marker}%"),)).await.unwrap();
    root.disconnect().await.unwrap();
    found
}

/// Waits until `condition` holds, for half a minute at most.
pub(crate) async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition().await {
        assert!(Instant::now() < deadline, "it did not come true that {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
