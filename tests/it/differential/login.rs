//! The connection phase as a client sees it: greeting, handshake response with any capability flags, and the
//! exchange of the authentication mechanisms (native, and caching_sha2 with its RSA form).
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html>
//! <https://mariadb.com/kb/en/connection/>

use std::io::{Error, Result};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;

use super::capability::{CONNECT_ATTRS, CONNECT_WITH_DB, LONG_PASSWORD};
use super::wire::{Wire, push_lenenc_bytes, take, take_u16, take_u32, take_until_nul};

/// Who logs in, and where to.
#[derive(Clone, Copy)]
pub(super) struct Account {
    pub(super) user: &'static str,
    pub(super) password: &'static str,
    pub(super) schema: &'static str,
}

/// What the server says first.
pub(super) struct Greeting {
    pub(super) version: Vec<u8>,
    pub(super) thread: u32,
    pub(super) capabilities: u64,
    pub(super) charset: u8,
    pub(super) challenge: Challenge,
}

/// The mechanism that the server asks for, with its nonce.
pub(super) struct Challenge {
    plugin: Vec<u8>,
    nonce: Vec<u8>,
}

impl Challenge {
    /// Stands for a mechanism that no server has, so that the server asks for its own.
    pub(super) fn unasked() -> Self {
        Self { plugin: b"none".to_vec(), nonce: Vec::new() }
    }
}

impl Greeting {
    pub(super) fn parse(mut packet: &[u8]) -> Result<Self> {
        let rest = &mut packet;
        if take(rest, 1)? != [10] {
            return Err(Error::other(format!("no greeting but {}", rest.escape_ascii())));
        }
        let version = take_until_nul(rest)?.to_vec();
        let thread = take_u32(rest)?;
        let mut nonce = take(rest, 8)?.to_vec();
        take(rest, 1)?;
        let low = take_u16(rest)?;
        let charset = take(rest, 1)?[0];
        take(rest, 2)?; // status
        let high = take_u16(rest)?;
        let nonce_length = usize::from(take(rest, 1)?[0]);
        take(rest, 6)?;
        // MariaDB's own flags; filler in MySQL.
        let extended = take_u32(rest)?;
        nonce.extend(take(rest, 13.max(nonce_length.saturating_sub(8)))?);
        nonce.truncate(20);
        let plugin = take_until_nul(rest)?.to_vec();
        let mut capabilities = u64::from(low) | u64::from(high) << 16;
        if capabilities & LONG_PASSWORD == 0 {
            capabilities |= u64::from(extended) << 32;
        }
        Ok(Self { version, thread, capabilities, charset, challenge: Challenge { plugin, nonce } })
    }
}

/// The client's answer to the greeting.
pub(super) fn handshake_response(
    account: &Account,
    capabilities: u64,
    charset: u8,
    challenge: &Challenge,
) -> Vec<u8> {
    let [low @ .., e, f, g, h] = capabilities.to_le_bytes();
    let mut out = low.to_vec();
    out.extend((64u32 << 20).to_le_bytes()); // the largest packet that this client takes
    out.push(charset);
    out.extend([0; 19]);
    out.extend([e, f, g, h]);
    out.extend_from_slice(account.user.as_bytes());
    out.push(0);
    push_lenenc_bytes(&mut out, &scramble(challenge, account.password));
    if capabilities & CONNECT_WITH_DB != 0 {
        out.extend_from_slice(account.schema.as_bytes());
        out.push(0);
    }
    out.extend_from_slice(&challenge.plugin);
    out.push(0);
    push_attributes(&mut out, capabilities);
    out
}

/// COM_CHANGE_USER without a first scramble, so that the server asks for one with a nonce of its choice.
pub(super) fn change_user(account: &Account, capabilities: u64, challenge: &Challenge) -> Vec<u8> {
    let mut out = vec![0x11];
    out.extend_from_slice(account.user.as_bytes());
    out.extend([0, 0]);
    out.extend_from_slice(account.schema.as_bytes());
    out.extend([0, 45, 0]); // utf8mb4_general_ci
    out.extend_from_slice(&challenge.plugin);
    out.push(0);
    push_attributes(&mut out, capabilities);
    out
}

fn push_attributes(out: &mut Vec<u8>, capabilities: u64) {
    if capabilities & CONNECT_ATTRS != 0 {
        let mut attributes = Vec::new();
        for word in ["_client_name", "differential", "empty", ""] {
            push_lenenc_bytes(&mut attributes, word.as_bytes());
        }
        push_lenenc_bytes(out, &attributes);
    }
}

/// Answers the server's questions until its verdict, which is returned: an OK or an ERR.
pub(super) fn authenticate(wire: &mut Wire, mut challenge: Challenge, password: &str) -> Result<Vec<u8>> {
    loop {
        let packet = wire.receive()?;
        match packet.as_slice() {
            [0x00 | 0xff, ..] => return Ok(packet),
            // AuthSwitchRequest
            [0xfe, rest @ ..] => {
                let rest = &mut &*rest;
                let plugin = take_until_nul(rest)?.to_vec();
                challenge = Challenge { plugin, nonce: take(rest, 20)?.to_vec() };
                wire.send(&scramble(&challenge, password))?;
            }
            // caching_sha2_password: the fast way was enough, the verdict follows
            [0x01, 0x03] => {}
            // caching_sha2_password: full authentication, for which the client asks for the public key
            [0x01, 0x04] => wire.send(&[0x02])?,
            [0x01, pem @ ..] => wire.send(&encrypted(pem, &challenge.nonce, password)?)?,
            other => return Err(Error::other(format!("login: {}", other.escape_ascii()))),
        }
    }
}

fn scramble(challenge: &Challenge, password: &str) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    // native:       SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))
    // caching_sha2: SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)
    let native = challenge.plugin == b"mysql_native_password";
    let algorithm = if native { &SHA1_FOR_LEGACY_USE_ONLY } else { &SHA256 };
    let once = digest(algorithm, password.as_bytes());
    let twice = digest(algorithm, once.as_ref());
    let pair = if native { [&challenge.nonce, twice.as_ref()] } else { [twice.as_ref(), &challenge.nonce] };
    xor(once.as_ref(), digest(algorithm, &pair.concat()).as_ref())
}

/// The password with its NUL, XORed with the nonce, under RSA with OAEP padding.
fn encrypted(pem: &[u8], nonce: &[u8], password: &str) -> Result<Vec<u8>> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(Error::other)?;
    let key = PublicEncryptingKey::from_der(&der).map_err(Error::other)?;
    let key = OaepPublicEncryptingKey::new(key).map_err(Error::other)?;
    let mut out = vec![0; key.ciphertext_size()];
    let plain = xor(&[password.as_bytes(), &[0]].concat(), nonce);
    let length = key.encrypt(&OAEP_SHA1_MGF1SHA1, &plain, &mut out, None).map_err(Error::other)?.len();
    out.truncate(length);
    Ok(out)
}

fn xor(text: &[u8], key: &[u8]) -> Vec<u8> {
    text.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b).collect()
}
