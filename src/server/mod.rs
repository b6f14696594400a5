//! Listeners, shared state, shutdown: the running proxy as a value.
//! May use everything but `sandbox`, `bench` and `cli`.

use crate::config::Config;
use std::net::SocketAddr;
use tokio_util::sync::CancellationToken;

/// A proxy whose listeners are bound.
pub struct Server {
    _config: Config,
}

/// Why the proxy could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener could not be bound.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, #[source] std::io::Error),
}

impl Server {
    /// Binds the listeners (port 0 takes a free one).
    ///
    /// # Errors
    /// When a listener cannot be bound.
    pub async fn bind(config: Config) -> Result<Self, Error> {
        Ok(Self { _config: config })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        unimplemented!("replaced by the real server")
    }

    /// The address of the HTTP endpoint, when there is one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        unimplemented!("replaced by the real server")
    }

    /// The metrics in Prometheus' text format, as `/metrics` serves them.
    pub fn render_metrics(&self) -> String {
        unimplemented!("replaced by the real server")
    }

    /// A cheap handle that renders the metrics after `self` has been moved into `run`.
    pub fn metrics_renderer(&self) -> std::sync::Arc<dyn Fn() -> String + Send + Sync> {
        unimplemented!("replaced by the real server")
    }

    /// Serves until `shutdown` is cancelled, then drains.
    ///
    /// # Errors
    /// When a listener fails for good.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        shutdown.cancelled().await;
        Ok(())
    }
}
