//! Programs in C and C++, compiled by the machine's compilers against the headers and the built
//! library, and run: among themselves, and with publishers and subscribers of Rust in this process.

mod abi;
mod answers;
mod checked;
mod pairs;
/// What `cargo xtask capi` does.
#[path = "../../install.rs"]
mod place;
mod stage;

use checked::{VALGRIND, has_valgrind};
use olivine::{Config, MessageType, Outgoing, Publisher, ReceiveError, Subscriber};
use stage::{Link, Running, TestFolder, WATCHDOG, numbered};

const MESSAGES: u64 = 50_000;

/// The oldest standards that the headers are for: `README.md` and the headers name them.
const LOWEST_C: &str = "c99";
const LOWEST_CPP: &str = "c++17";
/// Of programs that run under valgrind: its findings name lines.
const WITH_LINES: &str = "c11 -g";
const WITH_LINES_CPP: &str = "c++17 -g";

/// Each program here, with each header, compiles without a warning by the oldest standard that the
/// README promises, and by later ones.
#[test]
fn headers_and_programs_compile_by_the_oldest_standard_that_is_promised() {
    let readme = std::fs::read_to_string(stage::source("README.md")).unwrap();
    let files = std::fs::read_dir(stage::source("tests/programs")).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: Vec<_> = files.collect();
    for (language, end, compilers, standards) in [
        ("C99", ".c", ["cc", "clang"], [LOWEST_C, "c11"]),
        ("C++17", ".cpp", ["c++", "clang++"], [LOWEST_CPP, "c++20"]),
    ] {
        assert_eq!(language.to_lowercase(), standards[0]);
        assert!(
            readme.contains(&format!("for {language} and later")),
            "{language}"
        );
        let files: Vec<_> = files.iter().map(String::as_str).collect();
        let files: Vec<_> = files
            .into_iter()
            .filter(|file| file.ends_with(end))
            .collect();
        assert!(files.len() > 3, "{files:?}");
        for compiler in compilers {
            for standard in standards {
                stage::check(compiler, standard, &files);
            }
        }
    }
}

#[test]
fn what_is_wrong_is_refused_in_words() {
    for (compiler, link) in [
        ("cc", Link::Shared),
        ("cc", Link::Static),
        ("clang", Link::Shared),
    ] {
        if let Some(program) = stage::compile(compiler, "c11", "refuse.c", link) {
            assert_eq!(Running::launch(&program, &[]).finish(), "refused");
        }
    }
}

/// What every verb does, in every language.
const VERBS: &str = include_str!("../../../olivine/tests/verbs/table.txt");

#[test]
fn every_verb_does_in_c_and_cpp_what_the_table_says() {
    let rows: Vec<_> = VERBS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .collect();
    assert!(rows.len() > 90, "{}", rows.len());
    let place = TestFolder::new();
    let file = place.0.path().join("rows");
    let text: String = rows.iter().map(|(row, _)| format!("{row}\n")).collect();
    std::fs::write(&file, text).unwrap();
    for (compiler, standard, name, kinds) in [
        ("cc", "c11", "verbs.c", "kinds c bytes"),
        ("c++", "c++17", "verbs.cpp", "kinds c++ bytes"),
    ] {
        assert!(VERBS.lines().any(|line| line == kinds), "{kinds}");
        if let Some(program) = stage::compile(compiler, standard, name, Link::Shared) {
            let said = Running::launch(&program, &[file.to_str().unwrap()]).finish();
            let said: Vec<_> = said.lines().collect();
            assert_eq!(said.len(), rows.len(), "{name}");
            for ((row, result), said) in rows.iter().zip(said) {
                assert_eq!(said, *result, "{name}: {row}");
            }
        }
    }
}

#[test]
fn a_dropped_durable_subscriber_in_c_gets_its_last_message_again() {
    let place = TestFolder::new();
    if let Some(program) = stage::compile("cc", WITH_LINES, "places.c", Link::Static) {
        let words = ["durable", &*place.uri(""), &*place.uri("&name=archive")];
        assert_eq!(Running::launch(&program, &words).finish(), "kept");
    }
}

/// A channel that evicts slow subscribers after a millisecond.
const IMPATIENT: &str = "&capacity=4KiB&slow=evict:1ms";

#[test]
fn a_durable_name_and_removed_files_are_reported_in_c() {
    let place = TestFolder::new();
    if let Some(program) = stage::compile("cc", WITH_LINES, "places.c", Link::Static) {
        let words = [
            "place",
            &*place.uri(IMPATIENT),
            &*place.uri(&format!("{IMPATIENT}&name=archive")),
        ];
        assert_eq!(Running::launch(&program, &words).finish(), "found");
    }
}

