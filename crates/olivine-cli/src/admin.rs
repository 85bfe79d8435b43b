//! `olivine ls`, `inspect`, `rm` and `gc`: showing and removing channels.

mod elsewhere;
mod held;
mod unlinked;

use crate::args::channel::{full_uri, shm_only};
use crate::args::{Common, GcArgs, InspectArgs, LsArgs, RmArgs};
use crate::bridge::place;
use crate::failure::{Failure, Outcome, complain, with_id};
use crate::output::{print, print_json, table};
use olivine::admin::{self, AdminError, ChannelInfo, PublisherInfo, SubscriberInfo};
use olivine::{Config, LaneState, OpenError, Scheme};
use olivine_bench::error::chain;
use olivine_bench::text;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use unlinked::Unlinked;

/// Lists the channels of a folder.
pub(crate) fn ls(args: &LsArgs, common: Common) -> Outcome {
    let dir = directory(args.dir.as_deref(), Looks::Once)?;
    let mut listed = admin::list(&dir).map_err(failed)?;
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let gone = unlinked::find(&dir);
    if common.json {
        let channels: Vec<Value> = listed
            .iter()
            .map(|channel| match &channel.result {
                Ok(info) => channel_json(info),
                Err(error) => json!({ "name": channel.name, "error": reason(error) }),
            })
            .collect();
        let gone: Vec<Value> = gone.iter().map(Unlinked::json).collect();
        return print_json(&json!({ "dir": dir, "channels": channels, "unlinked": gone }));
    }
    let readable = listed
        .iter()
        .filter_map(|channel| channel.result.as_ref().ok());
    let mut notes: String = readable.clone().map(held::lines).collect();
    notes.extend(readable.filter_map(|info| {
        let whose = elsewhere::whose(info)?;
        Some(format!("ring         {} {whose}\n", info.name))
    }));
    notes.extend(gone.iter().map(Unlinked::line));
    if !notes.is_empty() {
        notes.insert(0, '\n');
    }
    if listed.is_empty() {
        return print(&format!("no channels in {}\n{notes}", dir.display()));
    }
    let mut unreadable = Vec::new();
    let rows = listed
        .iter()
        .map(|channel| match &channel.result {
            Ok(info) => {
                let lag = info
                    .subscribers
                    .iter()
                    .map(|subscriber| subscriber.lag_bytes)
                    .max();
                vec![
                    channel.name.clone(),
                    state(info).to_owned(),
                    publishers(info),
                    subscribers(info),
                    ring(info),
                    text::bytes(info.file_bytes),
                    lag.map_or_else(|| "-".to_owned(), text::bytes),
                ]
            }
            Err(error) => {
                unreadable.push(format!("{}: {}", channel.name, reason(error)));
                let mut row = vec![channel.name.clone(), "unreadable".to_owned()];
                row.resize(7, "-".to_owned());
                row
            }
        })
        .collect();
    let heads = [
        "CHANNEL",
        "STATE",
        "PUBLISHERS",
        "SUBSCRIBERS",
        "RING",
        "MEMORY",
        "LAG",
    ];
    print(&(table(&heads, &[4, 5, 6], rows) + &notes))?;
    unreadable.iter().for_each(|line| complain(line));
    Ok(())
}

/// Why a listed channel cannot be shown.
fn reason(error: &OpenError) -> String {
    match error {
        // Its folder is there: it was listed.
        OpenError::Missing { .. } => "its folder holds no channel: one is being made, or was left \
                                      half made; 'olivine rm' removes it if it is empty, 'olivine \
                                      rm --force' with what it holds"
            .to_owned(),
        error => format!("{} [{}]", chain(error), error.id()),
    }
}

