//! The shape of a channel: which participant fixes it, and when.
//!
//! A subscriber that comes first makes an **open** channel: it has slots, and no lanes. The first
//! publisher fixes every setting that no participant has named. It does so under the membership
//! lock, before its lane exists. A shape counts once a lane is present. If a publisher dies before
//! that, the next publisher fixes the shape again.

use super::attached::{Attached, is_slot_taken};
use super::fields;
use crate::error::OpenError;
use crate::message::{Fields, KnownType, MessageType};
use crate::region::Words;
use crate::ring::gate::bits;
use crate::ring::layout::{Geometry, NO_POSITION, control, fixed, lane_entry};
use crate::segment::{self, CONTROL, map_control};
use crate::sync::Ordering;
use crate::uri::{Config, Scheme, Slow, TWO_FRAMES_RULE, UriError, holds_two_frames};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::Duration;

/// The type of a channel's messages, from an opener.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeTag {
    /// With the fields that the opener states, if they can be stored.
    pub(crate) known: KnownType,
    /// Accepts the channel's type: for bridges, which do not read messages.
    pub(crate) any: bool,
}

impl From<&MessageType> for TypeTag {
    fn from(stated: &MessageType) -> Self {
        Self::of(KnownType {
            hash: stated.hash(),
            name: stated.name().to_owned(),
            fields: stated.fields().clone().storable(),
        })
    }
}

impl TypeTag {
    /// This type and no other.
    pub(crate) fn of(known: KnownType) -> Self {
        Self { known, any: false }
    }
}

/// What an opener does with the settings that it does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShapeRole {
    /// Leaves them to the first publisher.
    Leaves,
    /// Names capacity, align and type, because it must report them to its far side before the first
    /// message.
    Names,
    /// Fixes them.
    Fixes,
}

/// The settings of one opener.
#[derive(Clone, Debug)]
pub(crate) struct ShapeRequest {
    /// A setting that is not named has the value that a new channel would get. [`Geometry::fixed`]
    /// says which are named.
    shape: Geometry,
    part: ShapeRole,
    /// Accepts any type: bytes are read.
    any_type: bool,
    /// Fields of the type; may be empty.
    fields: Fields,
    /// Least capacity if none is named.
    capacity_least: u64,
}

impl ShapeRequest {
    /// The request of an opener with these settings.
    pub(crate) fn of(config: &Config, typed: &TypeTag, part: ShapeRole) -> Self {
        let sealed = config.scheme() == Scheme::Sealed;
        let reads_bytes = part == ShapeRole::Leaves && typed.known.hash == 0;
        let named = [
            config.capacity.is_some(),
            config.align.is_some(),
            config.publishers_max.is_some() || sealed,
            config.subscribers_max.is_some(),
            config.slow.is_some(),
            !(typed.any || reads_bytes),
        ];
        let bit = |(key, named): (usize, bool)| u64::from(named) << key;
        let shape = Geometry {
            capacity: config.capacity.unwrap_or(0),
            align: config.align.unwrap_or(8),
            publishers_max: match config.scheme() {
                Scheme::Sealed => 1,
                _ => u64::from(config.publishers_max.unwrap_or(16)),
            },
            subscribers_max: u64::from(
                config
                    .subscribers_max
                    .unwrap_or_else(|| config.subscribers.max(64)),
            ),
            origin: config.origin,
            evict_after_ns: match config.slow {
                Some(Slow::Evict(after)) => u64::try_from(after.as_nanos()).unwrap_or(u64::MAX),
                _ => 0,
            },
            type_hash: typed.known.hash,
            type_name: typed.known.name.clone(),
            fixed: named.into_iter().enumerate().map(bit).sum(),
            fixed_by: [0; 6],
        };
        Self {
            shape,
            part,
            any_type: typed.any || reads_bytes,
            fields: typed.known.fields.clone(),
            capacity_least: config.capacity_least,
        }
    }

    /// The shape with which an opener makes a channel: open, with the settings that it names.
    pub(super) fn first(&self) -> Geometry {
        let blank = Geometry {
            subscribers_max: self.shape.subscribers_max,
            origin: self.shape.origin,
            ..Geometry::default()
        };
        let leaves = Self {
            part: ShapeRole::Leaves,
            ..self.clone()
        };
        leaves.merged(&blank, None)
    }

