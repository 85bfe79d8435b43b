//! Kills aimed by program counter: a victim is single-stepped until it is in code of the core, and
//! is killed there.
//!
//! A kill at a random time mostly hits a sleeping process. Here the victim is interrupted while it
//! runs, and continues instruction by instruction until its program counter is in the wanted file.
//! The core addresses seen are kept for each role. Later victims run to a breakpoint at one of them
//! and some instructions further, which finds more addresses. The report lists where each victim
//! died, by the line tables of this program.

use crate::common::Random;
use crate::ptrace::{ptrace, registers, set_breakpoint};
use addr2line::Loader;
use libc::{c_int, pid_t};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

/// Path of the core's sources in the line tables.
const CORE: &str = "crates/olivine/src/";
/// Random targets: prefixes of paths below the core's folder. The last one is any file of the core.
const TARGETS: [&str; 8] = [
    "ring/publish",
    "ring/consume",
    "ring/gate",
    "ring/",
    "channel/",
    "wait",
    "channel/",
    "",
];
/// Steps of a victim in search of its target, and again in search of any core file.
const STEPS_MAX: u32 = 600;
/// Times it may continue if it is in or before a system call.
const INTERRUPTS_MAX: u32 = 12;
/// Instructions that it may execute in the target before it is killed.
const STEPS_WITHIN: u64 = 40;
/// How long a victim may run to reach its breakpoint.
const RUN_MAX: Duration = Duration::from_millis(5);
/// Breakpoints to try before the kill is unaimed.
const BREAKPOINTS: usize = 5;

/// Report entry of a kill outside the core.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// Finds the core file of an instruction of this program.
pub(crate) struct Symbols {
    loader: Loader,
    /// By address within the program; `None` outside of the core.
    known: HashMap<u64, Option<String>>,
    /// Core addresses at which victims of a role were seen: in order of discovery, and for look-up.
    seen: HashMap<&'static str, (Vec<u64>, HashSet<u64>)>,
}

thread_local! {
    // Reading the tables is slow; a thread aims many times.
    static SYMBOLS: RefCell<Option<Symbols>> = const { RefCell::new(None) };
}

impl Symbols {
    fn load() -> Self {
        let program = std::env::current_exe().expect("this program");
        let loader = Loader::new(program).expect("line tables of this program");
        Self {
            loader,
            known: HashMap::new(),
            seen: HashMap::new(),
        }
    }

    fn note(&mut self, role: &'static str, address: u64) {
        let (order, all) = self.seen.entry(role).or_default();
        if all.insert(address) {
            order.push(address);
        }
    }

    /// An address at which victims of `role` were seen; half of the time a recent one.
    fn any(&self, role: &'static str, random: &mut Random) -> Option<u64> {
        let (order, _) = self.seen.get(role)?;
        let count = order.len() as u64;
        let first = if random.below(2) == 0 { count / 2 } else { 0 };
        let place = usize::try_from(first + random.below(count - first)).ok()?;
        order.get(place).copied()
    }

    /// File below the core's folder and line: of the innermost core function inlined at `address`.
    fn place(&mut self, address: u64) -> Option<&str> {
        let loader = &self.loader;
        let found = self.known.entry(address).or_insert_with(|| {
            let mut frames = loader.find_frames(address).ok()?;
            while let Ok(Some(frame)) = frames.next() {
                let file = frame.location.as_ref().and_then(|location| location.file);
                if let Some((_, below)) = file.and_then(|file| file.split_once(CORE)) {
                    return Some(below.to_owned());
                }
            }
            None
        });
        found.as_deref()
    }
}

/// Kills the process `pid`, which runs this program, and returns the core file where it was.
///
/// It is dead when this returns; it remains a zombie of its parent.
pub(crate) fn kill(pid: pid_t, role: &'static str, random: &mut Random) -> String {
    let target = TARGETS[usize::try_from(random.below(TARGETS.len() as u64)).expect("small")];
    let within = random.below(STEPS_WITHIN);
    SYMBOLS.with_borrow_mut(|symbols| {
        let symbols = symbols.get_or_insert_with(Symbols::load);
        let Ok(mut victim) = Victim::seize(pid) else {
            // It is already ending.
            signal(pid, libc::SIGKILL);
            return ELSEWHERE.to_owned();
        };
        let mut place = None;
        if random.below(8) > 0 && symbols.seen.contains_key(role) {
            for _ in 0..BREAKPOINTS {
                let Some(address) = symbols.any(role, random).filter(|_| place.is_none()) else {
                    break;
                };
                place = victim.run_to(address, within, role, symbols);
            }
        } else {
            place = victim.go_to(target, within, role, symbols);
        }
        victim.end();
        place.unwrap_or_else(|| ELSEWHERE.to_owned())
    })
}

fn signal(pid: pid_t, signal: c_int) {
    // SAFETY: a process that was not reaped, so the number is still its own.
    unsafe { libc::kill(pid, signal) };
}

/// A traced process.
struct Victim {
    pid: pid_t,
    /// Load address of the program in it.
    base: u64,
    /// It was not stopped since it last continued.
    runs: bool,
    /// `SIGSTOP` has stopped it permanently.
    frozen: bool,
    dead: bool,
}

/// Why a traced process stopped.
enum Stop {
    /// After a step or an interrupt.
    Here,
    /// Stopped by `SIGSTOP` before: it must stay stopped.
    Group,
    Dead,
}

impl Victim {
    fn seize(pid: pid_t) -> io::Result<Self> {
        let base = base(pid)?;
        ptrace(libc::PTRACE_SEIZE, pid, 0, 0)?;
        Ok(Self {
            pid,
            base,
            runs: true,
            frozen: false,
            dead: false,
        })
    }

