//! A relay between the proxy and a server that does harm to the connection that asks for it: the one whose
//! client says a certain word.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What happens to an answer after some of its bytes have passed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Harm {
    /// The connection ends.
    Close,
    /// Nothing more comes.
    Silence,
    /// These bytes come, and then the end.
    Instead(&'static [u8]),
}

/// The relay; it ends with the value, and its connections with it.
pub(crate) struct Meddler {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Meddler {
    /// Relays to `server`, and harms connections on which `word` is said: `keep` bytes of the answer pass.
    pub(crate) async fn start(server: SocketAddr, word: &'static str, keep: usize, harm: Harm) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        Self::on(listener, server, word, keep, harm)
    }

    /// The same, where this listener listens.
    pub(crate) fn on(
        listener: TcpListener,
        server: SocketAddr,
        word: &'static str,
        keep: usize,
        harm: Harm,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                connections.spawn(relay(client, server, word.as_bytes(), keep, harm));
            }
        });
        Self { address, task }
    }

    /// Where it takes the server's place.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends with the connection, or with an error that is the connection's end.
async fn relay(
    mut client: TcpStream,
    server: SocketAddr,
    word: &[u8],
    mut keep: usize,
    harm: Harm,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    let (mut question, mut answer) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut said = false;
    loop {
        tokio::select! {
            len = client.read(&mut question) => {
                let question = &question[..len?];
                if question.is_empty() {
                    return Ok(());
                }
                said |= question.windows(word.len()).any(|window| window == word);
                server.write_all(question).await?;
            }
            len = server.read(&mut answer) => {
                let answer = &answer[..len?];
                if answer.is_empty() {
                    return Ok(());
                }
                let pass = if said { answer.len().min(keep) } else { answer.len() };
                client.write_all(&answer[..pass]).await?;
                if said {
                    keep -= pass;
                }
                if pass < answer.len() {
                    match harm {
                        Harm::Close => return Ok(()),
                        Harm::Silence => std::future::pending().await,
                        Harm::Instead(bytes) => return client.write_all(bytes).await,
                    }
                }
            }
        }
    }
}
