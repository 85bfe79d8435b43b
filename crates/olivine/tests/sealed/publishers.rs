//! Hostile publishers: invalid memory, invalid replies, and changing words.

use crate::common::mapped::nonsense;
use crate::common::{Deadline, Random, finished, kill, setting, until};
use crate::raw::{self, Handout, PAGE_BYTES, RING, hear, meet, say, serve, welcome};
use crate::stage::{SocketFolder, length};
use olivine::{LinkError, OpenError, Publisher, ReceiveError, SealedError, Subscriber};
use rustix::fs::{SealFlags, fcntl_add_seals};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The attacker: the first word selects the attack.
pub(crate) fn play(attack: &str, path: &Path) {
    let listener = serve(path);
    match attack {
        "scribble" => scribble(&listener),
        "read" => {
            let socket = meet(&listener);
            let handout = Handout::new();
            handout.seal();
            handout.hand_over(&socket);
            // Until the subscriber closes.
            while !hear(&socket).0.is_empty() {}
        }
        _ => panic!("there is no attack '{attack}'"),
    }
}

/// The error of a subscriber that gets `bytes` and `files` as the reply.
fn answered(bytes: &[u8], files: &[BorrowedFd<'_>]) -> OpenError {
    let place = SocketFolder::new();
    let listener = serve(&place.path());
    let uri = place.uri("timeout=60s");
    let subscriber = std::thread::spawn(move || Subscriber::open(&uri).map(drop));
    let socket = meet(&listener);
    say(&socket, bytes, files).unwrap();
    let refused = subscriber.join().unwrap();
    // Nothing of the reply is kept: the other end is closed.
    assert!(hear(&socket).0.is_empty());
    refused.expect_err("not refused")
}

/// Which memory was refused, and why.
fn distrusted(error: OpenError) -> (&'static str, String) {
    let OpenError::Link(LinkError::Sealed(error)) = error else {
        panic!("{error}");
    };
    match &*error {
        SealedError::Memory {
            memory, problem, ..
        } => (memory, problem.clone()),
        other => panic!("{other}"),
    }
}

#[test]
fn a15_memory_that_is_not_sealed_is_refused() {
    let seals = [
        (SealFlags::SHRINK, "F_SEAL_SHRINK"),
        (SealFlags::GROW, "F_SEAL_GROW"),
        (SealFlags::FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"),
        (SealFlags::SEAL, "F_SEAL_SEAL"),
    ];
    for (missing, name) in seals {
        for memory in ["lane", "page"] {
            let handout = Handout::new();
            let [lane, page] =
                [("lane", raw::lane_seals()), ("page", raw::page_seals())].map(|(which, seals)| {
                    if which == memory {
                        seals - missing
                    } else {
                        seals
                    }
                });
            fcntl_add_seals(&handout.lane_file, lane).unwrap();
            fcntl_add_seals(&handout.page_file, page).unwrap();
            if (memory, missing) == ("page", SealFlags::FUTURE_WRITE) {
                continue;
            }
            let files = [handout.lane_file.as_fd(), handout.page_file.as_fd()];
            let (found, problem) = distrusted(answered(&welcome(), &files));
            assert_eq!(found, memory);
            assert_eq!(problem, format!("it is not sealed with {name}"));
        }
    }
}

#[test]
fn a15_wrong_or_short_memory_is_refused() {
    let sealed = |bytes: u64, words: &[(usize, u64)]| {
        let (file, _) = raw::memory(bytes, words);
        fcntl_add_seals(&file, raw::lane_seals()).unwrap();
        file
    };
    let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let folder: OwnedFd = std::fs::File::open("/").unwrap().into();
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    let pipe: OwnedFd = std::io::pipe().unwrap().0.into();
    let cases: [(OwnedFd, &str); 7] = [
        (null, "memory cannot be sealed"),
        (folder, "memory cannot be sealed"),
        (file, "no"),
        (pipe, "memory cannot be sealed"),
        (sealed(8, &[]), "less than one page"),
        (sealed(4096, &[]), "4096 bytes and should have 8192"),
        (sealed(1 << 20, &[]), "should have 8192"),
    ];
    let handout = Handout::new();
    handout.seal();
    for (lane, expected) in cases {
        let files = [lane.as_fd(), handout.page_file.as_fd()];
        let (memory, problem) = distrusted(answered(&welcome(), &files));
        assert_eq!(memory, "lane");
        assert!(problem.contains(expected), "{problem}");
    }
    // A page of zeros, and the two in the wrong order.
    let (none, _) = raw::memory(PAGE_BYTES, &[]);
    fcntl_add_seals(&none, raw::page_seals()).unwrap();
    let cases = [
        ([&handout.lane_file, &none], "mark of a channel"),
        (
            [&handout.lane_file, &handout.lane_file],
            "against our writing",
        ),
        (
            [&handout.page_file, &handout.lane_file],
            "against our writing",
        ),
    ];
    for (files, expected) in cases {
        let files = files.map(AsFd::as_fd);
        let (memory, problem) = distrusted(answered(&welcome(), &files));
        assert_eq!(memory, "page");
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn a7_invalid_geometry_is_refused() {
    for (index, value, expected) in [
        (0, 1, "mark of a channel"),
        (1, 9, "memory layout 9"),
        (256, 1 << 40, "geometry check"),
        (258, 2, "geometry check"),
    ] {
        let handout = Handout::new();
        handout.page.word(index).store(value, Ordering::Relaxed);
        handout.seal();
        let files = [handout.lane_file.as_fd(), handout.page_file.as_fd()];
        let (memory, problem) = distrusted(answered(&welcome(), &files));
        assert_eq!(memory, "page");
        assert!(problem.contains(expected), "{problem}");
    }
    for (index, value) in [
        (0, 1),
        (1, 9),
        (2, 8192),
        (raw::CURSOR, 1 << 63),
        (raw::LIMIT, 0),
    ] {
        let handout = Handout::new();
        handout.lane.word(index).store(value, Ordering::Relaxed);
        handout.seal();
        let files = [handout.lane_file.as_fd(), handout.page_file.as_fd()];
        assert_eq!(distrusted(answered(&welcome(), &files)).0, "lane");
    }
}

#[test]
fn a15_too_many_descriptors_or_too_few_are_refused_and_closed() {
    let handout = Handout::new();
    handout.seal();
    let (lane, page) = (handout.lane_file.as_fd(), handout.page_file.as_fd());
    let cases: [(&[BorrowedFd<'_>], &str); 5] = [
        (&[], "fewer than two"),
        (&[lane], "fewer than two"),
        (&[lane, page, page], "more than two"),
        (&[page; 4], "more than two"),
        (&[lane; 253], "more than two"),
    ];
    for (files, expected) in cases {
        let error = answered(&welcome(), files).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a15_invalid_reply_is_named() {
    let mut other_version = welcome();
    other_version[8] = 9;
    let mut escape = b"OLIVSEAL\x02\0\x03\0\x06\0\0\0\x03\0\x04\0".to_vec();
    escape.resize(32, 0);
    escape.extend(b"\x1b[2J");
    let cases: [(&[u8], &str); 5] = [
        (b"hello", "not an Olivine publisher"),
        (&raw::hello(), "answered as a subscriber does"),
        (&other_version, "version 9"),
        (&vec![0; 4096], "not an Olivine publisher"),
        (&escape, "refuses: \\u{1b}[2J"),
    ];
    for (bytes, expected) in cases {
        let error = answered(bytes, &[]).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a1_foreign_file_at_the_socket_path_is_refused() {
    let place = SocketFolder::new();
    let path = place.path();
    let uri = place.uri("timeout=100ms");
    std::fs::write(&path, "a file").unwrap();
    let refused = |uri: &str| Publisher::open(uri).unwrap_err().to_string();
    assert!(refused(&uri).contains("a file of another kind"));
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(refused(&uri).contains("a folder"));
    std::fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("elsewhere.sock", &path).unwrap();
    assert!(refused(&uri).contains("a symbolic link"));
    std::fs::remove_file(&path).unwrap();
    let _other_kind = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(refused(&uri).contains("served by another publisher"));
    let error = Subscriber::open(&uri).unwrap_err().to_string();
    assert!(error.contains("a socket of another kind"), "{error}");
    assert_eq!(place.names(), ["x.sock"]);
}

#[test]
fn a1_a_publisher_of_another_user_is_refused() {
    let place = SocketFolder::new();
    let _listener = serve(&place.path());
    let uri = place.uri("peers=4242&timeout=100ms");
    let error = Subscriber::open(&uri).unwrap_err().to_string();
    assert!(error.contains("peers=4242 does not allow that"), "{error}");
}

/// A7, A8, A9: every word of the lane and of the page changes while it is read.
#[test]
fn a8_overwriting_publisher_harms_no_memory() {
    let mut received = 0;
    let mut deadline = Deadline::new();
    for wait in ["wait=park", "wait=spin&delivery=latest", "wait=yield"] {
        let place = SocketFolder::new();
        let attacker = place.spawn("publisher.scribble");
        let uri = place.uri(&format!("{wait}&timeout=60s"));
        let started = Instant::now();
        let (mut messages, mut refused, mut opened) = (0_u64, 0_u64, 0_u64);
        while started.elapsed() < length()
            || opened == 0
            || received + messages == 0 && deadline.lasts()
        {
            let Ok(mut subscriber) = Subscriber::open(&uri) else {
                refused += 1;
                continue;
            };
            opened += 1;
            for _ in 0..200 {
                let timeout = Duration::from_micros(200);
                match subscriber.receive_timeout(timeout) {
                    Ok(Some(message)) => {
                        // A returned message is a private copy: it never changes.
                        let before = message.to_vec();
                        std::thread::yield_now();
                        assert_eq!(before[..], *message);
                        messages += 1;
                    }
                    Ok(None) | Err(ReceiveError::Closed) => {}
                    Err(error) => assert!(
                        matches!(
                            error,
                            ReceiveError::Corrupt { .. }
                                | ReceiveError::Overrun { .. }
                                | ReceiveError::Evicted
                                // The word with the failure is in the attacker's memory.
                                | ReceiveError::Failed(LinkError::Upstream { .. })
                        ),
                        "{error}"
                    ),
                }
                let _ = (
                    subscriber.lag(),
                    subscriber.position(),
                    subscriber.inspect_lanes(),
                );
            }
        }
        kill(attacker);
        println!("{wait}: {messages} messages, {opened} opened, {refused} refused");
        received += messages;
    }
    assert!(received > 0, "no message came, so none could have changed");
}

/// Serves one subscriber after the other, and overwrites random words in the meantime.
fn scribble(listener: &OwnedFd) {
    let mut random = Random(setting("OLIVINE_SEED", 1));
    loop {
        let socket = meet(listener);
        let handout = Handout::new();
        handout.seal();
        handout.hand_over(&socket);
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        let ended = || {
            let mut byte = [0; 1];
            let flags = rustix::net::RecvFlags::DONTWAIT;
            !matches!(
                rustix::net::recv(&socket, &mut byte[..], flags),
                Err(rustix::io::Errno::AGAIN)
            )
        };
        while !ended() {
            for _ in 0..1000 {
                // Half of the writes hit headers, cursors and flags.
                let (memory, bound) = match random.below(4) {
                    0 => (&handout.page, handout.page.words()),
                    1 => (&handout.page, 64),
                    2 => (&handout.lane, RING + 16),
                    _ => (&handout.lane, handout.lane.words()),
                };
                let index = usize::try_from(random.below(bound as u64)).unwrap();
                let word = memory.word(index);
                let value = match random.below(2) {
                    // A plausible header.
                    0 => 8 + random.below(64),
                    _ => nonsense(&mut random, word.load(Ordering::Relaxed)),
                };
                word.store(value, Ordering::Relaxed);
            }
        }
    }
}

/// A process that serves the socket and does not answer may be stopped or busy. The subscriber
/// waits `timeout=` and reports that, not a wrong protocol.
#[test]
fn silent_publisher_is_reported_as_stopped_or_busy() {
    let place = SocketFolder::new();
    let _listener = serve(&place.path());
    let error = Subscriber::open(&place.uri("timeout=100ms")).unwrap_err();
    let expected = format!(
        "process {} serves {} and gave no answer within 100 ms: it may be stopped or busy",
        std::process::id(),
        place.path().display()
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
}

/// After the reply it sends nothing, and then an invalid datagram.
#[test]
fn a15_publisher_with_extra_datagrams_is_left() {
    let place = SocketFolder::new();
    let listener = serve(&place.path());
    let uri = place.uri("timeout=60s&wait=park");
    let subscriber = std::thread::spawn(move || {
        let mut subscriber = Subscriber::open(&uri).unwrap();
        let error = subscriber.receive().map(drop).expect_err("no message");
        std::error::Error::source(&error)
            .expect("a reason")
            .to_string()
    });
    let socket = meet(&listener);
    let handout = Handout::new();
    handout.seal();
    handout.hand_over(&socket);
    say(&socket, b"nonsense", &[]).unwrap();
    let reason = subscriber.join().unwrap();
    assert!(reason.contains("mark of a sealed channel"), "{reason}");
}

#[test]
fn handwritten_memory_is_accepted() {
    let place = SocketFolder::new();
    let impostor = place.spawn("publisher.read");
    let mut subscriber = Subscriber::open(&place.uri("timeout=60s")).unwrap();
    assert_eq!(subscriber.capacity(), 4096);
    assert!(matches!(subscriber.try_receive(), Ok(None)));
    assert_eq!(PAGE_BYTES, 8192);
    drop(subscriber);
    until("its socket is gone", || !place.names().is_empty());
    finished(impostor);
}
