//! The same script runs against a server and through the proxy, and what comes back must be equal byte for byte
//! apart from ids.
//!
//! The client is the test's own and shares no code with the library: framing, login and the end of every
//! answer are written again here, so that one mistake cannot hide another. It can set any capability flags.

mod capability;
mod client;
mod login;
mod report;
mod script;
mod wire;

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};

use mysql_async::prelude::Queryable;
use ramsplit::config::{Backend, Config, RouteMode};
use ramsplit::sandbox::{Flavor, Sandbox, Server};
use ramsplit::server as proxy;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::support::options;
use capability::SETS;
use client::Client;
use login::Account;

const ACCOUNT: Account = Account { user: "diff", password: "pass word", schema: "diff" };
const BARE: Account = Account { user: "bare", password: "", schema: "diff" };

/// Logins whose verdicts are compared before the script runs.
const LOGINS: &[(&str, Account)] = &[
    ("login", ACCOUNT),
    ("login without a password", BARE),
    ("login without a schema", Account { schema: "", ..ACCOUNT }),
    ("wrong password", Account { password: "wrong", ..ACCOUNT }),
    ("no password", Account { password: "", ..ACCOUNT }),
    ("a password too many", Account { password: "wrong", ..BARE }),
    ("no such user", Account { user: "nobody_of_this_name", ..ACCOUNT }),
    ("no such schema", Account { schema: "no_such_schema", ..ACCOUNT }),
];

/// What one side answered, step by step.
type Transcript = Vec<(String, Vec<u8>)>;

/// Runs logins and script with every set of capabilities at `direct` and then at the named others. The text
/// tells how many answers were equal, or reports those that were not.
fn compare(direct: SocketAddr, others: &[(&str, SocketAddr)]) -> Result<String, String> {
    let mut equal = 0;
    let mut faults = String::new();
    for (set, capabilities) in SETS {
        let expected = transcript(direct, direct, capabilities)?;
        for (side, address) in others {
            let found = transcript(direct, *address, capabilities).unwrap_or_else(|error| {
                let _ = writeln!(faults, "[{set}, {side}] {error}");
                Transcript::new()
            });
            for ((name, expected), (_, found)) in expected.iter().zip(&found) {
                match report::difference(expected, found) {
                    None => equal += 1,
                    Some(difference) => {
                        let _ = writeln!(faults, "[{set}, {side}] {name}\n{difference}");
                    }
                }
            }
        }
    }
    if faults.is_empty() { Ok(format!("{equal} answers are equal")) } else { Err(faults) }
}

/// Every answer of `address`. `primary` is asked for an empty schema first. The error names the step that
/// failed, and what had come of its answer by then.
fn transcript(primary: SocketAddr, address: SocketAddr, capabilities: u64) -> Result<Transcript, String> {
    empty_schema(primary).map_err(|error| format!("no empty schema: {error}"))?;
    let login = |name: &str, account: &Account| {
        Client::login(address, account, capabilities).map_err(|error| format!("{name}: {error}"))
    };
    let mut answers = Transcript::new();
    for (name, account) in LOGINS {
        let (_, verdict) = login(name, account)?;
        answers.push((String::from(*name), verdict));
    }
    let (mut client, _) = login("login for the script", &ACCOUNT)?;
    for (number, step) in script::steps().iter().enumerate() {
        let name = format!("step {number}: {}", step.name);
        match client.run(&step.action) {
            Ok(answer) => answers.push((name, answer)),
            Err(error) => return Err(format!("{name}: {error}\n{}", report::tail(client.received()))),
        }
    }
    Ok(answers)
}

fn empty_schema(primary: SocketAddr) -> std::io::Result<()> {
    let (mut client, _) = Client::login(primary, &Account { schema: "", ..ACCOUNT }, SETS[0].1)?;
    for sql in ["DROP DATABASE IF EXISTS diff", "CREATE DATABASE diff"] {
        client.run(&script::Action::Query(sql.into()))?;
    }
    Ok(())
}

/// Through a proxy that is a plain hop, and through one that reads from the replica where it may.
async fn answers_are_the_servers_own(flavor: Flavor) {
    let sandbox = Sandbox::start(options(flavor)).await.unwrap();
    run_as_root(sandbox.primary(), ACCOUNTS).await;
    for server in [sandbox.primary(), sandbox.replica()] {
        run_as_root(server, SETTINGS).await;
    }
    let shutdown = CancellationToken::new();
    let hop = start_proxy(&sandbox, RouteMode::Primary, &shutdown).await;
    let split = start_proxy(&sandbox, RouteMode::Auto, &shutdown).await;
    let direct = sandbox.primary().address();
    let result = spawn_blocking(move || compare(direct, &[("hop", hop), ("split", split)])).await.unwrap();
    shutdown.cancel();
    sandbox.stop().await.unwrap();
    match result {
        Ok(text) => println!("{flavor}: {text}"),
        Err(report) => panic!("{report}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_answers_are_the_servers_own() {
    answers_are_the_servers_own(Flavor::MySql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_answers_are_the_servers_own() {
    answers_are_the_servers_own(Flavor::MariaDb).await;
}

const ACCOUNTS: &[&str] = &[
    "CREATE USER diff IDENTIFIED BY 'pass word'",
    "CREATE USER bare",
    "GRANT ALL ON diff.* TO diff",
    "GRANT ALL ON diff.* TO bare",
];

/// Room for the script's values, and no wait for a disk, which nothing here is about.
const SETTINGS: &[&str] = &[
    "SET GLOBAL max_allowed_packet = 67108864",
    "SET GLOBAL local_infile = ON",
    "SET GLOBAL innodb_flush_log_at_trx_commit = 0",
    "SET GLOBAL sync_binlog = 0",
];

async fn run_as_root(server: &Server, statements: &[&str]) {
    let mut root = server.root().await.unwrap();
    for sql in statements {
        root.query_drop(*sql).await.unwrap();
    }
    root.disconnect().await.unwrap();
}

/// Starts a proxy before the sandbox's servers and returns its address.
async fn start_proxy(sandbox: &Sandbox, route: RouteMode, shutdown: &CancellationToken) -> SocketAddr {
    let backend = |name: &str, server: &Server| Backend {
        name: name.to_owned(),
        address: server.address().to_string(),
    };
    let config = Config {
        route,
        replicas: vec![backend("replica", sandbox.replica())],
        monitor: Some(sandbox.monitor().clone()),
        ..Config::new((Ipv4Addr::LOCALHOST, 0).into(), backend("primary", sandbox.primary()))
    };
    let proxy = proxy::Server::bind(config).await.unwrap();
    let address = proxy.address();
    tokio::spawn(proxy.run(shutdown.clone()));
    address
}
