//! Passwords under RSA: how `caching_sha2_password` sends one where nothing else hides it.
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>

use aws_lc_rs::{
    encoding::{AsDer, PublicKeyX509Der},
    rsa::{KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey},
};
use mysql_common::crypto;
use zeroize::Zeroizing;

use super::Secret;
use crate::wire::greeting::Nonce;

/// No key, or no password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("RSA: {0}")]
pub struct Error(&'static str);

/// The proxy's key, made at start and known to nobody else.
pub struct RsaKey {
    private: OaepPrivateDecryptingKey,
    public_pem: Vec<u8>,
}

impl RsaKey {
    /// Makes a key of 2048 bits, as the servers do. Takes a good part of a second of computing.
    ///
    /// # Errors
    /// When the library fails.
    pub fn generate() -> Result<Self, Error> {
        let key =
            PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(|_| Error("no key could be made"))?;
        let public = key.public_key();
        let der: PublicKeyX509Der<'_> = public.as_der().map_err(|_| Error("no public key"))?;
        let public_pem = to_pem(der.as_ref());
        let private = OaepPrivateDecryptingKey::new(key).map_err(|_| Error("no OAEP key"))?;
        Ok(Self { private, public_pem })
    }

    /// The public key, in the text form that clients expect.
    pub fn public_pem(&self) -> &[u8] {
        &self.public_pem
    }

    /// The password that a client encrypted with the public key.
    ///
    /// # Errors
    /// When it was not encrypted with this key.
    pub fn decrypt(&self, encrypted: &[u8], nonce: &Nonce) -> Result<Secret, Error> {
        let mut buffer = Zeroizing::new(vec![0; self.private.min_output_size()]);
        let plain = self
            .private
            .decrypt(&OAEP_SHA1_MGF1SHA1, encrypted, &mut buffer, None)
            .map_err(|_| Error("the password was not encrypted with this key"))?;
        let mut password = Zeroizing::new(plain.to_vec());
        mask(&mut password, nonce);
        let end = password.iter().position(|&b| b == 0).ok_or(Error("the password has no end"))?;
        Ok(Secret::new(password.get(..end).unwrap_or_default()))
    }
}

/// `password` for the owner of a public key.
///
/// # Errors
/// When `public_pem` is no RSA key.
pub fn encrypt(password: &Secret, nonce: &Nonce, public_pem: &[u8]) -> Result<Vec<u8>, Error> {
    let mut plain = Zeroizing::new([password.expose(), &[0]].concat());
    mask(&mut plain, nonce);
    crypto::encrypt(&plain, public_pem).map_err(|_| Error("the server's public key cannot be used"))
}

fn mask(text: &mut [u8], nonce: &Nonce) {
    for (byte, with) in text.iter_mut().zip(nonce.iter().cycle()) {
        *byte ^= with;
    }
}

fn to_pem(der: &[u8]) -> Vec<u8> {
    pem::encode_config(
        &pem::Pem::new("PUBLIC KEY", der),
        pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_comes_back_from_the_servers_own_encryption() {
        let key = RsaKey::generate().unwrap();
        let nonce = *b"0123456789abcdefghij";
        for password in ["", "x", "a password longer than twenty bytes"] {
            let secret = Secret::new(password);
            let encrypted = encrypt(&secret, &nonce, key.public_pem()).unwrap();
            assert_eq!(key.decrypt(&encrypted, &nonce), Ok(secret));
            assert!(key.decrypt(&encrypted[1..], &nonce).is_err());
        }
        assert!(encrypt(&Secret::new("x"), &nonce, b"no key").is_err());
    }
}
