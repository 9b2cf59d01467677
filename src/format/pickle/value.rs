//! The values a pickle builds.

use std::ops::Range;

/// Number of a value in its [`Pickle`](super::Pickle).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(super) u32);

impl Id {
    /// Index for tables over all values.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A range of the pickle's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    start: u32,
    end: u32,
}

impl Text {
    /// `None` where a pickle is longer than 4 GiB.
    pub(super) fn new(start: usize, end: usize) -> Option<Text> {
        Some(Text { start: start.try_into().ok()?, end: end.try_into().ok()? })
    }

    /// The range.
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One object, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `None`.
    None,
    /// A bool.
    Bool(bool),
    /// An integer that fits.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(Text),
    /// Bytes, a bytearray or an integer that does not fit; or anything else without parts.
    Bytes(Text),
    /// A function or class by module and name; never looked up.
    Global(Text, Text),
    /// A tuple.
    Tuple(Vec<Id>),
    /// A list, set or frozenset.
    List(Vec<Id>),
    /// A dict: keys and values in turns.
    Dict(Vec<Id>),
    /// What `func(*args)` would return, whose state would be set to `state` or whose items to
    /// `items` (keys and values in turns, or elements).
    Call {
        /// The callable.
        func: Id,
        /// Its arguments, usually a tuple.
        args: Id,
        /// What `BUILD` would set.
        state: Option<Id>,
        /// What `SETITEMS` or `APPENDS` would add, boxed to keep values small.
        items: Option<Box<Items>>,
    },
    /// An object stored outside the pickle, named by this value.
    Persistent(Id),
}

/// Elements added to an object that a call would return.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Items {
    /// Keys and values in turns.
    pub(crate) pairs: Vec<Id>,
    /// Elements.
    pub(crate) elements: Vec<Id>,
}

/// The values of one pickle.
pub(crate) struct Pickle<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) values: Vec<Value>,
    /// What the pickle stands for.
    pub(crate) root: Id,
    /// Its length, up to and with `STOP`.
    pub(crate) len: usize,
}

impl<'a> Pickle<'a> {
    /// The value of this number.
    pub(crate) fn get(&self, id: Id) -> &Value {
        &self.values[id.index()]
    }

    /// How many values there are.
    pub(crate) fn n_values(&self) -> usize {
        self.values.len()
    }

    /// The bytes of a string.
    pub(crate) fn text(&self, text: Text) -> &'a [u8] {
        &self.bytes[text.range()]
    }

    /// A string value's bytes.
    pub(crate) fn str(&self, id: Id) -> Option<&'a [u8]> {
        match self.get(id) {
            Value::Str(text) => Some(self.text(*text)),
            _ => None,
        }
    }

    /// The elements of a tuple or list.
    pub(crate) fn sequence(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Value::Tuple(ids) | Value::List(ids) => Some(ids),
            _ => None,
        }
    }

    /// Keys and values, in turns, of a dict or of something like one.
    pub(crate) fn pairs(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Value::Dict(pairs) => Some(pairs),
            Value::Call { items: Some(items), .. } => Some(&items.pairs),
            _ => None,
        }
    }

    /// An integer value.
    pub(crate) fn int(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }
}
