//! Who gets in, how, and what the others are told.

use std::collections::HashMap;
use std::net::SocketAddr;

use mysql_async::prelude::Queryable;
use mysql_async::{ChangeUserOpts, Conn, OptsBuilder};
use ramsplit::auth::Plugin;
use ramsplit::backend::Connection;
use ramsplit::config::{Account, StaticAccount};
use ramsplit::sandbox::{Flavor, Sandbox, connect_options};
use ramsplit::wire::change_user::ChangeUser;
use tokio::process::Command;

use crate::bed::{
    WHERE, account, connect, create_user, on_both, own_with, shared, target, wait_until, with_schema,
};
use crate::conformance::plugins;
use crate::proxy::Proxy;
use crate::raw;
use crate::support::options;
use crate::tls::any_certificate;

on_both!(
    the_greeting_is_the_primarys,
    without_tls,
    an_empty_password,
    refusals_are_the_servers_own,
    a_changed_password,
    a_schema_at_login,
    static_accounts,
    more_connections_than_allowed,
    a_change_of_user,
    a_refused_change_of_user,
);

async fn the_greeting_is_the_primarys(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let (_, direct) = raw::greet(sandbox.primary().address()).await;
    let (_, proxied) = raw::greet(proxy.address()).await;
    assert_eq!(proxied.version, direct.version);
    assert_eq!(proxied.collation, direct.collation);
    assert_eq!(proxied.plugin, direct.plugin);
    assert_eq!(proxied.status, direct.status);
    assert_ne!(proxied.nonce, direct.nonce);
    assert_ne!(proxied.connection_id, direct.connection_id);
}

/// By RSA where the plugin needs it, and by the recovered hash on MariaDB.
async fn without_tls(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let user = account("plain", "a password longer than twenty bytes");
    create_user(sandbox, &user.user, &identified(&user)).await;
    let mut session = connect(proxy.address(), &user).await;
    assert_eq!(target(&mut session).await, "replica");

    // The second time the proxy knows what proves it.
    let (_, steps) = raw::log_in_step_by_step(proxy.address(), &user).await.unwrap();
    match flavor {
        Flavor::MariaDb => assert_eq!(steps, Vec::<&str>::new()),
        Flavor::MySql => assert_eq!(steps, ["known"]),
    }
    let mut session = connect(proxy.address(), &user).await;
    assert_eq!(target(&mut session).await, "replica");
    assert_eq!(current_user(&mut session).await, "plain@%");
}

/// The server may know a password that the proxy does not: it asks, and the reads reach the replica.
#[tokio::test]
async fn mysql_server_that_knows_the_proof_already() {
    let sandbox = shared(Flavor::MySql).await;
    let proxy = Proxy::start(sandbox).await;
    let user = account("known", "s3cret");
    create_user(sandbox, &user.user, &identified(&user)).await;
    connect(sandbox.primary().address(), &user).await.disconnect().await.unwrap();
    let (_, steps) = raw::log_in_step_by_step(sandbox.primary().address(), &user).await.unwrap();
    assert_eq!(steps, ["known"]);
    let (_, steps) = raw::log_in_step_by_step(proxy.address(), &user).await.unwrap();
    assert!(steps.ends_with(&["password"]), "{steps:?}");
    assert_eq!(target(&mut connect(proxy.address(), &user).await).await, "replica");
}