/// Shows one channel.
pub(crate) fn inspect(args: &InspectArgs, common: Common) -> Outcome {
    let asked = Config::parse(&full_uri(&args.uri)?)?;
    if asked.scheme() == Scheme::File {
        if args.dir.is_some() {
            return Err(Failure::usage(
                "--dir has no meaning for a journal, whose URI holds its path: leave it out",
            ));
        }
        let path = asked.uri();
        let path = path.strip_prefix("file://").unwrap_or(&path);
        let path = path.split('?').next().unwrap_or_default();
        return crate::journal::inspect(Path::new(path), true, common);
    }
    let config = config(&args.uri, args.dir.as_deref())?;
    let info = match admin::inspect(&config) {
        Ok(info) => info,
        Err(error) => {
            let dir = config.get_dir();
            let dir = dir.map_or_else(admin::default_dir, Path::to_owned);
            if let Some(gone) = unlinked_of(&dir, config.channel()) {
                complain(gone.line().trim_end());
            }
            return Err(error.into());
        }
    };
    let folder = info.path.parent().unwrap_or(&info.path);
    let gone = unlinked_of(folder, &info.name);
    if common.json {
        let mut shown = channel_json(&info);
        let processes = gone.map(|gone| gone.processes).unwrap_or_default();
        shown["unlinked_process_ids"] = json!(processes);
        return print_json(&shown);
    }
    let shape = if is_open(&info) {
        format!(
            "ring         fixed by the first publisher\nroom         {} subscribers\n",
            info.subscribers_max
        )
    } else {
        format!(
            "ring         {} per publisher, messages padded to {} B\n\
             room         {} publishers, {} subscribers\nslow         {}\n",
            ring(&info),
            info.align_bytes,
            info.publishers_max,
            info.subscribers_max,
            info.slow,
        )
    };
    let whose = elsewhere::whose(&info).map_or_else(String::new, |whose| format!(", {whose}"));
    let mut out = format!(
        "channel      {}{whose}\nstate        {}\npath         {}\n{shape}",
        info.name,
        state(&info),
        info.path.display(),
    );
    if let Some(name) = &info.type_name {
        // From shared memory: line ends are escaped.
        let name = crate::terminal::escaped(name);
        out.push_str(&format!("type         {name}\n"));
        if !info.fields.is_empty() {
            let fields = info.fields.to_string();
            let fields = crate::terminal::escaped(&fields);
            out.push_str(&format!("fields       {fields}\n"));
        }
    }
    out.push_str(&format!(
        "memory       {}\ncounters     {} subscribers ever, {} evicted, {} dead reclaimed\n",
        text::bytes(info.file_bytes),
        info.subscribers_ever,
        info.evictions,
        info.reclaims,
    ));
    if !info.publishers.is_empty() {
        let heads = [
            "LANE",
            "STATE",
            "PROCESS",
            "PUBLISHED",
            "WAITS",
            "WAITED",
            "WAKES",
            "TAKEN OVER",
        ];
        let rows = info.publishers.iter().map(publisher_row).collect();
        out.push('\n');
        out.push_str(&table(&heads, &[0, 2, 3, 4, 5, 6, 7], rows));
    }
    if !info.subscribers.is_empty() {
        let heads = [
            "SLOT", "STATE", "PROCESS", "NAME", "DELIVERY", "WAIT", "PARKS", "LAG", "LOST",
        ];
        let rows = info.subscribers.iter().map(subscriber_row).collect();
        out.push('\n');
        out.push_str(&table(&heads, &[0, 2, 6, 7, 8], rows));
    }
    let mut notes: String = info.publishers.iter().filter_map(failures_line).collect();
    notes += &held::lines(&info);
    notes.extend(gone.as_ref().map(Unlinked::line));
    if !notes.is_empty() {
        out.push('\n');
        out.push_str(&notes);
    }
    print(&out)
}

/// The channel `name` of `folder` whose files were removed, if a process still uses it.
fn unlinked_of(folder: &Path, name: &str) -> Option<Unlinked> {
    let found = unlinked::find(folder);
    found.into_iter().find(|gone| gone.name == name)
}

