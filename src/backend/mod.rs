//! One connection to a server: opening it, logging in, and the proxy's own short questions on it.
//! May use `wire`, `auth`, `net`.

pub mod connection;
pub mod dial;
pub mod login;

pub use connection::Connection;
pub use dial::Dialer;
pub use login::Prover;

use std::{io, time::Duration};

use crate::{
    auth::rsa,
    wire::{Malformed, err::ErrPacket, framed},
};

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be reached, or the connection broke.
    #[error(transparent)]
    Stream(#[from] framed::Error),
    /// It did not answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It answered with an error: the ERR packet's payload, to be handed on unchanged.
    #[error("{}", describe(.0))]
    Refused(Vec<u8>),
    /// It lacks something that the client was promised.
    #[error("the server cannot do what the client negotiated (missing capabilities {0:#x})")]
    Incapable(u32),
    /// It offers no TLS, and the settings ask for it.
    #[error("the server offers no TLS")]
    NoTls,
    /// It asks for a proof that the proxy cannot give.
    #[error("the server asks for authentication plugin '{0}', which the proxy cannot answer by itself")]
    Plugin(String),
    /// The RSA exchange failed.
    #[error(transparent)]
    Rsa(#[from] rsa::Error),
    /// The client, who alone could prove who it is, failed.
    #[error("the client broke off its login: {0}")]
    Client(#[source] framed::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Stream(error.into())
    }
}

impl From<Malformed> for Error {
    fn from(error: Malformed) -> Self {
        Self::Stream(error.into())
    }
}

fn describe(payload: &[u8]) -> String {
    match ErrPacket::parse(payload) {
        Ok(err) => format!("error {}: {}", err.code, String::from_utf8_lossy(err.message)),
        Err(malformed) => malformed.to_string(),
    }
}