    /// The shape that this opener gives to an open channel of the shape `found`. `free_bytes` are
    /// the free bytes of its folder.
    pub(crate) fn merged(&self, found: &Geometry, free_bytes: Option<u64>) -> Geometry {
        let mut next = found.clone();
        if !found.is_open() {
            return next;
        }
        let pid = u64::from(std::process::id());
        let reported_keys = [fixed::CAPACITY, fixed::ALIGN, fixed::TYPE];
        let names = |key: usize| {
            let reports = self.part == ShapeRole::Names && reported_keys.contains(&key);
            reports || self.shape.fixed >> key & 1 == 1
        };
        let mut takes = |key: usize| {
            let takes = !found.is_fixed(key) && (names(key) || self.part == ShapeRole::Fixes);
            if takes {
                next.fixed_by[key] = pid;
                // A setting that a publisher names counts with its lane, like a setting that it
                // chooses.
                let bit = u64::from(names(key)) << key;
                next.fixed |= if self.part == ShapeRole::Fixes {
                    0
                } else {
                    bit
                };
            }
            takes
        };
        if takes(fixed::CAPACITY) {
            next.capacity = match self.shape.capacity {
                0 => capacity_default(free_bytes).max(self.capacity_least),
                named => named,
            };
        }
        if takes(fixed::ALIGN) {
            next.align = self.shape.align;
        }
        if takes(fixed::PUBLISHERS_MAX) {
            next.publishers_max = self.shape.publishers_max;
        }
        if takes(fixed::SUBSCRIBERS_MAX) {
            let requested = self.shape.subscribers_max;
            next.subscribers_max = if names(fixed::SUBSCRIBERS_MAX) {
                requested
            } else {
                requested.max(found.subscribers_max)
            };
        }
        if takes(fixed::SLOW) {
            next.evict_after_ns = self.shape.evict_after_ns;
        }
        if takes(fixed::TYPE) {
            next.type_hash = self.shape.type_hash;
            next.type_name.clone_from(&self.shape.type_name);
        }
        if self.part == ShapeRole::Fixes {
            next.fixed |= fixed::SHAPED;
            next.origin = self.shape.origin.max(found.origin);
        }
        next
    }

    /// Compares the settings that this opener names with those of the channel, whose type has the
    /// fields `stored`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Mismatch`]; [`OpenError::Type`].
    pub(super) fn agree(
        &self,
        channel: &str,
        found: &Geometry,
        stored: &Fields,
    ) -> Result<(), OpenError> {
        let slow = |ns: u64| match ns {
            0 => Slow::Wait.to_string(),
            ns => Slow::Evict(Duration::from_nanos(ns)).to_string(),
        };
        let show = |key, value: u64| match key {
            fixed::SLOW => slow(value),
            _ => value.to_string(),
        };
        let values = |shape: &Geometry| {
            [
                shape.capacity,
                shape.align,
                shape.publishers_max,
                shape.subscribers_max,
                shape.evict_after_ns,
            ]
        };
        let pairs = values(&self.shape).into_iter().zip(values(found));
        for (key, (asked, value)) in pairs.enumerate() {
            let named = self.shape.fixed >> key & 1 == 1;
            if named && found.is_fixed(key) && asked != value {
                return Err(OpenError::Mismatch {
                    channel: channel.to_owned(),
                    key: fixed::KEYS[key],
                    asked: show(key, asked),
                    found: show(key, value),
                    pid: found.fixed_by[key],
                });
            }
        }
        if self.any_type || !found.is_fixed(fixed::TYPE) {
            return Ok(());
        }
        let known = |shape: &Geometry, fields: &Fields| KnownType {
            hash: shape.type_hash,
            name: shape.type_name.clone(),
            fields: fields.clone(),
        };
        match known(&self.shape, &self.fields).difference(&known(found, stored)) {
            None => Ok(()),
            Some((asked, found)) => Err(OpenError::Type {
                channel: channel.to_owned(),
                asked,
                found,
            }),
        }
    }

    /// Stores the fields of the channel's type if this opener states them and none are stored. The
    /// caller holds the membership lock, has settled the shape, and has joined.
    pub(super) fn state_fields(&self, attached: &Attached) {
        let type_hash = attached.geometry.type_hash;
        let is_ours = type_hash != 0 && type_hash == self.shape.type_hash;
        if is_ours
            && !self.fields.is_empty()
            && fields::stored(&attached.control, type_hash).is_empty()
        {
            fields::store(&attached.control, type_hash, &self.fields);
        }
    }
}

/// Refuses a ring of less than two frames: one setting may be another participant's.
fn check_pair(shape: &Geometry) -> Result<(), OpenError> {
    if shape.capacity == 0 || holds_two_frames(shape.align, shape.capacity) {
        return Ok(());
    }
    Err(UriError::Pair {
        first: "align",
        second: "capacity",
        rule: TWO_FRAMES_RULE,
    }
    .into())
}

