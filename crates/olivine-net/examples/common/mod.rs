//! What the examples share: reading the common arguments, and running until a signal asks to stop.

#![allow(dead_code, unreachable_pub, reason = "each example uses a part of it")]

use std::{
    error::Error,
    fmt,
    net::SocketAddr,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use olivine_net::{Backend, Counters, Engine, EngineConfig, Handler, WaitStrategy, parse_cpu_list};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// Arguments every server here takes.
#[derive(Args, Debug)]
pub struct Common {
    /// Address and port to listen on; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:8000")]
    pub listen: SocketAddr,
    /// Number of event loops; 0 means one per physical core.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// CPUs to pin the loops to, such as 0-3,8; left out, one of each physical core.
    #[arg(long, default_value = "")]
    pub cpus: String,
    /// Kernel interface.
    #[arg(long, value_enum, default_value_t = BackendName::Mio)]
    pub backend: BackendName,
    /// How an idle loop waits.
    #[arg(long, value_enum, default_value_t = WaitName::Adaptive)]
    pub wait: WaitName,
    /// Seconds that open connections get to finish when a signal asks to stop.
    #[arg(long, default_value_t = 5)]
    pub grace: u64,
    /// Seconds after which to stop as if a signal had come; 0 means only then.
    #[arg(long, default_value_t = 0)]
    pub duration: u64,
}

/// Names of the back ends.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum BackendName {
    Mio,
    IoUring,
    Auto,
}

/// Names of the wait strategies.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WaitName {
    Spin,
    Adaptive,
    Block,
}

/// What ends an example early, shown with all its causes: `main` prints an error by [`fmt::Debug`].
pub struct Failure(Box<dyn Error>);

impl<E: Into<Box<dyn Error>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Common {
    /// The engine settings these arguments ask for.
    pub fn config(&self) -> Result<EngineConfig, Failure> {
        let backend = match self.backend {
            BackendName::Mio => Backend::Mio,
            BackendName::IoUring => Backend::IoUring,
            BackendName::Auto => Backend::Auto,
        };
        let wait = match self.wait {
            WaitName::Spin => WaitStrategy::Spin,
            WaitName::Adaptive => WaitStrategy::Adaptive(Duration::from_micros(50)),
            WaitName::Block => WaitStrategy::Block,
        };
        Ok(EngineConfig::new(self.listen)
            .threads(self.threads)
            .cpus(parse_cpu_list(&self.cpus)?)
            .backend(backend)
            .wait(wait))
    }

    /// Runs until SIGINT or SIGTERM, then stops gracefully and prints the counts.
    pub fn run<H: Handler>(&self, engine: Engine<H>) -> Result<(), Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        if let Some(address) = engine.local_address() {
            println!(
                "listening on {address}, {} on CPUs {:?}",
                engine.backend(),
                engine.cpus()
            );
        }
        if let Some(why) = engine.health().into_iter().find_map(|shard| shard.fallback) {
            println!("io_uring cannot be used here: {why}");
        }
        if self.duration == 0 {
            signals.forever().next();
        } else {
            let end = Instant::now() + Duration::from_secs(self.duration);
            // The pause is what an example may do while the threads of its engine work.
            while Instant::now() < end && signals.pending().next().is_none() {
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
        let total = Counters::sum(&engine.counters());
        let report = engine.stop(Duration::from_secs(self.grace));
        println!(
            "{} connections, {} receives, {} sends, {} cut",
            total.accepted, total.receives, total.sends, report.cut
        );
        Ok(())
    }
}