/// Removes channels by name; continues after a channel that cannot be removed.
pub(crate) fn rm(args: &RmArgs, common: Common) -> Outcome {
    let configs: Vec<Config> = args
        .uri
        .iter()
        .map(|uri| config_of(uri, args.dir.as_deref(), args.name.as_deref()))
        .collect::<Outcome<_>>()?;
    if let Some(name) = &args.name {
        return forget(&configs, name, common);
    }
    each(&configs, "removed", common, |config| {
        let gone = admin::remove(config, args.force)?;
        let channel = config.channel();
        Ok((
            format!("removed {channel} ({})\n", text::bytes(gone.bytes)),
            json!({ "name": channel, "file_bytes": gone.bytes }),
        ))
    })
}

/// Removes the durable subscriber `name` of each channel; continues after a failure.
fn forget(configs: &[Config], name: &str, common: Common) -> Outcome {
    each(configs, "forgotten", common, |config| {
        let gone = admin::forget(config, name)?;
        let removed = if gone.removed {
            "; no other process uses the channel: removed"
        } else {
            ""
        };
        let line = format!(
            "forgot '{name}' of {}, which was {} behind{removed}\n",
            crate::settings::short(config),
            text::bytes(gone.lag_bytes),
        );
        let object = json!({
            "channel": config.channel(),
            "name": name,
            "lag_bytes": gone.lag_bytes,
            "channel_removed": gone.removed,
        });
        Ok((line, object))
    })
}

/// Runs `act` for each channel and prints its result: a line, or all objects under `key`. Continues
/// after a failure, and fails at the end.
fn each(
    configs: &[Config],
    key: &str,
    common: Common,
    act: impl Fn(&Config) -> Result<(String, Value), AdminError>,
) -> Outcome {
    let mut failures = 0;
    let mut done = Vec::new();
    // A reader that closes standard output does not stop the work.
    let mut printed = Ok(());
    for config in configs {
        match act(config) {
            Ok((line, object)) => {
                if !common.json && printed.is_ok() {
                    printed = print(&line);
                }
                done.push(object);
            }
            Err(error) => {
                failures += 1;
                complain(&with_id(&error.into()));
            }
        }
    }
    if common.json {
        print_json(&json!({ key: done, "failed_count": failures }))?;
    }
    if failures == 0 {
        printed
    } else {
        Err(Failure::BadResult)
    }
}

/// Removes channels that are not in use.
pub(crate) fn gc(args: &GcArgs, common: Common) -> Outcome {
    let dir = directory(args.dir.as_deref(), Looks::Once)?;
    let collected = admin::collect(&dir, args.dry_run).map_err(failed)?;
    // What was removed is said also if the folder cannot be read again.
    let kept = kept(&dir, &collected);
    if common.json {
        let channels: Vec<Value> = collected
            .iter()
            .map(|gone| {
                let reason = gone.reason.to_string();
                json!({ "name": gone.name, "file_bytes": gone.bytes, "reason": reason })
            })
            .collect();
        return print_json(&json!({
            "dir": dir,
            "dry_run": args.dry_run,
            "collected": channels,
            "kept": kept.iter().map(Kept::json).collect::<Vec<_>>(),
        }));
    }
    let verb = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    let mut out = String::new();
    for gone in &collected {
        out.push_str(&format!(
            "{verb} {} ({}): {}\n",
            gone.name,
            text::bytes(gone.bytes),
            gone.reason
        ));
    }
    if collected.is_empty() {
        out.push_str(&format!("nothing to collect in {}\n", dir.display()));
    }
    out.extend(kept.iter().map(|one| one.line(args.dir.as_deref())));
    print(&out)
}

/// A channel that no process uses, and that stays for its durable subscribers, or without any for
/// the next publisher of a `name=` elsewhere.
struct Kept {
    name: String,
    /// Whose ring it is, if it is one of a channel elsewhere that says so.
    whose: Option<String>,
    subscribers: Vec<String>,
}