/// Messages of the two runs whose difference is counted: it has neither start nor end.
const COUNTS: [u64; 2] = [2_000, 22_000];
/// Instructions of a message of 32 bytes, the loop of the program included: 5 % above those counted
/// here (ADR 0035).
const PUBLISH_MOST: f64 = 127.2;
/// Those of claim and commit to those of publish, at most.
const CLAIM_MOST: f64 = 1.2;

/// Instructions of a message that `costs.c` sends by this verb.
fn instructions(program: &std::path::Path, verb: &str) -> f64 {
    let [less, more] = COUNTS.map(|count| {
        let mut counted = std::process::Command::new("valgrind");
        counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        let output = counted
            .arg(program)
            .args([verb, &count.to_string()])
            .output();
        let output = output.expect("valgrind was there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{verb}: {said}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("{}\n", count * 40)
        );
        let line = said.lines().find_map(|line| line.split_once("Collected :"));
        let (_, number) = line.unwrap_or_else(|| panic!("{verb}: {said}"));
        number.trim().parse::<f64>().unwrap()
    });
    (more - less) / (COUNTS[1] - COUNTS[0]) as f64
}

/// A claim stays in the handle, and nothing is made for an error that did not happen. Counted in
/// release builds only: `cargo xtask ci --deep`.
#[test]
fn claim_and_commit_take_little_more_than_publish() {
    if cfg!(debug_assertions) {
        return stage::skip("instructions are counted in a release build only");
    }
    if !has_valgrind() {
        return;
    }
    let Some(program) = stage::compile("cc", "c11 -O2", "costs.c", Link::Static) else {
        return;
    };
    let [publish, claim] = ["publish", "claim"].map(|verb| instructions(&program, verb));
    println!(
        "publish {publish:.1}, claim and commit {claim:.1}: {:.2}",
        claim / publish
    );
    assert!(
        publish <= PUBLISH_MOST && claim <= CLAIM_MOST * publish,
        "{publish} {claim}"
    );
}

#[test]
fn a_far_side_that_never_comes_is_reported_in_c() {
    if let Some(program) = stage::compile("cc", LOWEST_C, "links.c", Link::Shared) {
        assert_eq!(Running::launch(&program, &[]).finish(), "linked");
    }
}

