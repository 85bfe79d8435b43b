//! `ci --deep`: all slow checks, with a report in `docs/evidence`. Also `death`, which runs alone.

use crate::cargo::{FEATURES, alone, cargo, target, tests};
use crate::child;
use crate::report::{Report, Step, missing};
use crate::tools::{self, Toolchain};
use crate::{fuzz, packages, programs, rivals, sanitize, test};
use anyhow::{Result, ensure};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Names of tests that a step runs alone.
const KILLS: &str = "survivors_of_kills_lose_nothing_and_continue";
const CROWD: &str = "busy_processes_do_not_block_a_stream";
const CHURN: &str = "churn_leaks_no_descriptors_or_memory";
/// The other systems that `olivine-net` compiles for.
const MACOS: [&str; 2] = ["x86_64-apple-darwin", "aarch64-apple-darwin"];
/// Arguments of the death suite.
const DEATH: &str = "olivine --release --test death";

/// The amount of each check.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "amounts", requires = "deep")]
pub(crate) struct Plan {
    /// Number of participants to kill.
    #[arg(long, default_value = "200000")]
    kills: NonZeroU64,
    /// Seed of all random choices; a random seed is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of Miri seeds.
    #[arg(long, default_value = "8")]
    seeds: NonZeroU32,
    /// Words that each of the seven hostile peers overwrites.
    #[arg(long, default_value = "150000000")]
    writes: NonZeroU64,
    /// Time of each fuzz target.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    fuzz: humantime::Duration,
    /// Messages over a lossy link.
    #[arg(long, value_name = "MESSAGES", default_value = "10000000")]
    wire: NonZeroU64,
    /// How long the link is cut.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    cut: humantime::Duration,
    /// Length of each attack on a sealed channel.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    sealed: humantime::Duration,
    /// Length of the soak test.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    soak: humantime::Duration,
    /// Connections opened and closed, on each back end.
    #[arg(long, default_value = "1000000")]
    connections: NonZeroU32,
    /// Number of runs of every built-in method.
    #[arg(long, default_value = "20")]
    benches: NonZeroU32,
}

/// A random seed. It is printed, so that a failure can be repeated.
pub(crate) fn any_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Kills `kills` participants; the same `seed` gives the same choices.
pub(crate) fn death(kills: NonZeroU64, seed: u64) -> Result<Step> {
    let settings = format!("OLIVINE_KILLS={kills} OLIVINE_SEED={seed}");
    alone(DEATH, &settings)
}

/// Kills, stops and new participants for `time`.
pub(crate) fn soak(time: Duration, seed: u64) -> Result<Step> {
    let settings = format!("OLIVINE_SOAK_S={} OLIVINE_SEED={seed}", time.as_secs());
    alone(&format!("{DEATH} {KILLS}"), &settings)
}

/// Runs everything, or the steps `only`. A failed step is a failure in the report; later steps
/// still run.
pub(crate) fn run(report: &mut Report, plan: &Plan, only: Vec<String>) {
    let seed = plan.seed.unwrap_or_else(any_seed);
    println!("seed {seed}");
    if only.is_empty() {
        // The other defaults belong to the commit, which is in the report, too.
        let drawn = plan
            .seed
            .map_or_else(|| format!(" --seed {seed}"), |_| String::new());
        report.with_evidence("", &drawn, |report| steps(report, plan, seed));
    } else {
        report.choose(only);
        steps(report, plan, seed);
    }
}

/// Programs of which one is needed; the first is the package as well.
type Needs = &'static [&'static str];
/// A step, the package and the tests that it runs, their settings, and what they need.
type Suite<'a> = (&'a str, &'a str, &'a str, &'a [Needs]);
const CHROMIUM: Needs = &["chromium", "chromium-browser", "google-chrome"];