/// The channels of `dir` that stay although no process uses them.
fn kept(dir: &Path, collected: &[admin::Collected]) -> Vec<Kept> {
    let mut kept = Vec::new();
    for channel in admin::list(dir).unwrap_or_default() {
        let Ok(info) = channel.result else { continue };
        let is_collected = collected.iter().any(|gone| gone.name == info.name);
        let names = info.subscribers.iter().filter_map(|one| one.name.clone());
        let subscribers: Vec<String> = names.collect();
        // Others became unused since they were looked at: the next 'gc' removes them.
        let waits = info.subscribers_ever == 0 && info.name.starts_with("link.");
        let is_kept = !subscribers.is_empty() || waits;
        if state(&info) == "unused" && !is_collected && is_kept {
            kept.push(Kept {
                whose: elsewhere::whose(&info),
                name: info.name,
                subscribers,
            });
        }
    }
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    kept
}

impl Kept {
    fn json(&self) -> Value {
        json!({ "name": self.name, "subscribers": self.subscribers })
    }

    fn line(&self, dir: Option<&Path>) -> String {
        let dir = crate::quote::dir(dir);
        let name = &self.name;
        let whose = self.whose.as_ref();
        let whose = whose.map_or_else(String::new, |whose| format!(" {whose}"));
        if self.subscribers.is_empty() {
            return format!(
                "kept {name}{whose}: the next publisher of its name= delivers what is in it; \
                 'olivine rm {name}{dir}' removes it\n"
            );
        }
        // From shared memory.
        let shown = |name: &String| format!("'{}'", crate::terminal::escaped(name));
        let names: Vec<String> = self.subscribers.iter().map(shown).collect();
        let noun = if names.len() == 1 {
            "subscriber"
        } else {
            "subscribers"
        };
        format!(
            "kept {name}{whose}: its {noun} {} may return; 'olivine rm {name}{dir}' removes it\n",
            names.join(", "),
        )
    }
}

/// How often a command looks at a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Once,
    /// Again and again: it may start before the first channel makes the folder of `$OLIVINE_DIR`.
    GoOn,
}

impl Looks {
    /// [`Looks::Once`] if `is_single`.
    pub(crate) fn of(is_single: bool) -> Self {
        match is_single {
            true => Self::Once,
            false => Self::GoOn,
        }
    }
}

