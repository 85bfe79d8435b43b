//! Checks of the CPUs.

use super::rule::{Effect, Judged, Rule, Status, Verdict};
use super::snapshot::Snapshot;
use super::{cgroup, topology};

/// Stolen time above this share of all CPU time is a warning.
const STOLEN_PER_MILLE: u64 = 1;

/// The round trip of a cache line by distance.
pub(crate) const DISTANCE: Effect = Effect {
    text: "a bare cache line takes 485 to 511 ns to and fro without a common L3, 98 to 104 ns \
           with one",
    document: "docs/adr/0012-take-the-next-line-early.md",
    quote: &["485 to 511 ns", "98 to 104 ns"],
};

pub(crate) const RULES: &[Rule<Snapshot>] = &[
    Rule {
        id: "cpu-quota",
        why: "a thread that spins uses the quota up, and all threads stop until the period ends",
        effect: None,
        judge: quota,
    },
    Rule {
        id: "affinity",
        why: "two threads that spin on one CPU take turns in time slices of the scheduler",
        effect: None,
        judge: affinity,
    },
    Rule {
        id: "isolation",
        why: "other work and timer interrupts on a CPU delay the thread that spins there",
        effect: None,
        judge: isolation,
    },
    Rule {
        id: "hyper-threads",
        why: "two threads that spin on one core slow each other down",
        effect: None,
        judge: hyper_threads,
    },
    Rule {
        id: "cpu-distance",
        why: "each message moves cache lines between two CPUs, and distance decides how long",
        effect: Some(DISTANCE),
        judge: distance,
    },
    Rule {
        id: "governor",
        why: "a CPU that lowers its frequency when idle is slow at first when a message comes",
        effect: None,
        judge: governor,
    },
    Rule {
        id: "stolen-time",
        why: "while the hypervisor runs another machine on the CPU, no message moves",
        effect: Some(Effect {
            text: "stalls of 20 to 200 ms, in bare memory too",
            document: "docs/method.md",
            quote: &["stalls of 20 to 200 ms occur in the bare floor"],
        }),
        judge: stolen,
    },
];

fn quota(seen: &Snapshot) -> Judged {
    let Some(found) = cgroup::cpu_quota(seen)? else {
        return Ok(Verdict::good("no limit"));
    };
    let mend = if found.file.ends_with("cpu.max") {
        format!("echo max | sudo tee {}", found.file)
    } else {
        format!("echo -1 | sudo tee {}", found.file)
    };
    let value = format!(
        "{} % of a CPU, in periods of {} ms",
        found.quota_us.saturating_mul(100) / found.period_us.max(1),
        found.period_us / 1000,
    );
    Ok(Verdict::bad(Status::Warning, value, mend))
}

fn affinity(seen: &Snapshot) -> Judged {
    let allowed = topology::allowed(seen)?;
    let online = topology::parse_list(&seen.read("/sys/devices/system/cpu/online")?)?;
    let value = format!(
        "{} allowed, {} online",
        topology::named(&allowed),
        topology::list(&online)
    );
    if allowed.len() > 1 {
        return Ok(Verdict::good(value));
    }
    let mend = if online.len() > 1 {
        format!("taskset --pid --cpu-list {} $$", topology::list(&online))
    } else {
        "use wait=park: a second CPU is needed to spin".to_owned()
    };
    Ok(Verdict::bad(Status::Warning, value, mend))
}

fn isolation(seen: &Snapshot) -> Judged {
    let allowed = topology::allowed(seen)?;
    let isolated = topology::parse_list(&seen.read("/sys/devices/system/cpu/isolated")?)?;
    // Missing without CONFIG_NO_HZ_FULL; some kernels print "(null)".
    let tickless = seen.read("/sys/devices/system/cpu/nohz_full").ok();
    let tickless = tickless
        .and_then(|text| topology::parse_list(&text).ok())
        .unwrap_or_default();
    let value = format!(
        "isolated {}, nohz_full {}",
        topology::list(&isolated),
        topology::list(&tickless)
    );
    if !isolated.is_empty() {
        return Ok(Verdict::good(value));
    }
    // CPU 0 keeps the work of the system.
    let free: Vec<u32> = allowed.into_iter().filter(|cpu| *cpu != 0).collect();
    if free.is_empty() {
        return Ok(Verdict::good(value));
    }
    let cpus = topology::list(&free[free.len().saturating_sub(2)..]);
    let mend = format!(
        "add to the kernel's command line, and start again: isolcpus={cpus} nohz_full={cpus}"
    );
    Ok(Verdict::bad(Status::Note, value, mend))
}

