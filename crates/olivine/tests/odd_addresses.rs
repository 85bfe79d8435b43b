//! Typed values are aligned, even under an allocator that returns odd addresses for bytes.

#![cfg(not(loom))]

use olivine::{Publisher, Subscriber};
use std::alloc::{GlobalAlloc, Layout, System};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

struct Odd;

/// The layout to request for `layout`, and the offset of the result: byte allocations get an odd
/// address, so that no code relies on an alignment that it did not request.
fn asked(layout: Layout) -> (Layout, usize) {
    if layout.align() > 1 {
        return (layout, 0);
    }
    let one_more = Layout::from_size_align(layout.size() + 1, 8);
    one_more.map_or((layout, 0), |larger| (larger, 1))
}

// SAFETY: forwards everything to the system's allocator, with one more byte if the result is moved
// by one.
unsafe impl GlobalAlloc for Odd {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (layout, behind) = asked(layout);
        // SAFETY: the caller guarantees that the layout has a size.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            return memory;
        }
        // SAFETY: 0, or 1 if one more byte was requested.
        unsafe { memory.add(behind) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let (layout, behind) = asked(layout);
        // SAFETY: `alloc` above moved it by this offset.
        let memory = unsafe { memory.sub(behind) };
        // SAFETY: the caller's guarantees hold; the memory came from `alloc` above, with this
        // layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static GLOBAL: Odd = Odd;

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Quote {
    bid: u64,
    ask: u64,
}

impl olivine::Plain for Quote {
    const TYPE_NAME: &'static str = "quote at odd addresses";
}

/// A `latest` subscriber reads copies.
#[test]
fn copied_typed_value_is_aligned() {
    let bytes = Vec::<u8>::with_capacity(16);
    assert!(!bytes.as_ptr().cast::<u64>().is_aligned(), "the measure");
    let uri = "inproc://copied?delivery=latest";
    let mut subscriber = Subscriber::<Quote>::typed(uri).unwrap();
    let mut publisher = Publisher::<Quote>::typed(uri).unwrap();
    for bid in 0..100 {
        let quote = Quote { bid, ask: bid + 1 };
        publisher.publish(&quote).unwrap();
        assert_eq!(*subscriber.receive().unwrap(), quote);
        publisher.publish(&quote).unwrap();
        let mut got = Vec::new();
        while got.is_empty() {
            subscriber.poll(|value| got.push(*value), 10).unwrap();
        }
        assert_eq!(got, [quote]);
    }
}
