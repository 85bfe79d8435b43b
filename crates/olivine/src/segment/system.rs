//! Properties of the system: the id of the boot, and the kind of a folder's file system.

use super::refused;
use super::sharing::untrusted;
use crate::error::OpenError;
use crate::ring::layout::control;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;

/// The file with the id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The id of this boot as words; zeros if unknown.
pub(crate) fn boot() -> [u64; control::BOOT_WORDS] {
    static BOOT: OnceLock<[u64; control::BOOT_WORDS]> = OnceLock::new();
    *BOOT.get_or_init(|| {
        std::fs::read_to_string(BOOT_ID)
            .ok()
            .and_then(|text| parse(text.trim()))
            .unwrap_or_default()
    })
}

/// A UUID as two words.
fn parse(text: &str) -> Option<[u64; control::BOOT_WORDS]> {
    let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    let (high, low) = (number >> 64, number & u128::from(u64::MAX));
    Some([u64::try_from(high).ok()?, u64::try_from(low).ok()?])
}

/// Network file systems: mapped memory is not shared with other machines, and locks and links may
/// not work. Magic numbers of `linux/magic.h` and of the file systems' sources.
const REMOTE: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE (virtiofs, sshfs and others)"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x517b, "SMB"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0x786f_4256, "vboxsf"),
];

/// File systems in memory, which a reboot empties: tmpfs, ramfs, hugetlbfs.
const IN_MEMORY: &[u32] = &[0x0102_1994, 0x8584_58f6, 0x9584_58f6];

/// Refuses a folder whose file system cannot hold a channel.
pub(super) fn check_file_system(folder: BorrowedFd<'_>, path: &Path) -> Result<(), OpenError> {
    let found = rustix::fs::fstatfs(folder).map_err(refused("look at", path))?;
    // The lower half: the type is signed on some targets.
    let kind = (found.f_type & 0xffff_ffff).cast_unsigned();
    u32::try_from(kind)
        .ok()
        .and_then(|kind| problem(kind, boot()))
        .map_or(Ok(()), |problem| untrusted(path, problem))
}

fn problem(kind: u32, boot: [u64; control::BOOT_WORDS]) -> Option<String> {
    if let Some((_, name)) = REMOTE.iter().find(|(magic, _)| *magic == kind) {
        return Some(format!(
            "it is on {name}, where memory cannot be shared safely: use a 'dir=' on a file \
             system of this machine, such as /dev/shm, and 'tcp://' between machines"
        ));
    }
    // Otherwise channels of an earlier boot could not be distinguished from those of this one.
    (boot == [0; control::BOOT_WORDS] && !IN_MEMORY.contains(&kind)).then(|| {
        format!(
            "it is not in memory, and {BOOT_ID} cannot be read: mount /proc, or use a 'dir=' in \
             /dev/shm"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_and_disks_without_boot_id_are_refused() {
        let (known, unknown) = ([1, 2], [0, 0]);
        for (kind, name) in [
            (0x6969, "NFS"),
            (0x0102_1997, "9p"),
            (0x6573_5546, "virtiofs"),
        ] {
            for boot in [known, unknown] {
                let problem = problem(kind, boot).expect("refused");
                assert!(problem.contains(name), "{problem}");
            }
        }
        const EXT4: u32 = 0xef53;
        const TMPFS: u32 = 0x0102_1994;
        assert_eq!(problem(EXT4, known), None);
        assert_eq!(problem(TMPFS, known), None);
        assert_eq!(problem(TMPFS, unknown), None);
        assert!(problem(EXT4, unknown).expect("refused").contains("boot_id"));
    }

    #[test]
    fn a_boot_id_is_two_words() {
        let text = "49fd699a-f618-4bfb-8a44-c80b4df95e88";
        let words = [0x49fd_699a_f618_4bfb, 0x8a44_c80b_4df9_5e88];
        assert_eq!(parse(text), Some(words));
        for wrong in ["", "no", "49fd699a-f618-4bfb-8a44-c80b4df95e8800"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
