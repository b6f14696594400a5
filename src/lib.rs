//! ramsplit: a read/write-splitting proxy for MySQL and MariaDB.
//!
//! Writes go to a durable primary on disk, reads to a replica whose data is in memory, and the latency
//! of every statement is recorded by route. A reader follows a query down
//! [`server`] -> [`session`] -> [`sql`] -> [`route`] -> [`backend`] -> [`wire`]; dependencies point that
//! way and never back. `ARCHITECTURE.md` has the map and the invariants.

pub mod admin;
pub mod auth;
pub mod backend;
pub mod cli;
pub mod config;
pub mod net;
pub mod replica;
pub mod route;
pub mod sandbox;
pub mod server;
pub mod session;
pub mod sql;
pub mod telemetry;
pub mod wire;