    /// The core file where it is at the target, or the last core file where it was.
    fn go_to(
        &mut self,
        target: &str,
        within: u64,
        role: &'static str,
        symbols: &mut Symbols,
    ) -> Option<String> {
        let mut last = None;
        let mut steps = 0;
        for _ in 0..INTERRUPTS_MAX {
            ptrace(libc::PTRACE_INTERRUPT, self.pid, 0, 0).ok()?;
            match self.wait() {
                Stop::Here => {}
                Stop::Group => return self.place(role, symbols),
                Stop::Dead => return None,
            }
            let mut inside = 0;
            while !self.is_at_syscall() {
                let place = self.place(role, symbols);
                let hit = place
                    .as_ref()
                    .is_some_and(|place| place.starts_with(target));
                inside += u64::from(hit);
                if hit && inside > within {
                    return place;
                }
                steps += 1;
                if steps > STEPS_MAX {
                    // Any core file is accepted now, but it must be the current one.
                    if place.is_some() || steps > 2 * STEPS_MAX {
                        return place;
                    }
                }
                last = place;
                ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0).ok()?;
                match self.wait() {
                    Stop::Here => {}
                    Stop::Group => return self.place(role, symbols),
                    Stop::Dead => return None,
                }
            }
            if inside > 0 {
                // It is before a system call that the target makes.
                return last;
            }
            ptrace(libc::PTRACE_CONT, self.pid, 0, 0).ok()?;
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(30) {
                std::hint::spin_loop();
            }
        }
        None
    }

    /// The current core file, recorded for its role.
    fn place(&self, role: &'static str, symbols: &mut Symbols) -> Option<String> {
        let address = registers(self.pid).ok()?.rip.checked_sub(self.base)?;
        let place = symbols.place(address).map(str::to_owned)?;
        symbols.note(role, address);
        Some(place)
    }

    /// Runs to `address`, and `within` instructions further; returns where it is then.
    fn run_to(
        &mut self,
        address: u64,
        within: u64,
        role: &'static str,
        symbols: &mut Symbols,
    ) -> Option<String> {
        if self.frozen {
            return self.place(role, symbols);
        }
        // A previous breakpoint leaves it stopped.
        if self.runs {
            ptrace(libc::PTRACE_INTERRUPT, self.pid, 0, 0).ok()?;
            if !matches!(self.wait(), Stop::Here) {
                return None;
            }
        }
        let at = usize::try_from(self.base + address).ok()?;
        set_breakpoint(self.pid, Some(at)).ok()?;
        ptrace(libc::PTRACE_CONT, self.pid, 0, 0).ok()?;
        self.runs = true;
        let begun = Instant::now();
        let stopped = loop {
            if let Some(stop) = self.look(libc::WNOHANG) {
                break stop;
            }
            if begun.elapsed() > RUN_MAX {
                ptrace(libc::PTRACE_INTERRUPT, self.pid, 0, 0).ok()?;
                break self.wait();
            }
            std::thread::yield_now();
        };
        if !matches!(stopped, Stop::Here) {
            return None;
        }
        set_breakpoint(self.pid, None).ok()?;
        let mut place = self.place(role, symbols);
        for _ in 0..within {
            if place.is_none() || self.is_at_syscall() {
                break;
            }
            ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0).ok()?;
            if !matches!(self.wait(), Stop::Here) {
                return None;
            }
            place = self.place(role, symbols);
        }
        place
    }

    /// Whether it is in a system call, or about to make one.
    fn is_at_syscall(&self) -> bool {
        let Ok(registers) = registers(self.pid) else {
            return true;
        };
        if registers.orig_rax.cast_signed() >= 0 {
            return true;
        }
        let at = usize::try_from(registers.rip).expect("an address");
        // SAFETY: reads a word of the other process; returns the word, or -1.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, self.pid, at, 0) };
        // `syscall`, as bytes in order.
        word.to_le_bytes()[..2] == [0x0f, 0x05]
    }

    fn wait(&mut self) -> Stop {
        loop {
            if let Some(stop) = self.look(0) {
                return stop;
            }
        }
    }

    /// Why it stopped; `None` if it runs, or continues with another signal.
    fn look(&mut self, options: c_int) -> Option<Stop> {
        let mut status = 0;
        let options = libc::__WALL | options;
        // SAFETY: a process that this thread traces; `status` lives across the call.
        let found = unsafe { libc::waitpid(self.pid, &raw mut status, options) };
        if found == 0 {
            return None;
        }
        if found != self.pid || !libc::WIFSTOPPED(status) {
            self.dead = true;
            return Some(Stop::Dead);
        }
        match libc::WSTOPSIG(status) {
            libc::SIGTRAP => {
                self.runs = false;
                Some(Stop::Here)
            }
            libc::SIGSTOP if status >> 16 == libc::PTRACE_EVENT_STOP => {
                self.frozen = true;
                Some(Stop::Group)
            }
            // A signal of the test is passed on to it.
            other => {
                let signal = usize::try_from(other).expect("a signal");
                if ptrace(libc::PTRACE_CONT, self.pid, 0, signal).is_ok() {
                    return None;
                }
                self.dead = true;
                Some(Stop::Dead)
            }
        }
    }

    /// SIGKILL; returns when it is dead.
    fn end(mut self) {
        signal(self.pid, libc::SIGKILL);
        while !self.dead {
            let _ = self.wait();
        }
    }
}

/// Load address of this program's file in another process that runs it.
fn base(pid: pid_t) -> io::Result<u64> {
    let program = std::env::current_exe()?;
    let program = program.to_string_lossy();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let first = maps.lines().find(|line| line.ends_with(&*program));
    let start = first.and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok());
    start.ok_or_else(|| io::ErrorKind::NotFound.into())
}
