//! Which processes serve an address, and how much CPU time they have used.

use crate::kernel::{STEP_MS, behind_name, nth, times_of_threads};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::net::{SocketAddr, TcpListener};

/// Processes of this machine that listen on `address`; empty for another machine, or without
/// permission. A master and its workers all hold the listener, so all are found.
pub(super) fn servers(address: SocketAddr) -> Vec<u32> {
    // Only addresses of this machine can be bound.
    if TcpListener::bind((address.ip(), 0)).is_err() {
        return Vec::new();
    }
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listeners(&table, address.port()))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let holds = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        descriptors.flatten().any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|target| {
                sockets
                    .iter()
                    .any(|socket| target.as_os_str() == socket.as_str())
            })
        })
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .filter(holds)
        .collect()
}

/// Inodes of the sockets that listen on `port`, from a table of the kernel's.
fn listeners(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let listening = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (*words.get(1)?, *words.get(3)?, *words.get(9)?);
        let local_port = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
        (state == LISTEN && local_port == port).then(|| inode.to_owned())
    };
    table.lines().skip(1).filter_map(listening).collect()
}

/// CPU time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Of some processes.
    pub(super) total: u64,
    /// Of these outside of the kernel, and within it: in steps of 10 ms, as the kernel counts them.
    pub(super) user: u64,
    pub(super) system: u64,
    /// Of all CPUs in soft interrupts, for any process: the greater part of loopback.
    pub(super) softirq: u64,
}

impl Usage {
    /// Of these processes up to now; `None` if none can be read. Threads that have ended do not
    /// count in the total.
    pub(super) fn of(processes: &[u32]) -> Option<Self> {
        let step = |text: &str, place| nth(text, place) * STEP_MS * 1_000_000;
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let mut sum = Self {
            total: cpu_ns(processes)?,
            softirq: step(&stat, 7),
            ..Self::default()
        };
        for pid in processes {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            sum.user += step(behind_name(&stat), 11);
            sum.system += step(behind_name(&stat), 12);
        }
        Some(sum)
    }

    /// What was used since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            total: self.total.saturating_sub(earlier.total),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            softirq: self.softirq.saturating_sub(earlier.softirq),
        }
    }
}

/// CPU time of all threads of these processes, in nanoseconds; `None` if none can be read.
fn cpu_ns(processes: &[u32]) -> Option<u64> {
    let processes = processes.iter().map(|&pid| u64::from(pid));
    let times = processes.flat_map(times_of_threads);
    times.map(|[used, _]| used).reduce(u64::wrapping_add)
}

/// CPU time of this process in nanoseconds, including ended threads: the generator's thread ends
/// before its time is read.
pub(super) fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_ended_threads_is_counted() {
        let before = own_cpu_ns();
        let used = std::thread::spawn(|| {
            let own = std::process::id();
            let start = cpu_ns(&[own]).unwrap();
            loop {
                let used = cpu_ns(&[own]).unwrap().saturating_sub(start);
                if used > 20_000_000 {
                    return used;
                }
            }
        });
        // Other tests of this process may have used more.
        let used = used.join().unwrap();
        assert!(own_cpu_ns() - before >= used / 2);
    }

    #[test]
    fn process_of_a_listener_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::process::id();
        assert_eq!(servers(listener.local_addr().unwrap()), [own]);
        assert!(servers("192.0.2.1:80".parse().unwrap()).is_empty());
        let before = Usage::of(&[own]).unwrap();
        let used = || Usage::of(&[own]).unwrap().since(before);
        while used().total == 0 || used().user + used().system == 0 {
            std::hint::spin_loop();
        }
        assert_eq!(Usage::of(&[]), None);
    }

    #[test]
    fn listeners_are_distinguished_from_connections() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt  \
         uid  timeout inode\n\
             0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0       \
              0 111 1 0 100\n\
             1: 0100007F:1F40 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0       \
              0 222 1 0 100\n\
             2: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0       \
              0 333 1 0 100\n";
        assert_eq!(listeners(table, 8000), ["111"]);
        assert_eq!(listeners(table, 1), Vec::<String>::new());
    }
}
