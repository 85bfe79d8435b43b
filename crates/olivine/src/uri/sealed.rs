//! The socket of a `shm+fd://` channel, and the users allowed at its other end.

use super::parse::is_channel_name;
use super::{Config, Scheme, UriError};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Longest path in bytes: the length of a socket address, less the room for a temporary name.
pub(super) const PATH_LENGTH_MAX: usize = 90;
/// Most user ids in one `peers=`.
const USERS_MAX: usize = 32;

/// The users whose processes may be at the other end of a `shm+fd://` channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peers {
    /// The user of this process.
    #[default]
    Own,
    /// Any user. The permissions of the socket and its folder still apply.
    Any,
    /// These user ids: 1 to 32 of them.
    Users(Vec<u32>),
}

impl Peers {
    /// Whether a process of `user` is allowed; `own` is the user of this process.
    #[must_use]
    pub fn allow(&self, user: u32, own: u32) -> bool {
        match self {
            Self::Own => user == own,
            Self::Any => true,
            Self::Users(users) => users.contains(&user),
        }
    }
}

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.pad("own"),
            Self::Any => f.pad("any"),
            Self::Users(users) => {
                let users: Vec<_> = users.iter().map(u32::to_string).collect();
                f.pad(&users.join(","))
            }
        }
    }
}

impl FromStr for Peers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let user = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse::<u32>().ok())?
        };
        let found = match text {
            "own" => Some(Self::Own),
            "any" => Some(Self::Any),
            users => {
                let users: Option<Vec<u32>> = users.split(',').map(user).collect();
                users
                    .filter(|users| users.len() <= USERS_MAX)
                    .map(Self::Users)
            }
        };
        found.ok_or_else(|| format!("'{}' is not own, any or user ids", text.escape_default()))
    }
}

/// Reads the part between `shm+fd://` and `?`. The file's name up to its last dot names the
/// channel.
pub(super) fn read(place: &str) -> Result<Config, UriError> {
    check_path(Some(place))?;
    Ok(Config::new(Scheme::Sealed, "").sealed(|sealed| sealed.path(place)))
}

/// The channel of a socket.
pub(super) fn name_of(socket: &Path) -> String {
    let stem = socket.file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or_default().to_owned()
}

fn check_path(path: Option<&str>) -> Result<(), UriError> {
    let plain = |path: &str| {
        path.starts_with('/')
            && path.len() <= PATH_LENGTH_MAX
            && !path.ends_with('/')
            && !path.contains(|c: char| c.is_control() || "&?".contains(c))
    };
    if path.is_some_and(plain) {
        return Ok(());
    }
    Err(UriError::Socket {
        path: path.unwrap_or_default().escape_default().to_string(),
    })
}

/// Checks the socket, and the name that it gives the channel.
pub(super) fn check_place(config: &Config) -> Result<(), UriError> {
    check_path(config.path().and_then(Path::to_str))?;
    if is_channel_name(&config.channel) {
        return Ok(());
    }
    Err(UriError::Pair {
        first: "the socket's name",
        second: "no channel",
        rule: "the socket's name up to its last dot names the channel: 1 to 64 of A-Z a-z 0-9 . _ \
               -",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_names_channel_and_settings_round_trip() {
        let uri = "shm+fd:///run/app/ticks.sock?capacity=64KiB&slow=evict:1s&mode=0660\
                   &timeout=2s&peers=1000,0";
        let config = Config::parse(uri).unwrap();
        assert_eq!(config.channel(), "ticks");
        let path = Path::new("/run/app/ticks.sock");
        assert_eq!(config.get_sealed().get_path(), Some(path));
        assert_eq!(
            (config.uri().as_str(), config.get_file().get_path()),
            (uri, None)
        );
        assert!(config.validate().is_ok());
    }

    #[test]
    fn peers_are_allowed_by_user_id() {
        let parse = |text: &str| text.parse::<Peers>();
        assert!(parse("own").unwrap().allow(7, 7) && !parse("own").unwrap().allow(0, 7));
        assert!(parse("any").unwrap().allow(9, 7));
        let some = parse("1000,0").unwrap();
        assert!(some.allow(0, 7) && some.allow(1000, 7) && !some.allow(7, 7));
        for wrong in ["", "root", "1,", "-1", "4294967296", "1 ,2"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refusals_name_allowed_values() {
        let long = format!("shm+fd:///{}", "n".repeat(PATH_LENGTH_MAX));
        let cases = [
            ("shm+fd://x", "socket 'x' is not usable"),
            ("shm+fd:///", "socket '/' is not usable"),
            ("shm+fd:///run/", "socket '/run/' is not usable"),
            (&long, "1 to 90 bytes"),
            ("shm+fd:///run/a b.sock", "channel name 'a b'"),
            ("shm+fd:///x?name=n", "name=n and shm+fd://"),
            ("shm+fd:///x?publishers_max=2", "has one publisher"),
            ("shm+fd:///x?dir=/tmp", "dir=/tmp and shm+fd://"),
            ("shm+fd:///x?peers=root", "peers=root is not usable"),
            ("shm+fd:///x?token=t", "token=*** and shm+fd://"),
            ("shm+fd:///x?expire=1s", "expire=1s and shm+fd://"),
            ("shm://x?peers=any", "peers=any and shm://"),
        ];
        for (uri, expected) in cases {
            let error = Config::parse(uri).expect_err(uri).to_string();
            assert!(error.contains(expected), "{uri} gave: {error}");
        }
    }
}
