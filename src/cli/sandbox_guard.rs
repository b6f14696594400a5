//! `ramsplit sandbox-guard`: the process that cleans up after a sandbox; started by the sandbox itself.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::sandbox::guard;

/// Cleans up after a sandbox whose owner has ended.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Kills this process group and removes the directories, instead of waiting for the owner's end.
    #[arg(long, value_name = "GROUP")]
    sweep: Option<i32>,

    /// The directories to remove.
    directories: Vec<PathBuf>,
}

/// Runs the guard, or the sweeper that it starts.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    match arguments.sweep {
        Some(group) => guard::sweep(group, &arguments.directories).await?,
        None => guard::watch(&arguments.directories).await?,
    }
    Ok(ExitCode::SUCCESS)
}
