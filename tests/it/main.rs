//! Integration tests, against real servers: MariaDB from PATH and MySQL from where `make test` puts it.
//! A missing server fails the tests that need it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests fail by panicking"
)]

mod bed;
mod conformance;
mod consistency;
mod demo;
mod differential;
mod docker;
mod drivers;
mod faults;
mod kill;
mod login;
mod meddler;
mod memory;
mod metrics;
mod other_server;
mod prepared;
mod proxy;
mod raw;
mod replica;
mod rounds;
mod rules;
mod sandbox;
mod split;
mod support;
mod tls;