fn hyper_threads(seen: &Snapshot) -> Judged {
    let allowed = topology::allowed(seen)?;
    let mut shared = Vec::new();
    let mut cores = Vec::new();
    for &cpu in &allowed {
        let siblings = topology::siblings(seen, cpu)?;
        let ours: Vec<u32> = allowed
            .iter()
            .copied()
            .filter(|other| *other == cpu || siblings.contains(other))
            .collect();
        if ours.first() == Some(&cpu) {
            cores.push(cpu);
            if ours.len() > 1 {
                shared.push(topology::list(&ours));
            }
        }
    }
    if shared.is_empty() {
        return Ok(Verdict::good(format!(
            "{} cores, no two CPUs share one",
            cores.len()
        )));
    }
    let pairs = shared.len();
    let value = format!(
        "{} share a core{}",
        shared.into_iter().take(3).collect::<Vec<_>>().join("; "),
        if pairs > 3 { "; and more" } else { "" }
    );
    Ok(match cores[..] {
        [first, second, ..] => {
            let mend = format!("pin to different cores: cpu={first} and cpu={second} in the URIs");
            Verdict::bad(Status::Note, value, mend)
        }
        _ => Verdict::bad(
            Status::Warning,
            value,
            "use wait=park: a second core is needed to spin",
        ),
    })
}

fn distance(seen: &Snapshot) -> Judged {
    let allowed = topology::allowed(seen)?;
    let groups = topology::cache_groups(seen, &allowed)?;
    let value: Vec<String> = groups
        .iter()
        .take(4)
        .map(|group| topology::list(group))
        .collect();
    let value = value.join("; ");
    if let [_] = groups[..] {
        return Ok(Verdict::good(format!("CPUs {value} share an L3 cache")));
    }
    let more = if groups.len() > 4 { "; and more" } else { "" };
    let value = format!("{} L3 caches: CPUs {value}{more}", groups.len());
    let mend = match groups.iter().find(|group| group.len() > 1) {
        Some(near) => format!(
            "pin to CPUs of one group: cpu={} and cpu={} in the URIs",
            near[0], near[1]
        ),
        None => "no two allowed CPUs share an L3 cache: allow more, with taskset".to_owned(),
    };
    Ok(Verdict::bad(Status::Note, value, mend))
}

fn governor(seen: &Snapshot) -> Judged {
    let allowed = topology::allowed(seen)?;
    let slow = topology::slow_governors(seen, &allowed)?;
    let Some((_, governor)) = slow.first() else {
        return Ok(Verdict::good("performance"));
    };
    let cpus: Vec<u32> = slow.iter().map(|(cpu, _)| *cpu).collect();
    let value = format!("{governor} on {}", topology::named(&cpus));
    Ok(Verdict::bad(Status::Warning, value, SET_GOVERNOR))
}

/// Sets the governor of all CPUs.
pub(crate) const SET_GOVERNOR: &str =
    "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";

#[allow(clippy::cast_precision_loss, reason = "shown with two digits")]
fn stolen(seen: &Snapshot) -> Judged {
    const FILE: &str = "/proc/stat";
    let text = seen.read(FILE)?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let times: Vec<u64> = line
        .unwrap_or_default()
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    // The first eight are user, nice, system, idle, iowait, irq, softirq and steal. Guests count as
    // user.
    let Some(&[.., steal]) = times.get(..8) else {
        return Err(format!("{FILE}: no time of all CPUs"));
    };
    let all = times[..8]
        .iter()
        .fold(0_u64, |sum, time| sum.saturating_add(*time));
    let share = steal as f64 * 100.0 / (all as f64).max(1.0);
    let value = format!("{share:.2} % of CPU time since the start");
    if steal.saturating_mul(1000) <= all.saturating_mul(STOLEN_PER_MILLE) {
        return Ok(Verdict::good(value));
    }
    Ok(Verdict::bad(
        Status::Warning,
        value,
        "ask the provider of this virtual machine for dedicated CPUs",
    ))
}
