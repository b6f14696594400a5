//! A primary that is neither MySQL nor MariaDB and can do less than both: no session tracking, no result
//! sets without EOF packets, no statuses but the plainest. What the proxy assumes of servers shows here.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use opensrv_mysql::{
    AsyncMysqlIntermediary, AsyncMysqlShim, Column, ColumnFlags, ColumnType, ErrorKind, OkResponse,
    ParamParser, QueryResultWriter, StatementMetaWriter,
};
use ramsplit::config::{Backend, Config};
use ramsplit::server::Server;
use tokio::io::AsyncWrite;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Answers every statement with itself, but for `fail` and `nothing`.
struct Echo {
    prepared: Vec<String>,
}

fn column(name: &str) -> Column {
    Column {
        table: String::new(),
        column: name.to_owned(),
        coltype: ColumnType::MYSQL_TYPE_VAR_STRING,
        colflags: ColumnFlags::empty(),
    }
}

async fn echo<W: AsyncWrite + Send + Unpin>(text: &str, results: QueryResultWriter<'_, W>) -> io::Result<()> {
    let columns = [column("text")];
    let mut rows = results.start(&columns).await?;
    rows.write_col(text)?;
    rows.end_row().await?;
    rows.finish().await
}

#[async_trait::async_trait]
impl<W: AsyncWrite + Send + Unpin> AsyncMysqlShim<W> for Echo {
    type Error = io::Error;

    async fn on_prepare<'a>(&'a mut self, text: &'a str, info: StatementMetaWriter<'a, W>) -> io::Result<()> {
        self.prepared.push(text.to_owned());
        let id = u32::try_from(self.prepared.len()).unwrap();
        info.reply(id, &[column("?")], &[column("text")]).await
    }

    async fn on_execute<'a>(
        &'a mut self,
        id: u32,
        params: ParamParser<'a>,
        results: QueryResultWriter<'a, W>,
    ) -> io::Result<()> {
        let given: Vec<String> =
            params.into_iter().map(|param| <&str>::from(param.value).to_owned()).collect();
        let text = format!("{} with {}", self.prepared[id as usize - 1], given.join(", "));
        echo(&text, results).await
    }

    async fn on_close(&mut self, _id: u32) {}

    async fn on_query<'a>(&'a mut self, text: &'a str, results: QueryResultWriter<'a, W>) -> io::Result<()> {
        match text {
            "fail" => results.error(ErrorKind::ER_NO, b"as asked for").await,
            "nothing" => results.completed(OkResponse { affected_rows: 300, ..OkResponse::default() }).await,
            _ => echo(text, results).await,
        }
    }
}

/// Serves any number of clients for as long as the test runs.
async fn start() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (reader, writer) = socket.into_split();
            tokio::spawn(AsyncMysqlIntermediary::run_on(Echo { prepared: Vec::new() }, reader, writer));
        }
    });
    address
}

#[tokio::test]
async fn a_server_that_can_do_little_is_carried_as_it_is() {
    let primary = Backend { name: "primary".to_owned(), address: start().await.to_string() };
    let proxy = Server::bind(Config::new((Ipv4Addr::LOCALHOST, 0).into(), primary)).await.unwrap();
    let address = proxy.address();
    let shutdown = CancellationToken::new();
    let _stop = shutdown.clone().drop_guard();
    tokio::spawn(proxy.run(shutdown));

    let options = OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some("anybody"))
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 24))
        .wait_timeout(Some(100));
    let mut session = Conn::new(options).await.unwrap();
    for text in ["SELECT 1", "anything at all"] {
        let answer: Option<String> = session.query_first(text).await.unwrap();
        assert_eq!(answer.as_deref(), Some(text));
    }
    session.query_drop("nothing").await.unwrap();
    assert_eq!(session.affected_rows(), 300);
    let error = session.query_drop("fail").await.unwrap_err();
    assert!(error.to_string().contains("as asked for"), "{error}");
    let answer: Option<String> = session.exec_first("say", ("this",)).await.unwrap();
    assert_eq!(answer.as_deref(), Some("say with this"));
    session.ping().await.unwrap();
}
