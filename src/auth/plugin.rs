//! Authentication plugins: what each sends to prove a password, and how the proof is checked.

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest};
use mysql_common::auth::plugins::{
    caching_sha2_password::scramble_sha256, mysql_native_password::scramble_native,
};

use super::Secret;
use crate::wire::greeting::{NONCE_LEN, Nonce};

/// Bytes of a SHA-1 digest.
const SHA1_LEN: usize = 20;

/// SHA-1 of a password: enough to log in by `mysql_native_password`.
pub type NativeHash = [u8; SHA1_LEN];

/// The plugins that the proxy can speak by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// `mysql_native_password`: MariaDB's default, MySQL's before 8.0.
    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_authentication_methods_native_password_authentication.html>
    Native,
    /// `caching_sha2_password`: MySQL's default.
    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>
    CachingSha2,
    /// `mysql_clear_password`: the password itself, for servers that ask another service.
    Clear,
}

impl Plugin {
    /// The plugin of this name, if it is one of these.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Native, Self::CachingSha2, Self::Clear].into_iter().find(|plugin| plugin.name() == name)
    }

    /// Its name in the protocol.
    pub const fn name(self) -> &'static [u8] {
        match self {
            Self::Native => b"mysql_native_password",
            Self::CachingSha2 => b"caching_sha2_password",
            Self::Clear => b"mysql_clear_password",
        }
    }

    /// What a client sends to prove `password` to the holder of `nonce`. An empty password is proven by
    /// nothing at all.
    pub fn proof(self, password: &Secret, nonce: &Nonce) -> Vec<u8> {
        let password = password.expose();
        match self {
            Self::Native => scramble_native(nonce, password).map_or_else(Vec::new, |proof| proof.to_vec()),
            Self::CachingSha2 => {
                scramble_sha256(nonce, password).map_or_else(Vec::new, |proof| proof.to_vec())
            }
            Self::Clear => [password, &[0]].concat(),
        }
    }

    /// Whether `proof` is that of an empty password. MySQL's C library sends a zero byte for it.
    pub const fn proves_empty(self, proof: &[u8]) -> bool {
        match self {
            Self::CachingSha2 => matches!(proof, [] | [0]),
            Self::Native => proof.is_empty(),
            Self::Clear => matches!(proof, [0]),
        }
    }

    /// Whether `proof` proves `password`, in time that does not depend on where they differ.
    pub fn verify(self, proof: &[u8], password: &Secret, nonce: &Nonce) -> bool {
        let proof = if self == Self::CachingSha2 && self.proves_empty(proof) { &[] } else { proof };
        verify_slices_are_equal(&self.proof(password, nonce), proof).is_ok()
    }
}

/// What `mysql_native_password` sends when only the password's SHA-1 is known:
/// SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password))).
pub fn native_proof(hash: &NativeHash, nonce: &Nonce) -> [u8; SHA1_LEN] {
    xor(*hash, native_mask(&sha1(&[hash]), nonce))
}

/// The SHA-1 of the password behind a client's `proof`, given what the server stores of it
/// (SHA1(SHA1(password))); `None` when the proof is not of that password.
pub fn native_hash(proof: &[u8], stored: &NativeHash, nonce: &Nonce) -> Option<NativeHash> {
    let proof = NativeHash::try_from(proof).ok()?;
    let hash = xor(proof, native_mask(stored, nonce));
    verify_slices_are_equal(&sha1(&[&hash]), stored).is_ok().then_some(hash)
}

fn native_mask(stored: &NativeHash, nonce: &Nonce) -> NativeHash {
    sha1(&[nonce, stored])
}

fn sha1(parts: &[&[u8]]) -> NativeHash {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    for part in parts {
        context.update(part);
    }
    let mut hash = NativeHash::default();
    for (to, from) in hash.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    hash
}

fn xor(mut a: NativeHash, b: NativeHash) -> NativeHash {
    for (to, with) in a.iter_mut().zip(b) {
        *to ^= with;
    }
    a
}

/// A plugin's nonce from the data of an authentication switch, which ends it with a zero byte.
pub fn nonce(data: &[u8]) -> Option<Nonce> {
    data.get(..NONCE_LEN)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = *b"0123456789abcdefghij";

    #[test]
    fn native_hash_is_recovered_from_a_proof_and_proves_itself() {
        let password = Secret::new("s3cret");
        let hash = sha1(&[b"s3cret"]);
        let stored = sha1(&[&hash]);
        let proof = Plugin::Native.proof(&password, &NONCE);
        assert_eq!(native_hash(&proof, &stored, &NONCE), Some(hash));
        assert_eq!(native_proof(&hash, &NONCE).as_slice(), proof);
        assert_eq!(native_hash(&Plugin::Native.proof(&Secret::new("other"), &NONCE), &stored, &NONCE), None);
        assert_eq!(native_hash(&proof[1..], &stored, &NONCE), None);
    }

    #[test]
    fn proofs_verify_only_their_password_and_nonce() {
        for plugin in [Plugin::Native, Plugin::CachingSha2] {
            let password = Secret::new("pw");
            let proof = plugin.proof(&password, &NONCE);
            assert!(plugin.verify(&proof, &password, &NONCE));
            assert!(!plugin.verify(&proof, &Secret::new("pW"), &NONCE));
            assert!(!plugin.verify(&proof, &password, b"0123456789abcdefghiX"));
            assert!(!plugin.verify(&[], &password, &NONCE));
            assert!(plugin.verify(&[], &Secret::new(""), &NONCE));
        }
        assert!(Plugin::CachingSha2.verify(&[0], &Secret::new(""), &NONCE));
        assert!(!Plugin::CachingSha2.verify(&[0], &Secret::new("pw"), &NONCE));
        assert!(!Plugin::Native.verify(&[0], &Secret::new(""), &NONCE));
    }
}
