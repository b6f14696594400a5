//! A client proves its account to the primary through the proxy, which learns the password on the way.

use super::context::Context;
use crate::{
    auth::{
        Credential, Plugin, Secret,
        plugin::{self, NativeHash},
    },
    backend::{
        Error, Prover,
        login::{AUTH_PACKET_LIMIT, FAST_ACCEPTED, REQUEST_PUBLIC_KEY},
    },
    net::Stream,
    wire::{
        auth::{AuthSwitch, more_data},
        framed::{self, Framed},
        greeting::Nonce,
    },
};

/// A client in the middle of its login.
pub(super) struct ClientProver<'a> {
    /// The client.
    pub client: &'a mut Framed<Stream>,
    /// The sequence number of the next packet to it.
    pub seq: u8,
    /// What all sessions share: the key under which it sends its password when nothing else hides it, times.
    context: &'a Context,
    unasked: Option<Unasked>,
    proof: Option<Proof>,
    credential: Option<Credential>,
}

/// How the client proved its password.
pub(super) struct Proof {
    plugin: Plugin,
    nonce: Nonce,
    bytes: Vec<u8>,
}

/// What a client sent before it was asked for anything.
pub(super) struct Unasked {
    /// The proof, as it is by the nonces that it may be by.
    pub proofs: Vec<Proof>,
    /// What it proves, if that is known already.
    pub known: Option<Credential>,
}

/// The nonces by which a client may prove itself unasked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nonces {
    greeting: Nonce,
    /// That of the last question that it answered.
    asked: Nonce,
}

impl Nonces {
    /// Those of a client that has seen nothing but this greeting.
    pub(super) const fn of_greeting(nonce: Nonce) -> Self {
        Self { greeting: nonce, asked: nonce }
    }

    /// The client has proved itself.
    pub(super) fn note(&mut self, learned: &Learned) {
        if let Some(proof) = &learned.proof {
            self.asked = proof.nonce;
        }
    }

    /// What a client's `bytes` may prove. In COM_CHANGE_USER, MariaDB's C library goes by the greeting, even
    /// when it is asked with another nonce, and MySQL's by what it was asked last.
    pub(super) fn unasked(&self, plugin: &[u8], bytes: &[u8]) -> Option<Unasked> {
        let plugin = Plugin::from_name(plugin)?;
        let proof = |nonce| Proof { plugin, nonce, bytes: bytes.to_vec() };
        let mut proofs = vec![proof(self.asked)];
        if self.greeting != self.asked {
            proofs.push(proof(self.greeting));
        }
        Some(Unasked { proofs, known: None })
    }
}

impl<'a> ClientProver<'a> {
    /// Takes a client that waits for the packet numbered `seq`, and what it sent unasked.
    pub(super) const fn new(
        client: &'a mut Framed<Stream>,
        seq: u8,
        context: &'a Context,
        unasked: Option<Unasked>,
    ) -> Self {
        Self { client, seq, context, unasked, proof: None, credential: None }
    }

    /// What the exchange taught: the sequence number to go on with, the password if it was seen, and the
    /// proof if it was not.
    pub(super) fn into_learned(self) -> Learned {
        Learned { seq: self.seq, credential: self.credential, proof: self.proof }
    }

    async fn exchange(&mut self, payload: &[u8]) -> Result<Vec<u8>, Error> {
        let due = self.client.put(self.seq, payload);
        let flushed = self.client.flush(self.context.config.write_timeout).await;
        flushed.map_err(|error| Error::Client(framed::Error::Io(error)))?;
        let packet = self.client.read_packet(AUTH_PACKET_LIMIT).await.map_err(Error::Client)?;
        let packet = packet.numbered(due).map_err(|malformed| Error::Client(malformed.into()))?;
        self.seq = packet.next_seq;
        Ok(packet.payload)
    }

    /// `caching_sha2_password`'s full authentication, with the proxy as the server.
    async fn ask_for_password(&mut self, nonce: &Nonce) -> Result<Secret, Error> {
        let answer = self.exchange(&more_data(&[0x04])).await?;
        if self.client.stream().is_encrypted() {
            let end = answer.iter().position(|&b| b == 0).unwrap_or(answer.len());
            return Ok(Secret::new(answer.get(..end).unwrap_or_default()));
        }
        let encrypted = if answer == REQUEST_PUBLIC_KEY {
            self.exchange(&more_data(self.context.rsa.public_pem())).await?
        } else {
            answer
        };
        Ok(self.context.rsa.decrypt(&encrypted, nonce)?)
    }