/// The example of the README: the states of a connection, and reading on behind damage.
#[test]
fn example_in_c_shows_link_states_and_reads_on_behind_damage() {
    let place = TestFolder::new();
    let source = stage::source("examples/state_and_damage.c");
    // Programs of an absolute path are made beside it.
    let copy = place.0.path().join("state_and_damage.c");
    std::fs::copy(source, &copy).unwrap();
    let copy = copy.display().to_string();
    let Some(program) = stage::compile("cc", LOWEST_C, &copy, Link::Shared) else {
        return;
    };
    let mut command = std::process::Command::new(program);
    let output = command.arg(place.0.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let lines = [
        "link: waiting",
        "link: connected",
        "hello",
        "link: waiting",
        "the end",
        "40 messages",
        "damaged: going on behind it",
        "the end",
        "one is lost",
    ];
    // The first state may have passed before it was looked at.
    let said: Vec<&str> = said.lines().collect();
    assert!(said == lines || said == lines[1..], "{said:?}");
}

#[test]
fn the_layer_in_cpp_holds_values_exceptions_and_streams() {
    let place = TestFolder::new();
    for (compiler, standard) in [("c++", "c++17"), ("c++", "c++20"), ("clang++", "c++17")] {
        if let Some(program) = stage::compile(compiler, standard, "layer.cpp", Link::Shared) {
            assert_eq!(
                Running::launch(&program, &[&place.uri("")]).finish(),
                "layered"
            );
        }
    }
}

#[test]
fn the_layer_in_cpp_takes_buffers_whole_and_settings_of_run_time_with_and_without_exceptions() {
    for standard in ["c++17", "c++20", "c++17 -fno-exceptions"] {
        if let Some(program) = stage::compile("c++", standard, "plain.cpp", Link::Shared) {
            assert_eq!(Running::launch(&program, &[]).finish(), "plain");
        }
    }
}

#[test]
fn values_of_one_type_in_cpp_arrive_alone_and_in_arrays() {
    for (compiler, standard) in [
        ("c++", "c++17"),
        ("c++", "c++20 -fno-exceptions"),
        ("clang++", "c++17"),
    ] {
        if let Some(program) = stage::compile(compiler, standard, "typed.cpp", Link::Shared) {
            assert_eq!(Running::launch(&program, &[]).finish(), "typed");
        }
    }
}

#[test]
fn values_of_rust_arrive_in_cpp_where_both_state_the_same_type() {
    let place = TestFolder::new();
    let Some(program) = stage::compile("c++", "c++17", "typed.cpp", Link::Shared) else {
        return;
    };
    let uri = place.uri("");
    let subscriber = Running::start(&program, &[&uri]);
    let tick = MessageType::new("tick v1", 24, 8).unwrap();
    let tick = tick.with_fields("bid i64, ask i64, sequence u64").unwrap();
    let config = Config::parse(&uri).unwrap();
    let mut publisher = Publisher::open_for(&config, &tick).unwrap();
    for sequence in 0..1000_i64 {
        let words = [-sequence, 7, sequence].map(i64::to_ne_bytes);
        publisher.publish(&words.concat()).unwrap();
    }
    publisher.close().unwrap();
    assert_eq!(subscriber.finish(), "1000 ticks");
}

#[test]
fn many_messages_go_into_an_array_in_one_call_of_c() {
    if let Some(program) = stage::compile("cc", "c11", "arrays.c", Link::Shared) {
        assert_eq!(Running::launch(&program, &[]).finish(), "arrays");
    }
}

/// Copied in, claimed, in batches, and what was given up: all of it arrives once and in order.
#[test]
fn a_publisher_in_c_is_read_in_rust() {
    let place = TestFolder::new();
    let Some(program) = stage::compile("cc", "c11", "roles.c", Link::Shared) else {
        return;
    };
    let uri = place.uri("");
    let mut subscriber = Subscriber::open(&place.uri("&capacity=16KiB")).unwrap();
    let publisher = Running::start(&program, &["publish", &uri, &MESSAGES.to_string()]);
    for number in 0..MESSAGES {
        let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(*message, *numbered(number), "message {number}");
        assert_eq!(u64::from(message.tag()), number);
    }
    // The last one is held until here, and its publisher waits for it.
    subscriber
        .poll(|_| panic!("more than was published"), 1)
        .map_or_else(
            |error| assert!(matches!(error, ReceiveError::Closed)),
            |count| assert_eq!(count, 0),
        );
    subscriber.release();
    assert_eq!(publisher.finish(), format!("published {MESSAGES}"));
}

#[test]
fn a_subscriber_in_c_reads_rust() {
    let place = TestFolder::new();
    let Some(program) = stage::compile("cc", "c11", "roles.c", Link::Static) else {
        return;
    };
    let uri = place.uri("&capacity=16KiB");
    let subscriber = Running::start(&program, &["subscribe", &uri]);
    let mut publisher = Publisher::open(&uri).unwrap();
    for number in 0..MESSAGES {
        let tag = u32::try_from(number).unwrap();
        publisher
            .publish(Outgoing::new(&numbered(number)).tag(tag))
            .unwrap();
    }
    publisher.close().unwrap();
    assert_eq!(subscriber.finish(), format!("received {MESSAGES}"));
}

/// Killed anywhere in the middle, a publisher in C leaves whole messages, and its lane to the next.
#[test]
fn a_killed_publisher_in_c_leaves_the_channel_working() {
    let place = TestFolder::new();
    let Some(program) = stage::compile("cc", "c11", "roles.c", Link::Shared) else {
        return;
    };
    let uri = place.uri("");
    let mut subscriber = Subscriber::open(&place.uri("&capacity=16KiB&publishers_max=1")).unwrap();
    for round in 1..=5_u64 {
        let mut publisher = Running::start(&program, &["publish", &uri, &u64::MAX.to_string()]);
        let mut next = 0;
        while next < round * 997 {
            let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
            assert_eq!(*message, *numbered(next), "round {round}");
            next += 1;
        }
        publisher.child.kill().unwrap();
        publisher.child.wait().unwrap();
        while let Some(message) = subscriber.try_receive().unwrap() {
            assert_eq!(*message, *numbered(next), "round {round}, after the death");
            next += 1;
        }
    }
    let publisher = Running::start(&program, &["publish", &uri, "4"]);
    for number in 0..4 {
        let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(*message, *numbered(number));
    }
    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    assert_eq!(publisher.finish(), "published 4");
}

/// Each block of C and C++ in the README compiles without a warning and receives its message, also
/// under valgrind.
#[test]
fn the_programs_of_the_readme_run() {
    let readme = std::fs::read_to_string(stage::source("README.md")).unwrap();
    let hello = "hello\n";
    for (language, compiler, standard, prints) in [
        ("c", "cc", LOWEST_C, &[hello, "EURUSD 1.5\n", hello][..]),
        (
            "cpp",
            "c++",
            LOWEST_CPP,
            &[hello, "1.5\nEURUSD 1.7\n", hello],
        ),
    ] {
        let begin = format!("```{language}\n");
        let blocks = readme.split(&begin).skip(1);
        let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
        let programs: Vec<_> = blocks.filter(|block| block.contains("int main")).collect();
        assert_eq!(programs.len(), prints.len(), "{language}");
        for (program, prints) in programs.into_iter().zip(prints) {
            run_block(language, compiler, standard, program, prints);
        }
    }
}

fn run_block(language: &str, compiler: &str, standard: &str, program: &str, prints: &str) {
    let place = TestFolder::new();
    let file = place.0.path().join(format!("readme.{language}"));
    std::fs::write(&file, program).unwrap();
    let file = file.display().to_string();
    let Some(program) = stage::compile(compiler, standard, &file, Link::Shared) else {
        return;
    };
    let program = program.display().to_string();
    let checked = has_valgrind().then_some([&VALGRIND[..], &[&program]].concat());
    for words in [vec![&*program]].into_iter().chain(checked) {
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]).env("OLIVINE_DIR", place.0.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{words:?}: {output:?}");
        assert_eq!(said, prints, "{words:?}");
    }
}

