//! TLS for `tcp://`: reading the files of the settings, and error texts. Version 1.3 only, by
//! rustls with its ring provider.
//!
//! Sessions are never resumed: connections live long, and each handshake checks the certificates.

pub(super) mod session;

use super::socket::SocketError;
use crate::bridge::secret;
use crate::error::LinkError;
use crate::uri::Role;
use crate::uri::groups::ConnectionSettings;
use crate::uri::remote::Address;
use rustls::client::Resumption;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, Error,
    InvalidMessage, RootCertStore, ServerConfig, ServerConnection,
};
use session::TlsSession;
use std::path::Path;
use std::sync::Arc;

/// How the connections of one handle or bridge are protected.
#[derive(Clone, Debug)]
pub(super) enum Tls {
    Listen(Arc<ServerConfig>),
    Connect(Arc<ClientConfig>, ServerName<'static>),
}

/// Our certificate with its chain, and its private key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Tls {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    ///
    /// [`LinkError::Io`] and [`LinkError::Tls`], with the file.
    pub(super) fn new(
        role: Role,
        address: &Address,
        connection: &ConnectionSettings,
    ) -> Result<Self, LinkError> {
        let missing = |problem: &str| LinkError::Tls {
            far: address.to_string(),
            problem: problem.to_owned(),
        };
        let identity = match (&connection.tls_cert, &connection.tls_key) {
            (Some(chain), Some(key)) => Some(read_identity(chain, key)?),
            _ => None,
        };
        let authorities = connection
            .tls_ca
            .as_deref()
            .map(read_authorities)
            .transpose()?;
        // The certificate does not belong to the key.
        let refused = |error: Error| {
            let path = |path: &Option<std::path::PathBuf>| {
                path.as_deref()
                    .map_or_else(String::new, |path| path.display().to_string())
            };
            LinkError::Tls {
                far: path(&connection.tls_cert),
                problem: match error {
                    Error::InconsistentKeys(_) => format!(
                        "the certificate does not belong to the private key in {}: give a \
                        certificate and its key",
                        path(&connection.tls_key)
                    ),
                    other => format!("the certificate is invalid: {other}"),
                },
            }
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = &[&rustls::version::TLS13];
        match role {
            Role::Listen => {
                let (chain, key) = identity.ok_or_else(|| {
                    missing(
                        "the side that listens needs a certificate: give 'tls_cert=' and \
                    'tls_key='",
                    )
                })?;
                let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
                    .with_protocol_versions(versions)
                    .map_err(refused)?;
                let builder = match authorities {
                    Some(authorities) => builder.with_client_cert_verifier(verifier(
                        authorities,
                        provider,
                        connection,
                    )?),
                    None => builder.with_no_client_auth(),
                };
                let mut config = builder.with_single_cert(chain, key).map_err(refused)?;
                config.send_tls13_tickets = 0;
                config.session_storage = Arc::new(NoServerSessionStorage {});
                Ok(Self::Listen(Arc::new(config)))
            }
            Role::Connect => {
                let authorities = authorities.ok_or_else(|| {
                    missing(
                        "the side that connects checks the listener's certificate: give 'tls_ca=' \
                        with its authority",
                    )
                })?;
                let name = ServerName::try_from(address.host.clone())
                    .map_err(|_| missing("this host name cannot be in a certificate"))?;
                let builder = ClientConfig::builder_with_provider(provider)
                    .with_protocol_versions(versions)
                    .map_err(refused)?
                    .with_root_certificates(authorities);
                let mut config = match identity {
                    Some((chain, key)) => {
                        builder.with_client_auth_cert(chain, key).map_err(refused)?
                    }
                    None => builder.with_no_client_auth(),
                };
                config.resumption = Resumption::disabled();
                Ok(Self::Connect(Arc::new(config), name))
            }
        }
    }

    /// Protects a new connection.
    ///
    /// # Errors
    ///
    /// [`SocketError::Tls`] if rustls cannot start with these settings.
    pub(super) fn session(&self) -> Result<TlsSession, SocketError> {
        let connection = match self {
            Self::Listen(config) => {
                ServerConnection::new(Arc::clone(config)).map(Connection::Server)
            }
            Self::Connect(config, name) => {
                ClientConnection::new(Arc::clone(config), name.clone()).map(Connection::Client)
            }
        };
        connection.map(TlsSession::new).map_err(tls_error)
    }
}

/// Requires a certificate of these authorities from every client.
fn verifier(
    authorities: RootCertStore,
    provider: Arc<rustls::crypto::CryptoProvider>,
    connection: &ConnectionSettings,
) -> Result<Arc<dyn ClientCertVerifier>, LinkError> {
    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
        .build()
        .map_err(|error| LinkError::Tls {
            far: (connection.tls_ca.as_deref())
                .map_or_else(String::new, |path| path.display().to_string()),
            problem: error.to_string(),
        })
}

fn read_identity(chain: &Path, key: &Path) -> Result<Identity, LinkError> {
    let certificates = read_certificates(chain, "read the certificate from")?;
    let action = "read the private key from";
    let text = secret::settings_bytes(action, key)?;
    let key = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| pem_error(key, "private key", error))?;
    Ok((certificates, key))
}

