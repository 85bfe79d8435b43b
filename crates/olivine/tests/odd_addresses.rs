//! Typed values lie on their boundary under an allocator that gives bytes odd addresses.

#![cfg(not(loom))]

use olivine::{Publisher, Subscriber};
use std::alloc::{GlobalAlloc, Layout, System};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

struct Odd;

/// What is asked of the system for `layout`, and how far behind its start the answer lies: who asks
/// for bytes gets an odd address, so that nobody relies on an alignment that it did not ask for.
fn asked(layout: Layout) -> (Layout, usize) {
    if layout.align() > 1 {
        return (layout, 0);
    }
    let one_more = Layout::from_size_align(layout.size() + 1, 8);
    one_more.map_or((layout, 0), |larger| (larger, 1))
}

// SAFETY: hands everything on to the system's allocator, with a byte more where the answer is moved
// by one.
unsafe impl GlobalAlloc for Odd {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (layout, behind) = asked(layout);
        // SAFETY: the caller's promise is ours: the layout has a size.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            return memory;
        }
        // SAFETY: 0, or 1 where a byte more was asked for.
        unsafe { memory.add(behind) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let (layout, behind) = asked(layout);
        // SAFETY: `alloc` above moved it as far.
        let memory = unsafe { memory.sub(behind) };
        // SAFETY: the caller's promise is ours; the memory came from `alloc` above, with this
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

/// A subscriber that may be overrun reads copies.
#[test]
fn a_typed_value_that_was_copied_out_lies_on_its_boundary() {
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
