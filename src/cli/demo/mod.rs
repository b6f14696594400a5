//! `ramsplit demo`: real servers, the proxy between them and the reader, and a line a second that shows
//! which server answers.

mod command;
mod figures;
mod items;
mod live;
mod load;

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{remark, say};
use crate::config::{Backend, Config, RouteMode};
use crate::sandbox::{Flavor, MIB, Options, Program, Sandbox, memory};
use crate::server::{self, Server};

/// Start a primary on disk, a replica in memory and the proxy, and watch where statements go.
///
/// Ends with Ctrl-C, SIGTERM or after --seconds, with exit code 0; with --exec it ends with the command, and
/// with its exit status. No process and no file is left.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Which server to run when there is a choice: mysql or mariadb.
    #[arg(long)]
    flavor: Option<Flavor>,

    /// The server program, or a script that passes its arguments on to one.
    #[arg(long, value_name = "PATH")]
    mysqld: Option<PathBuf>,

    /// The port of the proxy on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 6033)]
    port: u16,

    /// The port of the metrics on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 9090)]
    http: u16,

    /// Where the primary's files go, a directory on a disk that is new or empty; a fresh one by default.
    /// Nothing is kept.
    #[arg(long)]
    dir: Option<PathBuf>,

    /// The memory file system for the replica's files; /dev/shm or another tmpfs by default.
    #[arg(long, value_name = "DIR")]
    memory_dir: Option<PathBuf>,

    /// Room in MiB that must be free for the replica's files.
    #[arg(long, value_name = "MIB", default_value_t = memory::in_mib(memory::DEFAULT))]
    memory_size: u64,

    /// End this many seconds after everything is ready. An --exec command that still runs then is ended, for
    /// exit code 124.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,

    /// Run a shell command with RAMSPLIT_URL and the other addresses in its environment, and end with it.
    /// There is no load beside it unless --rate asks for one.
    #[arg(long, value_name = "CMD")]
    exec: Option<String>,

    /// Make no load.
    #[arg(long, conflicts_with = "rate")]
    no_load: bool,

    /// Statements a second of the load, four reads for each write. [default: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// Where statements may go: auto (reads to the replica) or primary (everything to the primary).
    #[arg(long, default_value = "auto", value_parser = parse_route)]
    route: RouteMode,
}

/// Runs the demo. Everything it started is gone when it returns.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut signals = Signals::catch()?;
    // Seconds of set-up would be lost on a port that is in use.
    for port in [arguments.port, arguments.http] {
        check_free(port)?;
    }
    let program = Program::find(arguments.flavor, arguments.mysqld.as_deref())?;
    arguments.say(&format!("starting {program} twice"));
    let sandbox = tokio::select! {
        sandbox = Box::pin(start(&arguments, program)) => sandbox?,
        () = signals.end() => return Ok(ExitCode::SUCCESS),
    };
    let result = Box::pin(serve(&arguments, &sandbox, signals)).await;
    let stopped = sandbox.stop().await;
    let code = result?;
    stopped?;
    Ok(code)
}

/// Starts the servers and fills the schema.
async fn start(arguments: &Arguments, program: Program) -> Result<Sandbox, Box<dyn Error>> {
    let sandbox = Sandbox::start(Options {
        directory: arguments.dir.clone(),
        memory_directory: arguments.memory_dir.clone(),
        memory: arguments.memory_size.saturating_mul(MIB),
        ..Options::new(program, std::env::current_exe()?)
    })
    .await?;
    items::create(&sandbox).await?;
    sandbox.wait_for_replica().await?;
    Ok(sandbox)
}

/// Runs the proxy, and with it the load, the live line and the command, until there is a reason to end.
async fn serve(
    arguments: &Arguments,
    sandbox: &Sandbox,
    mut signals: Signals,
) -> Result<ExitCode, Box<dyn Error>> {
    let server = Server::bind(config(arguments, sandbox)).await?;
    let addresses = command::Addresses {
        proxy: server.address(),
        http: server.http_address().ok_or("the proxy has no HTTP endpoint")?,
    };
    let metrics = server.metrics_renderer();
    let shutdown = CancellationToken::new();
    let mut proxy = tokio::spawn(server.run(shutdown.clone()));
    arguments.say(&introduction(sandbox, &addresses));

    let load = load::Load::start(arguments.rate(), addresses.proxy, sandbox.application());
    let limit = arguments.seconds.map_or(Duration::MAX, Duration::from_secs);
    let code = match &arguments.exec {
        Some(text) => {
            let environment = command::environment(sandbox, &addresses);
            tokio::select! {
                code = command::run(text, environment, &mut signals, limit) => code?,
                ended = &mut proxy => return Err(why(ended)),
            }
        }
        None => tokio::select! {
            _ = tokio::time::timeout(limit, signals.end()) => ExitCode::SUCCESS,
            never = live::run(metrics.as_ref(), load.failures()) => match never {},
            ended = &mut proxy => return Err(why(ended)),
        },
    };
    if let Some(failures) = load.stop().await {
        arguments.say(&failures);
    }
    shutdown.cancel();
    tokio::time::timeout(DRAIN_LIMIT, proxy).await???;
    Ok(code)
}

