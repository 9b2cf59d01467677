//! Attacks: damaged and forged archives, kills, races and names, made up at random for as long as
//! they are given.
//!
//! ```text
//! LMC_ATTACK_SECONDS   how long each test goes on; default 1.5
//! LMC_ATTACK_SEED      where its cases begin; default 1
//! LMC_ATTACK_CASE      only the case of this number, as a failure names it
//! ```
//!
//! A test that is given minutes prints every minute what it has counted so far.
//!
//! Every case is a function of its number, but for the instants of kills and of writers. A long run,
//! with overflow and the code's own assertions checked:
//!
//! ```text
//! LMC_ATTACK_SECONDS=3600 LMC_ATTACK_SEED=7 cargo test --release --test attack \
//!   --config profile.release.package.lmc-gpu.overflow-checks=true \
//!   --config profile.release.package.lmc-gpu.debug-assertions=true -- --nocapture
//! ```
//!
//! `RUSTFLAGS="-Coverflow-checks=on -Cdebug-assertions=on"` does the same for dependencies too.
//!
//! Archives are taken apart and put together after `docs/FORMAT.md` alone (`anatomy`), so that what
//! is forged here does not depend on how the library reads it.

mod anatomy;
mod case;
mod edit;
mod forge;
mod memory;
mod oracle;
mod readers;
mod recode;
mod subject;
mod table;

#[cfg(unix)]
mod gc;
#[cfg(unix)]
mod input;
#[cfg(unix)]
mod kill;
#[cfg(unix)]
mod names;
mod store;

#[path = "../common/mod.rs"]
mod common;
#[path = "../golden/input.rs"]
#[allow(dead_code, reason = "some of them are too large")]
mod golden;

/// Promises that a test counts breaches of, and fails for where they are `true`.
mod promise {
    /// The reader that seeks and the one that does not accept the same archives.
    pub const AGREEMENT_REQUIRED: bool = true;
    /// Names that the filesystem allows come back, and what is no name is refused when writing.
    pub const NAMES_REQUIRED: bool = true;
    /// Input that changes is refused, or the archive of what was read verifies.
    pub const CHANGING_INPUT_REQUIRED: bool = true;
    /// The next run in a directory removes temporaries of killed runs.
    pub const STALE_TEMPORARIES_REQUIRED: bool = true;
    /// Tables take memory in proportion to the archive, also where the limits would allow more.
    pub const SMALL_TABLES_REQUIRED: bool = true;
}

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;