fn read_authorities(path: &Path) -> Result<RootCertStore, LinkError> {
    let mut store = RootCertStore::empty();
    for certificate in read_certificates(path, "read the authorities from")? {
        store.add(certificate).map_err(|error| LinkError::Tls {
            far: path.display().to_string(),
            problem: format!("a certificate in it cannot be an authority: {error}"),
        })?;
    }
    Ok(store)
}

/// At least one certificate.
fn read_certificates(
    path: &Path,
    action: &'static str,
) -> Result<Vec<CertificateDer<'static>>, LinkError> {
    let failed = |error| pem_error(path, "certificate", error);
    let found: Vec<_> = CertificateDer::pem_slice_iter(&secret::settings_bytes(action, path)?)
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if found.is_empty() {
        return Err(failed(PemError::NoItemsFound));
    }
    Ok(found)
}

fn pem_error(path: &Path, what: &str, error: PemError) -> LinkError {
    let place = path.display().to_string();
    match error {
        PemError::NoItemsFound => LinkError::Tls {
            far: place,
            problem: format!("there is no {what} in it: a PEM file with '-----BEGIN' is expected"),
        },
        other => LinkError::Tls {
            far: place,
            problem: format!("it is not a whole PEM file: {other}"),
        },
    }
}

/// What went wrong with a session, what to do, and whether a retry cannot help.
pub(super) fn tls_error(error: Error) -> SocketError {
    let (problem, lasting) = match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => (
            "the other side does not speak TLS: give 'tls=yes' on both sides, or on none".into(),
            true,
        ),
        Error::InvalidCertificate(why) => (certificate(why), true),
        Error::NoCertificatesPresented => (
            "it sent no certificate, and 'tls_ca=' of this side requires one: give it 'tls_cert=' \
            and 'tls_key='"
                .into(),
            true,
        ),
        Error::AlertReceived(alert) => told(alert),
        Error::PeerIncompatible(why) => (format!("it does not support TLS 1.3: {why:?}"), true),
        other => (other.to_string(), false),
    };
    SocketError::Tls { problem, lasting }
}

/// Why the other side's certificate is refused.
fn certificate(why: CertificateError) -> String {
    use CertificateError as E;
    match why {
        E::Expired | E::ExpiredContext { .. } => {
            let ago = match &why {
                E::ExpiredContext { time, not_after } => {
                    let past = time.as_secs().saturating_sub(not_after.as_secs());
                    format!(" {past} s ago")
                }
                _ => String::new(),
            };
            format!("its certificate expired{ago}: renew it, if the clock of this machine is right")
        }
        E::NotValidYet | E::NotValidYetContext { .. } => {
            "its certificate is not valid yet: look at the clocks of both machines".into()
        }
        E::UnknownIssuer => {
            "its certificate is not signed by an authority in 'tls_ca=' of this side".into()
        }
        E::NotValidForNameContext {
            expected,
            presented,
        } => {
            // rustls shows them as `DnsName("…")`.
            let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_owned();
            let names: Vec<String> = presented.iter().map(bare).collect();
            format!(
                "its certificate is for {}, not for {}: connect to one of its names",
                names.join(" and "),
                expected.to_str()
            )
        }
        E::NotValidForName => {
            "its certificate is for another name: connect to one of its names".into()
        }
        other => {
            let text = other.to_string();
            if text.contains("CaUsedAsEndEntity") {
                return "its certificate is that of an authority: use it to sign one for the \
                listener"
                    .into();
            }
            format!("its certificate is refused: {text}")
        }
    }
}

/// The meaning of an alert from the other side, and whether a retry cannot help.
fn told(alert: AlertDescription) -> (String, bool) {
    use AlertDescription as A;
    let text = match alert {
        A::CertificateRequired => {
            "the other side asks for a certificate: give 'tls_cert=' and 'tls_key='"
        }
        A::UnknownCA => {
            "the other side does not know the authority of our certificate: name it in its \
            'tls_ca='"
        }
        A::CertificateExpired => "the other side found our certificate expired: renew it",
        A::BadCertificate
        | A::CertificateUnknown
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::AccessDenied => {
            "the other side refuses our certificate: it is for another name, or made for another \
            purpose"
        }
        A::ProtocolVersion | A::HandshakeFailure => "the other side does not support TLS 1.3",
        other => return (format!("the other side ended TLS: {other:?}"), false),
    };
    (text.into(), true)
}
