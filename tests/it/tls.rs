//! TLS on both sides of the proxy.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, SslOpts};
use ramsplit::config::{Backend, BackendTls, ClientTls, Config, RouteMode};
use ramsplit::sandbox::{Flavor, Program, Single};

use crate::bed::{account, create_user, on_both, shared, target, with_schema};
use crate::login::{current_user, identified, refusal};
use crate::proxy::{Proxy, config};
use crate::support::{options, program};

on_both!(to_clients, to_clients_with_a_given_certificate, not_to_clients);

async fn to_clients(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let user = account("encrypted", "s3cret");
    create_user(sandbox, &user.user, &identified(&user)).await;
    for _ in 0..2 {
        let options = with_schema(proxy.address(), &user).ssl_opts(any_certificate());
        let mut session = Conn::new(options).await.unwrap();
        assert_eq!(target(&mut session).await, "replica");
        assert_eq!(current_user(&mut session).await, "encrypted@%");
    }
}

async fn to_clients_with_a_given_certificate(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let files = Certificate::generate();
    let (certificate, key) = (files.certificate(), files.key());
    let proxy =
        Proxy::start_with(sandbox, |config| config.client_tls = ClientTls::Files { certificate, key });
    let proxy = proxy.await;
    let trusting = |roots: &Certificate| {
        let tls = SslOpts::default()
            .with_root_certs(vec![roots.certificate().into()])
            .with_disable_built_in_roots(true);
        with_schema(proxy.address(), sandbox.application()).ssl_opts(tls)
    };
    Conn::new(trusting(&files)).await.unwrap().ping().await.unwrap();
    let error = Conn::new(trusting(&Certificate::generate())).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

async fn not_to_clients(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start_with(sandbox, |config| config.client_tls = ClientTls::Off).await;
    assert_eq!(target(&mut proxy.connect().await).await, "replica");
    let options = with_schema(proxy.address(), sandbox.application()).ssl_opts(any_certificate());
    let error = Conn::new(options).await.unwrap_err();
    assert!(matches!(error, mysql_async::Error::Driver(mysql_async::DriverError::NoClientSslFlagFromServer)));
}

/// MySQL makes a certificate for itself.
#[tokio::test]
async fn mysql_to_the_servers() {
    let sandbox = shared(Flavor::MySql).await;
    let user = account("secure", "s3cret");
    create_user(sandbox, &user.user, &format!("{} REQUIRE SSL", identified(&user))).await;
    for tls in [BackendTls::Off, BackendTls::AsClient, BackendTls::Required] {
        let proxy = Proxy::start_with(sandbox, |config| config.backend_tls = tls.clone()).await;
        for client_tls in [None, Some(any_certificate())] {
            let encrypts = match tls {
                BackendTls::Off => false,
                BackendTls::AsClient => client_tls.is_some(),
                BackendTls::Required | BackendTls::Verify { .. } => true,
            };
            let options = with_schema(proxy.address(), &user).ssl_opts(client_tls);
            if encrypts {
                let mut session = Conn::new(options).await.unwrap();
                assert!(is_encrypted(&mut session).await);
                assert_eq!(target(&mut session).await, "replica");
            } else {
                assert_eq!(refusal(options).await.0, 1045);
            }
        }
    }
}

/// MariaDB of this age has TLS only with a certificate; it is started by a script that names one.
#[tokio::test]
async fn mariadb_to_the_server() {
    let files = Certificate::generate();
    let script = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *--port=*) set -- \"$@\" --ssl-cert={} --ssl-key={};; esac\nexec {} \"$@\"\n",
        files.certificate().display(),
        files.key().display(),
        program(Flavor::MariaDb).path.display(),
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = options(Flavor::MariaDb);
    options.program = Program::find(None, Some(&script)).unwrap();
    let single = Single::start(options).await.unwrap();

    let stranger = Certificate::generate();
    let verify = |files: &Certificate| BackendTls::Verify { authorities: files.certificate() };
    for (tls, encrypted) in [
        (BackendTls::Off, Some(false)),
        (BackendTls::AsClient, Some(false)),
        (BackendTls::Required, Some(true)),
        (verify(&files), Some(true)),
        (verify(&stranger), None),
    ] {
        let proxy = Proxy::run(single_config(&single, tls.clone()), single.application()).await;
        let session = Conn::new(with_schema(proxy.address(), single.application())).await;
        match (session, encrypted) {
            (Ok(mut session), Some(encrypted)) => {
                assert_eq!(is_encrypted(&mut session).await, encrypted, "{tls:?}");
            }
            (Err(mysql_async::Error::Server(error)), None) => assert_eq!(error.code, 1429, "{error:?}"),
            (session, _) => panic!("{tls:?}: {session:?}"),
        }
    }
    single.stop().await.unwrap();
}

/// A server without TLS is refused where the settings ask for it.
#[tokio::test]
async fn mariadb_has_none_where_it_is_required() {
    let sandbox = shared(Flavor::MariaDb).await;
    let settings = Config { backend_tls: BackendTls::Required, ..config(sandbox) };
    let proxy = Proxy::run(settings, sandbox.application()).await;
    let (code, _, message) = refusal(with_schema(proxy.address(), sandbox.application())).await;
    assert_eq!(code, 1429);
    assert!(message.contains("TLS"), "{message}");
}

async fn is_encrypted(session: &mut Conn) -> bool {
    let status: Option<(String, String)> =
        session.query_first("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await.unwrap();
    !status.unwrap().1.is_empty()
}

pub(crate) fn any_certificate() -> SslOpts {
    SslOpts::default().with_danger_accept_invalid_certs(true).with_danger_skip_domain_validation(true)
}

fn single_config(single: &Single, tls: BackendTls) -> Config {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let address = single.server().address().to_string();
    Config {
        http: Some(any),
        route: RouteMode::Primary,
        backend_tls: tls,
        ..Config::new(any, Backend { name: "primary".to_owned(), address })
    }
}

/// A self-signed certificate for this host, in files.
struct Certificate(tempfile::TempDir);

impl Certificate {
    fn generate() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(directory.path().join("certificate.pem"), made.cert.pem()).unwrap();
        std::fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self(directory)
    }

    fn certificate(&self) -> PathBuf {
        self.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.path().join("key.pem")
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}
