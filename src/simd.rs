//! CPU instruction-set levels and their run-time detection.
//!
//! `LMC_SIMD=scalar|avx2|avx512` hides the levels above; one that the machine lacks hides none. A test
//! run whose `LMC_REQUIRE` names a level that the machine lacks fails.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod far;

use std::sync::OnceLock;

/// An instruction set this CPU can run. Only detection makes one, so holding a `Level`
/// is the proof that its instructions may be executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Level(Isa);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Isa {
    Scalar,
    /// AVX2, BMI1, BMI2, LZCNT, POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ, VL, VBMI, VBMI2, beside all of AVX2's.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The portable reference, available everywhere.
    pub const SCALAR: Level = Level(Isa::Scalar);

    /// Every level that may be used, the scalar reference first and the best last: those that this
    /// CPU can run, but none above that of `LMC_SIMD`.
    pub fn available() -> Vec<Level> {
        let wanted = std::env::var("LMC_SIMD").unwrap_or_default();
        let mut levels = Self::detected();
        if let Some(last) = levels.iter().position(|level| level.name() == wanted) {
            levels.truncate(last + 1);
        }
        levels
    }

    /// Every level this CPU can run.
    fn detected() -> Vec<Level> {
        #[allow(unused_mut, reason = "only x86-64 has more")]
        let mut levels = vec![Level::SCALAR];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            levels.push(Level(Isa::Avx2));
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512vbmi2")
            {
                levels.push(Level(Isa::Avx512));
            }
        }
        levels
    }

    /// The best of [`Level::available`], found once per process.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().pop().unwrap_or(Level::SCALAR))
    }

    /// `scalar`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Isa::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
        }
    }

    /// Whether kernels at this level hash what they have in registers.
    pub(crate) fn hashes(self) -> bool {
        self.0 != Isa::Scalar
    }

    #[inline]
    pub(crate) fn isa(self) -> Isa {
        self.0
    }
}

/// Fetches the lines of `bytes[at..at + len]`, if all of them exist, into the caches without
/// waiting for them. Streams that the hardware follows end at every page of 4 KiB.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], at: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.get(at..at.saturating_add(len)).unwrap_or(&[]).chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: the line is memory of ours, and fetching it changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at, len);
}

/// Memory that is read next, fetched into the caches while something else is computed.
///
/// It is held by its addresses, because it may belong to whoever calls whoever holds this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead([(usize, usize); 2]);

impl Ahead {
    /// These byte strings side by side, and what follows them.
    pub(crate) fn of(bytes: [&[u8]; 2]) -> Self {
        // Something that is always near stands for nothing.
        static NOTHING: [u8; 128] = [0; 128];
        Ahead(bytes.map(|bytes| match bytes {
            [] => (NOTHING.as_ptr().addr(), 0),
            _ => (bytes.as_ptr().addr(), 128),
        }))
    }

    /// Fetches the next two lines of each without waiting for them. There is no branch: in the
    /// kernels that call it, one would cost more than it saves.
    #[inline(always)]
    pub(crate) fn fetch(&mut self) {
        for (at, step) in &mut self.0 {
            #[cfg(target_arch = "x86_64")]
            for line in [*at, at.wrapping_add(64)] {
                use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
                // SAFETY: fetching changes nothing, and does nothing where there is no memory.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::without_provenance::<i8>(line)) }
            }
            *at = at.wrapping_add(*step);
        }
    }
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead::of([&[], &[]])
    }
}

/// Compiles functions for a processor with these features.
#[cfg(target_arch = "x86_64")]
macro_rules! with_features {
    ($features:literal: $($item:item)*) => {$(
        #[inline]
        #[target_feature(enable = $features)]
        $item
    )*};
}
#[cfg(target_arch = "x86_64")]
pub(crate) use with_features;

/// Names for what is made of two registers.
#[cfg(target_arch = "x86_64")]
macro_rules! of_two {
    ($features:literal: $($name:ident($a:ident, $b:ident) -> $out:ty = $made:expr;)*) => {
        $crate::simd::with_features! { $features: $(
            pub(crate) fn $name($a: Vector, $b: Vector) -> $out {
                $made
            }
        )* }
    };
}
#[cfg(target_arch = "x86_64")]
use of_two;

