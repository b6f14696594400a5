//! What the proxy knows of accounts: passwords that clients proved and servers accepted.

use moka::sync::Cache;
use zeroize::Zeroizing;

use super::{
    Plugin, Secret,
    plugin::{self, NativeHash},
};
use crate::wire::greeting::Nonce;

/// What can log in as a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// The password itself.
    Password(Secret),
    /// Its SHA-1, which is enough for `mysql_native_password`.
    Native(NativeSecret),
}

/// A hash that is as good as the password: not shown, and wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct NativeSecret(Zeroizing<NativeHash>);

impl NativeSecret {
    /// Takes the hash.
    pub fn new(hash: NativeHash) -> Self {
        Self(Zeroizing::new(hash))
    }
}

impl std::fmt::Debug for NativeSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl Credential {
    /// What proves it to the holder of `nonce` by `plugin`; `None` when it cannot.
    pub fn proof(&self, plugin: Plugin, nonce: &Nonce) -> Option<Vec<u8>> {
        match (self, plugin) {
            (Self::Password(password), plugin) => Some(plugin.proof(password, nonce)),
            (Self::Native(hash), Plugin::Native) => Some(plugin::native_proof(&hash.0, nonce).to_vec()),
            (Self::Native(_), Plugin::CachingSha2 | Plugin::Clear) => None,
        }
    }

    /// Whether a client's `proof` by `plugin` proves it.
    pub fn is_proven_by(&self, plugin: Plugin, proof: &[u8], nonce: &Nonce) -> bool {
        match (self, plugin) {
            (_, Plugin::Clear) => false,
            (Self::Password(password), plugin) => plugin.verify(proof, password, nonce),
            (Self::Native(hash), Plugin::Native) => aws_lc_rs::constant_time::verify_slices_are_equal(
                &plugin::native_proof(&hash.0, nonce),
                proof,
            )
            .is_ok(),
            (Self::Native(_), Plugin::CachingSha2) => false,
        }
    }
}

/// Credentials that the primary accepted, by user name, so that the next login needs no full
/// authentication. A server may have several accounts of one name (for several client hosts); behind a
/// proxy they are one, as all connections come from the proxy's host.
#[derive(Debug)]
pub struct Credentials(Cache<Vec<u8>, Credential>);

impl Credentials {
    /// Remembers at most `capacity` users; those not seen for longest go first.
    pub fn new(capacity: u64) -> Self {
        Self(Cache::new(capacity))
    }

    /// What is known of `user`.
    pub fn find(&self, user: &[u8]) -> Option<Credential> {
        self.0.get(user)
    }

    /// Remembers what the primary just accepted.
    pub fn remember(&self, user: &[u8], credential: Credential) {
        self.0.insert(user.to_vec(), credential);
    }

    /// Drops what a server refused.
    pub fn forget(&self, user: &[u8]) {
        self.0.invalidate(user);
    }
}
