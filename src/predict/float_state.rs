//! Floating-point state of the processor: the default one around a computation.
//!
//! A host process may have denormals flushed to zero or another rounding mode set; training
//! loops do. Predictions must not depend on it.

/// Runs `f` with rounding to nearest, denormals kept and exceptions masked, and puts the state
/// back that it found.
#[cfg(target_arch = "x86_64")]
pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
    /// All exceptions masked, round to nearest even, no flush to zero.
    const DEFAULT: u32 = 0x1f80;
    /// The exception flags, which say what happened and change nothing.
    const FLAGS: u32 = 0x3f;

    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            write(self.0);
        }
    }

    fn read() -> u32 {
        let mut state = 0u32;
        // SAFETY: stores the four bytes of the control register into `state`.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &mut state, options(nostack, preserves_flags));
        }
        state
    }

    fn write(state: u32) {
        // SAFETY: loads a value that was read from the register or is its documented default, so
        // no reserved bit is set.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &state, options(nostack, preserves_flags));
        }
    }

    let found = read();
    if found & !FLAGS == DEFAULT & !FLAGS {
        return f();
    }
    write(DEFAULT);
    let restore = Restore(found);
    let result = isolated(f);
    drop(restore);
    result
}

/// Keeps `f` from being merged with what comes before and after the change of state.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn isolated<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Runs `f`.
#[cfg(not(target_arch = "x86_64"))]
pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Runs `f` with denormals flushed, as a host process might have it.
    pub fn flushed(f: impl FnOnce()) {
        let state = 0x9fc0u32;
        // SAFETY: sets flush-to-zero and denormals-are-zero, and the default state afterwards.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &state) };
        f();
        let state = 0x1f80u32;
        // SAFETY: as above.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &state) };
    }

    #[test]
    fn denormals_are_kept_inside_and_the_state_comes_back() {
        let tiny = f32::from_bits(1 << 20);
        flushed(|| {
            let half = || black_box(tiny) * black_box(0.5f32);
            assert_eq!(half().to_bits(), 0);
            let kept = with_default(half);
            assert_eq!(kept.to_bits(), 1 << 19);
            assert_eq!(half().to_bits(), 0);
        });
    }
}
