//! A15, a thousand times: replies with descriptors of any kind, number and order, with any seals
//! and lengths.

use crate::common::{Random, setting, until};
use crate::raw::{self, Handout, PAGE_BYTES, hear, meet, say, serve, welcome};
use crate::stage::SocketFolder;
use olivine::{LinkError, OpenError, SealedError, Subscriber};
use rustix::fs::{SealFlags, fcntl_add_seals};
use std::io::{PipeReader, PipeWriter, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

const CASES: u64 = 1000;
/// The kernel's limit for one datagram.
const DESCRIPTORS_MAX: u64 = 253;

/// A descriptor in place of a lane or a page.
struct Thing {
    file: OwnedFd,
    /// It is what a publisher would send.
    is_good: bool,
}

fn bad(file: impl Into<OwnedFd>) -> Thing {
    let (file, is_good) = (file.into(), false);
    Thing { file, is_good }
}

/// Half of the time `file`, with random seals but mostly the correct ones; otherwise another file.
fn thing(file: OwnedFd, seals: SealFlags, random: &mut Random, writer: &PipeWriter) -> Thing {
    match random.below(16) {
        0 => bad(std::fs::File::open("/dev/null").unwrap()),
        1 => bad(std::fs::File::open("/").unwrap()),
        2 => bad(tempfile::tempfile().unwrap()),
        3 => bad(std::os::unix::net::UnixStream::pair().unwrap().0),
        4 => bad(writer.try_clone().unwrap()),
        5 => {
            // Empty, short, or far too long and sparse.
            let length = [0, 1, 4095, 4096, PAGE_BYTES - 1, 1 << 40];
            let length = length[usize::try_from(random.below(6)).unwrap()];
            let (file, _) = raw::memory(8, &[]);
            rustix::fs::ftruncate(&file, length).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            bad(file)
        }
        6 | 7 => {
            let all = [
                SealFlags::SHRINK,
                SealFlags::GROW,
                SealFlags::SEAL,
                SealFlags::FUTURE_WRITE,
            ];
            let chosen = all.into_iter().filter(|_| random.below(2) == 0);
            // Last: afterwards nothing can be added.
            let chosen = chosen.fold(SealFlags::empty(), |sum, seal| sum | seal);
            fcntl_add_seals(&file, chosen).unwrap();
            let is_good = chosen == seals;
            Thing { file, is_good }
        }
        _ => {
            fcntl_add_seals(&file, seals).unwrap();
            let is_good = true;
            Thing { file, is_good }
        }
    }
}

/// Opens a subscriber to a publisher that sends `files`, or that closes the connection if `None`.
fn opened(path: &Path, uri: &str, files: Option<&[BorrowedFd<'_>]>) -> Result<(), OpenError> {
    let listener = serve(path);
    let uri = uri.to_owned();
    let subscriber = std::thread::spawn(move || Subscriber::open(&uri).map(drop));
    let socket = meet(&listener);
    match files {
        Some(files) => {
            say(&socket, &welcome(), files).unwrap();
            // No other publisher is available after this one.
            drop(listener);
            let done = subscriber.join().unwrap();
            assert!(hear(&socket).0.is_empty(), "the socket is kept");
            done
        }
        None => {
            drop((listener, socket));
            subscriber.join().unwrap()
        }
    }
}

/// Waits until all copies of the other end of a pipe are closed: a program that another test starts
/// briefly has a copy of every descriptor.
fn closes(mut reader: PipeReader, writer: PipeWriter, told: &str) {
    drop(writer);
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    until(&format!("{told}: no descriptor is kept"), || {
        reader.read(&mut [0]).is_ok_and(|count| count == 0)
    });
}

#[test]
fn a15_random_hand_overs_succeed_or_fail_with_a_named_error() {
    let seed = setting("OLIVINE_SEED", 15);
    let mut random = Random(seed);
    let (mut taken, mut refused, mut left) = (0, 0, 0);
    for case in 0..CASES {
        let place = SocketFolder::new();
        let told = format!("case {case} of seed {seed}");
        if random.below(32) == 0 {
            let uri = place.uri("timeout=100ms");
            let error = opened(&place.path(), &uri, None).expect_err(&told);
            assert!(matches!(error, OpenError::Link(_)), "{told}: {error}");
            left += 1;
            continue;
        }
        let (reader, writer) = std::io::pipe().unwrap();
        let handout = Handout::new();
        let lane = thing(handout.lane_file, raw::lane_seals(), &mut random, &writer);
        let page = thing(handout.page_file, raw::page_seals(), &mut random, &writer);
        let (mut files, mut is_good) = (
            vec![lane.file.as_fd(), page.file.as_fd()],
            lane.is_good && page.is_good,
        );
        match random.below(8) {
            0 => {
                files.swap(0, 1);
                is_good = false;
            }
            1 => {
                files.truncate(usize::try_from(random.below(2)).unwrap());
                is_good = false;
            }
            2 => {
                let more = 1 + random.below(DESCRIPTORS_MAX - 2);
                files.extend((0..more).map(|_| writer.as_fd()));
                is_good = false;
            }
            _ => {}
        }
        let uri = place.uri("timeout=60s");
        match opened(&place.path(), &uri, Some(&files)) {
            Ok(()) => {
                assert!(is_good, "{told}: taken");
                taken += 1;
            }
            Err(OpenError::Link(LinkError::Sealed(error))) => {
                assert!(!is_good, "{told}: {error}");
                let reason = matches!(
                    &*error,
                    SealedError::Memory { .. } | SealedError::Protocol { .. }
                );
                assert!(reason, "{told}: {error}");
                refused += 1;
            }
            Err(error) => panic!("{told}: {error}"),
        }
        drop((lane, page));
        closes(reader, writer, &told);
    }
    println!("{CASES} hand-overs: {taken} taken, {refused} refused, {left} left in the lurch");
    assert!(
        taken > 100 && refused > 500 && left > 10,
        "{taken} {refused} {left}"
    );
}
