//! TLS to clients (a given or a generated certificate) and to servers.

use std::{io, path::Path, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::Stream;
use crate::config::{BackendTls, ClientTls};

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate or key file cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No certificate could be generated.
    #[error("no certificate could be generated: {0}")]
    Generate(#[from] rcgen::Error),
    /// The library refuses the settings.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// What accepts TLS from clients; `None` when it is off.
///
/// # Errors
/// When certificate or key cannot be used.
pub fn acceptor(settings: &ClientTls) -> Result<Option<TlsAcceptor>, Error> {
    let (chain, key) = match settings {
        ClientTls::Off => return Ok(None),
        ClientTls::Generated => generate()?,
        ClientTls::Files { certificate, key } => (read_chain(certificate)?, read_key(key)?),
    };
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn generate() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let names = vec!["ramsplit".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok((vec![made.cert.into()], key))
}

fn file_error(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::File { path: path.display().to_string(), reason: reason.to_string() }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|reason| file_error(path, reason))?;
    if chain.is_empty() { Err(file_error(path, "no certificate in it")) } else { Ok(chain) }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(path).map_err(|reason| file_error(path, reason))
}

/// What speaks TLS to servers; `None` when it is off.
///
/// # Errors
/// When the file of certificate authorities cannot be used.
pub fn connector(settings: &BackendTls) -> Result<Option<TlsConnector>, Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = match settings {
        BackendTls::Off => return Ok(None),
        BackendTls::AsClient | BackendTls::Required => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())))
            .with_no_client_auth(),
        BackendTls::Verify { authorities } => {
            let mut roots = RootCertStore::empty();
            for authority in read_chain(authorities)? {
                roots.add(authority)?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    Ok(Some(TlsConnector::from(Arc::new(config))))
}

/// Begins TLS as a server.
///
/// # Errors
/// When the handshake fails.
pub async fn accept(acceptor: &TlsAcceptor, socket: TcpStream) -> io::Result<Stream> {
    Ok(TlsStream::Server(acceptor.accept(socket).await?).into())
}

/// Begins TLS as a client of the server called `host`.
///
/// # Errors
/// When the handshake fails.
pub async fn connect(connector: &TlsConnector, host: &str, socket: TcpStream) -> io::Result<Stream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(TlsStream::Client(connector.connect(name, socket).await?).into())
}

/// Takes any certificate: encryption without proof of the peer, as the servers' own clients do by default.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    // A signature by a certificate that nobody vouches for proves nothing, so none is checked.
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