    /// The answer to a server's question from what the client sent unasked, if that is enough.
    async fn prove_unasked(&mut self, switch: AuthSwitch<'_>) -> Result<Option<Vec<u8>>, Error> {
        let Some(Unasked { proofs, known }) = self.unasked.take() else { return Ok(None) };
        let Some(plugin) = Plugin::from_name(switch.plugin).filter(|plugin| *plugin != Plugin::Clear) else {
            return Ok(None);
        };
        let nonce = plugin::nonce(switch.data).unwrap_or_default();
        let Some(first) = proofs.into_iter().next() else { return Ok(None) };
        // MySQL's C library sends no proof with COM_CHANGE_USER, whatever the password.
        let is_sha2 = plugin == Plugin::CachingSha2
            && first.plugin == Plugin::CachingSha2
            && first.password().is_none();
        let credential = match known {
            Some(known) => {
                // The client waits to hear that its proof was good; an empty password has none.
                if first.plugin == Plugin::CachingSha2 && first.password().is_none() {
                    self.seq = self.client.put(self.seq, &more_data(FAST_ACCEPTED));
                }
                known
            }
            // For a replica the proxy needs the password itself, and no other nonce. Some clients keep to that
            // of the greeting when they encrypt it (sqlx 0.8).
            None if is_sha2 && self.context.replica.is_some() => {
                Credential::Password(self.ask_for_password(&first.nonce).await?)
            }
            None => return Ok(None),
        };
        let proof = credential.proof(plugin, &nonce);
        if proof.is_some() {
            self.credential = Some(credential);
        }
        Ok(proof)
    }
}

impl Prover for ClientProver<'_> {
    async fn prove(&mut self, switch: AuthSwitch<'_>) -> Result<Vec<u8>, Error> {
        if switch.plugin == Plugin::Clear.name() && !self.client.stream().is_encrypted() {
            return Err(Error::Plugin("mysql_clear_password without TLS".to_owned()));
        }
        if let Some(proof) = self.prove_unasked(switch).await? {
            return Ok(proof);
        }
        let mut payload = Vec::new();
        switch.put(&mut payload);
        let answer = self.exchange(&payload).await?;
        self.proof = Plugin::from_name(switch.plugin).map(|plugin| Proof {
            plugin,
            nonce: plugin::nonce(switch.data).unwrap_or_default(),
            bytes: answer.clone(),
        });
        self.credential = self.proof.as_ref().and_then(Proof::password).map(Credential::Password);
        Ok(answer)
    }

    async fn password(&mut self) -> Result<Secret, Error> {
        if let Some(Credential::Password(password)) = &self.credential {
            return Ok(password.clone());
        }
        let nonce = self.proof.as_ref().map(|proof| proof.nonce).unwrap_or_default();
        let password = self.ask_for_password(&nonce).await?;
        self.credential = Some(Credential::Password(password.clone()));
        Ok(password)
    }

    /// The primary knew the proof. The proxy does not, and needs the password for the replica: the client is
    /// asked for it as by a server whose cache is cold, which clients must expect at any time.
    async fn accepted(&mut self) -> Result<(), Error> {
        if self.context.replica.is_none() || self.credential.is_some() {
            return Ok(());
        }
        let Some(proof) = self.proof.take() else { return Ok(()) };
        let password = self.ask_for_password(&proof.nonce).await?;
        if proof.plugin.verify(&proof.bytes, &password, &proof.nonce) {
            self.credential = Some(Credential::Password(password));
        }
        self.proof = Some(proof);
        Ok(())
    }

    async fn more(&mut self, data: &[u8]) -> Result<Vec<u8>, Error> {
        self.exchange(&more_data(data)).await
    }
}

/// See [`ClientProver::into_learned`].
pub(super) struct Learned {
    /// The sequence number of the next packet to the client.
    pub seq: u8,
    /// What can log in as the client.
    pub credential: Option<Credential>,
    /// The client's last proof.
    pub proof: Option<Proof>,
}

impl Proof {
    /// Whether it is one of this credential.
    pub(super) fn proves(&self, credential: &Credential) -> bool {
        credential.is_proven_by(self.plugin, &self.bytes, &self.nonce)
    }

    /// The password, where the proof itself says it.
    fn password(&self) -> Option<Secret> {
        match self.plugin {
            Plugin::Clear => Some(Secret::new(self.bytes.strip_suffix(&[0]).unwrap_or(&self.bytes))),
            Plugin::Native | Plugin::CachingSha2 if self.plugin.proves_empty(&self.bytes) => {
                Some(Secret::new(""))
            }
            Plugin::Native | Plugin::CachingSha2 => None,
        }
    }

    /// The hash that can log in again, given what the server stores of the account.
    pub(super) fn native_hash(&self, stored: &NativeHash) -> Option<NativeHash> {
        match self.plugin {
            Plugin::Native => plugin::native_hash(&self.bytes, stored, &self.nonce),
            Plugin::CachingSha2 | Plugin::Clear => None,
        }
    }

    /// Whether [`Proof::native_hash`] could be of use.
    pub(super) fn is_native(&self) -> bool {
        self.plugin == Plugin::Native
    }
}
