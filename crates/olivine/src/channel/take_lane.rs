//! Opening a publisher: it takes a free lane, and continues at the position of its last publisher.

use super::attach;
use super::attached::Attached;
use super::raw::BridgeLaneOwner;
use crate::error::{OpenError, holders, process};
use crate::fork::ForkPage;
use crate::ring::layout::{control, lane, lane_entry, lock_byte};
use crate::ring::publish::{Producer, add_to_counter};
use crate::sync::Ordering;
use crate::uri::Config;
use crate::wait::warden;

/// Takes the first free lane. Runs under the membership lock.
pub(super) fn take_lane(
    attached: &mut Attached,
    config: &Config,
    page: &ForkPage,
    brought: Option<BridgeLaneOwner>,
) -> Result<(usize, Producer), OpenError> {
    let Attached {
        channel,
        backing,
        control,
        geometry,
        locks,
        ..
    } = &*attached;
    let mut found = Vec::new();
    let kept = brought.and_then(|brought| brought.find(attached));
    for index in kept.into_iter().chain(0..geometry.lanes()) {
        let entry = geometry.lane_entry(index);
        let locked = locks
            .try_lock(lock_byte::LANE + index as u64)
            .map_err(attach::io_error("lock", backing.path()))?;
        if !locked {
            // Relaxed: for the message of an error only.
            let pid = control
                .word(entry + lane_entry::PID)
                .load(Ordering::Relaxed);
            if kept == Some(index) {
                // Another bridge carries this lane of the source: a second copy of each message.
                return Err(OpenError::SourceInUse {
                    channel: channel.clone(),
                    lane: index,
                    source_name: String::new(),
                    pid,
                });
            }
            let space = control.word(entry + lane_entry::PID_SPACE);
            let is_of_ours = space.load(Ordering::Relaxed) == warden::pid_space();
            found.push(process(pid, is_of_ours));
            continue;
        }
        // Relaxed: under the membership lock.
        let present = control
            .word(entry + lane_entry::PRESENT)
            .load(Ordering::Relaxed)
            != 0;
        let shape = attached.lane(index);
        let made = backing.ensure_lane(&shape, present, config.numa)?;
        let opened = backing.open_lane(&shape, true, config.hugepages);
        let opened = opened.inspect_err(|_| {
            if made {
                backing.remove_lane(index);
            }
        });
        let Some((words, ring)) = opened? else {
            return Err(backing.lane_file_missing(index));
        };
        if !BridgeLaneOwner::may_take(&words, brought) {
            locks.unlock(lock_byte::LANE + index as u64);
            found.push("a bridge that is away".to_owned());
            continue;
        }
        // Relaxed: for display.
        control
            .word(entry + lane_entry::PID)
            .store(u64::from(std::process::id()), Ordering::Relaxed);
        control
            .word(entry + lane_entry::PID_SPACE)
            .store(warden::pid_space(), Ordering::Relaxed);
        control
            .word(entry + lane_entry::PARK)
            .store(0, Ordering::Relaxed);
        // Relaxed: only the lock's holder writes it.
        let before = words.word(lane::STATE).load(Ordering::Relaxed);
        // A publisher that died during a wait left these words. How long it waited is unknown.
        words
            .word(lane::BACK_PRESSURE_SINCE)
            .store(0, Ordering::Relaxed);
        words
            .word(lane::BACK_PRESSURE_SLOT)
            .store(0, Ordering::Relaxed);
        if before & 1 == 1 {
            add_to_counter(&words, lane::TAKEOVERS, 1);
        }
        let producer = Producer::take_over(ring, words, control, geometry, index, page.fast_path());
        // Release: the lane is open from here on. Each publisher adds two, so the state words of
        // two publishers differ, whatever the word was.
        producer
            .lane()
            .word(lane::STATE)
            .store((before | 1).wrapping_add(2), Ordering::Release);
        control
            .word(entry + lane_entry::PRESENT)
            .store(1, Ordering::Release);
        // Always: an earlier publisher may have died between the two stores. Release: the lane's
        // file exists for a thread that sees the new number.
        control
            .word(control::LANES_EPOCH)
            .fetch_add(1, Ordering::Release);
        return Ok((index, producer));
    }
    Err(OpenError::PublishersFull {
        channel: channel.clone(),
        max: geometry.publishers_max,
        holders: holders(found),
    })
}
