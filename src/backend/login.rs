//! The authentication exchange with a server, whoever can prove the account.

use std::time::Duration;

use super::Error;
use crate::{
    auth::{Credential, Plugin, Secret, plugin, rsa},
    net::Stream,
    wire::{
        auth::{AuthPacket, AuthSwitch},
        framed::Framed,
        greeting::Nonce,
    },
};

/// Packets of the exchange are never longer than this many bytes.
pub const AUTH_PACKET_LIMIT: usize = 64 * 1024;

/// A server that is told nothing more hears so within this time, or not.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(1);

/// `caching_sha2_password`: the server knew the proof.
pub const FAST_ACCEPTED: &[u8] = &[0x03];
/// `caching_sha2_password`: the server wants the password itself.
const FULL_AUTHENTICATION: &[u8] = &[0x04];
/// `caching_sha2_password`: asks for the public key.
pub const REQUEST_PUBLIC_KEY: &[u8] = &[0x02];

/// Something that can prove an account to a server.
pub trait Prover {
    /// The answer to a request to prove the account by a certain plugin.
    ///
    /// # Errors
    /// When it cannot.
    fn prove(&mut self, switch: AuthSwitch<'_>) -> impl Future<Output = Result<Vec<u8>, Error>> + Send;

    /// The password itself.
    ///
    /// # Errors
    /// When it is not to be had.
    fn password(&mut self) -> impl Future<Output = Result<Secret, Error>> + Send;

    /// `caching_sha2_password` knew the proof and does not need the password.
    ///
    /// # Errors
    /// When the prover fails on hearing it.
    fn accepted(&mut self) -> impl Future<Output = Result<(), Error>> + Send;

    /// The answer to data of a plugin that the proxy does not know.
    ///
    /// # Errors
    /// When there is none.
    fn more(&mut self, data: &[u8]) -> impl Future<Output = Result<Vec<u8>, Error>> + Send;
}

/// Runs the exchange to its end and gives the OK packet's payload.
///
/// # Errors
/// [`Error::Refused`] with the server's ERR packet, or whatever stopped the exchange.
pub async fn authenticate(
    server: &mut Framed<Stream>,
    prover: &mut impl Prover,
    write_limit: Duration,
    asked: Asked,
) -> Result<Vec<u8>, Error> {
    let result = exchange(server, prover, write_limit, asked).await;
    if let Err(Error::Client(_) | Error::Rsa(_)) = &result {
        give_up(server).await;
    }
    result
}

/// The client failed in the middle. A server counts connections that break off in the handshake and in the
/// end blocks their host (`max_connect_errors`), which would be the proxy's: so it gets a proof that it can
/// refuse.
async fn give_up(server: &mut Framed<Stream>) {
    let refusal = async {
        // Whatever number is due, a wrong one is refused as well.
        server.put(3, &[]);
        server.flush(GIVE_UP_LIMIT).await?;
        server.read_packet(AUTH_PACKET_LIMIT).await
    };
    // It is only for the server's count.
    let _ = tokio::time::timeout(GIVE_UP_LIMIT, refusal).await;
}

async fn exchange(
    server: &mut Framed<Stream>,
    prover: &mut impl Prover,
    write_limit: Duration,
    mut asked: Asked,
) -> Result<Vec<u8>, Error> {
    loop {
        let packet = server.read_packet(AUTH_PACKET_LIMIT).await?;
        let mut seq = packet.next_seq;
        let answer = match AuthPacket::parse(&packet.payload)? {
            AuthPacket::Ok => return Ok(packet.payload),
            AuthPacket::Err => return Err(Error::Refused(packet.payload)),
            AuthPacket::Switch(switch) => {
                asked = Asked::by(switch);
                if asked.plugin == Some(Plugin::Clear) && !server.stream().is_encrypted() {
                    return Err(Error::Plugin("mysql_clear_password without TLS".to_owned()));
                }
                prover.prove(switch).await?
            }
            AuthPacket::More(FAST_ACCEPTED) if asked.is_caching_sha2() => {
                prover.accepted().await?;
                continue;
            }
            AuthPacket::More(FULL_AUTHENTICATION) if asked.is_caching_sha2() => {
                let password = prover.password().await?;
                if server.stream().is_encrypted() {
                    Plugin::Clear.proof(&password, &asked.nonce)
                } else {
                    let key = fetch_public_key(server, seq, write_limit).await?;
                    seq = key.next_seq;
                    rsa::encrypt(&password, &asked.nonce, &key.pem)?
                }
            }
            AuthPacket::More(data) => prover.more(data).await?,
            AuthPacket::Other => return Err(Error::Plugin("multi-factor authentication".to_owned())),
        };
        server.put(seq, &answer);
        server.flush(write_limit).await?;
    }
}

/// What the server asked for last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    plugin: Option<Plugin>,
    nonce: Nonce,
}

impl Asked {
    /// By its greeting.
    pub fn at_first(plugin: &[u8], nonce: Nonce) -> Self {
        Self { plugin: Plugin::from_name(plugin), nonce }
    }

    fn by(switch: AuthSwitch<'_>) -> Self {
        Self {
            plugin: Plugin::from_name(switch.plugin),
            nonce: plugin::nonce(switch.data).unwrap_or_default(),
        }
    }

    fn is_caching_sha2(&self) -> bool {
        self.plugin == Some(Plugin::CachingSha2)
    }
}

struct PublicKey {
    pem: Vec<u8>,
    next_seq: u8,
}

async fn fetch_public_key(
    server: &mut Framed<Stream>,
    seq: u8,
    write_limit: Duration,
) -> Result<PublicKey, Error> {
    server.put(seq, REQUEST_PUBLIC_KEY);
    server.flush(write_limit).await?;
    let packet = server.read_packet(AUTH_PACKET_LIMIT).await?;
    match AuthPacket::parse(&packet.payload)? {
        AuthPacket::More(pem) => Ok(PublicKey { pem: pem.to_vec(), next_seq: packet.next_seq }),
        _ => Err(Error::Refused(packet.payload)),
    }
}

/// A credential proves itself.
impl Prover for Credential {
    async fn prove(&mut self, switch: AuthSwitch<'_>) -> Result<Vec<u8>, Error> {
        let unknown = || Error::Plugin(String::from_utf8_lossy(switch.plugin).into_owned());
        let plugin = Plugin::from_name(switch.plugin).ok_or_else(unknown)?;
        // A clear password needs no nonce, and has none.
        let nonce = plugin::nonce(switch.data).unwrap_or_default();
        self.proof(plugin, &nonce).ok_or_else(unknown)
    }

    async fn password(&mut self) -> Result<Secret, Error> {
        match self {
            Self::Password(password) => Ok(password.clone()),
            Self::Native(_) => Err(Error::Plugin("caching_sha2_password".to_owned())),
        }
    }

    async fn accepted(&mut self) -> Result<(), Error> {
        Ok(())
    }

    async fn more(&mut self, _data: &[u8]) -> Result<Vec<u8>, Error> {
        Err(Error::Plugin("(one with steps of its own)".to_owned()))
    }
}