async fn an_empty_password(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let user = account("nopass", "");
    create_user(sandbox, &user.user, "").await;
    for _ in 0..2 {
        let mut session = connect(proxy.address(), &user).await;
        assert_eq!(target(&mut session).await, "replica");
    }
    // MySQL's C library proves it by a zero byte.
    let fresh = Proxy::start(sandbox).await;
    for proxy in [&fresh, &fresh, &proxy] {
        let (mut server, greeting) = raw::greet(proxy.address()).await;
        let login = raw::login(&user, Plugin::CachingSha2, vec![0]);
        let mut payload = Vec::new();
        login.put(&mut payload);
        let mut next = server.put(1, &payload);
        server.flush(raw::LIMIT).await.unwrap();
        loop {
            let packet = server.read_packet(4096).await.unwrap();
            match packet.payload[0] {
                0 => break,
                0xFE => next = server.put(packet.next_seq, if flavor == Flavor::MySql { &[0] } else { &[] }),
                other => panic!("{other} {next}: {:?}", packet.payload),
            }
            server.flush(raw::LIMIT).await.unwrap();
        }
        let mut client = Connection::new(server, login.capabilities, greeting.connection_id);
        let found = client.ask(WHERE.as_bytes(), raw::LIMIT).await.unwrap();
        assert_eq!(found.as_deref(), Some(&b"replica"[..]));
    }
    let wrong = account("nopass", "x");
    assert_same_refusal(&proxy, sandbox, &wrong, 1045).await;
}

async fn refusals_are_the_servers_own(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let right = account("refused", "right");
    create_user(sandbox, &right.user, &identified(&right)).await;
    let strangers = [
        account("refused", "wrong"),
        account("refused", ""),
        account("stranger", "x"),
        account("stranger", ""),
    ];
    for stranger in &strangers {
        assert_same_refusal(&proxy, sandbox, stranger, 1045).await;
    }
    // Nor does the right one change that.
    connect(proxy.address(), &right).await;
    for stranger in &strangers {
        assert_same_refusal(&proxy, sandbox, stranger, 1045).await;
    }
    connect(proxy.address(), &right).await;
}

async fn a_changed_password(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let (old, new) = (account("changed", "old"), account("changed", "new"));
    create_user(sandbox, &old.user, &identified(&old)).await;
    connect(proxy.address(), &old).await;
    let mut root = sandbox.primary().root().await.unwrap();
    root.query_drop("ALTER USER changed@'%' IDENTIFIED BY 'new'").await.unwrap();
    sandbox.wait_for_replica().await.unwrap();
    assert_same_refusal(&proxy, sandbox, &old, 1045).await;
    let mut session = connect(proxy.address(), &new).await;
    assert_eq!(target(&mut session).await, "replica");
    assert_same_refusal(&proxy, sandbox, &old, 1045).await;
}

async fn a_schema_at_login(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let user = account("guest", "s3cret");
    create_user(sandbox, &user.user, &identified(&user)).await;
    let mut session = connect(proxy.address(), &user).await;
    let schema: Option<String> = session.query_first("SELECT DATABASE()").await.unwrap();
    assert_eq!(schema.as_deref(), Some(Sandbox::SCHEMA));
    let mut session = Conn::new(connect_options(proxy.address(), &user)).await.unwrap();
    let schema: Option<Option<String>> = session.query_first("SELECT DATABASE()").await.unwrap();
    assert_eq!(schema, Some(None));

    let unknown = |address| connect_options(address, &user).db_name(Some("no_such"));
    let direct = refusal(unknown(sandbox.primary().address())).await;
    assert_eq!(refusal(unknown(proxy.address())).await, direct);
    let mut root = sandbox.primary().root().await.unwrap();
    root.query_drop("GRANT ALL ON *.* TO guest@'%'").await.unwrap();
    let direct = refusal(unknown(sandbox.primary().address())).await;
    assert_eq!(direct.0, 1049);
    assert_eq!(refusal(unknown(proxy.address())).await, direct);
}

/// MariaDB's performance schema is off by default.
#[tokio::test]
async fn mysql_connection_attributes() {
    let sandbox = shared(Flavor::MySql).await;
    let proxy = Proxy::start(sandbox).await;
    let attributes = HashMap::from([("program_name".to_owned(), "attribute test".to_owned())]);
    let options = with_schema(proxy.address(), sandbox.application()).connect_attributes(attributes);
    let mut session = Conn::new(options).await.unwrap();
    let statement = "SELECT attr_name, attr_value FROM performance_schema.session_account_connect_attrs \
                     WHERE processlist_id = CONNECTION_ID()";
    let seen: HashMap<String, String> =
        session.query::<(String, String), _>(statement).await.unwrap().into_iter().collect();
    assert_eq!(seen.get("program_name").map(String::as_str), Some("attribute test"), "{seen:?}");
    assert_eq!(seen.get("_proxy_client_host").map(String::as_str), Some("127.0.0.1"), "{seen:?}");
}

