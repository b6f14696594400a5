//! `ramsplit serve`: the proxy.

use std::{error::Error, path::PathBuf, process::ExitCode};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::remark;
use crate::{config::file, server::Server};

/// Run the proxy until SIGTERM or Ctrl-C.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The configuration file; config/ramsplit.toml explains every key.
    #[arg(long, value_name = "FILE", env = "RAMSPLIT_CONFIG")]
    config: PathBuf,
}

/// Runs the proxy to its end.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = Server::bind(file::load(&arguments.config)?).await?;
    remark(&format!("ramsplit: listening on {}", server.address()));
    if let Some(http) = server.http_address() {
        remark(&format!("ramsplit: metrics on http://{http}/metrics"));
    }
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let running = server.run(shutdown);
    tokio::pin!(running);
    tokio::select! {
        result = &mut running => result?,
        _ = terminate.recv() => stop.cancel(),
        _ = interrupt.recv() => stop.cancel(),
    }
    if stop.is_cancelled() {
        running.await?;
    }
    Ok(ExitCode::SUCCESS)
}
