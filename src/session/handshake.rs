//! The connection phase: greeting, TLS, login; ends with a session whose client and primary agree.

use std::sync::Arc;

use aws_lc_rs::rand;
use mysql_common::constants::CapabilityFlags;
use tokio::net::TcpStream;

use super::{
    Error,
    account::{self, Admitted},
    context::{Context, Primary},
};
use crate::{
    net::{Stream, tls},
    wire::{
        Capabilities, Malformed, StatusFlags,
        err::SqlError,
        framed::{self, Framed},
        greeting::{Greeting, NONCE_LEN, Nonce},
        login::{FirstAnswer, Login},
        writer::PutField,
    },
};

/// A login packet is never longer than this many bytes.
const LOGIN_LIMIT: usize = 64 * 1024;

/// A client that is logged in at the primary.
pub(super) struct Welcomed {
    /// The client.
    pub client: Framed<Stream>,
    /// What it agreed on.
    pub capabilities: Capabilities,
    /// Its login as it was sent to the primary; a replica gets the same.
    pub login: Login,
    /// What the primary gave.
    pub admitted: Admitted,
    /// What the primary is.
    pub primary: Arc<Primary>,
}

/// Greets a client and logs it in.
///
/// # Errors
/// When the client fails or the primary refuses it; the client has been told.
pub(super) async fn welcome(context: &Context, socket: TcpStream, id: u32) -> Result<Welcomed, Error> {
    let peer = socket.peer_addr().ok();
    let mut client = Framed::new(Stream::new(socket).map_err(Error::client_io)?);
    let Some(primary) = context.primary.load_full() else {
        return Err(refuse(client, 0, context, &SqlError::primary_unreachable("never reached yet")).await);
    };
    let greeting = greeting(context, &primary, id)?;
    let mut payload = Vec::new();
    greeting.put(&mut payload);
    client.put(0, &payload);
    client.flush(context.config.write_timeout).await.map_err(Error::client_io)?;

    let (mut client, mut login, seq) = match read_login(context, client).await {
        Ok(read) => read,
        Err((client, seq, error)) => {
            if let Some(client) = client.filter(|_| error.is_protocol()) {
                return Err(refuse(client, seq, context, &SqlError::bad_handshake()).await);
            }
            return Err(error);
        }
    };
    let capabilities = login.capabilities.intersection(greeting.capabilities);
    if !capabilities.has(CapabilityFlags::CLIENT_PLUGIN_AUTH | CapabilityFlags::CLIENT_SECURE_CONNECTION) {
        let error = SqlError::new(
            1251,
            "08004",
            "Client does not support authentication protocol requested by server; consider upgrading MySQL client",
        );
        return Err(refuse(client, seq, context, &error).await);
    }
    login.capabilities = capabilities;
    if let Some(peer) = peer {
        add_attribute(&mut login, b"_proxy_client_host", peer.ip().to_string().as_bytes());
    }
    let admitted = account::admit(context, &mut client, seq, &login, &greeting.nonce).await;
    match admitted {
        Ok(admitted) => Ok(Welcomed { client, capabilities, login, admitted, primary }),
        Err(refused) => {
            let payload = refused.payload.clone();
            client.put(refused.seq, &payload);
            // The login failed already; how the telling goes changes nothing.
            let _ = client.flush(context.config.write_timeout).await;
            client.shutdown().await;
            Err(refused.error)
        }
    }
}

/// Tells a client why it cannot stay.
async fn refuse(mut client: Framed<Stream>, seq: u8, context: &Context, error: &SqlError) -> Error {
    let payload = if seq == 0 { error.to_first_payload() } else { error.to_payload() };
    client.put(seq, &payload);
    // The client is turned away either way.
    let _ = client.flush(context.config.write_timeout).await;
    client.shutdown().await;
    Error::Told(error.clone())
}

