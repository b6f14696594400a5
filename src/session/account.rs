//! Who may log in: static accounts, credentials that are known, and else whoever the primary lets in.

use mysql_async::{Conn, prelude::Queryable};

use super::{
    Error,
    context::Context,
    prover::{ClientProver, Learned, Nonces, Proof, Unasked},
};
use crate::{
    auth::{Credential, NativeSecret, Plugin, Secret, plugin::NativeHash},
    backend::{self, dial::Opened},
    config::StaticAccount,
    net::Stream,
    sql::Flavor,
    wire::{
        auth::{AuthSwitch, more_data},
        err::SqlError,
        framed::Framed,
        greeting::Nonce,
        login::Login,
    },
};

/// A client that the primary let in.
pub(super) struct Admitted {
    /// Its connection to the primary, and the OK packet for the client.
    pub opened: Opened,
    /// The sequence number of that packet.
    pub seq: u8,
    /// What can log in as this client at a replica, if it is known.
    pub credential: Option<Credential>,
    /// The user at the servers.
    pub user: Vec<u8>,
    /// What it may prove itself by later on.
    pub nonces: Nonces,
}

/// A client that may not stay, and what it is to be told.
pub(super) struct Refused {
    /// For the log.
    pub error: Error,
    /// The ERR packet's payload.
    pub payload: Vec<u8>,
    /// Its sequence number.
    pub seq: u8,
}

/// Logs a client in at the primary.
///
/// # Errors
/// When it is not let in.
pub(super) async fn admit(
    context: &Context,
    client: &mut Framed<Stream>,
    seq: u8,
    login: &Login,
    nonce: &Nonce,
) -> Result<Admitted, Refused> {
    let fixed = context.config.accounts.iter().find(|account| account.client.user.as_bytes() == login.user);
    if let Some(account) = fixed {
        return admit_static(context, client, seq, login, nonce, account).await;
    }
    let nonces = Nonces::of_greeting(*nonce);
    let unasked = nonces.unasked(&login.plugin, &login.auth);
    if let Some(credential) = remembered(context, &login.user, unasked.as_ref()) {
        let encrypt = client.stream().is_encrypted();
        match context.primary_dialer.open(login.clone(), &credential, encrypt).await {
            Ok(opened) => {
                let seq = put_fast_accepted(client, seq, login);
                let user = login.user.clone();
                return Ok(Admitted { opened, seq, credential: Some(credential), user, nonces });
            }
            // The password was changed at the primary: ask anew.
            Err(backend::Error::Refused(_) | backend::Error::Plugin(_)) => {
                context.credentials.forget(&login.user);
            }
            Err(error) => return Err(refused(error, seq)),
        }
    }
    admit_asking(context, client, seq, login, nonces, unasked).await
}

/// The primary asks the client, through the proxy.
async fn admit_asking(
    context: &Context,
    client: &mut Framed<Stream>,
    seq: u8,
    login: &Login,
    mut nonces: Nonces,
    unasked: Option<Unasked>,
) -> Result<Admitted, Refused> {
    let encrypt = client.stream().is_encrypted();
    let mut prover = ClientProver::new(client, seq, context, unasked);
    let opened = context.primary_dialer.open_asking(login.clone(), &mut prover, encrypt).await;
    let learned = prover.into_learned();
    let opened = opened.map_err(|error| refused(error, learned.seq))?;
    let credential = learn(context, &login.user, &learned).await;
    nonces.note(&learned);
    Ok(Admitted { opened, seq: learned.seq, credential, user: login.user.clone(), nonces })
}

/// What is remembered of `user`, if the client has proved to be that.
fn remembered(context: &Context, user: &[u8], unasked: Option<&Unasked>) -> Option<Credential> {
    let known = context.credentials.find(user)?;
    unasked?.proofs.iter().any(|proof| proof.proves(&known)).then_some(known)
}

/// Finds out what a client has proved that becomes `user` in the middle of its session.
pub(super) async fn recognise(context: &Context, user: &[u8], unasked: Option<Unasked>) -> Option<Unasked> {
    let mut unasked = unasked?;
    unasked.known = remembered(context, user, Some(&unasked));
    for proof in &unasked.proofs {
        if unasked.known.is_none() {
            unasked.known = look_up_native(context, user, proof).await;
        }
    }
    Some(unasked)
}

/// What the exchange taught that can log in as `user` again; it is remembered for the next login.
pub(super) async fn learn(context: &Context, user: &[u8], learned: &Learned) -> Option<Credential> {
    let credential = match (&learned.credential, &learned.proof) {
        (Some(credential), _) => credential.clone(),
        (None, Some(proof)) => look_up_native(context, user, proof).await?,
        (None, None) => return None,
    };
    context.credentials.remember(user, credential.clone());
    Some(credential)
}

