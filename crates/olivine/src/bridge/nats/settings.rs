//! Settings of the server and credentials, from the URI and the environment.

use crate::raw::{self, TIMEOUT_DEFAULT};
use crate::{Config, Expire, LinkError, NatsSettings, OpenError};
use std::path::{Path, PathBuf};
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
        let nats = config.get_nats();
        let file = |file: Option<&Path>| file.map(Path::to_owned);
        let own = file(nats.get_tls_cert()).zip(file(nats.get_tls_key()));
        let tls = Self {
            authorities: file(nats.get_tls_ca()).or_else(|| file_of("NATS_CA")),
            own: own.or_else(|| file_of("NATS_CERT").zip(file_of("NATS_KEY"))),
        };
        let check = |action, path: &Path| raw::settings_bytes(action, path).map(|_| ());
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
        let nats = config.get_nats();
        Ok(Self {
            credentials: credentials(config)?,
            tls: nats.get_tls().then(|| Tls::new(config)).transpose()?,
            timeout: nats.get_timeout().unwrap_or(TIMEOUT_DEFAULT),
            instance: raw::random_id(),
            config: config.clone(),
        })
    }

    /// The stream's settings.
    pub(super) fn nats(&self) -> &NatsSettings {
        self.config.get_nats()
    }

    /// Location of the channel, for messages: without secrets.
    pub(super) fn place(&self) -> String {
        let address = self.nats().get_address();
        let address = address.map_or(String::new(), |(host, port)| raw::host_and_port(host, port));
        format!("nats://{address}/{}", self.config.channel())
    }

    /// The servers that the URI names.
    pub(super) fn servers(&self) -> Vec<String> {
        let first = self.nats().get_address().into_iter();
        let all = first.chain(self.nats().get_servers());
        let scheme = if self.tls.is_some() { "tls" } else { "nats" };
        all.map(|(host, port)| format!("{scheme}://{}", raw::host_and_port(host, port)))
            .collect()
    }

    /// How long our position is kept while we are away.
    pub(super) fn expire(&self) -> Option<Duration> {
        match (self.config.get_expire(), self.config.get_name()) {
            (Expire::Never, Some(_)) => None,
            _ => Some(self.config.close_timeout()),
        }
    }

    /// How long closing waits for a server that is away.
    pub(super) fn close_timeout(&self) -> Duration {
        self.config.close_timeout()
    }
}

/// From the URI, otherwise from the environment variables that the NATS tools use.
fn credentials(config: &Config) -> Result<Credentials, OpenError> {
    let nats = config.get_nats();
    if let Some(token) = nats.get_token() {
        let token = raw::read_secret("read the token from", token)?;
        return Ok(Credentials::Token(token));
    }
    if let (Some(user), Some(password)) = (nats.get_user(), nats.get_password()) {
        return Ok(Credentials::User(
            raw::read_secret("read the user name from", user)?,
            raw::read_secret("read the password from", password)?,
        ));
    }
    if let Some(seed) = nats.get_nkey() {
        let seed = raw::read_secret("read the seed of the NKey from", seed)?;
        return Ok(Credentials::NKey(seed));
    }
    if let Some(path) = nats.get_creds() {
        return creds(path);
    }
    if let Some(path) = file_of("NATS_CREDS") {
        return creds(&path);
    }
    if let Some(path) = word_of("NATS_NKEY") {
        let seed = raw::read_secret("read the seed of the NKey from", &format!("@{path}"))?;
        return Ok(Credentials::NKey(seed));
    }
    if let (Some(user), Some(password)) = (word_of("NATS_USER"), word_of("NATS_PASSWORD")) {
        return Ok(Credentials::User(user, password));
    }
    Ok(word_of("NATS_TOKEN").map_or(Credentials::None, Credentials::Token))
}

fn creds(path: &Path) -> Result<Credentials, OpenError> {
    let text = raw::settings_text("read the credentials from", path)?;
    Ok(Credentials::Creds(text))
}

fn word_of(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|word| !word.is_empty())
}

fn file_of(variable: &str) -> Option<PathBuf> {
    word_of(variable).map(PathBuf::from)
}