/// A plugin that the proxy cannot speak: the client and the primary settle it between them. The driver of
/// the other tests has it not, the command-line client has.
#[tokio::test]
async fn mariadb_ed25519() {
    // The package of the server program alone has no plugins; those of its version are with its test suite.
    let mut options = options(Flavor::MariaDb);
    options.arguments.push(format!("--plugin-dir={}", plugins(Flavor::MariaDb).display()));
    let sandbox = &own_with(options).await;
    let proxy = Proxy::start(sandbox).await;
    for server in [sandbox.replica(), sandbox.primary()] {
        server.root().await.unwrap().query_drop("INSTALL SONAME 'auth_ed25519'").await.unwrap();
    }
    create_user(sandbox, "edwards", "IDENTIFIED VIA ed25519 USING PASSWORD('s3cret')").await;
    let before = proxy.metrics().queries("primary", "no_credentials");
    let output = mariadb_client(proxy.address(), "edwards", "s3cret", WHERE).await;
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "primary", "{output:?}");
    assert_eq!(proxy.metrics().queries("primary", "no_credentials") - before, 1.0);

    let refused = [sandbox.primary().address(), proxy.address()].map(|address| async move {
        let output = mariadb_client(address, "edwards", "wrong", WHERE).await;
        String::from_utf8(output.stderr).unwrap()
    });
    let [direct, proxied] = refused;
    let direct = direct.await;
    assert!(direct.contains("ERROR 1045 (28000): Access denied for user 'edwards'@"), "{direct}");
    assert_eq!(proxied.await, direct);
}

async fn static_accounts(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let front = account("front", "front door");
    let proxy = Proxy::start_with(sandbox, |config| {
        let backend = sandbox.application().clone();
        config.accounts = vec![StaticAccount { client: front.clone(), backend }];
    })
    .await;
    for tls in [None, Some(any_certificate())] {
        let options = with_schema(proxy.address(), &front).ssl_opts(tls);
        let mut session = Conn::new(options).await.unwrap();
        assert_eq!(target(&mut session).await, "replica");
        assert_eq!(current_user(&mut session).await, "app@%");
    }
    for (password, used) in [("back door", "YES"), ("", "NO")] {
        let (code, state, message) = raw::refusal(proxy.address(), &account("front", password)).await;
        assert_eq!((code, state.as_str()), (1045, "28000"));
        assert!(message.ends_with(&format!("(using password: {used})")), "{message}");
    }
    // The primary does not know it, and others still get in by the primary.
    assert_eq!(raw::refusal(sandbox.primary().address(), &front).await.0, 1045);
    proxy.connect().await;
}

async fn more_connections_than_allowed(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| config.max_connections = 1).await;
    let mut first = proxy.connect().await;
    let (code, state, message) = refusal(with_schema(proxy.address(), sandbox.application())).await;
    assert_eq!((code, state.as_str(), message.as_str()), (1040, "HY000", "Too many connections"));
    first.ping().await.unwrap();
    first.disconnect().await.unwrap();
    wait_until("there is room again", async || {
        Conn::new(with_schema(proxy.address(), sandbox.application())).await.is_ok()
    })
    .await;
}