/// Takes what is for a level, or else what is for all of them:
///
/// ```text
/// dispatch!(level, Avx512 => avx512::f(x), Avx2 => avx2::f(x), _ => f_scalar(x))
/// ```
///
/// This is the only way from a [`Level`] to code that needs its instructions. That code is a
/// function with the `target_feature` of its level, and calling it there is sound; what else its
/// caller must see to makes it an `unsafe fn`.
macro_rules! dispatch {
    ($level:expr, $($isa:ident => $kernel:expr,)+ _ => $portable:expr $(,)?) => {
        match $level.isa() {
            $(
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
                $crate::simd::Isa::$isa => unsafe { $kernel },
            )+
            #[allow(unreachable_patterns, reason = "where all levels were named")]
            _ => $portable,
        }
    };
}
pub(crate) use dispatch;

/// Defines a function of a level and some arguments whose body is compiled for every level: for
/// loops that the compiler vectorises by itself. The body is called by name, so that it is inlined,
/// and its loops get the features, whatever its size.
macro_rules! for_every_level {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<const $n:ident: $of:ty>)?
     ($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name $(<const $n: $of>)? (level: $crate::simd::Level, $($arg: $type),*)
        $(-> $out)? {
            #[inline(always)]
            fn body $(<const $n: $of>)? ($($arg: $type),*) $(-> $out)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
            fn avx2 $(<const $n: $of>)? ($($arg: $type),*) $(-> $out)? {
                body$(::<$n>)?($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
            )]
            fn avx512 $(<const $n: $of>)? ($($arg: $type),*) $(-> $out)? {
                body$(::<$n>)?($($arg),*)
            }

            $crate::simd::dispatch!(
                level,
                Avx512 => avx512$(::<$n>)?($($arg),*),
                Avx2 => avx2$(::<$n>)?($($arg),*),
                _ => body$(::<$n>)?($($arg),*),
            )
        }
    };
}
pub(crate) use for_every_level;

for_every_level! {
    /// The largest of bytes, 0 if there are none.
    pub(crate) fn largest(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |a, &b| a.max(b))
    }
}

impl std::fmt::Debug for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_levels_are_available() {
        let required = std::env::var("LMC_REQUIRE").unwrap_or_default();
        let required: Vec<&str> = required.split(',').filter(|name| !name.is_empty()).collect();
        for name in &required {
            let known =
                ["avx2", "avx512", "gpu", "mount", "torch", "nginx", "s3s-fs"].contains(name);
            assert!(known, "LMC_REQUIRE names {name}, which nothing is called");
        }
        for name in ["avx2", "avx512"] {
            let here = Level::detected().iter().any(|l| l.name() == name);
            assert!(here || !required.contains(&name), "LMC_REQUIRE: this CPU lacks {name}");
            if !here {
                println!("skipped: this CPU lacks {name}");
            }
        }
    }

    /// Runs this process's tests of one name in another one, with a variable set.
    fn passes(test: &str, variable: &str, value: &str) -> bool {
        let this = std::env::current_exe().unwrap();
        // Where an emulator runs the tests, Cargo was told of it so.
        let arch = std::env::consts::ARCH.to_uppercase();
        let runner = std::env::var(format!("CARGO_TARGET_{arch}_UNKNOWN_LINUX_GNU_RUNNER"));
        let runner = runner.unwrap_or_default();
        let mut words = runner.split_whitespace().map(Into::into).chain([this.into_os_string()]);
        let mut run = std::process::Command::new(words.next().unwrap());
        run.args(words).args(["--exact", test]).env(variable, value);
        run.output().unwrap().status.success()
    }

    #[test]
    fn a_run_that_requires_what_is_not_there_fails() {
        let test = "simd::tests::required_levels_are_available";
        let all: Vec<&str> = Level::detected().iter().skip(1).map(|l| l.name()).collect();
        assert!(passes(test, "LMC_REQUIRE", &all.join(",")));
        assert!(!passes(test, "LMC_REQUIRE", "gpu,sse9"));
        if !all.contains(&"avx512") {
            assert!(!passes(test, "LMC_REQUIRE", "gpu,avx512"));
        }
    }

    #[test]
    fn a_forced_level_is_the_best_there_is() {
        let forced = std::env::var("LMC_SIMD").unwrap_or_default();
        let best = Level::best();
        assert_eq!(Level::available().last(), Some(&best));
        if Level::detected().iter().any(|level| level.name() == forced) {
            assert_eq!(best.name(), forced);
        }
    }

    #[test]
    fn every_level_can_be_forced() {
        for level in Level::detected() {
            let test = "simd::tests::a_forced_level_is_the_best_there_is";
            assert!(passes(test, "LMC_SIMD", level.name()), "{level:?}");
        }
    }
}
