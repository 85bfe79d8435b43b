//! Checks of one channel's participants: their processes, CPUs, namespaces and users.

use super::processors::{DISTANCE, SET_GOVERNOR};
use super::rule::{Judged, Rule, Status, Verdict};
use super::snapshot::Snapshot;
use super::topology::{self, Distance};
use crate::process;
use crate::quote;
use crate::watch::view::{self, Severity, State};
use olivine::admin::ChannelInfo;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

/// One process that takes part.
#[derive(Clone, Debug)]
pub(crate) struct Participant {
    pub(crate) role: &'static str,
    pub(crate) process_id: u64,
}

impl Participant {
    fn named(&self) -> String {
        format!("{} {}", self.role, self.process_id)
    }
}

/// A channel's participants, and where to look at them.
#[derive(Clone, Debug)]
pub(crate) struct Participants {
    seen: Snapshot,
    /// Those whose process is visible here.
    visible: Vec<Participant>,
    /// The others, with the reason.
    hidden: Vec<(Participant, String)>,
    /// Who holds publishers back, the worst first, or why that is unknown.
    holds: Result<Vec<view::Finding>, String>,
}

/// What shows processes that this one does not see.
const SEE_ALL: &str = "sudo olivine doctor URI, or docker run --pid=host";

impl Participants {
    /// Those of a channel, and who of them holds publishers back.
    pub(crate) fn of(
        seen: &Snapshot,
        info: &ChannelInfo,
        holds: Result<Vec<view::Finding>, String>,
    ) -> Self {
        let control = std::fs::metadata(info.path.join("control"));
        let inode = control.map(|control| control.ino()).unwrap_or(0);
        let found = Self::new(seen, inode, process::participants(info));
        Self { holds, ..found }
    }

