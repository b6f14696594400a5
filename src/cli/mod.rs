//! The command line: one file or folder a subcommand. May use everything.

mod demo;
mod route;
mod sandbox_guard;
mod serve;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// A read/write-splitting proxy for MySQL and MariaDB.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Route(route::Arguments),
    Demo(demo::Arguments),
    #[command(name = crate::sandbox::guard::SUBCOMMAND, hide = true)]
    SandboxGuard(sandbox_guard::Arguments),
}

/// Reads the command line, does what it says, and answers with the exit code: 2 for a command line that is
/// not understood, 1 for a failure, whose cause is on standard error.
pub async fn run() -> ExitCode {
    start_logging();
    let result = match Cli::parse().command {
        Command::Serve(arguments) => Box::pin(serve::run(arguments)).await,
        Command::Demo(arguments) => Box::pin(demo::run(arguments)).await,
        Command::Route(arguments) => route::run(&arguments),
        Command::SandboxGuard(arguments) => sandbox_guard::run(arguments).await,
    };
    result.unwrap_or_else(|error| {
        complain(error.as_ref());
        ExitCode::FAILURE
    })
}

/// Logs to standard error what RAMSPLIT_LOG asks for (`debug`, `ramsplit::session=trace`); warnings by
/// default.
fn start_logging() {
    let filter = EnvFilter::try_from_env("RAMSPLIT_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
}

/// Prints a line to standard output. That nobody reads it (a closed pipe) is no reason to stop.
fn say(line: &str) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// Prints a line to standard error, for what is no error but would be in the way of the output.
fn remark(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints an error and its causes to standard error.
fn complain(error: &dyn Error) {
    let mut text = format!("ramsplit: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        // Many errors repeat their cause in their own text.
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        cause = error.source();
    }
    remark(&text);
}
