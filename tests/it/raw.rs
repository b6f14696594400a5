//! A client that sends packets as it likes.

use std::net::SocketAddr;
use std::time::Duration;

use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};
use ramsplit::auth::{Credential, Plugin, Secret};
use ramsplit::backend::login::{Asked, authenticate};
use ramsplit::backend::{Connection, Error, Prover};
use ramsplit::config::Account;
use ramsplit::net::Stream;
use ramsplit::sandbox::Sandbox;
use ramsplit::wire::auth::AuthSwitch;
use ramsplit::wire::err::ErrPacket;
use ramsplit::wire::framed::Framed;
use ramsplit::wire::greeting::Greeting;
use ramsplit::wire::login::Login;
use ramsplit::wire::{Capabilities, Command, query};
use tokio::net::TcpStream;

/// A generous time for any step.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What this client can do.
pub(crate) const CAPABILITIES: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_LONG_FLAG)
    .union(CapabilityFlags::CLIENT_CONNECT_WITH_DB)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_DEPRECATE_EOF);

/// Connects and reads the greeting.
pub(crate) async fn greet(address: SocketAddr) -> (Framed<Stream>, Greeting) {
    let mut server = Framed::new(Stream::new(TcpStream::connect(address).await.unwrap()).unwrap());
    let packet = server.read_packet(4096).await.unwrap();
    let greeting = Greeting::parse(&packet.payload).unwrap();
    (server, greeting)
}

/// Logs in, and lists what the server asked for on the way: `switch`, `password`, `known`.
pub(crate) async fn log_in_step_by_step(
    address: SocketAddr,
    account: &Account,
) -> Result<(Connection, Vec<&'static str>), Error> {
    log_in_as(address, account, CAPABILITIES).await
}

/// Logs in as a client that gets an EOF packet behind rows, which tells less than an OK packet.
pub(crate) async fn log_in_with_eof(address: SocketAddr, account: &Account) -> Connection {
    let flags = CAPABILITIES.difference(CapabilityFlags::CLIENT_DEPRECATE_EOF);
    log_in_as(address, account, flags).await.unwrap().0
}

async fn log_in_as(
    address: SocketAddr,
    account: &Account,
    flags: CapabilityFlags,
) -> Result<(Connection, Vec<&'static str>), Error> {
    let (mut server, greeting) = greet(address).await;
    let password = Secret::new(account.password.as_bytes());
    let plugin = Plugin::from_name(&greeting.plugin).unwrap();
    let mut login = login(account, plugin, plugin.proof(&password, &greeting.nonce));
    login.capabilities.flags = flags;
    let mut payload = Vec::new();
    login.put(&mut payload);
    server.put(1, &payload);
    server.flush(LIMIT).await?;
    let mut steps = Steps { credential: Credential::Password(password), seen: Vec::new() };
    let asked = Asked::at_first(&greeting.plugin, greeting.nonce);
    authenticate(&mut server, &mut steps, LIMIT, asked).await?;
    Ok((Connection::new(server, login.capabilities, greeting.connection_id), steps.seen))
}

/// Logs in.
pub(crate) async fn log_in(address: SocketAddr, account: &Account) -> Connection {
    log_in_step_by_step(address, account).await.unwrap().0
}

/// What a client is told that does not get in: code, SQLSTATE, text.
pub(crate) async fn refusal(address: SocketAddr, account: &Account) -> (u16, String, String) {
    let Err(Error::Refused(payload)) = log_in_step_by_step(address, account).await else {
        panic!("{} got in", account.user)
    };
    let err = ErrPacket::parse(&payload).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (err.code, text(err.sqlstate), text(err.message))
}

/// The login of `account` with the schema of the tests.
pub(crate) fn login(account: &Account, plugin: Plugin, auth: Vec<u8>) -> Login {
    Login {
        capabilities: Capabilities { flags: CAPABILITIES, mariadb: MariadbCapabilities::empty() },
        max_packet: 1 << 30,
        collation: 45,
        user: account.user.clone().into_bytes(),
        auth,
        schema: Sandbox::SCHEMA.into(),
        plugin: plugin.name().to_vec(),
        attributes: Vec::new(),
    }
}

/// Sends a command.
pub(crate) async fn send(client: &mut Connection, command: Command, argument: &[u8]) {
    client.framed.put(0, &[&[command as u8], argument].concat());
    client.framed.flush(LIMIT).await.unwrap();
}

/// Sends a COM_QUERY.
pub(crate) async fn send_query(client: &mut Connection, text: &[u8]) {
    let mut payload = Vec::new();
    query::put(&mut payload, client.capabilities, text);
    client.framed.put(0, &payload);
    client.framed.flush(LIMIT).await.unwrap();
}

/// The next packet's payload.
pub(crate) async fn receive(client: &mut Connection) -> Vec<u8> {
    client.framed.read_packet(1 << 20).await.unwrap().payload
}

/// The code of an ERR packet; `None` for any other.
pub(crate) fn code(payload: &[u8]) -> Option<u16> {
    ErrPacket::parse(payload).ok().map(|err| err.code)
}

/// Whether the other side answers a COM_PING.
pub(crate) async fn is_alive(client: &mut Connection) -> bool {
    send(client, Command::COM_PING, &[]).await;
    receive(client).await.first() == Some(&0)
}

struct Steps {
    credential: Credential,
    seen: Vec<&'static str>,
}

impl Prover for Steps {
    async fn prove(&mut self, switch: AuthSwitch<'_>) -> Result<Vec<u8>, Error> {
        self.seen.push("switch");
        match self.credential.prove(switch).await {
            // MySQL asks users that it does not know by any of its plugins, so as not to tell them from others.
            Err(Error::Plugin(_)) => Ok(vec![0]),
            proof => proof,
        }
    }

    async fn password(&mut self) -> Result<Secret, Error> {
        self.seen.push("password");
        self.credential.password().await
    }

    async fn accepted(&mut self) -> Result<(), Error> {
        self.seen.push("known");
        self.credential.accepted().await
    }

    async fn more(&mut self, data: &[u8]) -> Result<Vec<u8>, Error> {
        self.credential.more(data).await
    }
}
