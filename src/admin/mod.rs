//! What operators look at. Reads snapshots of everything else and changes nothing.

pub mod http;
