//! B11: Counts the bytes that the present thread has on the heap, so that a decoder that allocates by a length from the wire
//! is seen. It counts and nothing else: every call goes on to the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread holds; what another thread frees for it is not seen, and no target does that.
    static LIVE: Cell<usize> = const { Cell::new(0) };
    /// The largest value of `LIVE` since [`reset`].
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// An allocator that counts the bytes of the present thread.
pub(crate) struct Counting;

fn grew(bytes: usize) {
    // At the end of a thread its cells may be gone; nobody measures then.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn shrank(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub(bytes)));
}

// SAFETY: every method hands its arguments to `System` unchanged and returns what that returns, so the contract is kept
// exactly if the caller keeps it. Counting allocates nothing: the cells are constant and need no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller's promise about `layout` is the one that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrank(layout.size());
        // SAFETY: `pointer` came from `System` with this layout, since every allocation goes there.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both live for a moment when the block moves.
        grew(size);
        shrank(layout.size());
        // SAFETY: as for `dealloc`, and `size` is the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Bytes that this thread holds now; the peak starts anew from here.
pub(crate) fn reset() -> usize {
    let live = LIVE.with(Cell::get);
    PEAK.with(|peak| peak.set(live));
    live
}

/// Bytes that this thread holds now.
pub(crate) fn live() -> usize {
    LIVE.with(Cell::get)
}

/// The most that this thread held since [`reset`].
pub(crate) fn peak() -> usize {
    PEAK.with(Cell::get)
}
