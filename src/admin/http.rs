//! The HTTP endpoint: `/metrics`, `/healthz`, `/readyz`.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::session::Context;

/// Prometheus' text format.
/// <https://prometheus.io/docs/instrumenting/exposition_formats/>
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the endpoint knows.
#[derive(Clone)]
struct Endpoint {
    context: Arc<Context>,
    draining: CancellationToken,
}

/// Serves until `stop`; from `draining` on the proxy is no longer ready.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    context: Arc<Context>,
    draining: CancellationToken,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let endpoint = Endpoint { context, draining };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(endpoint);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn metrics(State(endpoint): State<Endpoint>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, TEXT_FORMAT)], endpoint.context.metrics.render())
}

/// Ready: the primary has been reached, and the proxy is not about to end.
async fn ready(State(endpoint): State<Endpoint>) -> impl IntoResponse {
    if endpoint.draining.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if endpoint.context.primary.load().is_none() {
        (StatusCode::SERVICE_UNAVAILABLE, "the primary was never reached\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}
