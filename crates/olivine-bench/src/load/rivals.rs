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

/// Servers that need a configuration.
const CONFIGURED: [&str; 3] = ["nginx", "h2o", "haproxy"];
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
    CONFIGURED.into_iter().chain(PROGRAMS).collect()
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
    let mut folders: Vec<PathBuf> = if CONFIGURED.contains(&name) {
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
        Err(_) if CONFIGURED.contains(&name) => format!("apt-get install {name}"),
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
        let write = |text: String| fs::write(&config, text).map_err(io("write a configuration"));
        match self.name {
            "nginx" => {
                write(nginx(port, &own))?;
                command.arg("-c").arg(&config).arg("-p").arg(&own);
                command.arg("-e").arg(own.join("error.log"));
            }
            "h2o" => {
                let pages = own.join("pages");
                fs::create_dir_all(&pages).map_err(io("make a folder for a server"))?;
                let page = pages.join(PATH.trim_start_matches('/'));
                fs::write(page, BODY).map_err(io("write a page"))?;
                write(h2o(port, &pages))?;
                command.arg("-c").arg(&config);
            }
            "haproxy" => {
                write(haproxy(port))?;
                command.arg("-db").arg("-f").arg(&config);
            }
            _ => drop(command.arg(address.to_string())),
        }
        let label = match self.name {
            // A network library: its server counts requests by the empty line at their end.
            "gnet" => "gnet, unparsed",
            name => name,
        };
        Server::foreign(label, command, cpu, address)
    }
}

fn nginx(port: u16, folder: &Path) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {};\n", folder.join(kind).display()))
        .collect();
    format!(
        "daemon off;\nworker_processes 1;\nerror_log {error} crit;\npid {pid};\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n{temporary}  access_log off;\n  keepalive_requests 2000000000;\n  \
         keepalive_timeout 1h;\n  server {{\n    listen 127.0.0.1:{port} backlog=4096;\n    \
         location = {PATH} {{ default_type text/plain; return 200 \"{BODY}\"; }}\n  }}\n}}\n",
        error = folder.join("error.log").display(),
        pid = folder.join("pid").display(),
    )
}

fn h2o(port: u16, pages: &Path) -> String {
    format!(
        "listen:\n  host: 127.0.0.1\n  port: {port}\nnum-threads: 1\nuser: root\n\
         file.mime.setdefaulttype: text/plain\nhttp1-request-timeout: 3600\n\
         hosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: {}\n",
        pages.display()
    )
}

fn haproxy(port: u16) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 8000\ndefaults\n  mode http\n  timeout client 1h\n  \
         timeout server 1h\n  timeout connect 5s\n  timeout http-request 1h\n  \
         timeout http-keep-alive 1h\nfrontend hello\n  bind 127.0.0.1:{port}\n  \
         http-request return status 200 content-type text/plain string \"{BODY}\"\n"
    )
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
