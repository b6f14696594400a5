//! Listeners, shared state, shutdown: the running proxy as a value. May use everything but `sandbox` and
//! `cli`.

mod accept;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admin::http,
    auth::{Credentials, rsa::RsaKey},
    backend::Dialer,
    config::{Backend, Config, RouteMode},
    net::{Stream, tls},
    replica::{
        History, Replica, State,
        monitor::Monitor,
        tracker::{Asker, Follower},
    },
    route::Rules,
    session::{Context, Scopes, Writers, context::ActiveRules},
    sql::Cache,
    telemetry::Metrics,
    wire::{framed::Framed, greeting::FirstPacket},
};

/// Distinct statements whose classification is remembered.
const STATEMENT_CACHE: usize = 10_000;
/// Users whose credentials are remembered.
const CREDENTIAL_CACHE: u64 = 10_000;
/// Samples of histograms are sorted in at this interval.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);
/// A primary that cannot be reached is tried again after this time.
const GREET_INTERVAL: Duration = Duration::from_millis(500);

/// A proxy whose listeners are bound.
pub struct Server {
    context: Arc<Context>,
    listener: TcpListener,
    http: Option<TcpListener>,
}

/// Why the proxy could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener could not be bound.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// The routing rules have faults.
    #[error(transparent)]
    Rules(#[from] crate::route::rules::Faults),
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// No RSA key could be made.
    #[error(transparent)]
    Rsa(#[from] crate::auth::rsa::Error),
}

impl Server {
    /// Binds the listeners (port 0 takes a free one) and learns what the primary is, if it is there.
    ///
    /// # Errors
    /// When a listener cannot be bound or the TLS settings are of no use.
    pub async fn bind(config: Config) -> Result<Self, Error> {
        let listener = bind(config.listen).await?;
        let http = match config.http {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let rsa = tokio::task::spawn_blocking(RsaKey::generate).await;
        let rsa = rsa.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        let context = Arc::new(context(config, rsa)?);
        if let Err(error) = greet(&context).await {
            tracing::warn!(%error, "the primary cannot be reached yet");
        }
        Ok(Self { context, listener, http })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.context.config.listen)
    }

    /// The address of the HTTP endpoint, when there is one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref()?.local_addr().ok()
    }

    /// Renders the metrics in Prometheus' text format, as `/metrics` does, also after `self` has been moved
    /// into [`Server::run`].
    pub fn metrics_renderer(&self) -> Arc<dyn Fn() -> String + Send + Sync> {
        let metrics = Arc::clone(&self.context.metrics);
        Arc::new(move || metrics.render())
    }

    /// Serves until `shutdown` is cancelled, then drains.
    ///
    /// # Errors
    /// None yet: listeners that fail are tried again.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let tasks = TaskTracker::new();
        // What lives as long as the proxy itself ends when this is dropped.
        let background = CancellationToken::new();
        let _stop = background.clone().drop_guard();
        self.spawn_background(&tasks, &background);
        if let Some(http) = self.http {
            let serving = http::serve(http, Arc::clone(&self.context), shutdown.clone(), background.clone());
            tasks.spawn(async move {
                if let Err(error) = serving.await {
                    tracing::error!(%error, "the HTTP endpoint ended");
                }
            });
        }
        accept::accept(self.listener, &self.context, &shutdown).await;
        Ok(())
    }

    fn spawn_background(&self, tasks: &TaskTracker, background: &CancellationToken) {
        let context = Arc::clone(&self.context);
        tasks.spawn(background.clone().run_until_cancelled_owned(async move {
            let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
            loop {
                ticks.tick().await;
                context.metrics.run_upkeep();
            }
        }));
        let context = Arc::clone(&self.context);
        tasks.spawn(background.clone().run_until_cancelled_owned(async move {
            while context.primary.load().is_none() {
                tokio::time::sleep(GREET_INTERVAL).await;
                if let Err(error) = greet(&context).await {
                    tracing::debug!(%error, "the primary cannot be reached yet");
                }
            }
        }));
        if let Some((monitor, asker, follower)) = watchers(&self.context) {
            tasks.spawn(background.clone().run_until_cancelled_owned(monitor.run()));
            tasks.spawn(background.clone().run_until_cancelled_owned(asker.run()));
            tasks.spawn(background.clone().run_until_cancelled_owned(follower.run()));
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| Error::Bind(address, error))
}