/// CMake and `pkg-config` find the installed library, also after it was moved.
///
/// `OLIVINE_PREFIX` is the folder of an installation to test instead: `cargo xtask capi` sets it.
mod install {
    use super::place;
    use crate::stage::{TestFolder, libraries, skip, source};
    use std::path::PathBuf;
    use std::process::Command;
    use std::{env, fs};

    /// What `tests/cmake` compiles and runs.
    const PROGRAMS: usize = 3;

    /// The folder of an installation: the library of the tests, moved after it was installed.
    fn prefix(folder: &TestFolder) -> PathBuf {
        if let Some(prefix) = env::var_os("OLIVINE_PREFIX") {
            return fs::canonicalize(prefix).unwrap();
        }
        let first = folder.0.path().join("first");
        assert!(place::place(&source("."), &libraries(), &first).unwrap() > 0);
        let prefix = folder.0.path().join("prefix");
        fs::rename(first, &prefix).unwrap();
        prefix
    }

    /// Whether these programs are there; if not, a line says so.
    fn has(programs: &[&str]) -> bool {
        let missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
        let missing = programs.iter().find(missing);
        if let Some(missing) = missing {
            skip(&format!(
                "no {missing}, so the installation was not tested with it"
            ));
        }
        missing.is_none()
    }

    /// Runs a command with success; returns its output.
    fn said(command: &mut Command) -> String {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{command:?}: {said}");
        said
    }

    #[test]
    fn cmake_finds_the_installed_library() {
        if !has(&["cmake", "cc", "c++"]) {
            return;
        }
        let folder = TestFolder::new();
        let build = folder.0.path().join("build");
        let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix(&folder).display());
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(source("tests/cmake"));
        said(configure.arg("-B").arg(&build).arg(prefix));
        said(Command::new("cmake").arg("--build").arg(&build));
        let ran = said(
            Command::new("ctest")
                .arg("--output-on-failure")
                .current_dir(&build),
        );
        let all = format!("100% tests passed, 0 tests failed out of {PROGRAMS}");
        assert!(ran.contains(&all), "{ran}");
    }

    #[test]
    fn pkg_config_finds_the_installed_library() {
        if !has(&["pkg-config", "cc"]) {
            return;
        }
        let folder = TestFolder::new();
        let lib = prefix(&folder).join("lib");
        let mut ask = Command::new("pkg-config");
        ask.args(["--cflags", "--libs", "olivine"]);
        let words = said(ask.env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
        let program = folder.0.path().join("refuse");
        let mut compile = Command::new("cc");
        compile
            .arg(source("tests/programs/refuse.c"))
            .args(words.split_whitespace());
        said(compile.arg("-o").arg(&program));
        said(Command::new(&program).env("LD_LIBRARY_PATH", lib));
    }
}
