//! The allocator of this program: the system's, counted.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::Write,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// More than this, all together, is refused: the program ends with the number of the case.
const CAP: usize = 8 << 30;

/// The case at hand.
pub static CASE: AtomicU64 = AtomicU64::new(0);
static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

pub struct Counting;

impl Counting {
    fn grow(&self, n: usize) -> bool {
        let now = NOW.fetch_add(n, Relaxed) + n;
        PEAK.fetch_max(now, Relaxed);
        if now > CAP {
            NOW.fetch_sub(n, Relaxed);
            // Writing a formatted number to standard error allocates nothing.
            let _ = writeln!(
                std::io::stderr(),
                "LMC_ATTACK_CASE={}: {n} bytes more than the cap of {CAP}",
                CASE.load(Relaxed)
            );
        }
        now <= CAP
    }
}

// SAFETY: every call is handed on to `System` with the arguments it came with, or fails by returning
// null, which a `GlobalAlloc` may do; counting touches atomics only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !self.grow(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller of this function keeps the contract of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !self.grow(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from `System` with this layout, as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && !self.grow(size - layout.size()) {
            return std::ptr::null_mut();
        }
        if size < layout.size() {
            NOW.fetch_sub(layout.size() - size, Relaxed);
        }
        // SAFETY: `at` came from `System` with this layout, and `size` is as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Does `work`, and returns the most bytes that it held at a time beside what there was before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = work();
    (done, PEAK.load(Relaxed).saturating_sub(before))
}