    /// Those given, by role and process number. A number in shared memory is of the process's own
    /// PID namespace, so only a process that has mapped the control file is taken for it.
    fn new(seen: &Snapshot, inode: u64, given: impl Iterator<Item = (&'static str, u64)>) -> Self {
        let mut found = Self {
            seen: seen.clone(),
            visible: Vec::new(),
            hidden: Vec::new(),
            holds: Ok(Vec::new()),
        };
        let mut known = BTreeSet::new();
        for (role, process_id) in given {
            if !known.insert((role, process_id)) {
                continue;
            }
            let participant = Participant { role, process_id };
            let maps = seen.read(&format!("/proc/{process_id}/maps"));
            match maps {
                Ok(maps) if process::has_mapped(&maps, inode) => found.visible.push(participant),
                Ok(_) => found
                    .hidden
                    .push((participant, "of another PID namespace".to_owned())),
                Err(reason) => found.hidden.push((participant, reason)),
            }
        }
        found
    }

    /// CPUs to which a thread of the process is pinned.
    fn pins(&self, participant: &Participant) -> Vec<u32> {
        let tasks = format!("/proc/{}/task", participant.process_id);
        let mut pins = BTreeSet::new();
        for task in self.seen.names(&tasks) {
            let list = self
                .seen
                .field(&format!("{tasks}/{task}/status"), "Cpus_allowed_list");
            let cpus = list.and_then(|list| topology::parse_list(&list));
            if let Ok([cpu]) = cpus.as_deref() {
                pins.insert(*cpu);
            }
        }
        pins.into_iter().collect()
    }

    /// Each pair of participants of different processes, with a pinned CPU of each.
    fn pairs(&self) -> Vec<(&Participant, u32, &Participant, u32)> {
        let pinned: Vec<(&Participant, u32)> = self
            .visible
            .iter()
            .flat_map(|one| self.pins(one).into_iter().map(move |cpu| (one, cpu)))
            .collect();
        let mut pairs = Vec::new();
        for (index, (a, first)) in pinned.iter().enumerate() {
            for (b, second) in &pinned[index + 1..] {
                if a.process_id != b.process_id {
                    pairs.push((*a, *first, *b, *second));
                }
            }
        }
        pairs
    }

    fn status(&self, participant: &Participant, name: &str) -> Result<String, String> {
        let file = format!("/proc/{}/status", participant.process_id);
        self.seen.field(&file, name)
    }

    /// The first reason if nothing can be said because a process is hidden.
    fn nothing_hidden(&self) -> Result<(), String> {
        match self.hidden.first() {
            Some((participant, reason)) if self.visible.is_empty() => {
                Err(format!("{}: {reason}", participant.named()))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) const RULES: &[Rule<Participants>] = &[
    Rule {
        id: "channel-visible",
        why: "a process that this one cannot see cannot be watched for its death, so sleepers that \
              depend on it look every 16 ms",
        effect: None,
        judge: visible,
    },
    Rule {
        id: "channel-held",
        why: "a publisher whose ring is full waits until every reliable subscriber has read",
        effect: None,
        judge: held,
    },
    Rule {
        id: "channel-stopped",
        why: "a stopped subscriber keeps its place, and publishers wait for it",
        effect: None,
        judge: stopped,
    },
    Rule {
        id: "channel-cpus",
        why: "two processes pinned to one CPU take turns in time slices of the scheduler",
        effect: None,
        judge: cpus,
    },
    Rule {
        id: "channel-distance",
        why: "each message moves cache lines between the CPUs of both ends",
        effect: Some(DISTANCE),
        judge: distance,
    },
    Rule {
        id: "channel-governor",
        why: "a CPU that lowers its frequency when idle is slow at first when a message comes",
        effect: None,
        judge: governor,
    },
    Rule {
        id: "channel-spaces",
        why: "participants of other namespaces may see another /dev/shm, and cannot be watched",
        effect: None,
        judge: namespaces,
    },
    Rule {
        id: "channel-users",
        why: "participants of shm:// trust each other; between users that do not, use shm+fd://",
        effect: None,
        judge: users,
    },
];

fn visible(seen: &Participants) -> Judged {
    let count = seen.visible.len();
    let Some((participant, reason)) = seen.hidden.first() else {
        return Ok(match count {
            0 => Verdict::good("no participants"),
            _ => Verdict::good(format!("all {count}")),
        });
    };
    let value = format!(
        "{count} of {}; not {}: {reason}",
        count + seen.hidden.len(),
        participant.named()
    );
    Ok(Verdict::bad(Status::Warning, value, SEE_ALL))
}

/// What `top` says first. A subscriber that cannot read, or does not, stops the publisher.
fn held(seen: &Participants) -> Judged {
    let holds = seen.holds.as_ref().map_err(Clone::clone)?;
    let Some(worst) = holds.first() else {
        return Ok(Verdict::good("no publisher is held back"));
    };
    let idles = matches!(
        worst.state,
        State::Gone | State::Stopped | State::NotReading
    );
    let status = match worst.severity {
        Severity::Held if idles => Status::Problem,
        Severity::Held | Severity::Slowed if worst.state == State::Moving => Status::Note,
        _ => Status::Warning,
    };
    let mut value = worst.text.clone();
    if let Some(text) = value.strip_prefix(&format!("{}: ", worst.channel)) {
        value = text.to_owned();
    }
    if holds.len() > 1 {
        value.push_str(&format!("; {} more: olivine top", holds.len() - 1));
    }
    let mend = match worst.state {
        State::Moving => {
            "a faster subscriber, or delivery=latest in its URI if it may lose messages"
        }
        // `top` sends people here where it knows no more.
        _ if worst.remedy.starts_with("olivine doctor ") => SEE_ALL,
        _ => &worst.remedy,
    };
    Ok(Verdict::bad(status, value, mend))
}

fn stopped(seen: &Participants) -> Judged {
    seen.nothing_hidden()?;
    let mut found = Vec::new();
    for participant in &seen.visible {
        let state = seen.status(participant, "State")?;
        if state.starts_with(['T', 't']) {
            found.push(participant);
        }
    }
    if found.is_empty() {
        return Ok(Verdict::good("none"));
    }
    let names: Vec<String> = found.iter().map(|one| one.named()).collect();
    let ids: BTreeSet<String> = found.iter().map(|one| one.process_id.to_string()).collect();
    let mend = quote::resume(ids);
    Ok(Verdict::bad(Status::Warning, names.join(", "), mend))
}

fn cpus(seen: &Participants) -> Judged {
    seen.nothing_hidden()?;
    let pairs = seen.pairs();
    let Some((a, cpu, b, _)) = pairs.iter().find(|(_, first, _, second)| first == second) else {
        return Ok(Verdict::good(match pairs.len() {
            0 => "no two processes are pinned".to_owned(),
            _ => "pinned to different CPUs".to_owned(),
        }));
    };
    let value = format!("{} and {} on CPU {cpu}", a.named(), b.named());
    let free = topology::allowed(&seen.seen)?
        .into_iter()
        .find(|free| free != cpu);
    let mend = match free {
        Some(free) => format!(
            "taskset --all-tasks --pid --cpu-list {free} {}",
            b.process_id
        ),
        None => "use wait=park: a second CPU is needed to spin".to_owned(),
    };
    Ok(Verdict::bad(Status::Warning, value, mend))
}

fn distance(seen: &Participants) -> Judged {
    seen.nothing_hidden()?;
    let mut farthest = None;
    for (a, first, b, second) in seen.pairs() {
        // Two subscribers do not exchange lines of messages.
        if a.role != b.role {
            let distance = topology::distance(&seen.seen, first, second)?;
            farthest = farthest.max(Some((distance, first, second)));
        }
    }
    let Some((distance, first, second)) = farthest else {
        return Ok(Verdict::good("no publisher and subscriber are pinned"));
    };
    let value = format!("CPUs {first} and {second}: {distance}");
    if distance <= Distance::Cache {
        return Ok(Verdict::good(value));
    }
    let mend = "pin both ends to CPUs that share an L3 cache: cpu= in the URIs";
    Ok(Verdict::bad(Status::Note, value, mend))
}

fn governor(seen: &Participants) -> Judged {
    seen.nothing_hidden()?;
    let mut cpus = BTreeSet::new();
    for participant in &seen.visible {
        let list = seen.status(participant, "Cpus_allowed_list")?;
        let pins = seen.pins(participant);
        // Without a pin any allowed CPU may be used.
        if pins.is_empty() {
            cpus.extend(topology::parse_list(&list)?);
        } else {
            cpus.extend(pins);
        }
    }
    let cpus: Vec<u32> = cpus.into_iter().collect();
    let slow = topology::slow_governors(&seen.seen, &cpus)?;
    let Some((_, governor)) = slow.first() else {
        return Ok(Verdict::good(format!(
            "performance on {}",
            topology::named(&cpus)
        )));
    };
    let slow: Vec<u32> = slow.iter().map(|(cpu, _)| *cpu).collect();
    let value = format!("{governor} on {}", topology::named(&slow));
    Ok(Verdict::bad(Status::Warning, value, SET_GOVERNOR))
}

fn namespaces(seen: &Participants) -> Judged {
    seen.nothing_hidden()?;
    for participant in &seen.visible {
        for kind in ["pid", "mnt", "ipc"] {
            let ours = seen.seen.link(&format!("/proc/self/ns/{kind}"))?;
            let path = format!("/proc/{}/ns/{kind}", participant.process_id);
            if seen.seen.link(&path)? != ours {
                let value = format!("{} has another {kind} namespace", participant.named());
                let mend = "docker run --pid=host --ipc=host, or one container for all";
                return Ok(Verdict::bad(Status::Warning, value, mend));
            }
        }
    }
    Ok(Verdict::good("the same as of this process"))
}

fn users(seen: &Participants) -> Judged {
    seen.nothing_hidden()?;
    let mut found: Vec<(u32, &Participant)> = Vec::new();
    for participant in &seen.visible {
        let ids = seen.status(participant, "Uid")?;
        // Real, effective, saved and of files.
        let id = ids.split_whitespace().nth(1).and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| format!("{}: Uid '{ids}'", participant.named()))?;
        found.push((id, participant));
    }
    let ids: BTreeSet<u32> = found.iter().map(|(id, _)| *id).collect();
    if ids.len() <= 1 {
        let value = match ids.first() {
            Some(id) => format!("user {id}"),
            None => "no participants".to_owned(),
        };
        return Ok(Verdict::good(value));
    }
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let value = format!("users {}", ids.join(", "));
    let mend = "if they do not trust each other: olivine pub shm+fd:///run/NAME.sock";
    Ok(Verdict::bad(Status::Note, value, mend))
}

/// Checks of participants on planted processes: good, bad, hidden.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::rule::Finding;
    use crate::doctor::snapshot::{Facts, Space};
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const INODE: u64 = 77;
    const CPUS: &str = "sys/devices/system/cpu";

    /// Two processes that have mapped the channel, 10 pinned to CPU 0 and 11 to CPU 1.
    struct Planted(TempDir, Result<Vec<view::Finding>, String>);

    impl Planted {
        fn new() -> Self {
            let planted = Self(tempfile::tempdir().unwrap(), Ok(Vec::new()));
            planted.write("proc/self/status", "Cpus_allowed_list:\t0-1\n");
            for (process, cpu) in [(10, 0), (11, 1)] {
                let folder = format!("proc/{process}");
                let maps = format!("7f00-7f01 rw-s 00000000 00:19 {INODE} /dev/shm/o/x/control\n");
                planted.write(&format!("{folder}/maps"), &maps);
                planted.status(process, "S (sleeping)", "1000", cpu);
                for (kind, number) in [("pid", 1), ("mnt", 2), ("ipc", 3)] {
                    planted.link(
                        &format!("{folder}/ns/{kind}"),
                        &format!("{kind}:[{number}]"),
                    );
                    planted.link(
                        &format!("proc/self/ns/{kind}"),
                        &format!("{kind}:[{number}]"),
                    );
                }
                let of_cpu = format!("{CPUS}/cpu{cpu}");
                planted.write(
                    &format!("{of_cpu}/topology/thread_siblings_list"),
                    &cpu.to_string(),
                );
                planted.write(&format!("{of_cpu}/topology/physical_package_id"), "0");
                planted.write(&format!("{of_cpu}/cache/index3/level"), "3");
                planted.write(&format!("{of_cpu}/cache/index3/shared_cpu_list"), "0-1");
                planted.write(&format!("{of_cpu}/cpufreq/scaling_governor"), "performance");
            }
            planted
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn link(&self, path: &str, target: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            symlink(target, path).unwrap();
        }

        fn status(&self, process: u32, state: &str, user: &str, cpu: u32) {
            let text = format!("State:\t{state}\nUid:\t{user}\t{user}\t{user}\t{user}\n");
            let text = format!("{text}Cpus_allowed_list:\t{cpu}\n");
            self.write(&format!("proc/{process}/status"), &text);
            self.write(&format!("proc/{process}/task/{process}/status"), &text);
        }

        fn found(&self, id: &str) -> Finding {
            let facts = Facts {
                user_id: 1000,
                folder: "/dev/shm/o".into(),
                folder_error: None,
                folder_space: Err(String::new()),
                shm_space: Ok(Space {
                    size_bytes: 1,
                    free_bytes: 1,
                }),
                has_membarrier: true,
                membarrier_off: false,
            };
            let seen = Snapshot::new(self.0.path(), facts);
            let given = [("publisher", 10), ("subscriber", 11), ("subscriber", 11)];
            let mut participants = Participants::new(&seen, INODE, given.into_iter());
            participants.holds = self.1.clone();
            let rule = RULES.iter().find(|rule| rule.id == id).unwrap();
            rule.run(&participants)
        }
    }

    #[test]
    fn well_placed_participants_are_good_in_every_check() {
        let planted = Planted::new();
        for rule in RULES {
            let found = planted.found(rule.id);
            assert_eq!(found.status, Status::Good, "{found:?}");
        }
    }

    #[test]
    fn stopped_process_is_a_warning() {
        let planted = Planted::new();
        planted.status(11, "T (stopped)", "1000", 1);
        let found = planted.found("channel-stopped");
        assert_eq!(found.status, Status::Warning, "{found:?}");
        assert_eq!(found.value, "subscriber 11");
        assert_eq!(found.mend.as_deref(), Some("kill -CONT 11"));
    }

    #[test]
    fn hold_is_as_bad_as_the_state_of_who_holds() {
        let mut planted = Planted::new();
        let cases = [
            (Severity::Held, State::Gone, Status::Problem),
            (Severity::Held, State::Stopped, Status::Problem),
            (Severity::Held, State::NotReading, Status::Problem),
            (Severity::Held, State::Unknown, Status::Warning),
            (Severity::Held, State::Moving, Status::Note),
            (Severity::Slowed, State::Moving, Status::Note),
            (Severity::Risk, State::Stopped, Status::Warning),
        ];
        for (severity, state, status) in cases {
            let hold = view::Finding {
                severity,
                state,
                ..crate::watch::tracker::tests::troubled().findings.remove(0)
            };
            planted.1 = Ok(vec![hold.clone(), hold]);
            let found = planted.found("channel-held");
            assert_eq!(found.status, status, "{found:?}");
            let value = found.value;
            assert!(
                value.starts_with("held ") && value.contains("'audit' (pid 101"),
                "{value}"
            );
            assert!(value.ends_with("; 1 more: olivine top"), "{value}");
            let is_remedy = found.mend.as_deref() == Some("kill -CONT 101");
            assert_eq!(is_remedy, state != State::Moving, "{:?}", found.mend);
        }
        planted.1 = Err("layout 3".to_owned());
        let found = planted.found("channel-held");
        assert_eq!(
            (found.status, found.value.as_str()),
            (Status::Unknown, "layout 3")
        );
    }

    #[test]
    fn two_processes_on_one_cpu_are_a_warning() {
        let planted = Planted::new();
        planted.status(11, "R (running)", "1000", 0);
        let found = planted.found("channel-cpus");
        assert_eq!(found.status, Status::Warning, "{found:?}");
        assert_eq!(found.value, "publisher 10 and subscriber 11 on CPU 0");
        assert!(found.mend.unwrap().ends_with("--cpu-list 1 11"));
    }

    #[test]
    fn participants_far_apart_are_noted_with_the_measured_effect() {
        let planted = Planted::new();
        planted.write(&format!("{CPUS}/cpu0/cache/index3/shared_cpu_list"), "0");
        let found = planted.found("channel-distance");
        assert_eq!(found.status, Status::Note, "{found:?}");
        assert!(found.value.contains("one socket") && found.effect.is_some());
        planted.write(&format!("{CPUS}/cpu1/topology/physical_package_id"), "1");
        assert!(
            planted
                .found("channel-distance")
                .value
                .contains("two sockets")
        );
    }

    #[test]
    fn slow_governor_other_namespace_and_other_user_are_named() {
        let planted = Planted::new();
        planted.write(
            &format!("{CPUS}/cpu1/cpufreq/scaling_governor"),
            "powersave",
        );
        let found = planted.found("channel-governor");
        assert_eq!(
            (found.status, found.value.as_str()),
            (Status::Warning, "powersave on CPU 1")
        );
        planted.link("proc/11/ns/mnt", "mnt:[9]");
        let found = planted.found("channel-spaces");
        assert_eq!(found.status, Status::Warning, "{found:?}");
        assert!(
            found.value.contains("subscriber 11 has another mnt"),
            "{found:?}"
        );
        planted.status(11, "S (sleeping)", "1001", 1);
        let found = planted.found("channel-users");
        assert_eq!(found.status, Status::Note, "{found:?}");
        assert_eq!(found.value, "users 1000, 1001");
    }

    /// A process of that number that has not mapped the channel is another process.
    #[test]
    fn hidden_processes_are_a_warning_and_their_checks_unknown() {
        let planted = Planted::new();
        planted.write("proc/11/maps", "");
        let found = planted.found("channel-visible");
        assert_eq!(found.status, Status::Warning, "{found:?}");
        assert!(found.value.contains("not subscriber 11"), "{found:?}");
        assert_eq!(planted.found("channel-stopped").status, Status::Good);
        fs::remove_file(planted.0.path().join("proc/10/maps")).unwrap();
        // The first says it, and the second looks at the channel.
        for rule in &RULES[2..] {
            let found = planted.found(rule.id);
            assert_eq!(found.status, Status::Unknown, "{found:?}");
            assert!(found.value.contains("publisher 10") || found.value.contains("subscriber 11"));
        }
    }

    #[test]
    fn unreadable_status_is_unknown() {
        let planted = Planted::new();
        fs::remove_file(planted.0.path().join("proc/10/status")).unwrap();
        for id in ["channel-stopped", "channel-governor", "channel-users"] {
            let found = planted.found(id);
            assert_eq!(found.status, Status::Unknown, "{found:?}");
            assert!(found.value.contains("/proc/10/status"), "{found:?}");
        }
    }
}