/// Smallest default capacity if space is not scarce.
const DEFAULT_MIN: u64 = 1 << 20;
/// Largest default capacity.
pub(super) const DEFAULT_MAX: u64 = 4 << 20;
/// Smallest default capacity.
const DEFAULT_SCARCE: u64 = 64 << 10;

/// Capacity of a ring if no participant named one. It is the smallest power of two that is at least
/// twice the second-level cache of this machine, from 1 MiB to 4 MiB. If space is scarce, it is at
/// most a sixteenth of the free space, but at least 64 KiB.
fn capacity_default(free_bytes: Option<u64>) -> u64 {
    default_for(second_level_cache(), free_bytes)
}

fn default_for(cache_bytes: u64, free_bytes: Option<u64>) -> u64 {
    let twice = cache_bytes.saturating_mul(2).min(DEFAULT_MAX);
    let capacity = twice.next_power_of_two().max(DEFAULT_MIN);
    let share = free_bytes.map_or(u64::MAX, |free| free / 16);
    if capacity <= share {
        return capacity;
    }
    // The largest power of two up to the share.
    let scarce = (share / 2 + 1).next_power_of_two();
    scarce.max(DEFAULT_SCARCE)
}

/// The least capacity of a ring that a bridge makes without a `capacity=`, for messages of a ring
/// of `capacity`. It follows the default of another machine. A larger ring must be set by the user.
pub(crate) fn least_for(capacity: u64) -> u64 {
    capacity.min(DEFAULT_MAX).next_power_of_two()
}

/// Bytes of the second-level cache of the first CPU; 0 if unknown.
fn second_level_cache() -> u64 {
    static FOUND: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| {
        let folder = Path::new("/sys/devices/system/cpu/cpu0/cache");
        let read = |index: usize, name: &str| {
            let text = std::fs::read_to_string(folder.join(format!("index{index}")).join(name));
            text.map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        let level_two = (0..8).find(|index| read(*index, "level") == "2");
        let size = level_two.map(|index| read(index, "size"));
        let kib = size.and_then(|size| size.strip_suffix('K')?.parse::<u64>().ok());
        kib.unwrap_or(0).saturating_mul(1024)
    })
}

/// Tries to read a geometry record whose check fails: a participant may be writing it.
const READ_TRIES: u32 = 16;

/// Reads the geometry record that counts.
///
/// # Errors
///
/// What is wrong with the record.
pub(super) fn read_record(words: &Words) -> Result<Geometry, String> {
    let mut read = Err(String::new());
    for _ in 0..READ_TRIES {
        // Acquire: the record is whole, and the tables that it describes exist.
        let turn = words.word(control::GEOMETRY_TURN).load(Ordering::Acquire) & 1;
        let at = control::GEOMETRY + usize::from(turn == 1) * control::GEOMETRY_WORDS;
        let mut record = [0; control::GEOMETRY_WORDS];
        for (n, place) in record.iter_mut().enumerate() {
            // Relaxed: the check word detects a write at the same time.
            *place = words.word(at + n).load(Ordering::Relaxed);
        }
        read = Geometry::from_words(&record);
        if read.is_ok() {
            break;
        }
        std::thread::yield_now();
    }
    read
}

/// The shape of the channel with this `record`, and its control words. It is open as long as no
/// lane is present.
pub(super) fn map_shape(
    file: BorrowedFd<'_>,
    path: &Path,
    record: Geometry,
    writable: bool,
) -> Result<(Geometry, Words), OpenError> {
    let control = map_control(file, path, record.control_bytes(), writable)?;
    let is_present = |index: usize| {
        let present = record.lane_entry(index) + lane_entry::PRESENT;
        control.word(present).load(Ordering::Acquire) != 0
    };
    if record.is_open() || (0..record.lanes()).any(is_present) {
        Ok((record, control))
    } else {
        Ok((record.reopened(), control))
    }
}

/// Adds the settings of `request` to the shape of an open channel. The caller holds the membership
/// lock and has compared the two.
///
/// # Errors
///
/// [`OpenError`]; the shape stays unchanged.
pub(super) fn settle(attached: &mut Attached, request: &ShapeRequest) -> Result<(), OpenError> {
    let next = request.merged(&attached.geometry, attached.backing.free_bytes());
    if next == attached.geometry {
        return Ok(());
    }
    check_pair(&next)?;
    let kept = next.slots();
    if let Some((slot, pid)) = (kept..attached.geometry.slots())
        .rev()
        .find_map(|slot| is_slot_taken(attached, slot).map(|pid| (slot, pid)))
    {
        return Err(OpenError::Mismatch {
            channel: attached.channel.clone(),
            key: fixed::KEYS[fixed::SUBSCRIBERS_MAX],
            asked: kept.to_string(),
            found: format!("at least {}", slot + 1),
            pid,
        });
    }
    // A publisher that died before its lane was present may have left a lane file of another shape.
    let before = read_record(&attached.control).unwrap_or_default();
    for index in 0..before.lanes() {
        attached.backing.remove_lane(index);
    }
    write(attached, next)
}

