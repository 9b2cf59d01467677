//! Reading one `_rebuild_tensor` call.

use super::{Storage, element, global, storage_key};
use crate::{
    dtype::Dtype,
    format::pickle::{Id, Pickle, Value},
};

/// The most dimensions torch knows.
const MAX_RANK: usize = 64;

/// A tensor as its call describes it.
pub(super) struct Call {
    pub(super) storage: Storage,
    pub(super) dtype: Dtype,
    /// First byte in the storage.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Option<Vec<u64>>,
}

/// Whether a function of this name makes a tensor of (storage, offset, size, stride, …).
pub(super) fn makes_tensor(module: &str, name: &str) -> bool {
    let names = ["_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor"];
    module == "torch._utils" && names.contains(&name)
}

/// Reads the arguments of such a function; the error says what is odd.
pub(super) fn read(pickle: &Pickle<'_>, name: &str, args: &[Id]) -> Result<Call, &'static str> {
    let [storage, offset, size, stride, ..] = args else { return Err("has too few arguments") };
    let storage = match pickle.get(*storage) {
        Value::Persistent(id) => read_storage(pickle, *id)?,
        _ => return Err("has no storage"),
    };
    let (storage, view_offset) = storage;
    let dtype = match args.get(6).filter(|_| name == "_rebuild_tensor_v3") {
        Some(id) => {
            let (_, name) = global(pickle, pickle.get(*id)).ok_or("has no dtype")?;
            element::of_dtype(name).ok_or("has an unknown dtype")?
        }
        None => storage.dtype,
    };
    let shape = read_ints(pickle, *size).ok_or("has an odd shape")?;
    let strides = read_ints(pickle, *stride).ok_or("has odd strides")?;
    if strides.len() != shape.len() {
        return Err("has odd strides");
    }
    let element_len = dtype.element_bits() / 8;
    let offset = pickle
        .int(*offset)
        .and_then(|n| u64::try_from(n).ok())
        .and_then(|n| n.checked_add(view_offset))
        .and_then(|n| n.checked_mul(element_len))
        .ok_or("has an odd offset")?;
    let strides = (!is_contiguous(&shape, &strides)).then_some(strides);
    Ok(Call { storage, dtype, offset, shape, strides })
}

/// Reads ("storage", class, key, location, count[, view]), as a storage and the offset of the view
/// in elements. Only legacy files have views: (key, offset, count).
pub(super) fn read_storage(pickle: &Pickle<'_>, id: Id) -> Result<(Storage, u64), &'static str> {
    let Some([tag, class, key, _location, count, rest @ ..]) = pickle.sequence(id) else {
        return Err("has a storage of an unknown kind");
    };
    if pickle.str(*tag) != Some(b"storage") {
        return Err("has a storage of an unknown kind");
    }
    let (_, class) = global(pickle, pickle.get(*class)).ok_or("has a storage of no class")?;
    let (dtype, element_len) =
        element::of_storage(class).ok_or("has a storage of an unknown class")?;
    let key = storage_key(pickle, *key).ok_or("has a storage without a name")?;
    let count = pickle.int(*count).and_then(|n| u64::try_from(n).ok());
    let n_elements = count.ok_or("has a storage of an odd size")?;
    let view = rest.first().and_then(|id| pickle.sequence(*id));
    let view_offset = match view {
        Some([_, offset, ..]) => pickle.int(*offset).and_then(|n| u64::try_from(n).ok()),
        _ => Some(0),
    };
    let view_offset = view_offset.ok_or("has a storage with an odd view")?;
    Ok((Storage { key, dtype, n_elements, element_len }, view_offset))
}

/// A tuple or list of sizes, or `torch.Size` of one.
fn read_ints(pickle: &Pickle<'_>, id: Id) -> Option<Vec<u64>> {
    let id = match pickle.get(id) {
        Value::Call { args, .. } => *pickle.sequence(*args)?.first()?,
        _ => id,
    };
    let ids = pickle.sequence(id)?;
    if ids.len() > MAX_RANK {
        return None;
    }
    ids.iter().map(|id| u64::try_from(pickle.int(*id)?).ok()).collect()
}

/// Whether elements lie in row-major order without gaps. Strides of dimensions of size 1, and of
/// empty tensors, mean nothing.
fn is_contiguous(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = Some(1u64);
    shape.contains(&0)
        || shape.iter().zip(strides).rev().all(|(&d, &s)| {
            let fits = d == 1 || Some(s) == expected;
            expected = expected.and_then(|e| e.checked_mul(d));
            fits
        })
}
