//! PyTorch checkpoints: what the pickle of `torch.save` says about tensors and storages.
//!
//! ```text
//! _rebuild_tensor_v2(storage, offset, size, stride, …)      a tensor: a view of a storage
//! storage = persistent ("storage", FloatStorage, key, location, n_elements)
//! ```
//!
//! A storage is saved whole and once, whatever views it has; where its bytes are is up to the
//! file: a member of a zip archive ([`zip`]) or the tail of a legacy file ([`legacy`]). The
//! calls above are recognised by name and read; nothing is called. A call of anything else is an
//! opaque value with a note, though tensors among its arguments are still found.

mod element;
pub(crate) mod legacy;
mod optimizer;
mod place;
mod view;
mod walk;
pub(crate) mod zip;

use super::{
    fault::Notes,
    pickle::{Id, Pickle, Value, load},
};
use crate::dtype::Dtype;

/// The longest pickle that is read. That of 200,000 tensors has some 40 MB.
const MAX_PICKLE: u64 = 64 << 20;

/// What a pickle says about the tensors of a file.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// Each storage once.
    pub(crate) storages: Vec<Storage>,
    /// The tensors in the order of the object they stand in.
    pub(crate) views: Vec<View>,
    /// The optimizers' parameter groups.
    pub(crate) groups: Vec<optimizer::Group>,
}

/// A storage: the bytes of one or more tensors.
#[derive(Debug)]
pub(crate) struct Storage {
    /// Its name in the file.
    pub(crate) key: Vec<u8>,
    /// What it holds. Of an untyped storage, what the first tensor says; bytes until then.
    pub(crate) dtype: Dtype,
    /// Its number of elements, or of bytes where untyped.
    pub(crate) n_elements: u64,
    /// Bytes of one element; 1 where untyped.
    pub(crate) element_len: u64,
}

/// A tensor: a view into a storage.
#[derive(Debug)]
pub(crate) struct View {
    /// Path in the saved object, joined by dots, unique.
    pub(crate) name: String,
    /// Index of its storage.
    pub(crate) storage: usize,
    /// Type of its elements.
    pub(crate) dtype: Dtype,
    /// First byte in the storage.
    pub(crate) offset: u64,
    /// Its dimensions.
    pub(crate) shape: Vec<u64>,
    /// `None` where contiguous.
    pub(crate) strides: Option<Vec<u64>>,
}

impl Storage {
    /// Its length in bytes, `None` where that overflows.
    pub(crate) fn len(&self) -> Option<u64> {
        self.n_elements.checked_mul(self.element_len)
    }
}

/// The longest module, class or storage name that is looked at. A pickle can use a long string
/// many times over at little cost; reading it each time would not be linear.
const MAX_WORD: usize = 256;

/// Module and name of a global.
fn global<'a>(pickle: &Pickle<'a>, value: &Value) -> Option<(&'a str, &'a str)> {
    let Value::Global(module, name) = value else { return None };
    let word = |text| {
        let bytes = Some(pickle.text(text)).filter(|b| b.len() <= MAX_WORD)?;
        std::str::from_utf8(bytes).ok()
    };
    Some((word(*module)?, word(*name)?))
}

/// The name of a storage: a short string or a number.
fn storage_key(pickle: &Pickle<'_>, id: Id) -> Option<Vec<u8>> {
    match pickle.get(id) {
        Value::Int(n) => Some(n.to_string().into_bytes()),
        _ => pickle.str(id).filter(|k| k.len() <= MAX_WORD).map(<[u8]>::to_vec),
    }
}

/// Runs every step from a pickle's bytes to a description. `prefix` starts every name; it may be
/// empty. The error completes "its pickle …".
pub(crate) fn describe(
    bytes: &[u8],
    prefix: &str,
    notes: &mut Notes,
) -> Result<(Description, usize), super::pickle::PickleFault> {
    let pickle = load(bytes)?;
    Ok((walk::walk(&pickle, prefix, notes), pickle.len))
}