fn context(config: Config, rsa: RsaKey) -> Result<Context, Error> {
    let connector = tls::connector(&config.backend_tls)?;
    let dialer = |server: &Backend, timeout: Duration| Dialer {
        address: server.address.clone(),
        tls: config.backend_tls.clone(),
        connector: connector.clone(),
        timeout,
    };
    let replica =
        config.replicas.first().filter(|_| config.route == RouteMode::Auto).map(|server| {
            (Arc::new(Replica::new(server.name.clone())), dialer(server, config.probe_timeout))
        });
    let metrics = Arc::new(Metrics::new());
    let rules = config.rules.as_deref().map_or_else(|| Ok(Rules::default()), Rules::load)?;
    Ok(Context {
        rules: ArcSwap::from_pointee(ActiveRules::new(rules, &metrics)),
        metrics,
        statements: Cache::new(STATEMENT_CACHE),
        credentials: Credentials::new(CREDENTIAL_CACHE),
        rsa,
        tls: tls::acceptor(&config.client_tls)?,
        primary: ArcSwapOption::empty(),
        primary_dialer: dialer(&config.primary, config.connect_timeout),
        replica,
        history: Arc::new(History::new()),
        scopes: Arc::new(Scopes::new()),
        registry: crate::session::Registry::default(),
        next_id: AtomicU32::new(1),
        table_writers: Writers::default(),
        server_changed: AtomicBool::new(false),
        config,
    })
}

/// Reads the primary's greeting, which clients get, without logging in.
async fn greet(context: &Context) -> Result<(), crate::backend::Error> {
    let limit = context.config.connect_timeout;
    let look = async {
        let socket = TcpStream::connect(&context.config.primary.address).await?;
        let mut server = Framed::new(Stream::new(socket)?);
        let packet = server.read_packet(crate::backend::login::AUTH_PACKET_LIMIT).await?;
        match FirstPacket::parse(&packet.payload)? {
            FirstPacket::Greeting(greeting) => {
                context.learn(&greeting);
                Ok(())
            }
            FirstPacket::Refused(err) => Err(crate::backend::Error::Refused(err.to_payload())),
        }
    };
    tokio::time::timeout(limit, look).await.map_err(|_| crate::backend::Error::Timeout(limit))?
}

/// Who looks at the servers and follows them.
fn watchers(context: &Context) -> Option<(Monitor, Asker, Follower)> {
    let (replica, _) = context.replica.as_ref()?;
    let config = &context.config;
    let Some(account) = config.monitor.clone() else {
        tracing::warn!("no monitor account is set: replicas are not watched and serve no reads");
        return None;
    };
    let (server, primary) = (config.replicas.first()?.clone(), config.primary.clone());
    let history = || Arc::clone(&context.history);
    let monitor = Monitor {
        replica: Arc::clone(replica),
        history: history(),
        server: server.clone(),
        primary: primary.clone(),
        account: account.clone(),
        interval: config.probe_interval,
        timeout: config.probe_timeout,
        max_lag: config.max_lag,
        gauges: context.metrics.replica(&replica.name, &State::ALL.map(State::label)),
    };
    // A replica may serve while it is that much behind.
    let hold = config.unknown_position_hold + config.max_lag;
    let timeout = config.probe_timeout;
    let asker = Asker { history: history(), primary, account: account.clone(), timeout, hold };
    let follower = Follower { history: history(), replica: Arc::clone(replica), server, account, timeout };
    Some((monitor, asker, follower))
}
