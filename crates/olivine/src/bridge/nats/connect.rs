//! Connections to the server or cluster, and reconnections.

use super::settings::{Credentials, Settings};
use crate::LinkError;
use crate::raw::{Control, ReconnectBackoff};
use async_nats::rustls::AlertDescription;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerError, rustls};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// Reconnect delay of the client library: longer than it lives after a break. Its unsent messages
/// must not go out before the messages that are sent again.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// Why a session ended.
#[derive(Debug)]
pub(super) enum SessionEnd {
    /// We were asked to stop.
    Stopped,
    /// A later attempt may succeed.
    Away(String),
    /// A later attempt fails, too.
    Failed(LinkError),
}

impl From<LinkError> for SessionEnd {
    fn from(error: LinkError) -> Self {
        Self::Failed(error)
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    /// The last complaint of the server or the library.
    report: Arc<Mutex<ServerReport>>,
}

#[derive(Debug, Default)]
struct ServerReport {
    /// The session has begun: a break ends it.
    connected: bool,
    broken: bool,
    word: Option<String>,
}

impl Connection {
    /// # Errors
    /// [`SessionEnd::Away`] once the connection broke.
    pub(super) fn live(&self) -> Result<(), SessionEnd> {
        let report = locked(&self.report);
        if !report.broken {
            return Ok(());
        }
        let word = report.word.clone();
        Err(SessionEnd::Away(word.unwrap_or_else(|| {
            "the server closed the connection".to_owned()
        })))
    }

    /// The server's refusal, if any: a request without permission gets no reply.
    pub(super) fn refusal(&self) -> Option<String> {
        let report = locked(&self.report);
        let word = report.word.as_ref()?;
        let is_refusal = word.to_ascii_lowercase().contains("permissions violation");
        is_refusal.then(|| word.clone())
    }

    /// A refused request was not needed: no later one without a reply was refused for that reason.
    pub(super) fn forget_refusal(&self) {
        locked(&self.report).word = None;
    }
}

/// Makes connections.
#[derive(Debug)]
pub(super) struct Connector<'a> {
    settings: &'a Settings,
    /// Every known server.
    servers: Vec<String>,
}

impl<'a> Connector<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            servers: settings.servers(),
        }
    }

    /// Connects to one of the servers.
    async fn open(&mut self) -> Result<Connection, SessionEnd> {
        let report = Arc::new(Mutex::new(ServerReport::default()));
        let options = self.options(&report)?;
        let client = options.connect(self.servers.clone()).await;
        let client = client.map_err(|error| {
            let (far, text) = (self.settings.place(), error.to_string());
            if let Some(problem) = certificate_problem(&error) {
                return SessionEnd::Failed(LinkError::Tls { far, problem });
            }
            match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    let reason = format!(
                        "{text}; give 'user=' and 'password=', 'token=', 'nkey=' or 'creds=' of a \
                        user it knows"
                    );
                    SessionEnd::Failed(LinkError::Refused { far, reason })
                }
                ConnectErrorKind::Tls | ConnectErrorKind::ServerParse => {
                    SessionEnd::Failed(LinkError::Tls { far, problem: text })
                }
                _ => SessionEnd::Away(text),
            }
        })?;
        locked(&report).connected = true;
        let scheme = if self.settings.tls.is_some() {
            "tls"
        } else {
            "nats"
        };
        for url in client.server_info().connect_urls {
            let url = format!("{scheme}://{url}");
            if !self.servers.contains(&url) {
                self.servers.push(url);
            }
        }
        Ok(Connection { client, report })
    }

    fn options(&self, report: &Arc<Mutex<ServerReport>>) -> Result<ConnectOptions, SessionEnd> {
        let timeout = self.settings.timeout;
        let (heard, state) = (Arc::clone(report), Arc::clone(report));
        let mut options = ConnectOptions::new()
            .name("olivine")
            .connection_timeout(timeout)
            .request_timeout(Some(timeout))
            .ping_interval(timeout)
            .event_callback(move |event| {
                record_event(&heard, &event);
                std::future::ready(())
            })
            .reconnect_delay_callback(move |_| match locked(&state).connected {
                false => Duration::ZERO,
                true => NEVER,
            });
        options = match &self.settings.credentials {
            Credentials::None => options,
            Credentials::Token(token) => options.token(token.clone()),
            Credentials::User(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
            Credentials::NKey(seed) => options.nkey(seed.clone()),
            Credentials::Creds(text) => options.credentials(text).map_err(|error| {
                let (far, reason) = (self.settings.place(), format!("the credentials: {error}"));
                LinkError::Refused { far, reason }
            })?,
        };
        if let Some(tls) = &self.settings.tls {
            options = options.require_tls(true);
            if let Some(authorities) = &tls.authorities {
                options = options.add_root_certificates(authorities.clone());
            }
            if let Some((certificate, key)) = &tls.own {
                options = options.add_client_certificate(certificate.clone(), key.clone());
            }
        }
        Ok(options)
    }

    /// Connects and runs `session` with `state` until it ends or fails. After a request to end it
    /// retries only until `is_delivered`, or until the server was away for too long.
    pub(super) async fn attempts<S>(
        &mut self,
        control: &Control,
        state: &mut S,
        is_delivered: impl Fn(&mut S) -> bool,
        mut session: impl AsyncFnMut(&mut S, &Connection) -> Result<(), SessionEnd>,
    ) -> Result<(), LinkError> {
        let mut backoff = ReconnectBackoff::new(control, self.settings.close_timeout());
        loop {
            backoff.begin();
            let outcome = match self.open().await {
                Ok(connection) => session(state, &connection).await,
                Err(broken) => Err(broken),
            };
            let problem = match outcome {
                Ok(()) | Err(SessionEnd::Stopped) => return Ok(()),
                Err(SessionEnd::Failed(error)) => return Err(error),
                Err(SessionEnd::Away(problem)) => problem,
            };
            let note = format!("waiting for {}: {problem}", self.settings.place());
            if !backoff.may_retry(note, || is_delivered(state)) {
                return Ok(());
            }
        }
    }
}