/// A static account is proven to the proxy; at the servers another account may stand for it.
async fn admit_static(
    context: &Context,
    client: &mut Framed<Stream>,
    mut seq: u8,
    login: &Login,
    nonce: &Nonce,
    account: &StaticAccount,
) -> Result<Admitted, Refused> {
    let password = Secret::new(account.client.password.as_bytes());
    let mut shown = login.clone();
    if !matches!(Plugin::from_name(&login.plugin), Some(Plugin::Native | Plugin::CachingSha2)) {
        let data = [&nonce[..], &[0]].concat();
        let mut payload = Vec::new();
        AuthSwitch { plugin: Plugin::Native.name(), data: &data }.put(&mut payload);
        client.put(seq, &payload);
        let answer = exchange(client, context).await.map_err(|error| refused(error, seq))?;
        (shown.auth, seq) = (answer.payload, answer.next_seq);
        shown.plugin = Plugin::Native.name().to_vec();
    }
    let proven =
        Plugin::from_name(&shown.plugin).is_some_and(|plugin| plugin.verify(&shown.auth, &password, nonce));
    if !proven {
        return Err(denied(client, &shown, seq));
    }
    let credential = Credential::Password(Secret::new(account.backend.password.as_bytes()));
    let backend_login = Login { user: account.backend.user.clone().into_bytes(), ..login.clone() };
    let user = backend_login.user.clone();
    let encrypt = client.stream().is_encrypted();
    let opened = context.primary_dialer.open(backend_login, &credential, encrypt).await;
    let opened = opened.map_err(|error| refused(error, seq))?;
    let seq = put_fast_accepted(client, seq, &shown);
    let nonces = Nonces::of_greeting(*nonce);
    Ok(Admitted { opened, seq, credential: Some(credential), user, nonces })
}

async fn exchange(
    client: &mut Framed<Stream>,
    context: &Context,
) -> Result<crate::wire::framed::Packet, backend::Error> {
    client.flush(context.config.write_timeout).await.map_err(|error| backend::Error::Client(error.into()))?;
    client.read_packet(backend::login::AUTH_PACKET_LIMIT).await.map_err(backend::Error::Client)
}

/// `caching_sha2_password` says that the proof was good before the OK packet; an empty password has none.
fn put_fast_accepted(client: &mut Framed<Stream>, seq: u8, login: &Login) -> u8 {
    let plugin = Plugin::from_name(&login.plugin).filter(|plugin| *plugin == Plugin::CachingSha2);
    if plugin.is_some_and(|plugin| !plugin.proves_empty(&login.auth)) {
        return client.put(seq, &more_data(backend::login::FAST_ACCEPTED));
    }
    seq
}

/// ER_ACCESS_DENIED_ERROR in the servers' words.
fn denied(client: &Framed<Stream>, login: &Login, seq: u8) -> Refused {
    let host = match client.stream().peer() {
        Some(peer) if peer.ip().is_loopback() => "localhost".to_owned(),
        Some(peer) => peer.ip().to_string(),
        None => String::new(),
    };
    let error = SqlError::new(
        1045,
        "28000",
        format!(
            "Access denied for user '{}'@'{host}' (using password: {})",
            String::from_utf8_lossy(&login.user),
            if login.auth.is_empty() { "NO" } else { "YES" }
        ),
    );
    Refused { payload: error.to_payload(), error: Error::Told(error), seq }
}

fn refused(error: backend::Error, seq: u8) -> Refused {
    let payload = match &error {
        backend::Error::Refused(payload) => payload.clone(),
        backend::Error::Client(_) => SqlError::bad_handshake().to_payload(),
        backend::Error::Plugin(_) | backend::Error::Rsa(_) => {
            SqlError::new(1045, "28000", format!("Access denied: {error}")).to_payload()
        }
        other => SqlError::primary_unreachable(other).to_payload(),
    };
    Refused { error: Error::Login(error), payload, seq }
}

/// What the primary stores of a `mysql_native_password` account lets the client's proof be undone, so that
/// the proxy can log in at the replica too. Without the right to read it, the user's reads stay on the primary.
async fn look_up_native(context: &Context, user: &[u8], proof: &Proof) -> Option<Credential> {
    let monitor = context.config.monitor.as_ref().filter(|_| proof.is_native())?;
    let primary = context.primary.load_full()?;
    let statement = match primary.flavor {
        Flavor::MySql => {
            "SELECT authentication_string FROM mysql.user WHERE user = ? AND plugin = 'mysql_native_password'"
        }
        Flavor::MariaDb => "SELECT authentication_string FROM mysql.user WHERE user = ?",
    };
    let look = async {
        let mut connection = Conn::new(crate::replica::options(&context.config.primary, monitor)).await?;
        let stored: Vec<Vec<u8>> = connection.exec(statement, (user,)).await?;
        connection.disconnect().await?;
        mysql_async::Result::Ok(stored)
    };
    match tokio::time::timeout(context.config.connect_timeout, look).await {
        Ok(Ok(stored)) => stored
            .iter()
            .filter_map(|stored| parse_stored(stored))
            .find_map(|stored| proof.native_hash(&stored))
            .map(|hash| Credential::Native(NativeSecret::new(hash))),
        Ok(Err(error)) => {
            tracing::warn!(user = %String::from_utf8_lossy(user), %error, "no look at the account: its reads stay on the primary");
            None
        }
        Err(_) => None,
    }
}

/// `*` and 40 hexadecimal digits.
fn parse_stored(text: &[u8]) -> Option<NativeHash> {
    let digits = std::str::from_utf8(text.strip_prefix(b"*")?).ok()?;
    let mut hash = NativeHash::default();
    if digits.len() != 2 * hash.len() || !digits.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_hashes_are_read() {
        let hash = parse_stored(b"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19").unwrap();
        assert_eq!(hash[..2], [0x24, 0x70]);
        assert_eq!(parse_stored(b""), None);
        assert_eq!(parse_stored(b"*2470"), None);
        assert_eq!(parse_stored(b"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E1G"), None);
    }
}
