//! Passwords: how they are proven, and what the proxy knows of them. No I/O. May use `wire`.

pub mod credentials;
pub mod plugin;
pub mod rsa;
pub mod secret;

pub use credentials::{Credential, Credentials, NativeSecret};
pub use plugin::Plugin;
pub use secret::Secret;