/// The proxy's greeting: the primary's, but for id, nonce and what the proxy cannot do.
fn greeting(context: &Context, primary: &Primary, id: u32) -> Result<Greeting, Error> {
    let offered = primary.capabilities.intersection(Capabilities::SUPPORTED);
    let capabilities = match context.tls {
        Some(_) => offered.with(CapabilityFlags::CLIENT_SSL),
        None => offered.without(CapabilityFlags::CLIENT_SSL),
    };
    Ok(Greeting {
        version: primary.version.clone(),
        connection_id: id,
        nonce: fresh_nonce()?,
        capabilities,
        collation: primary.collation,
        status: StatusFlags::SERVER_STATUS_AUTOCOMMIT,
        plugin: primary.plugin.clone(),
    })
}

/// Random bytes as the servers make them: seven bits each, and neither zero, which ends strings, nor `$`,
/// which separates parts of stored passwords.
fn fresh_nonce() -> Result<Nonce, Error> {
    let mut nonce = [0; NONCE_LEN];
    rand::fill(&mut nonce).map_err(|_| Error::Told(SqlError::new(1105, "HY000", "No random numbers")))?;
    for byte in &mut nonce {
        *byte &= 0x7F;
        if *byte == 0 || *byte == b'$' {
            *byte += 1;
        }
    }
    Ok(nonce)
}

type ReadLogin = Result<(Framed<Stream>, Login, u8), (Option<Framed<Stream>>, u8, Error)>;

/// Reads the login, inside TLS when the client asks for that first.
async fn read_login(context: &Context, mut client: Framed<Stream>) -> ReadLogin {
    let (answer, seq) = match read_answer(&mut client, 1).await {
        Ok(read) => read,
        Err(error) => return Err((Some(client), 2, error)),
    };
    match answer {
        FirstAnswer::Login(login) => Ok((client, login, seq)),
        FirstAnswer::Tls => {
            let mut client = begin_tls(context, client).await.map_err(|error| (None, 0, error))?;
            match read_answer(&mut client, 2).await {
                Ok((FirstAnswer::Login(login), seq)) => Ok((client, login, seq)),
                Ok((FirstAnswer::Tls, seq)) => {
                    Err((Some(client), seq, Error::client_malformed("TLS was asked for twice")))
                }
                Err(error) => Err((Some(client), 3, error)),
            }
        }
    }
}

/// Clients begin TLS without waiting for an answer to their request: only the packet is read here, what
/// follows belongs to TLS.
async fn read_answer(client: &mut Framed<Stream>, due: u8) -> Result<(FirstAnswer, u8), Error> {
    let packet = client.read_packet_only(LOGIN_LIMIT).await.map_err(Error::Client)?;
    let malformed = |malformed| Error::Client(framed::Error::Malformed(malformed));
    let packet = packet.numbered(due).map_err(malformed)?;
    let answer = FirstAnswer::parse(&packet.payload).map_err(malformed)?;
    Ok((answer, packet.next_seq))
}

async fn begin_tls(context: &Context, client: Framed<Stream>) -> Result<Framed<Stream>, Error> {
    let Some(acceptor) = &context.tls else {
        return Err(Error::client_malformed("TLS was asked for, and not offered"));
    };
    let Some(socket) = client.into_stream().into_plain() else {
        return Err(Error::client_malformed("TLS was asked for inside TLS"));
    };
    let stream = tls::accept(acceptor, socket).await.map_err(Error::client_io)?;
    Ok(Framed::new(stream))
}

fn add_attribute(login: &mut Login, name: &[u8], value: &[u8]) {
    if login.capabilities.has(CapabilityFlags::CLIENT_CONNECT_ATTRS) {
        login.attributes.put_lenenc_bytes(name);
        login.attributes.put_lenenc_bytes(value);
    }
}

impl Error {
    pub(super) const fn client_io(error: std::io::Error) -> Self {
        Self::Client(framed::Error::Io(error))
    }

    pub(super) const fn client_malformed(what: &'static str) -> Self {
        Self::Client(framed::Error::Malformed(Malformed::Invalid(what)))
    }
}
