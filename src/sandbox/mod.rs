//! Real local servers: a primary on disk with full durability and a replica in memory, joined by GTID
//! replication. Used by `demo`, tests and benches. May use `mysql_async` and the account type of `config`.
//!
//! Nothing of a sandbox outlives its owner. Every server process is a member of the process group of a
//! small guard process, which waits for the end of a pipe that only the owner holds; when the owner stops
//! the sandbox, drops it, panics or is killed, the pipe ends, the group is killed and the directories are
//! removed (see [`guard`]).

mod accounts;
mod arguments;
mod directory;
mod error;
pub mod guard;
mod initialise;
pub mod memory;
mod process;
mod program;
mod replication;
mod server;

pub use error::Error;
pub use memory::MIB;
pub use program::{Flavor, Program, Version};
pub use server::{Server, connect_options};

use std::path::{Path, PathBuf};

use crate::config::Account;
use directory::Ground;
use server::Role;

/// What a sandbox is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server program, see [`Program::find`].
    pub program: Program,
    /// The `ramsplit` binary, which is run as the guard: `current_exe()` for ramsplit itself, the path in
    /// `CARGO_BIN_EXE_ramsplit` for tests and benches.
    pub guard: PathBuf,
    /// Where the files of servers on disk go: a directory that does not exist or is empty; `None` makes a
    /// fresh one under `TMPDIR`, `/tmp` or `/var/tmp`, the first that is not in memory.
    pub directory: Option<PathBuf>,
    /// The tmpfs for the files of servers in memory; `None` takes `/dev/shm` or another one with room.
    pub memory_directory: Option<PathBuf>,
    /// The room in bytes that a server in memory must find for its files before anything starts.
    pub memory: u64,
    /// Further arguments for each server, after the sandbox's own, which they can override.
    pub arguments: Vec<String>,
}

impl Options {
    /// Options with the usual places and [`memory::DEFAULT`] bytes of room.
    pub fn new(program: Program, guard: impl Into<PathBuf>) -> Self {
        Self {
            program,
            guard: guard.into(),
            directory: None,
            memory_directory: None,
            memory: memory::DEFAULT,
            arguments: Vec::new(),
        }
    }
}

/// A primary on disk and a replica in memory that follows it.
///
/// [`Sandbox::stop`] shuts the servers down in order; dropping the value kills them. Either way no process
/// and no file is left when the call returns.
#[derive(Debug)]
pub struct Sandbox {
    // Fields are dropped in this order; the servers let go before the ground is swept.
    primary: Server,
    replica: Server,
    accounts: accounts::Accounts,
    memory: memory::Place,
    ground: Ground,
}

impl Sandbox {
    /// The empty schema that the application's account owns.
    pub const SCHEMA: &str = accounts::SCHEMA;

    /// Starts both servers and returns when the replica has everything that the primary has.
    ///
    /// # Errors
    /// When there is not enough memory, or a server cannot be initialised, started or joined.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let memory = memory::Place::find(&options, 2)?;
        let ground = Ground::prepare(&options, Some(&memory.directory)).await?;
        let primary = ground.server(Role::Primary)?;
        let replica = ground.server(Role::Replica)?;
        // The replica's directory is in memory, where initialising waits for no disk.
        replica.initialise().await?;
        primary.initialise_from(&replica).await?;
        tokio::try_join!(primary.start(), replica.start())?;

        let accounts = accounts::create(&primary).await?;
        let sandbox = Self { primary, replica, accounts, memory, ground };
        sandbox.join_replica().await?;
        sandbox.wait_for_replica().await?;
        Ok(sandbox)
    }

    /// The server that takes the writes; its data is on disk.
    pub const fn primary(&self) -> &Server {
        &self.primary
    }

    /// The server that follows the primary; its data is in memory.
    pub const fn replica(&self) -> &Server {
        &self.replica
    }

    /// The account of the application: all rights on the schema [`Sandbox::SCHEMA`].
    pub const fn application(&self) -> &Account {
        &self.accounts.application
    }

    /// The account that watches the servers: it may see replication status, `performance_schema` and the
    /// account tables.
    pub const fn monitor(&self) -> &Account {
        &self.accounts.monitor
    }

    /// The directory that holds the primary's files.
    pub fn directory(&self) -> &Path {
        self.ground.directory()
    }

    /// Where the replica's files are and how much room was found there.
    pub const fn memory(&self) -> &memory::Place {
        &self.memory
    }

    /// Makes the replica follow the primary from the replica's own position: at the start, and again after
    /// [`Server::wipe`] and [`Server::start`], when it fetches everything anew.
    ///
    /// # Errors
    /// When one of the servers refuses.
    pub async fn join_replica(&self) -> Result<(), Error> {
        replication::join(&self.primary, &self.replica, &self.accounts.replicator).await
    }

    /// Waits until the replica has executed all that the primary has committed by now.
    ///
    /// # Errors
    /// When it is not so within 60 s, with the replica's own error where it has one.
    pub async fn wait_for_replica(&self) -> Result<(), Error> {
        replication::wait(&self.primary, &self.replica).await
    }

    /// Shuts both servers down, replica first so that it sees no lost source, and removes their files.
    ///
    /// # Errors
    /// When files could not be removed.
    pub async fn stop(self) -> Result<(), Error> {
        self.replica.stop().await;
        self.primary.stop().await;
        self.ground.sweep().await
    }
}

/// One server on disk, without replication, for what needs no replica.
#[derive(Debug)]
pub struct Single {
    // Fields are dropped in this order; the server lets go before the ground is swept.
    server: Server,
    accounts: accounts::Accounts,
    ground: Ground,
}

impl Single {
    /// Starts one server with a primary's settings.
    ///
    /// # Errors
    /// When the server cannot be initialised or started.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let ground = Ground::prepare(&options, None).await?;
        let server = ground.server(Role::Primary)?;
        server.initialise().await?;
        server.start().await?;
        let accounts = accounts::create(&server).await?;
        Ok(Self { server, accounts, ground })
    }

    /// The server.
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// The account of the application: all rights on the schema [`Sandbox::SCHEMA`].
    pub const fn application(&self) -> &Account {
        &self.accounts.application
    }

    /// The account that watches the server.
    pub const fn monitor(&self) -> &Account {
        &self.accounts.monitor
    }

    /// Shuts the server down and removes its files.
    ///
    /// # Errors
    /// When files could not be removed.
    pub async fn stop(self) -> Result<(), Error> {
        self.server.stop().await;
        self.ground.sweep().await
    }
}
