//! A client proves its account to the primary through the proxy, which learns the password on the way.

use super::context::Context;
use crate::{
    auth::{
        Credential, Plugin, Secret,
        plugin::{self, NativeHash},
    },
    backend::{
        Error, Prover,
        login::{AUTH_PACKET_LIMIT, REQUEST_PUBLIC_KEY},
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
    proof: Option<Proof>,
    password: Option<Secret>,
}

/// How the client proved its password.
pub(super) struct Proof {
    plugin: Plugin,
    nonce: Nonce,
    bytes: Vec<u8>,
}

impl<'a> ClientProver<'a> {
    /// Takes a client that waits for the packet numbered `seq`.
    pub(super) const fn new(client: &'a mut Framed<Stream>, seq: u8, context: &'a Context) -> Self {
        Self { client, seq, context, proof: None, password: None }
    }

    /// What the exchange taught: the sequence number to go on with, the password if it was seen, and the
    /// proof if it was not.
    pub(super) fn into_learned(self) -> Learned {
        let credential = self.password.map(Credential::Password);
        Learned { seq: self.seq, credential, proof: self.proof }
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
}

impl Prover for ClientProver<'_> {
    async fn prove(&mut self, switch: AuthSwitch<'_>) -> Result<Vec<u8>, Error> {
        if switch.plugin == Plugin::Clear.name() && !self.client.stream().is_encrypted() {
            return Err(Error::Plugin("mysql_clear_password without TLS".to_owned()));
        }
        let mut payload = Vec::new();
        switch.put(&mut payload);
        let answer = self.exchange(&payload).await?;
        self.proof = Plugin::from_name(switch.plugin).map(|plugin| Proof {
            plugin,
            nonce: plugin::nonce(switch.data).unwrap_or_default(),
            bytes: answer.clone(),
        });
        self.password = self.proof.as_ref().and_then(Proof::password);
        Ok(answer)
    }

    async fn password(&mut self) -> Result<Secret, Error> {
        let nonce = self.proof.as_ref().map(|proof| proof.nonce).unwrap_or_default();
        let password = self.ask_for_password(&nonce).await?;
        self.password = Some(password.clone());
        Ok(password)
    }

    /// The primary knew the proof. The proxy does not, and needs the password for the replica: the client is
    /// asked for it as by a server whose cache is cold, which clients must expect at any time.
    async fn accepted(&mut self) -> Result<(), Error> {
        if self.context.replica.is_none() {
            return Ok(());
        }
        let Some(proof) = self.proof.take() else { return Ok(()) };
        let password = self.ask_for_password(&proof.nonce).await?;
        if proof.plugin.verify(&proof.bytes, &password, &proof.nonce) {
            self.password = Some(password);
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
