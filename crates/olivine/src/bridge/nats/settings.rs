//! Settings of the server and credentials, from the URI and the environment.

use crate::bridge::secret;
use crate::channel::attach::random_id;
use crate::error::{LinkError, OpenError};
use crate::small_file::{self, SETTINGS_FILE_MAX};
use crate::uri::remote::TIMEOUT_DEFAULT;
use crate::uri::{Config, EXPIRE_DEFAULT, Expire, NatsSettings};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// One side of `nats://`.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) credentials: Credentials,
    pub(super) tls: Option<Tls>,
    /// Silence after which an operation is retried.
    pub(super) timeout: Duration,
    /// Random, for this handle or bridge.
    pub(super) instance: u64,
}

/// Credentials for the server.
pub(super) enum Credentials {
    None,
    Token(String),
    User(String, String),
    /// Seed of an NKey.
    NKey(String),
    /// A JWT and the seed of its NKey, as `nsc` writes them.
    Creds(String),
}

/// Certificates of the connection.
#[derive(Debug)]
pub(super) struct Tls {
    /// Authorities that sign the server's; those of the system if absent.
    pub(super) authorities: Option<PathBuf>,
    /// Our certificate and its private key.
    pub(super) own: Option<(PathBuf, PathBuf)>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never prints the secrets.
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token",
            Self::User(..) => "User",
            Self::NKey(_) => "NKey",
            Self::Creds(_) => "Creds",
        })
    }
}

impl Tls {
    /// The client library reads the files at each connection; this only checks them.
    fn new(config: &Config) -> Result<Self, LinkError> {
        let connection = &config.groups.nats.connection;
        let own = connection.tls_cert.clone().zip(connection.tls_key.clone());
        let tls = Self {
            authorities: connection.tls_ca.clone().or_else(|| file_of("NATS_CA")),
            own: own.or_else(|| file_of("NATS_CERT").zip(file_of("NATS_KEY"))),
        };
        let check = |action, path: &Path| {
            let read = small_file::read_bytes(path, SETTINGS_FILE_MAX);
            read.map(|_| ()).map_err(unreadable(action, path))
        };
        if let Some(path) = &tls.authorities {
            check("read the authorities from", path)?;
        }
        if let Some((certificate, key)) = &tls.own {
            check("read the certificate from", certificate)?;
            check("read the private key from", key)?;
        }
        Ok(tls)
    }
}

impl Settings {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; a file that cannot be read.
    pub(super) fn new(config: &Config) -> Result<Self, OpenError> {
        let connection = &config.groups.nats.connection;
        Ok(Self {
            credentials: credentials(config)?,
            tls: connection.tls.then(|| Tls::new(config)).transpose()?,
            timeout: connection.timeout.unwrap_or(TIMEOUT_DEFAULT),
            instance: random_id(),
            config: config.clone(),
        })
    }

    /// The stream's settings.
    pub(super) fn nats(&self) -> &NatsSettings {
        &self.config.groups.nats
    }

    /// Location of the channel, for messages: without secrets.
    pub(super) fn place(&self) -> String {
        let address = self.nats().address.as_ref();
        let address = address.map(ToString::to_string).unwrap_or_default();
        format!("nats://{address}/{}", self.config.channel())
    }

    /// The servers that the URI names.
    pub(super) fn servers(&self) -> Vec<String> {
        let first = self.nats().address.iter();
        let all = first.chain(&self.nats().servers);
        let scheme = if self.tls.is_some() { "tls" } else { "nats" };
        all.map(|address| format!("{scheme}://{address}")).collect()
    }

    /// How long our position is kept while we are away.
    pub(super) fn expire(&self) -> Option<Duration> {
        match (self.config.expire, &self.config.name) {
            (Expire::After(after), _) => Some(after),
            (Expire::Never, Some(_)) => None,
            (Expire::Never, None) => Some(EXPIRE_DEFAULT),
        }
    }

    /// How long closing waits for a server that is away.
    pub(super) fn close_timeout(&self) -> Duration {
        self.config.close_timeout()
    }
}

/// From the URI, otherwise from the environment variables that the NATS tools use.
fn credentials(config: &Config) -> Result<Credentials, OpenError> {
    let nats = &config.groups.nats;
    if let Some(token) = &nats.connection.token {
        let token = secret::read("read the token from", token)?;
        return Ok(Credentials::Token(token));
    }
    if let (Some(user), Some(password)) = (&nats.user, &nats.password) {
        return Ok(Credentials::User(
            secret::read("read the user name from", user)?,
            secret::read("read the password from", password)?,
        ));
    }
    if let Some(seed) = &nats.nkey {
        let seed = secret::read("read the seed of the NKey from", seed)?;
        return Ok(Credentials::NKey(seed));
    }
    if let Some(path) = &nats.creds {
        return creds(path);
    }
    if let Some(path) = file_of("NATS_CREDS") {
        return creds(&path);
    }
    if let Some(path) = word_of("NATS_NKEY") {
        let seed = secret::read("read the seed of the NKey from", &format!("@{path}"))?;
        return Ok(Credentials::NKey(seed));
    }
    if let (Some(user), Some(password)) = (word_of("NATS_USER"), word_of("NATS_PASSWORD")) {
        return Ok(Credentials::User(user, password));
    }
    Ok(word_of("NATS_TOKEN").map_or(Credentials::None, Credentials::Token))
}

fn creds(path: &Path) -> Result<Credentials, OpenError> {
    let text = small_file::read_text(path, SETTINGS_FILE_MAX);
    let text = text.map_err(unreadable("read the credentials from", path))?;
    Ok(Credentials::Creds(text))
}

fn unreadable(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    let place = path.display().to_string();
    move |source| LinkError::Io {
        action,
        place,
        source: Arc::new(source),
    }
}

fn word_of(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|word| !word.is_empty())
}

fn file_of(variable: &str) -> Option<PathBuf> {
    word_of(variable).map(PathBuf::from)
}
