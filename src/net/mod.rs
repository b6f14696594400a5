//! Sockets and TLS, the same for clients and servers. May use nothing else of this crate but `config`.

pub mod stream;
pub mod tls;

pub use stream::Stream;
