//! Pickle: a stack machine's program, turned into a description of the objects it would build.
//!
//! Nothing is looked up, imported or called. A `GLOBAL` is a pair of names, a `REDUCE` is a
//! record "this would be called with that"; what a reader makes of the records is its own
//! affair. Strings stay ranges of the pickle. The machine:
//!
//! ```text
//! stack   ids of values      marks   stack heights      memo   index → id
//! BININT1 7   → push Int(7)            TUPLE2   → pop b, a; push Tuple[a, b]
//! BINPUT 3    → memo[3] = top          BINGET 3 → push memo[3]
//! REDUCE      → pop args, f; push Call { f, args }
//! ```
//!
//! Invariants: every opcode costs at least a byte and makes at most one value and one stack, mark
//! or memo entry, and elements move from the stack into one container, so all memory is linear in
//! the pickle's length, and bounded by [`MAX_VALUES`]. Values refer to each other by id, so loops
//! in the object graph are harmless and nothing recurses.

mod machine;
mod memo;
mod opcode;
pub(crate) mod value;

pub(crate) use machine::load;
pub(crate) use value::{Id, Pickle, Value};

/// The most values of one pickle.
const MAX_VALUES: usize = 8 << 20;

/// Why a pickle was not understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PickleFault {
    /// It goes on after the bytes at hand.
    Short,
    /// It is not valid, or too large; the text completes "its pickle …".
    Bad(String),
}

#[cfg(test)]
mod tests;