/// Runs the chosen steps.
pub(crate) fn steps(report: &mut Report, plan: &Plan, seed: u64) {
    report.group("test", |report| test::test(report, true));
    report.run("publish", publish);
    report.group("packages", packages::run);
    report.run("miri", || sanitize::miri(plan.seeds, None));
    report.run("aarch64", aarch64);
    report.run("oldest", oldest);
    report.run("bare", bare);
    report.run("macos", || {
        let mut step = Step::new("targets");
        for target in MACOS {
            tools::standard_library(target)?;
            let words = ["check", "--package", "olivine-net", "--target", target];
            child::said(cargo().args(words), 30)?;
            step.passed += 1;
        }
        step.note = "olivine-net compiles".to_owned();
        Ok(step)
    });
    report.run("libraries", libraries);
    report.run("exports", exports);
    // Their workspaces are not ours: nothing else compiles them.
    report.group("rivals", rivals::check);
    report.group("sanitizers", |report| sanitize::run(report, &[]));
    report.run("hostile", || sanitize::hostile(plan.writes, seed));
    report.group("fuzz", |report| {
        fuzz::run(report, None, *plan.fuzz, programs::jobs())
    });
    report.run("death", || death(plan.kills, seed));
    report.run("soak", || soak(*plan.soak, seed));

    let crowd = format!("olivine --release --test limits {CROWD}");
    let churn = format!("olivine-net --release --test process {CHURN}");
    let (cut, attack) = (plan.cut.as_secs(), plan.sealed.as_millis());
    let pictures = format!("OLIVINE_BROWSER={}", target().join("browser").display());
    let wire = format!(
        "OLIVINE_WIRE_MESSAGES={} OLIVINE_WIRE_CUT_S={cut} OLIVINE_WIRE_SEED={seed}",
        plan.wire
    );
    let sealed = format!("OLIVINE_HOSTILE_MS={attack} OLIVINE_SEED={seed}");
    let again = format!("OLIVINE_AGAIN={}", plan.benches);
    let connections = format!("OLIVINE_NET_CHURN={}", plan.connections);
    let suites: [Suite<'_>; 12] = [
        // A release build has the figures.
        (
            "instructions",
            "olivine --package olivine-net --release --test instructions",
            "",
            &[],
        ),
        (
            "costs",
            "olivine-capi --release --test programs claim_and_commit",
            "",
            &[],
        ),
        // Programs under valgrind, against the library as it is installed.
        (
            "valgrind",
            "olivine-capi --release --test programs valgrind",
            "",
            &[&["valgrind"]],
        ),
        // A death after every instruction, and every fault of every system call.
        (
            "step",
            "olivine --test step",
            "OLIVINE_STEP_EVERY=1 OLIVINE_FAULT_EVERY=1",
            &[],
        ),
        // The variant of the protocol model with the most states.
        (
            "states",
            "olivine --test spin model_holds",
            "OLIVINE_SPIN_ALL=1",
            &[&["spin"]],
        ),
        // More busy processes than processors on any machine here.
        ("crowd", &crowd, "OLIVINE_CROWD=64", &[]),
        // Bridges between two network namespaces, over a link with delay, loss and a cut.
        ("wire", "olivine --test namespaces", &wire, &[]),
        ("sealed", "olivine --test sealed", &sealed, &[]),
        // No run may hang, fail or leave anything behind.
        (
            "again",
            "olivine-cli --release --test bench again::",
            &again,
            &[],
        ),
        (
            "browser",
            "olivine-cli --test browser",
            &pictures,
            &[CHROMIUM],
        ),
        (
            "clients",
            "olivine-net --test clients",
            &pictures,
            &[CHROMIUM, &["curl"], &["wrk"]],
        ),
        // So many that any leak is visible.
        ("churn", &churn, &connections, &[]),
    ];
    for (step, tests, settings, needs) in suites {
        report.run(step, || {
            for names in needs {
                tools::program(names, names[0])?;
            }
            alone(tests, settings)
        });
    }
}

/// HTTP libraries of Python, Go and a browser, and h2load, at the examples of the engine.
fn libraries() -> Result<Step> {
    let folder = target().join("tools/http");
    tools::venv(&folder, &["requests", "httpx", "aiohttp"])?;
    let python = folder.join("bin/python3");
    for names in [CHROMIUM, &["go"], &["h2load"]] {
        let package = match names[0] {
            "go" => "golang-go",
            "h2load" => "nghttp2-client",
            name => name,
        };
        tools::program(names, package)?;
    }
    let words = "build --package olivine-net --examples";
    child::said(cargo().args(words.split(' ')), 15)?;
    let python = format!("OLIVINE_NET_PYTHON={}", python.display());
    let settings = format!("{python} OLIVINE_NET_GO=1 OLIVINE_BROWSER=1");
    alone("olivine-net --test libraries", &settings)
}

/// Libraries of Python, Java and JavaScript at the files that `bench report` writes.
fn exports() -> Result<Step> {
    let folder = target().join("tools/exports");
    let packages = ["hdrhistogram", "jsonschema", "pandas", "resvg-py"];
    tools::venv(&folder, &packages)?;
    let python = folder.join("bin/python3");
    for (name, package) in [("mvn", "maven"), ("npm", "npm")] {
        tools::program(&[name], package)?;
    }
    let place = folder.display();
    let jar = "-q dependency:copy -Dartifact=org.hdrhistogram:HdrHistogram:2.2.2";
    let into = format!("-DoutputDirectory={place}");
    child::said(Command::new("mvn").args(jar.split(' ')).arg(into), 8)?;
    let modules = "install --silent --no-save hdr-histogram-js@3 --prefix";
    child::said(Command::new("npm").args(modules.split(' ')).arg(&folder), 8)?;
    alone(
        "olivine-cli --test outputs exports_are_read",
        &format!(
            "OLIVINE_EXPORT_PYTHON={} OLIVINE_EXPORT_JAR={place}/HdrHistogram-2.2.2.jar \
             OLIVINE_EXPORT_NODE={place}/node_modules",
            python.display()
        ),
    )
}