/// Writes the tables of the shape `next`, and then makes it count.
fn write(attached: &mut Attached, next: Geometry) -> Result<(), OpenError> {
    let path = attached.backing.path().join(CONTROL);
    let control = {
        let opened = attached.control_file()?;
        let file = opened.as_fd();
        let length = segment::length(file, &path)?;
        if length < next.control_bytes() {
            segment::allocate(file, &path, length, next.control_bytes(), None)?;
        }
        map_control(file, &path, next.control_bytes(), true)?
    };
    crate::points::pass("shape.allocated");
    // Relaxed: no thread reads these words before the record counts.
    let store = |word: usize, value: u64| control.word(word).store(value, Ordering::Relaxed);
    let slots_end = attached.geometry.lane_table().min(next.lane_table());
    for word in slots_end..next.control_words() {
        store(word, 0);
    }
    let gating: Vec<usize> = bits(&control, control::GATING, next.slots()).collect();
    for slot in 0..next.slots() {
        // A subscriber that came before the first publisher gets each lane from its first frame on.
        let position = if gating.contains(&slot) {
            next.origin
        } else {
            NO_POSITION
        };
        for lane in 0..next.lanes() {
            store(next.position(slot, lane), position);
        }
    }
    crate::points::pass("shape.laid_out");
    if next.type_hash != attached.geometry.type_hash {
        fields::clear(&control);
        crate::points::pass("shape.fields_cleared");
    }
    // Relaxed: it changes under the membership lock only.
    let turn = control.word(control::GEOMETRY_TURN).load(Ordering::Relaxed) & 1 ^ 1;
    let at = control::GEOMETRY + usize::from(turn == 1) * control::GEOMETRY_WORDS;
    for (n, word) in next.to_words().into_iter().enumerate() {
        store(at + n, word);
    }
    // Release: the tables and the record are whole for a participant that sees its turn.
    let word = control.word(control::GEOMETRY_TURN);
    word.store(turn, Ordering::Release);
    crate::points::pass("shape.counts");
    (attached.control, attached.geometry) = (control, next);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::assert_states;
    use crate::uri::{PUBLISHERS_LIMIT, SUBSCRIBERS_LIMIT};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn documents_state_how_many_participants_a_channel_takes() {
        let config = Config::parse("shm://x").unwrap();
        let shape = ShapeRequest::of(&config, &TypeTag::default(), ShapeRole::Fixes).shape;
        let (publishers, subscribers) = (shape.publishers_max, shape.subscribers_max);
        let default = format!("{publishers} and {subscribers} by default");
        let (thousands, rest) = (SUBSCRIBERS_LIMIT / 1000, SUBSCRIBERS_LIMIT % 1000);
        let most = format!("{thousands},{rest:03}");
        let library = "crates/olivine/src/lib.rs";
        assert_states(
            "README.md",
            &format!("{default}, up to {PUBLISHERS_LIMIT} and {most}."),
        );
        assert_states(
            library,
            &format!("Up to {PUBLISHERS_LIMIT} [`Publisher`]s send"),
        );
        assert_states(
            library,
            &format!("up to {most} [`Subscriber`]s receive ({default})"),
        );
        let key = format!("from 1 to {SUBSCRIBERS_LIMIT}.\n- Default: {subscribers}.");
        assert_states("docs/uri.md", &key);
        let key = format!("from 1 to {PUBLISHERS_LIMIT}.\n- Default: {publishers}.");
        assert_states("docs/uri.md", &key);
    }

    #[test]
    fn the_default_capacity_follows_the_cache_and_the_free_space() {
        let rows = [
            (0, None, MIB),
            (256 * KIB, None, MIB),
            (512 * KIB, None, MIB),
            (MIB, None, 2 * MIB),
            (1280 * KIB, None, 4 * MIB),
            (2 * MIB, None, 4 * MIB),
            (64 * MIB, None, 4 * MIB),
            (u64::MAX, None, 4 * MIB),
            (2 * MIB, Some(64 * MIB), 4 * MIB),
            (2 * MIB, Some(64 * MIB - 1), 2 * MIB),
            (MIB, Some(3 * MIB), 128 * KIB),
            (MIB, Some(0), 64 * KIB),
        ];
        for (cache, free, expected) in rows {
            assert_eq!(default_for(cache, free), expected, "{cache} {free:?}");
        }
    }
}
