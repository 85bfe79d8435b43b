//! Running a child one instruction at a time.
//!
//! The child is a fork of this process, so its code has the same addresses and can be read here.

use crate::ptrace::{ptrace, registers, set_breakpoint};
use libc::{c_int, pid_t};
use std::io;
use std::os::unix::fs::FileExt;

/// A stopped child between the two marks around its operation.
pub(crate) struct Traced {
    pid: pid_t,
    dead: bool,
}

/// The kind of the next instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The mark after the operation.
    End,
    Syscall,
    Other,
}

/// A system call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: i64,
    /// The first, second, fourth and fifth of them.
    pub(crate) arguments: [u64; 4],
    /// Its instruction.
    pub(crate) at: usize,
}

/// Length of the instruction `syscall`.
const SYSCALL_BYTES: usize = 2;
/// The signal of a stop at a system call, if requested.
const SYSCALL_STOP: c_int = libc::SIGTRAP | 0x80;

/// The mark around an operation: stops a traced process.
#[inline(always)]
pub(crate) fn mark() {
    // SAFETY: a trap; the tracer continues the process.
    unsafe { std::arch::asm!("int3") };
}

fn is_job_control(signal: c_int) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGCONT)
}

impl Traced {
    /// Forks a child that runs `body`, up to its first mark.
    pub(crate) fn start(body: impl FnOnce()) -> Self {
        // SAFETY: one test runs in this program, so no thread holds a lock; the child's copy is
        // consistent.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", io::Error::last_os_error());
        if pid == 0 {
            // Without a backtrace: stepping through its creation takes minutes.
            std::panic::set_hook(Box::new(|panic| {
                eprintln!("{panic}");
                // SAFETY: as below.
                unsafe { libc::_exit(101) };
            }));
            ptrace(libc::PTRACE_TRACEME, 0, 0, 0).expect("to be traced");
            // SAFETY: stops this process until its parent continues it.
            unsafe { libc::raise(libc::SIGSTOP) };
            body();
            // SAFETY: ends this process without running the parent's exit code.
            unsafe { libc::_exit(0) };
        }
        let mut child = Self { pid, dead: false };
        assert_eq!(child.wait(), libc::SIGSTOP);
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
        let options = usize::try_from(options).expect("flags");
        ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options).expect("to trace");
        child.go_on();
        child
    }

    /// Waits until it stops; returns the signal.
    fn wait(&mut self) -> c_int {
        let mut status = 0;
        // SAFETY: our own child; `status` lives across the call.
        let found = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
        assert_eq!(found, self.pid, "{}", io::Error::last_os_error());
        self.dead = !libc::WIFSTOPPED(status);
        assert!(!self.dead, "the child ended: status {status:#x}");
        libc::WSTOPSIG(status)
    }

    /// Continues by `request` and waits until it stops; returns the signal. What another program
    /// sends that stops and continues this one and its children is left out.
    fn resume(&mut self, request: u32) -> c_int {
        loop {
            ptrace(request, self.pid, 0, 0).expect("to go on");
            let signal = self.wait();
            if !is_job_control(signal) {
                return signal;
            }
        }
    }

    fn registers(&self) -> libc::user_regs_struct {
        registers(self.pid).expect("its registers")
    }

    /// Its instruction pointer.
    pub(crate) fn at(&self) -> usize {
        usize::try_from(self.registers().rip).expect("an address")
    }

    /// The next instruction at `at`.
    pub(crate) fn next(at: usize) -> Next {
        // SAFETY: the child runs this program's code, which has the same address here.
        let first = unsafe { std::ptr::read(at as *const u8) };
        if first == 0xcc {
            return Next::End;
        }
        // SAFETY: as above; `syscall` is two bytes long, and no code ends a page with its first.
        let second = unsafe { std::ptr::read((at + 1) as *const u8) };
        if (first, second) == (0x0f, 0x05) {
            Next::Syscall
        } else {
            Next::Other
        }
    }

    /// Whether `at` is in the code that the kernel maps to read the clock. It writes no memory of
    /// ours, and starts again after a tick of the kernel: it may not end if each step takes long.
    fn is_reading_the_clock(at: usize) -> bool {
        const LARGEST: usize = 16 * 1024;
        // SAFETY: takes an integer.
        let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        usize::try_from(start).is_ok_and(|start| start <= at && at - start < LARGEST)
    }

    /// One instruction, or a whole read of the clock; returns the instruction pointer.
    pub(crate) fn step(&mut self) -> usize {
        assert_eq!(self.resume(libc::PTRACE_SINGLESTEP), libc::SIGTRAP);
        let registers = self.registers();
        let at = usize::try_from(registers.rip).expect("an address");
        if !Self::is_reading_the_clock(at) {
            return at;
        }
        // The first instruction of a call: the return address is on top of the stack.
        let back = self.read_address(registers.rsp);
        assert!(self.go_to(back, 1), "the clock does not return");
        back
    }

    /// The address that is stored at `at` in its memory.
    fn read_address(&self, at: u64) -> usize {
        let mut bytes = [0; size_of::<usize>()];
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid));
        let read = memory.and_then(|memory| memory.read_exact_at(&mut bytes, at));
        read.expect("its memory");
        usize::from_ne_bytes(bytes)
    }

    /// Up to the next mark or breakpoint.
    pub(crate) fn go_on(&mut self) {
        let signal = self.resume(libc::PTRACE_CONT);
        assert_eq!(signal, libc::SIGTRAP, "the child was stopped otherwise");
    }

    /// Continues to the next system call and stops before it; `None` if it reached a mark.
    pub(crate) fn go_to_syscall(&mut self) -> Option<Call> {
        match self.resume(libc::PTRACE_SYSCALL) {
            SYSCALL_STOP => {
                let registers = self.registers();
                // The instruction pointer is behind `syscall`.
                let behind = usize::try_from(registers.rip).expect("an address");
                Some(Call {
                    at: behind - SYSCALL_BYTES,
                    number: registers.orig_rax.cast_signed(),
                    arguments: [registers.rdi, registers.rsi, registers.r10, registers.r8],
                })
            }
            signal => {
                assert_eq!(signal, libc::SIGTRAP, "the child was stopped otherwise");
                None
            }
        }
    }

    /// Continues until `count` system calls were made. `false` if it reached the end.
    pub(crate) fn pass_syscalls(&mut self, count: usize) -> bool {
        (0..count).all(|_| {
            let found = self.go_to_syscall().is_some();
            if found {
                self.leave_syscall();
            }
            found
        })
    }

    /// Makes the next system call fail with `errno`, without executing it.
    pub(crate) fn fail_syscall(&mut self, errno: c_int) {
        let mut registers = self.registers();
        // No such call: the kernel does nothing.
        registers.orig_rax = u64::MAX;
        self.set(&registers);
        self.leave_syscall();
        self.set_answer(errno);
    }

    /// Executes the next system call, and replaces its answer by `errno`. `close` frees the
    /// descriptor whatever it answers.
    pub(crate) fn make_syscall_answer(&mut self, errno: c_int) {
        self.leave_syscall();
        self.set_answer(errno);
    }

    fn set_answer(&self, errno: c_int) {
        let mut registers = self.registers();
        registers.rax = i64::from(-errno).cast_unsigned();
        self.set(&registers);
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> u64 {
        u64::from(self.pid.cast_unsigned())
    }

    /// Executes the next system call.
    pub(crate) fn leave_syscall(&mut self) {
        assert_eq!(self.resume(libc::PTRACE_SYSCALL), SYSCALL_STOP);
    }

    fn set(&self, registers: &libc::user_regs_struct) {
        let from = (&raw const *registers) as usize;
        ptrace(libc::PTRACE_SETREGS, self.pid, 0, from).expect("its registers");
    }

    /// Continues until pass `times` over `at`, by a hardware breakpoint. `false` if it reached the
    /// end.
    pub(crate) fn go_to(&mut self, at: usize, times: u64) -> bool {
        set_breakpoint(self.pid, Some(at)).expect("a breakpoint");
        let mut seen = u64::from(self.at() == at);
        while seen < times {
            self.go_on();
            let here = self.at();
            if here != at {
                return false;
            }
            seen += 1;
        }
        set_breakpoint(self.pid, None).expect("no breakpoint");
        true
    }

    /// Lets it end, which must succeed; returns how many marks it passed.
    pub(crate) fn go_on_to_the_end(mut self) -> usize {
        let mut marks = 0;
        loop {
            ptrace(libc::PTRACE_CONT, self.pid, 0, 0).expect("to go on");
            let mut status = 0;
            // SAFETY: our own child; `status` lives across the call.
            let found = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
            assert_eq!(found, self.pid, "{}", io::Error::last_os_error());
            if libc::WIFSTOPPED(status) {
                let signal = libc::WSTOPSIG(status);
                assert!(
                    signal == libc::SIGTRAP || is_job_control(signal),
                    "{signal}"
                );
                marks += usize::from(signal == libc::SIGTRAP);
                continue;
            }
            self.dead = true;
            assert!(
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
                "the child failed: status {status:#x}"
            );
            return marks;
        }
    }

    /// Sends SIGKILL and reaps it.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.dead {
            return;
        }
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: as above.
        while unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) } == self.pid
            && libc::WIFSTOPPED(status)
        {}
        self.dead = true;
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.end();
    }
}
