//! Opening a connection: TCP, greeting, TLS, login.

use std::time::Duration;

use mysql_common::constants::CapabilityFlags;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::{
    Connection, Error,
    login::{AUTH_PACKET_LIMIT, Asked, Prover, authenticate},
};
use crate::{
    auth::{Credential, Plugin},
    config::BackendTls,
    net::{Stream, tls},
    wire::{
        Capabilities,
        framed::Framed,
        greeting::{FirstPacket, Greeting},
        login::Login,
    },
};

/// A plugin that no server has: naming it makes the server ask for the account's own, with a fresh nonce,
/// which then goes to whoever can answer.
pub const ASK_FOR_PLUGIN: &[u8] = b"ramsplit_ask";

/// Opens connections to one server.
#[derive(Clone)]
pub struct Dialer {
    /// `host:port`.
    pub address: String,
    /// When to encrypt.
    pub tls: BackendTls,
    /// How to encrypt; `None` when `tls` is off.
    pub connector: Option<TlsConnector>,
    /// The whole of opening a connection must end within this time. A client that has to answer in
    /// between is inside this time too.
    pub timeout: Duration,
}

/// A connection that the server let in.
pub struct Opened {
    /// The connection.
    pub connection: Connection,
    /// What the server said of itself.
    pub greeting: Greeting,
    /// The OK packet that ended the login.
    pub ok: Vec<u8>,
}

impl Dialer {
    /// Opens a connection and logs in with `credential`.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub async fn open(&self, login: Login, credential: &Credential, encrypt: bool) -> Result<Opened, Error> {
        let mut prover = credential.clone();
        timeout(self.timeout, self.open_unbounded(login, &mut prover, Some(credential), encrypt))
            .await
            .map_err(|_| Error::Timeout(self.timeout))?
    }

    /// Opens a connection; the server's question for the account's plugin goes to `prover`.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub async fn open_asking(
        &self,
        login: Login,
        prover: &mut (impl Prover + Send),
        encrypt: bool,
    ) -> Result<Opened, Error> {
        timeout(self.timeout, self.open_unbounded(login, prover, None, encrypt))
            .await
            .map_err(|_| Error::Timeout(self.timeout))?
    }

    async fn open_unbounded(
        &self,
        mut login: Login,
        prover: &mut impl Prover,
        credential: Option<&Credential>,
        encrypt: bool,
    ) -> Result<Opened, Error> {
        let mut server = Framed::new(Stream::new(TcpStream::connect(&self.address).await?)?);
        let packet = server.read_packet(AUTH_PACKET_LIMIT).await?;
        let greeting = match FirstPacket::parse(&packet.payload)? {
            FirstPacket::Greeting(greeting) => greeting,
            FirstPacket::Refused(err) => return Err(Error::Refused(err.to_payload())),
        };
        let mut seq = packet.next_seq;
        login.capabilities = agree(login.capabilities, greeting.capabilities)?;
        if self.encrypts(encrypt) {
            (server, seq) = self.begin_tls(server, seq, &mut login, &greeting).await?;
        }
        let plugin = Plugin::from_name(&greeting.plugin).filter(|plugin| *plugin != Plugin::Clear);
        let proof = plugin.and_then(|plugin| credential?.proof(plugin, &greeting.nonce));
        login.plugin = if proof.is_some() { greeting.plugin.clone() } else { ASK_FOR_PLUGIN.to_vec() };
        login.auth = proof.unwrap_or_default();
        let mut payload = Vec::new();
        login.put(&mut payload);
        server.put(seq, &payload);
        server.flush(self.timeout).await?;
        let asked = Asked::at_first(&login.plugin, greeting.nonce);
        let ok = authenticate(&mut server, prover, self.timeout, asked).await?;
        if login.capabilities.has(CapabilityFlags::CLIENT_COMPRESS) {
            server.stream_mut().compress();
        }
        let connection = Connection::new(server, login.capabilities, greeting.connection_id);
        Ok(Opened { connection, greeting, ok })
    }

    const fn encrypts(&self, client_does: bool) -> bool {
        match self.tls {
            BackendTls::Off => false,
            BackendTls::AsClient => client_does,
            BackendTls::Required | BackendTls::Verify { .. } => true,
        }
    }

    async fn begin_tls(
        &self,
        mut server: Framed<Stream>,
        seq: u8,
        login: &mut Login,
        greeting: &Greeting,
    ) -> Result<(Framed<Stream>, u8), Error> {
        let offered = greeting.capabilities.has(CapabilityFlags::CLIENT_SSL);
        let Some(connector) = self.connector.as_ref().filter(|_| offered) else {
            // A client that has TLS with the proxy loses nothing it could have had from this server.
            return if self.tls == BackendTls::AsClient { Ok((server, seq)) } else { Err(Error::NoTls) };
        };
        login.capabilities = login.capabilities.with(CapabilityFlags::CLIENT_SSL);
        let mut request = Vec::new();
        login.put_tls_request(&mut request);
        let seq = server.put(seq, &request);
        server.flush(self.timeout).await?;
        let Some(socket) = server.into_stream().into_plain() else { return Err(Error::NoTls) };
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let host = host.trim_matches(['[', ']']);
        Ok((Framed::new(tls::connect(connector, host, socket).await?), seq))
    }
}

/// What a session asks of a server: the client's flags, and session tracking where the server has it.
fn agree(client: Capabilities, server: Capabilities) -> Result<Capabilities, Error> {
    let needed = client.without(CapabilityFlags::CLIENT_SSL).without(client_only());
    let missing = needed.flags.difference(server.flags);
    if !missing.is_empty() {
        return Err(Error::Incapable(missing.bits()));
    }
    let tracked = server.flags.intersection(CapabilityFlags::CLIENT_SESSION_TRACK);
    Ok(Capabilities { mariadb: needed.mariadb.intersection(server.mariadb), ..needed.with(tracked) })
}

/// Flags by which clients speak of themselves; servers need not offer them.
const fn client_only() -> CapabilityFlags {
    CapabilityFlags::CLIENT_REMEMBER_OPTIONS
        .union(CapabilityFlags::CLIENT_SSL_VERIFY_SERVER_CERT)
        .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
}