/// The problem of a certificate, the server's or ours, and its solution; `None` if a later attempt
/// may succeed.
fn certificate_problem(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // An error of the system hides its cause.
        let hidden = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let hidden = hidden.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match hidden.or_else(|| error.downcast_ref::<rustls::Error>()) {
            Some(problem @ rustls::Error::InvalidCertificate(_)) => {
                return Some(format!(
                    "{problem}; give 'tls_ca=' with the authority of the server's certificate"
                ));
            }
            Some(problem @ rustls::Error::AlertReceived(alert)) if is_refusal(*alert) => {
                return Some(format!(
                    "the server ends it: {problem}; give 'tls_cert=' and 'tls_key=' of a client \
                    it trusts"
                ));
            }
            _ => cause = error.source(),
        }
    }
    None
}

/// Whether the alert means that our certificate is refused.
fn is_refusal(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateRequired
    )
}

fn locked(report: &Mutex<ServerReport>) -> MutexGuard<'_, ServerReport> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record_event(report: &Mutex<ServerReport>, event: &Event) {
    let mut report = locked(report);
    match event {
        Event::Disconnected | Event::Closed => report.broken = true,
        Event::LameDuckMode => {
            report.broken = true;
            report.word = Some("the server is about to stop".to_owned());
        }
        Event::ServerError(ServerError::Other(word)) => report.word = Some(word.clone()),
        Event::ServerError(_) | Event::ClientError(_) => report.word = Some(event.to_string()),
        _ => {}
    }
}

/// A session has begun. `warning` is for the user, or empty.
pub(super) fn connected(control: &Control, connection: &Connection, warning: &str) {
    let info = connection.client.server_info();
    control.connected(format!(
        "connected to {} {}{warning}",
        info.server_name, info.version
    ));
}

/// The descriptor that becomes readable when the bridge is asked to end, for the event loop.
pub(super) fn wake_of(control: &Control) -> io::Result<AsyncFd<OwnedFd>> {
    watched(control.wake_fd().try_clone_to_owned()?)
}

/// A descriptor that the event loop watches.
#[allow(
    deprecated,
    reason = "the new constructor is unsafe for types that are not descriptors; an owned \
              descriptor stays open"
)]
pub(super) fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}