/// Why the proxy ended although nobody told it to.
fn why(ended: Result<Result<(), server::Error>, tokio::task::JoinError>) -> Box<dyn Error> {
    match ended {
        Ok(Ok(())) => "the proxy ended".into(),
        Ok(Err(error)) => error.into(),
        Err(error) => error.into(),
    }
}

fn config(arguments: &Arguments, sandbox: &Sandbox) -> Config {
    let backend =
        |name: &str, address: SocketAddr| Backend { name: name.to_owned(), address: address.to_string() };
    let listen = (Ipv4Addr::LOCALHOST, arguments.port).into();
    Config {
        http: Some((Ipv4Addr::LOCALHOST, arguments.http).into()),
        route: arguments.route,
        replicas: vec![backend("replica", sandbox.replica().address())],
        monitor: Some(sandbox.monitor().clone()),
        ..Config::new(listen, backend("primary", sandbox.primary().address()))
    }
}

fn introduction(sandbox: &Sandbox, addresses: &command::Addresses) -> String {
    let account = sandbox.application();
    let place = sandbox.memory();
    let client = match sandbox.primary().program().flavor {
        Flavor::MySql => "mysql",
        Flavor::MariaDb => "mariadb",
    };
    format!(
        "
primary    {primary} on disk, {directory}
replica    {replica} in memory, {memory}
           (room for {reserved} MiB; {free} there, {available} MiB of memory available)
connect    mysql://{user}:{password}@{proxy}/{schema}
by hand    {client} -h {host} -P {port} -u {user} -p{password} {schema}
metrics    http://{http}/metrics
",
        primary = sandbox.primary().address(),
        directory = sandbox.directory().display(),
        replica = sandbox.replica().address(),
        memory = place.directory.display(),
        reserved = memory::in_mib(place.reserved),
        free = place.free.map_or("no limit".to_owned(), |free| format!("{} MiB free", memory::in_mib(free))),
        available = memory::in_mib(place.available),
        user = account.user,
        password = account.password.as_str(),
        proxy = addresses.proxy,
        host = addresses.proxy.ip(),
        port = addresses.proxy.port(),
        schema = Sandbox::SCHEMA,
        http = addresses.http,
    )
}

impl Arguments {
    /// Prints to standard output, or to standard error when the former is the command's.
    fn say(&self, line: &str) {
        if self.exec.is_some() { remark(line) } else { say(line) }
    }

    /// Statements a second that the load makes, if any.
    fn rate(&self) -> Option<u32> {
        match self.rate {
            None if self.no_load || self.exec.is_some() => None,
            None => Some(DEFAULT_RATE),
            rate => rate,
        }
    }
}

/// The signals that end a demo.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for Ctrl-C or SIGTERM.
    ///
    /// # Cancellation safety
    /// A signal that has come is not lost.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Waits for SIGTERM.
    ///
    /// # Cancellation safety
    /// A signal that has come is not lost.
    async fn terminated(&mut self) {
        self.terminate.recv().await;
    }
}

fn check_free(port: u16) -> Result<(), Box<dyn Error>> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(format!("port {port} is in use; choose others with --port and --http").into())
        }
        Err(error) => Err(format!("cannot listen on port {port}: {error}").into()),
        Ok(_) => Ok(()),
    }
}

fn parse_route(word: &str) -> Result<RouteMode, String> {
    match word {
        "auto" => Ok(RouteMode::Auto),
        "primary" => Ok(RouteMode::Primary),
        _ => Err("auto or primary is expected".to_owned()),
    }
}

/// Statements a second: enough to see percentiles, little enough for a laptop to stay usable.
const DEFAULT_RATE: u32 = 500;

/// How long the proxy may take to end its connections.
const DRAIN_LIMIT: Duration = Duration::from_secs(15);