/// Every published crate as a registry gets it, built from its package alone.
fn publish() -> Result<Step> {
    let words = "publish --workspace --dry-run --allow-dirty";
    let said = child::said(cargo().args(words.split(' ')), 60)?;
    let mut step = Step::new("packages");
    step.passed = said.matches("Packaged ").count();
    Ok(step)
}

/// All compiles with the oldest Rust that the manifest allows.
fn oldest() -> Result<Step> {
    let words = format!("check --workspace --features {FEATURES}");
    let mut command = Toolchain::oldest()?.cargo();
    command.env("CARGO_TARGET_DIR", target().join("oldest"));
    child::said(command.args(words.split(' ')), 60)?;
    let version = env!("CARGO_PKG_RUST_VERSION");
    Ok(Step::single(true, format!("compiles with Rust {version}")))
}

/// The core and its unit tests compile without default features.
fn bare() -> Result<Step> {
    let words = "check --package olivine --no-default-features --lib --tests";
    child::said(cargo().args(words.split(' ')), 30)?;
    Ok(Step::single(true, "the core compiles".to_owned()))
}

/// The workspace is compiled for aarch64; unit tests of the core, and the suites that need no
/// network and no namespaces, run under `qemu-user`.
///
/// qemu runs the stores of one thread in the order of this machine. So a run tests layout, atomics
/// and system calls, but not weak memory order. `crates/olivine/model/axiomatic` checks that.
fn aarch64() -> Result<Step> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
    tools::program(&["aarch64-linux-gnu-gcc"], "gcc-aarch64-linux-gnu")?;
    tools::program(&["qemu-aarch64"], "qemu-user")?;
    let library = "libc6-dev-arm64-cross";
    let found =
        Path::new(LIBRARIES).join("include/stdint.h").exists() || tools::install(&[library]);
    ensure!(
        found,
        missing(format!(
            "no C headers for it; run `apt-get install {library}`"
        ))
    );
    tools::standard_library(TARGET)?;
    let cross = |words: &str| {
        let mut command = cargo();
        command.args(words.split(' ')).args(["--target", TARGET]);
        command.env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        );
        command
    };
    let check = "check --workspace --features olivine/nats,olivine/tls,olivine/zstd,olivine/points";
    child::said(&mut cross(check), 60)?;
    let suites = "test --package olivine --no-fail-fast --lib --test verbs --test channel \
                  --test fork --test topics --test waiting";
    let mut command = cross(suites);
    let runner = format!("qemu-aarch64 -L {LIBRARIES}");
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    // Programs that a test starts need the runner, too: the kernel cannot run them.
    command.env("OLIVINE_TEST_RUNNER", "qemu-aarch64");
    let mut step = tests(command.env("QEMU_LD_PREFIX", LIBRARIES), 30)?;
    step.note = format!("workspace compiles; under qemu-user: {}", step.note);
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use std::collections::BTreeSet;

    #[derive(clap::Parser)]
    struct Amounts {
        #[arg(long)]
        deep: bool,
        #[command(flatten)]
        plan: Plan,
    }

    #[test]
    fn contributing_lists_every_step() {
        let path = format!("{}/../CONTRIBUTING.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let row = text
            .lines()
            .find(|line| line.starts_with("| `cargo xtask ci --deep` |"));
        let row = row.unwrap().split(" | ").nth(1).unwrap();
        let quoted = row.split('`').skip(1).step_by(2);
        let listed: BTreeSet<_> = quoted
            .filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric()))
            .collect();
        let mut report = Report::default();
        report.choose(vec![String::new()]);
        let plan = Amounts::parse_from(["ci"]).plan;
        steps(&mut report, &plan, 0);
        let run: BTreeSet<_> = report.offered().collect();
        assert!(run.len() >= 20, "{run:?}");
        assert_eq!(listed, run);
    }

    #[test]
    fn tests_that_run_alone_exist() {
        for (name, path) in [
            (KILLS, "olivine/tests/death/main.rs"),
            (CROWD, "olivine/tests/limits.rs"),
            (CHURN, "olivine-net/tests/process.rs"),
        ] {
            let path = format!("{}/../crates/{path}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(&format!("fn {name}(")), "{name} in {path}");
        }
    }
}
