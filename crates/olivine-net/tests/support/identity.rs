//! A server with its certificate, and clients that trust it.

use crate::support::client;
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// A server's settings and those of a client that trusts it.
pub(crate) fn identities() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = pair.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der());
    let server = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

pub(crate) fn connect(
    address: SocketAddr,
    identity: &Arc<rustls::ClientConfig>,
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    let session = rustls::ClientConnection::new(Arc::clone(identity), name).unwrap();
    rustls::StreamOwned::new(session, client(address))
}
