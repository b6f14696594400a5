//! The same script runs against two addresses, and what they send must be equal byte for byte apart from ids.
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
use std::net::SocketAddr;

use mysql_async::prelude::Queryable;
use ramsplit::sandbox::{Flavor, Single};
use tokio::task::spawn_blocking;

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

/// Runs logins and script with every set of capabilities at `direct` and at `other`, and returns how many
/// answers were equal; a report of those that were not is the error.
fn compare(direct: SocketAddr, other: SocketAddr) -> Result<usize, String> {
    let mut equal = 0;
    let mut faults = String::new();
    for (set, capabilities) in SETS {
        let run = |address, side| {
            transcript(direct, address, capabilities).map_err(|error| format!("[{set}] {side}, {error}"))
        };
        let expected = run(direct, "direct")?;
        let found = run(other, "other")?;
        for ((name, expected), (_, found)) in expected.iter().zip(&found) {
            match report::difference(expected, found) {
                None => equal += 1,
                Some(difference) => {
                    let _ = writeln!(faults, "[{set}] {name}\n{difference}");
                }
            }
        }
    }
    if faults.is_empty() { Ok(equal) } else { Err(faults) }
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

/// A server with the accounts of the script and room for its values.
async fn server(flavor: Flavor) -> Single {
    let single = Single::start(options(flavor)).await.unwrap();
    let mut root = single.server().root().await.unwrap();
    for sql in [
        "CREATE USER diff IDENTIFIED BY 'pass word'",
        "CREATE USER bare",
        "GRANT ALL ON diff.* TO diff",
        "GRANT ALL ON diff.* TO bare",
        "SET GLOBAL max_allowed_packet = 67108864",
        "SET GLOBAL local_infile = ON",
    ] {
        root.query_drop(sql).await.unwrap();
    }
    root.disconnect().await.unwrap();
    single
}

/// The script is worth its name: a server answers it twice in the same bytes, so a difference through the
/// proxy is the proxy's.
async fn answers_the_same_twice(flavor: Flavor) {
    let single = server(flavor).await;
    let direct = single.server().address();
    let result = spawn_blocking(move || compare(direct, direct)).await.unwrap();
    single.stop().await.unwrap();
    match result {
        Ok(answers) => println!("{flavor}: {answers} answers are equal"),
        Err(report) => panic!("{report}"),
    }
}

#[tokio::test]
async fn mysql_answers_the_same_twice() {
    answers_the_same_twice(Flavor::MySql).await;
}

#[tokio::test]
async fn mariadb_answers_the_same_twice() {
    answers_the_same_twice(Flavor::MariaDb).await;
}
