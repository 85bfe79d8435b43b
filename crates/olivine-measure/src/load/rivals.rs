//! Other HTTP servers: found on this machine, configured and started.
//!
//! Each gets one thread on the server CPU, logging off, and no limit on requests per connection:
//! its best settings for this load. nginx, h2o and haproxy come from the distribution's packages;
//! the others are programs in one folder (`rivals/http/build` makes them) that take the address as
//! their only argument.

use super::error::{LoadError, io};
use super::process::Server;
use super::server::{BODY, PATH};
use olivine_arena::sys::process;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Servers that need a configuration, and that: `{FOLDER}`, `{PORT}`, `{PATH}` and `{BODY}` are
/// filled in.
const CONFIGURED: [(&str, &str); 3] = [
    ("nginx", include_str!("rivals/nginx.conf")),
    ("h2o", include_str!("rivals/h2o.yaml")),
    ("haproxy", include_str!("rivals/haproxy.cfg")),
];
/// The programs of `rivals/http`.
const PROGRAMS: [&str; 8] = [
    "hyper",
    "axum",
    "actix",
    "ntex",
    "may_minihttp",
    "nethttp",
    "fasthttp",
    "gnet",
];
/// Folders of programs that are not always in the path.
const MORE_PATH: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// A server to compare with.
#[derive(Clone, Debug)]
pub struct Rival {
    name: &'static str,
    program: PathBuf,
}

/// Names of all known servers.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let configured = CONFIGURED.map(|(name, _)| name);
    configured.into_iter().chain(PROGRAMS).collect()
}

/// The configuration of a server, if it needs one.
fn configuration(name: &str) -> Option<&'static str> {
    let found = CONFIGURED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

/// Finds a server by name: in the path, or in `folder`.
///
/// # Errors
///
/// Why it is missing: the note of `rivals/http/build` about a failed build, or the remedy.
pub fn find(name: &str, folder: &Path) -> Result<Rival, String> {
    let Some(name) = names().into_iter().find(|known| *known == name) else {
        return Err(format!("it is none of {}", names().join(", ")));
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = std::env::split_paths(&path).chain(MORE_PATH.map(PathBuf::from));
    let mut folders: Vec<PathBuf> = if configuration(name).is_some() {
        system.collect()
    } else {
        vec![folder.to_owned()]
    };
    folders.retain(|folder| folder.join(name).is_file());
    if let Some(folder) = folders.first() {
        let program = folder.join(name);
        return Ok(Rival { name, program });
    }
    let said = fs::read_to_string(folder.join(format!("{name}.missing")));
    Err(match said {
        Ok(why) => why.trim().to_owned(),
        Err(_) if configuration(name).is_some() => format!("apt-get install {name}"),
        Err(_) => "it has not been built: see rivals/http/build".to_owned(),
    })
}

impl Rival {
    /// Starts it on a free port of the loopback interface, on `cpu`; its files are written to
    /// `folder`.
    ///
    /// # Errors
    ///
    /// [`LoadError::Start`] if it does not listen within 5 s.
    pub fn start(&self, cpu: u32, folder: &Path) -> Result<Server, LoadError> {
        let port = process::free_port().map_err(io("find a free port"))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = Command::new(&self.program);
        let own = folder.join(self.name);
        fs::create_dir_all(&own).map_err(io("make a folder for a server"))?;
        let config = own.join("config");
        if let Some(text) = configuration(self.name) {
            let text = text
                .replace("{FOLDER}", &own.display().to_string())
                .replace("{PORT}", &port.to_string())
                .replace("{PATH}", PATH)
                .replace("{BODY}", BODY);
            fs::write(&config, text).map_err(io("write a configuration"))?;
        }
        match self.name {
            "nginx" => {
                command.arg("-c").arg(&config).arg("-p").arg(&own);
                command.arg("-e").arg(own.join("error.log"));
            }
            "h2o" => {
                let pages = own.join("pages");
                fs::create_dir_all(&pages).map_err(io("make a folder for a server"))?;
                let page = pages.join(PATH.trim_start_matches('/'));
                fs::write(page, BODY).map_err(io("write a page"))?;
                command.arg("-c").arg(&config);
            }
            "haproxy" => {
                command.arg("-db").arg("-f").arg(&config);
            }
            _ => {
                command.arg(address.to_string());
            }
        }
        let label = match self.name {
            // A network library: its server counts requests by the empty line at their end.
            "gnet" => "gnet, unparsed",
            name => name,
        };
        Server::foreign(label, command, cpu, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_their_folder_only() {
        let folder = tempfile::tempdir().unwrap();
        let why = |name: &str| find(name, folder.path()).map(drop).unwrap_err();
        assert!(why("hyper").contains("rivals/http/build"));
        fs::write(folder.path().join("hyper.missing"), "no compiler\n").unwrap();
        assert_eq!(why("hyper"), "no compiler");
        fs::write(folder.path().join("hyper"), "").unwrap();
        assert!(find("hyper", folder.path()).is_ok());
        assert!(why("no such server").contains("nginx"));
    }
}
