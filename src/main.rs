//! The `ramsplit` binary.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    ramsplit::cli::run().await
}
