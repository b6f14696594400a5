//! Accepting clients and letting them go.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use crate::{
    net::Stream,
    session::{self, Context},
    wire::{err::SqlError, framed::Framed},
};

/// A failed accept (no descriptors left, mostly) is tried again after this time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A client that is turned away must take the reason within this time.
const REFUSE_LIMIT: Duration = Duration::from_secs(1);

/// Accepts clients until `shutdown`, then waits for sessions to end their command.
pub(super) async fn accept(listener: TcpListener, context: &Arc<Context>, shutdown: &CancellationToken) {
    let sessions = TaskTracker::new();
    // Drain order: 1. no new clients; 2. sessions between two commands are told and end; 3. the others end
    // their command, within the grace; 4. what is left is cut.
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((socket, _)) if sessions.len() >= context.config.max_connections => {
                sessions.spawn(turn_away(socket));
            }
            Ok((socket, peer)) => {
                let id = context.take_id();
                let span = tracing::info_span!("client", id, %peer);
                sessions.spawn(client(Arc::clone(context), socket, id, shutdown.clone()).instrument(span));
            }
            Err(error) => {
                tracing::warn!(%error, "no client could be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    sessions.close();
    if timeout(context.config.shutdown_grace, sessions.wait()).await.is_err() {
        tracing::warn!(sessions = sessions.len(), "sessions are cut in the middle of a command");
    }
}

async fn client(context: Arc<Context>, socket: TcpStream, id: u32, shutdown: CancellationToken) {
    let _counted = context.metrics.client();
    match session::serve(context, socket, id, shutdown).await {
        Ok(()) => tracing::debug!("client left"),
        Err(reason) => tracing::debug!(%reason, "session ended"),
    }
}

async fn turn_away(socket: TcpStream) {
    let Ok(stream) = Stream::new(socket) else { return };
    let mut client = Framed::new(stream);
    client.put(0, &SqlError::too_many_connections().to_first_payload());
    // It is turned away whether it hears the reason or not.
    let _ = client.flush(REFUSE_LIMIT).await;
    client.shutdown().await;
}
