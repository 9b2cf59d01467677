//! The tensors of a checkpoint, by name.

use crate::{Error, Result, container::Name, dtype::Dtype, format};
use std::collections::HashMap;

/// A tensor as the header of its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    pub(in crate::archive) entry: usize,
    pub(in crate::archive) file: Name,
    pub(in crate::archive) tensor: format::Tensor,
}

impl TensorInfo {
    /// Its name, unique within its file.
    pub fn name(&self) -> &str {
        &self.tensor.name
    }

    /// The file it is in, as a path within the checkpoint.
    pub fn file(&self) -> &Name {
        &self.file
    }

    /// Type of its elements.
    pub fn dtype(&self) -> Dtype {
        self.tensor.dtype
    }

    /// Its dimensions, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        &self.tensor.shape
    }

    /// Bytes of its elements, contiguous; more than its file has where a view repeats them.
    pub fn byte_len(&self) -> u64 {
        self.tensor.dtype.tensor_len(&self.tensor.shape).unwrap_or(u64::MAX)
    }
}

/// All tensors of a checkpoint.
pub(in crate::archive) struct Tensors {
    /// In the order of files and headers.
    pub list: Vec<TensorInfo>,
    by_name: HashMap<String, Vec<usize>>,
}

impl Tensors {
    pub fn new(list: Vec<TensorInfo>) -> Tensors {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (i, t) in list.iter().enumerate() {
            by_name.entry(t.tensor.name.clone()).or_default().push(i);
        }
        Tensors { list, by_name }
    }

    /// The tensor that `TENSOR` means or, where several files have it, `FILE:TENSOR`.
    ///
    /// # Errors
    /// `InvalidArgument` where there is none (the nearest ones are listed) or several have that
    /// name (all are listed).
    pub fn find(&self, name: &str) -> Result<usize> {
        match self.by_name.get(name).map_or(&[][..], |all| all) {
            [one] => Ok(*one),
            [] => self.qualified(name).ok_or_else(|| self.unknown(name)),
            several => {
                let shown = |i: &usize| format!("{}:{name}", self.list[*i].file);
                let list: Vec<String> = several.iter().take(8).map(shown).collect();
                let more = if several.len() > 8 { ", …" } else { "" };
                let list = list.join(", ");
                Err(Error::InvalidArgument(
                    format!("several files have a tensor \"{name}\": ask for one of {list}{more}")
                        .into(),
                ))
            }
        }
    }

    /// The tensor meant by `FILE:TENSOR`, wherever the colon stands.
    fn qualified(&self, name: &str) -> Option<usize> {
        name.match_indices(':').find_map(|(at, _)| {
            let (file, tensor) = (&name[..at], &name[at + 1..]);
            let is_file = |path: &Name| *path == file || format!("{path}") == file;
            self.by_name.get(tensor)?.iter().find(|i| is_file(&self.list[**i].file)).copied()
        })
    }

    fn unknown(&self, name: &str) -> Error {
        let mut near: Vec<(usize, &str)> =
            self.by_name.keys().map(|known| (distance(name, known), &known[..])).collect();
        near.sort();
        let list: Vec<String> = near.iter().take(3).map(|(_, n)| format!("\"{n}\"")).collect();
        let nearest = match list.is_empty() {
            true => ", nor any other".to_owned(),
            false => format!("; the nearest are {}", list.join(", ")),
        };
        Error::InvalidArgument(format!("there is no tensor \"{name}\"{nearest}").into())
    }
}

/// Characters to insert, remove or replace to turn one name into another; a name that contains
/// the other is near.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let (a, b) = (&a[..a.len().min(200)], &b[..b.len().min(200)]);
    if !a.is_empty() && b.windows(a.len()).any(|w| w == a) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
