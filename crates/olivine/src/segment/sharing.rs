//! Who may use a channel's files: sets modes and groups, and checks existing files.

use super::refused;
use crate::error::OpenError;
use crate::uri::Config;
use rustix::fs::{Gid, Mode, Stat};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Who may use a channel's files.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    mode: u32,
    group: Option<u32>,
    /// `mode=` or `group=` was given: more rights are refused, also on our own files.
    explicit: bool,
}

/// The purpose of a file or folder. It decides which permission bits are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The folder of all channels.
    Base,
    /// The folder of one channel.
    Channel,
    /// A file of a channel.
    File,
}

impl Sharing {
    /// From the settings `mode` and `group`.
    pub(crate) fn of(config: &Config) -> Result<Self, OpenError> {
        let group = config.group.as_deref().map(|name| {
            group_id(name).ok_or_else(|| {
                OpenError::Uri(crate::uri::UriError::Value {
                    key: "group",
                    value: name.to_owned(),
                    rule: "a group name of this machine (see 'getent group')",
                })
            })
        });
        let group = group.transpose()?;
        let mode = config
            .mode
            .unwrap_or_else(|| if group.is_some() { 0o660 } else { 0o600 });
        Ok(Self {
            mode,
            group,
            explicit: config.mode.is_some() || group.is_some(),
        })
    }

    /// Permission bits of files.
    pub(crate) fn file_mode(&self) -> u32 {
        self.mode
    }

    /// The requested group.
    pub(crate) fn group(&self) -> Option<u32> {
        self.group
    }

    /// Whether `mode=` or `group=` was given.
    pub(super) fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// Permission bits of the channel's folder: users that may write files may enter it and make
    /// files.
    pub(super) fn folder_mode(&self) -> u32 {
        let enter = |who: u32| {
            if self.mode & (who * 0o6) == 0 {
                0
            } else {
                who * 0o7
            }
        };
        0o700 | enter(0o10) | enter(0o1)
    }

    /// Sets mode and group of a new file, for any umask.
    pub(super) fn apply(&self, file: BorrowedFd<'_>, path: &Path) -> Result<(), OpenError> {
        self.apply_mode(file, path, self.mode)
    }

    /// As [`Sharing::apply`], for a new folder.
    pub(super) fn apply_to_folder(
        &self,
        folder: BorrowedFd<'_>,
        path: &Path,
    ) -> Result<(), OpenError> {
        self.apply_mode(folder, path, self.folder_mode())
    }

    fn apply_mode(&self, file: BorrowedFd<'_>, path: &Path, mode: u32) -> Result<(), OpenError> {
        if let Some(group) = self.group {
            let id = Some(Gid::from_raw(group));
            rustix::fs::fchown(file, None, id).map_err(|errno| OpenError::Group {
                group: group_shown(group),
                path: path.to_owned(),
                source: errno.into(),
            })?;
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))
            .map_err(refused("set the mode of", path))
    }

    /// Refuses files of other users, or that other users may write. `stat` is of an open
    /// descriptor.
    ///
    /// The owner is this user or root. With `group=` the owner may be another user; then the group
    /// must be that group, which only its members can set. No other user has rights beyond `mode=`.
    pub(super) fn check(&self, kind: Kind, stat: &Stat, path: &Path) -> Result<(), OpenError> {
        let me = rustix::process::geteuid().as_raw();
        self.problem(kind, stat, me)
            .map_or(Ok(()), |problem| untrusted(path, problem))
    }

    fn problem(&self, kind: Kind, stat: &Stat, me: u32) -> Option<String> {
        let (bits, mine) = (stat.st_mode & 0o777, stat.st_uid == me);
        let known_owner = mine || stat.st_uid == 0;
        match self.group {
            Some(group) => {
                // A base folder must not be writable for other groups.
                let must_match = kind != Kind::Base || !known_owner || bits & 0o020 != 0;
                if must_match && stat.st_gid != group {
                    return Some(format!(
                        "it belongs to {} and group {}, and 'group=' names group {}: {}",
                        user(stat.st_uid),
                        group_shown(stat.st_gid),
                        group_shown(group),
                        self.remedy(kind),
                    ));
                }
            }
            None if known_owner => {}
            None => {
                return Some(format!(
                    "it belongs to {} and you are {}: {}",
                    user(stat.st_uid),
                    user(me),
                    self.remedy(kind),
                ));
            }
        }
        // A program without settings may use files that the same user shares on purpose.
        if mine && !self.explicit && kind != Kind::Base {
            return None;
        }
        let allowed = match kind {
            // Others may see the names of channels.
            Kind::Base => self.folder_mode() | 0o055,
            Kind::Channel => self.folder_mode(),
            Kind::File => self.mode,
        };
        let excess = bits & 0o077 & !allowed;
        let who = match (excess & 0o070, excess & 0o007) {
            (0, 0) => return None,
            (_, 0) => "its group",
            _ => "every user of this machine",
        };
        let verb = if excess & 0o022 == 0 {
            "read"
        } else {
            "write to"
        };
        Some(format!(
            "{who} may {verb} it (it has mode {bits:04o}, at most {:04o} is allowed): {}",
            bits & (0o700 | allowed),
            self.remedy_of_mode(kind),
        ))
    }

    fn remedy(&self, kind: Kind) -> &'static str {
        match (kind, self.group) {
            (Kind::Base, None) => {
                "name your own folder by OLIVINE_DIR or 'dir=', or share one on purpose with \
                 'mode=0660&group=NAME'"
            }
            (Kind::Base, Some(_)) => "name another folder by 'dir=', or 'chgrp' this one",
            (_, None) => {
                "use another name or 'dir=', or share a channel on purpose with \
                 'mode=0660&group=NAME' and a common 'dir='"
            }
            (_, Some(_)) => "use another name or 'dir=', or let its owner remove it ('olivine rm')",
        }
    }

    fn remedy_of_mode(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Base if self.explicit => {
                "'chmod' it, or use your own folder, such as 'dir=/dev/shm/NAME'"
            }
            Kind::Base => {
                "'chmod go-w' it, share on purpose with 'mode=' and 'group=', or use your own \
                 folder, such as 'dir=/dev/shm/NAME'"
            }
            _ => {
                "use the 'mode=' that the channel was made with, another name, or remove it \
                 ('olivine rm')"
            }
        }
    }
}

/// The error for a file or folder that cannot be trusted.
pub(super) fn untrusted<T>(path: &Path, problem: String) -> Result<T, OpenError> {
    Err(OpenError::Folder {
        path: path.to_owned(),
        problem,
    })
}

/// A user as errors name it: `user 1000 (ada)`.
fn user(id: u32) -> String {
    let name = name_of("/etc/passwd", id);
    format!("user {}", named(id, name))
}

/// `1000 (ada)`, or the number alone without a name.
fn named(id: u32, name: Option<String>) -> String {
    name.map_or_else(|| id.to_string(), |name| format!("{id} ({name})"))
}

/// A group as errors name it: `2000 (team)`.
pub(crate) fn group_shown(id: u32) -> String {
    named(id, name_of("/etc/group", id))
}

/// Looks a name up in a file whose lines are `NAME:…:NUMBER:…`.
fn name_of(file: &str, id: u32) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        // A name with control characters is not used.
        let plain = !name.is_empty() && !name.contains(char::is_control);
        (number == id && plain).then(|| name.to_owned())
    })
}

/// Looks a group up in the group file; a number is its own id.
fn group_id(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let line = groups
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}
