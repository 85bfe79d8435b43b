//! A thread that ends with the handle that started it.

use rustix::thread::{Pid, gettid};
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

/// A thread of a handle, which may drop the handle itself.
#[derive(Debug)]
pub(super) struct OwnThread {
    thread: JoinHandle<()>,
    /// Its number in the kernel, once it runs. The standard library's would be allocated for a
    /// thread that it did not start, and never freed on the main thread of a program in C.
    number: Arc<OnceLock<Pid>>,
}

impl OwnThread {
    /// # Errors
    ///
    /// If the system has no thread left.
    pub(super) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let number = Arc::new(OnceLock::new());
        let own = Arc::clone(&number);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            own.get_or_init(gettid);
            work();
        })?;
        Ok(Self { thread, number })
    }

    /// Waits until it has ended. In this very thread, which ends alone, it does nothing.
    pub(super) fn join(self) {
        if self.number.get() != Some(&gettid()) {
            // Its work catches panics.
            let _ = self.thread.join();
        }
    }
}