/// The folder of `--dir` or `$OLIVINE_DIR`, which must exist, or the default one, which the first
/// channel creates.
///
/// # Errors
///
/// It does not exist, is not a folder, or is not named from the root on.
pub(crate) fn directory(dir: Option<&Path>, looks: Looks) -> Outcome<PathBuf> {
    let (origin, folder) = match dir {
        Some(dir) => ("--dir", dir.to_path_buf()),
        None if is_default_named() => ("$OLIVINE_DIR", admin::default_dir()),
        None => return Ok(admin::default_dir()),
    };
    let shown = folder.display();
    if folder.is_relative() {
        return Err(Failure::usage(format!(
            "'{shown}' of {origin} does not begin with '/': give an absolute path"
        )));
    }
    match std::fs::metadata(&folder) {
        Ok(meta) if meta.is_dir() => Ok(folder),
        Ok(_) => Err(Failure::failed(format!(
            "{shown}, which {origin} names, is not a folder: name the folder of the channels"
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if dir.is_none() && looks == Looks::GoOn {
                return Ok(folder);
            }
            let rest = match dir {
                Some(_) => {
                    "does not exist: channels are looked for in $OLIVINE_DIR, or \
                     /dev/shm/olivine-UID, without --dir"
                }
                None => {
                    "of $OLIVINE_DIR does not exist: the first channel makes it; without the \
                     variable channels are in /dev/shm/olivine-UID"
                }
            };
            Err(Failure::failed(format!("folder {shown} {rest}")))
        }
        Err(error) => {
            let context = format!("cannot look at {shown}, which {origin} names");
            Err(Failure::Failed(anyhow::Error::new(error).context(context)))
        }
    }
}

/// Whether `$OLIVINE_DIR` names the default folder.
fn is_default_named() -> bool {
    std::env::var_os("OLIVINE_DIR").is_some_and(|dir| !dir.is_empty())
}

/// As [`config_of`], by the `name=` of the URI.
pub(crate) fn config(uri: &str, dir: Option<&str>) -> Outcome<Config> {
    config_of(uri, dir, None)
}

/// The settings of a channel in shared memory, in `dir` if one is given. Of a channel elsewhere the
/// ring of this machine that its `name=` has, or this `name`.
fn config_of(uri: &str, dir: Option<&str>, name: Option<&str>) -> Outcome<Config> {
    let mut config = shm_only(Config::parse(&full_uri(uri)?)?)?;
    if let Some(dir) = dir {
        config = config.dir(dir);
        config.validate()?;
    }
    if config.scheme() == Scheme::Sealed {
        return Err(Failure::usage(format!(
            "{} is sealed: it has no name in a folder and shows itself to its subscribers only; \
             look at what its publisher and its subscribers say",
            place(uri)
        )));
    }
    if config.scheme() == Scheme::Shm {
        return Ok(config);
    }
    if let (Some(name), None) = (name, config.get_name()) {
        config = config.name(name);
    }
    elsewhere::ring(uri, &config)
}

/// Whether no publisher has fixed the channel's geometry yet.
fn is_open(info: &ChannelInfo) -> bool {
    info.align_bytes == 0 || info.capacity_bytes == 0 || info.publishers_max == 0
}

/// Bytes of each publisher's ring, for the terminal.
fn ring(info: &ChannelInfo) -> String {
    match info.capacity_bytes {
        0 => "open".to_owned(),
        bytes => text::bytes(bytes),
    }
}

fn failed(error: AdminError) -> Failure {
    Failure::Failed(error.into())
}

fn state(info: &ChannelInfo) -> &'static str {
    let publishing = info
        .publishers
        .iter()
        .any(|publisher| publisher.state == LaneState::Open);
    if publishing || info.subscribers.iter().any(|subscriber| subscriber.alive) {
        "live"
    } else {
        "unused"
    }
}

fn publishers(info: &ChannelInfo) -> String {
    let count = |state| {
        info.publishers
            .iter()
            .filter(|publisher| publisher.state == state)
            .count()
    };
    with_dead(count(LaneState::Open), count(LaneState::Dead))
}

fn subscribers(info: &ChannelInfo) -> String {
    let alive = info
        .subscribers
        .iter()
        .filter(|subscriber| subscriber.alive)
        .count();
    with_dead(alive, info.subscribers.len() - alive)
}

fn with_dead(live: usize, dead: usize) -> String {
    if dead == 0 {
        live.to_string()
    } else {
        format!("{live} (+{dead} gone)")
    }
}

fn lane_state(state: LaneState) -> &'static str {
    match state {
        LaneState::Open => "open",
        LaneState::Closed => "closed",
        _ => "dead",
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn publisher_row(publisher: &PublisherInfo) -> Vec<String> {
    vec![
        publisher.lane.to_string(),
        lane_state(publisher.state).to_owned(),
        publisher.pid.to_string(),
        text::bytes(publisher.cursor),
        text::count(publisher.back_pressure_count),
        text::nanos(publisher.back_pressure_ns as f64),
        text::count(publisher.wakes),
        publisher.takeovers.to_string(),
    ]
}

/// A line for the failures of a lane.
#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn failures_line(publisher: &PublisherInfo) -> Option<String> {
    let failures = publisher.failures.as_ref()?;
    // From shared memory: line ends are escaped.
    let reason = crate::terminal::escaped(&failures.reason);
    Some(format!(
        "failed       lane {}: {}, the first {} and the last {} ago: {reason}\n",
        publisher.lane,
        text::plural(failures.count, "failure"),
        text::nanos(failures.since_first_ns as f64),
        text::nanos(failures.since_last_ns as f64),
    ))
}

fn lost(subscriber: &SubscriberInfo) -> String {
    let bytes = text::bytes(subscriber.lost_bytes);
    match subscriber.overruns {
        0 => bytes,
        overruns => format!("{bytes} in {}", text::plural(overruns, "overrun")),
    }
}

fn subscriber_row(subscriber: &SubscriberInfo) -> Vec<String> {
    vec![
        subscriber.slot.to_string(),
        held::state(subscriber).to_owned(),
        subscriber.pid.to_string(),
        subscriber.name.clone().unwrap_or_else(|| "-".to_owned()),
        subscriber.delivery.to_string(),
        subscriber.wait.to_string(),
        text::count(subscriber.parks),
        text::bytes(subscriber.lag_bytes),
        lost(subscriber),
    ]
}

/// A channel as JSON. Names are stable.
fn channel_json(info: &ChannelInfo) -> Value {
    #[derive(Serialize)]
    struct Publisher {
        lane: u64,
        process_id: u64,
        state: &'static str,
        cursor_bytes: u64,
        limit_bytes: u64,
        back_pressure_count: u64,
        back_pressure_ns: u64,
        blocked_ns: u64,
        blocked_by_slot: Option<usize>,
        wakes_count: u64,
        takeovers_count: u64,
        failures_count: u64,
        since_first_failure_ns: Option<u64>,
        since_last_failure_ns: Option<u64>,
        last_failure: Option<String>,
    }
    let publishers: Vec<Publisher> = info
        .publishers
        .iter()
        .map(|publisher| (publisher, publisher.failures.as_ref()))
        .map(|(publisher, failures)| Publisher {
            lane: publisher.lane as u64,
            process_id: publisher.pid,
            state: lane_state(publisher.state),
            cursor_bytes: publisher.cursor,
            limit_bytes: publisher.limit,
            back_pressure_count: publisher.back_pressure_count,
            back_pressure_ns: publisher.back_pressure_ns,
            blocked_ns: publisher.blocked_ns,
            blocked_by_slot: publisher.blocked_by,
            wakes_count: publisher.wakes,
            takeovers_count: publisher.takeovers,
            failures_count: failures.map_or(0, |failures| failures.count),
            since_first_failure_ns: failures.map(|failures| failures.since_first_ns),
            since_last_failure_ns: failures.map(|failures| failures.since_last_ns),
            last_failure: failures.map(|failures| failures.reason.clone()),
        })
        .collect();
    let subscribers: Vec<Value> = info
        .subscribers
        .iter()
        .map(|subscriber| {
            json!({
                "slot": subscriber.slot,
                "process_id": subscriber.pid,
                "alive": subscriber.alive,
                "process": subscriber.process.to_string(),
                "evicted": subscriber.evicted,
                "name": subscriber.name,
                "delivery": subscriber.delivery.to_string(),
                "wait": subscriber.wait.to_string(),
                "parked": subscriber.parked,
                "parks_count": subscriber.parks,
                "lag_bytes": subscriber.lag_bytes,
                "lost_bytes": subscriber.lost_bytes,
                "overruns_count": subscriber.overruns,
                "positions_bytes": subscriber.positions,
            })
        })
        .collect();
    json!({
        "name": info.name,
        "elsewhere": elsewhere::whose_json(info),
        "state": state(info),
        "path": info.path,
        "capacity_bytes": info.capacity_bytes,
        "align_bytes": info.align_bytes,
        "publishers_max": info.publishers_max,
        "subscribers_max": info.subscribers_max,
        "slow": info.slow.to_string(),
        "type_name": info.type_name,
        "fields": info.fields.to_string(),
        "file_bytes": info.file_bytes,
        "subscribers_ever_count": info.subscribers_ever,
        "evictions_count": info.evictions,
        "reclaims_count": info.reclaims,
        "publishers": publishers,
        "subscribers": subscribers,
    })
}
