//! A publisher comes: it takes a lane that nobody holds, and goes on where the last one left it.

use super::attach;
use super::attached::Attached;
use super::raw::BridgeLaneOwner;
use crate::error::OpenError;
use crate::fork::ForkPage;
use crate::ring::layout::{control, lane, lane_entry, lock_byte};
use crate::ring::publish::{Producer, bump};
use crate::sync::Ordering;
use crate::uri::Config;

/// Takes the first lane that nobody holds. Runs under the membership lock.
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
    let mut pids = Vec::new();
    let kept = brought.and_then(|brought| brought.find(attached));
    for index in kept.into_iter().chain(0..geometry.lanes()) {
        let entry = geometry.lane_entry(index);
        let locked = locks
            .try_lock(lock_byte::LANE + index as u64)
            .map_err(attach::io_error("lock", backing.path()))?;
        if !locked {
            pids.push(
                control
                    .word(entry + lane_entry::PID)
                    .load(Ordering::Relaxed)
                    .to_string(),
            );
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
            pids.push("kept for a bridge".to_owned());
            continue;
        }
        // Relaxed: for display.
        control
            .word(entry + lane_entry::PID)
            .store(u64::from(std::process::id()), Ordering::Relaxed);
        control
            .word(entry + lane_entry::PID_SPACE)
            .store(crate::wait::warden::pid_space(), Ordering::Relaxed);
        control
            .word(entry + lane_entry::PARK)
            .store(0, Ordering::Relaxed);
        // Relaxed: only the lock's holder writes it.
        let before = words.word(lane::STATE).load(Ordering::Relaxed);
        // A publisher that died while it waited left these; nobody knows for how long it did.
        words
            .word(lane::BACK_PRESSURE_SINCE)
            .store(0, Ordering::Relaxed);
        words
            .word(lane::BACK_PRESSURE_SLOT)
            .store(0, Ordering::Relaxed);
        if before & 1 == 1 {
            bump(&words, lane::TAKEOVERS, 1);
        }
        let producer = Producer::take_over(ring, words, control, geometry, index, page.limit());
        // Release: open from here on; two steps for each publisher keep the numbers apart, whatever stood there.
        producer
            .lane()
            .word(lane::STATE)
            .store((before | 1).wrapping_add(2), Ordering::Release);
        control
            .word(entry + lane_entry::PRESENT)
            .store(1, Ordering::Release);
        // Always: a publisher before us may have died between the two. Release: the lane's file is in place for
        // whoever sees the new number.
        control
            .word(control::LANES_EPOCH)
            .fetch_add(1, Ordering::Release);
        return Ok((index, producer));
    }
    Err(OpenError::PublishersFull {
        channel: channel.clone(),
        max: geometry.publishers_max,
        pids: pids.join(", "),
    })
}