async fn a_change_of_user(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let other = account("other", "s3cret");
    create_user(sandbox, &other.user, &identified(&other)).await;
    let mut session = proxy.connect().await;
    assert_eq!(target(&mut session).await, "replica");
    session.query_drop("CREATE TEMPORARY TABLE here SELECT 'mine' AS name").await.unwrap();
    assert_eq!(target(&mut session).await, "mine");
    let change = ChangeUserOpts::default()
        .with_user(Some(other.user.clone()))
        .with_pass(Some(other.password.to_string()))
        .with_db_name(Some(Sandbox::SCHEMA.to_owned()));
    session.change_user(change).await.unwrap();
    // A temporary table is a write, so the replica may need a moment.
    wait_until("its reads go to the replica", async || target(&mut session).await == "replica").await;
    assert_eq!(current_user(&mut session).await, "other@%");
    let user: Option<String> = session.query_first("SELECT @a, CURRENT_USER()").await.unwrap().map(last);
    assert_eq!(user.as_deref(), Some("other@%"), "on the primary");
}

/// MySQL then ends the connection; on MariaDB it lives on as it was.
async fn a_refused_change_of_user(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut told = Vec::new();
    for address in [sandbox.primary().address(), proxy.address()] {
        let mut client = raw::log_in(address, sandbox.application()).await;
        let change = ChangeUser {
            user: b"app".to_vec(),
            auth: Vec::new(),
            schema: Vec::new(),
            collation: Some(45),
            plugin: b"mysql_native_password".to_vec(),
            attributes: Vec::new(),
        };
        let mut payload = Vec::new();
        change.put(&mut payload, client.capabilities);
        client.framed.put(0, &payload);
        client.framed.flush(raw::LIMIT).await.unwrap();
        // Where the server asks by another plugin, the answer is as empty.
        let mut packet = client.framed.read_packet(4096).await.unwrap();
        if packet.payload.first() == Some(&0xFE) {
            client.framed.put(packet.next_seq, &[]);
            client.framed.flush(raw::LIMIT).await.unwrap();
            packet = client.framed.read_packet(4096).await.unwrap();
        }
        assert_eq!(raw::code(&packet.payload), Some(1045));
        told.push(packet.payload);
        match flavor {
            Flavor::MariaDb => {
                assert_eq!(client.ask(WHERE.as_bytes(), raw::LIMIT).await.unwrap().unwrap().len(), 7);
                let user = client.ask(b"SELECT CURRENT_USER()", raw::LIMIT).await.unwrap().unwrap();
                assert_eq!(user, b"app@%");
            }
            Flavor::MySql => assert!(client.framed.read_packet(4096).await.is_err()),
        }
    }
    assert_eq!(told[0], told[1]);
    wait_until("the sessions have ended", async || proxy.metrics().clients() == 0.0).await;
}

/// `IDENTIFIED BY` its password, by the server's default plugin.
pub(crate) fn identified(account: &Account) -> String {
    format!("IDENTIFIED BY '{}'", account.password.as_str())
}

fn last((_, last): (Option<String>, String)) -> String {
    last
}

pub(crate) async fn current_user(session: &mut Conn) -> String {
    session.query_first("SELECT CURRENT_USER()").await.unwrap().unwrap()
}

/// What a client is told that does not get in: code, SQLSTATE, text.
pub(crate) async fn refusal(options: OptsBuilder) -> (u16, String, String) {
    match Conn::new(options).await {
        Err(mysql_async::Error::Server(error)) => (error.code, error.state, error.message),
        other => panic!("{other:?}"),
    }
}

async fn assert_same_refusal(proxy: &Proxy, sandbox: &Sandbox, account: &Account, code: u16) {
    let direct = raw::refusal(sandbox.primary().address(), account).await;
    assert_eq!(direct.0, code);
    assert_eq!(raw::refusal(proxy.address(), account).await, direct);
}

async fn mariadb_client(
    address: SocketAddr,
    user: &str,
    password: &str,
    statement: &str,
) -> std::process::Output {
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "--protocol=tcp", "--skip-column-names", "--host=127.0.0.1"]);
    command.arg(format!("--port={}", address.port())).arg(format!("--user={user}"));
    command.env("MYSQL_PWD", password).args(["-e", statement, Sandbox::SCHEMA]);
    command.output().await.expect("the command-line client `mariadb` is needed")
}
