//! Floating-point state of the processor: the default one around a computation.
//!
//! A host process may have denormals flushed to zero or another rounding mode set; training
//! loops do. Predictions must not depend on it.

/// Whether the state can be set on this kind of processor. Where it cannot, nothing is predicted by
/// floating-point arithmetic.
pub const CAN_SET: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Runs `f` with rounding to nearest, denormals kept and exceptions masked, and puts the state
/// back that it found.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(register::State);
    impl Drop for Restore {
        fn drop(&mut self) {
            register::write(self.0);
        }
    }

    let found = register::read();
    if found & !register::FLAGS == register::DEFAULT & !register::FLAGS {
        return f();
    }
    register::write(register::DEFAULT);
    let restore = Restore(found);
    let result = isolated(f);
    drop(restore);
    result
}

/// Keeps `f` from being merged with what comes before and after the change of state.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(never)]
fn isolated<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Runs `f`: for what looks for predictions, which are then not used.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// MXCSR, the control register of SSE.
#[cfg(target_arch = "x86_64")]
mod register {
    pub type State = u32;
    /// All exceptions masked, round to nearest even, no flush to zero.
    pub const DEFAULT: State = 0x1f80;
    /// The exception flags, which say what happened and change nothing.
    pub const FLAGS: State = 0x3f;

    pub fn read() -> State {
        let mut state = 0;
        // SAFETY: stores the four bytes of the control register into `state`.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &mut state, options(nostack, preserves_flags));
        }
        state
    }

    pub fn write(state: State) {
        // SAFETY: loads a value that was read from the register or is a documented one, so no
        // reserved bit is set.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &state, options(nostack, preserves_flags));
        }
    }
}

/// FPCR, the control register of floating point.
#[cfg(target_arch = "aarch64")]
mod register {
    pub type State = u64;
    /// All exceptions untrapped, round to nearest even, no flush to zero, NaNs passed on.
    pub const DEFAULT: State = 0;
    /// What happened stands in another register, FPSR.
    pub const FLAGS: State = 0;

    pub fn read() -> State {
        let state;
        // SAFETY: reads a register that user programs may read.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) state, options(nomem, nostack));
        }
        state
    }

    pub fn write(state: State) {
        // SAFETY: writes a value that was read from the register or is a documented one, so no
        // reserved bit is set. Not `nomem`: no load of a float moves across it.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) state, options(nostack));
        }
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Flush-to-zero and, on x86-64, denormals-are-zero.
    #[cfg(target_arch = "x86_64")]
    const FLUSHED: register::State = 0x9fc0;
    #[cfg(target_arch = "aarch64")]
    const FLUSHED: register::State = 1 << 24;

    /// Runs `f` with denormals flushed, as a host process might have it.
    pub fn flushed(f: impl FnOnce()) {
        register::write(FLUSHED);
        f();
        register::write(register::DEFAULT);
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
