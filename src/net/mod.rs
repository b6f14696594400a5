//! Sockets, TLS and compression, the same for clients and servers. May use nothing else of this crate but `config`.

mod compression;
pub mod stream;
pub mod tls;

pub use stream::Stream;
