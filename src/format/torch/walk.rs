//! The walk through a saved object: every tensor gets the path that leads to it.
//!
//! ```text
//! {"model": OrderedDict("fc.weight": T), "optimizer": {"state": {3: {"exp_avg": T}}}}
//!   → model.fc.weight, optimizer.state.3.exp_avg
//! ```
//!
//! The object graph may share and loop, so each container is entered once and depth is bounded;
//! the sum of all names is bounded too. That makes the walk linear in the pickle.

use std::collections::{HashMap, HashSet};

use super::{Description, Storage, View, global, optimizer, view};
use crate::{
    dtype::Dtype,
    format::{
        fault::{Notes, quote},
        pickle::{Id, Pickle, Value},
    },
};

/// The deepest nesting that is followed.
const MAX_DEPTH: u32 = 128;
/// The longest key, and the length of a path from which on it is cut.
const MAX_NAME: usize = 1024;

/// One step of a path; the parent's index comes before its own.
struct Node {
    parent: u32,
    depth: u32,
    key: Key,
}

enum Key {
    None,
    Value(Id),
    Index(usize),
}

pub(super) struct Walk<'p, 'a> {
    pub(super) pickle: &'p Pickle<'a>,
    prefix: &'p str,
    pub(super) notes: &'p mut Notes,
    nodes: Vec<Node>,
    todo: Vec<(Id, u32)>,
    entered: Vec<bool>,
    storages: HashMap<Vec<u8>, usize>,
    /// Uses of each name.
    names: HashMap<String, u32>,
    /// Bytes that names may still take.
    name_budget: usize,
    unknown: HashSet<(&'a str, &'a str)>,
    /// Tensors of one element, which may be an optimizer's step or learning rate.
    pub(super) scalars: HashMap<Id, usize>,
    pub(super) out: Description,
}

/// Finds the tensors of a loaded pickle.
pub(super) fn walk(pickle: &Pickle<'_>, prefix: &str, notes: &mut Notes) -> Description {
    let mut walk = Walk {
        pickle,
        prefix,
        notes,
        nodes: vec![Node { parent: 0, depth: 0, key: Key::None }],
        todo: vec![(pickle.root, 0)],
        entered: vec![false; pickle.n_values()],
        storages: HashMap::new(),
        names: HashMap::new(),
        name_budget: 32 * pickle.len + (1 << 16),
        unknown: HashSet::new(),
        scalars: HashMap::new(),
        out: Description::default(),
    };
    let mut optimizers = Vec::new();
    while let Some((id, path)) = walk.todo.pop() {
        walk.visit(id, path, &mut optimizers);
    }
    optimizer::read(&mut walk, &optimizers);
    walk.out
}

impl<'a> Walk<'_, 'a> {
    fn visit(&mut self, id: Id, path: u32, optimizers: &mut Vec<(Id, u32)>) {
        let pickle = self.pickle;
        match pickle.get(id) {
            Value::Persistent(inner) => self.add_storage(*inner, path),
            Value::Tuple(ids) | Value::List(ids) if self.enter(id, path) => {
                self.follow_elements(ids, path);
            }
            Value::Dict(pairs) if self.enter(id, path) => {
                self.follow_dict(id, pairs, path, optimizers);
            }
            Value::Call { func, args, state, items } => {
                let function = global(pickle, pickle.get(*func));
                if let Some((module, name)) = function
                    && view::makes_tensor(module, name)
                {
                    self.add_view(id, name, *args, path);
                } else if self.enter(id, path) {
                    if let Some(state) = state {
                        self.todo.push((*state, path));
                    }
                    if let Some(items) = items {
                        self.follow_elements(&items.elements, path);
                        self.follow_dict(id, &items.pairs, path, optimizers);
                    }
                    self.follow_call(id, function, *args, path);
                }
            }
            _ => {}
        }
    }

    /// Follows the arguments of a call that makes no tensor itself.
    fn follow_call(&mut self, id: Id, function: Option<(&'a str, &'a str)>, args: Id, path: u32) {
        let pickle = self.pickle;
        let list = pickle.sequence(args).unwrap_or_default();
        match function {
            Some(("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state")) => {
                if let Some(first) = list.first() {
                    self.todo.push((*first, path));
                }
            }
            Some(("torch._tensor", "_rebuild_from_type_v2")) => {
                // (function, type, its arguments, state)
                let inner = list.first().and_then(|f| global(pickle, pickle.get(*f)));
                match (inner, list.get(2)) {
                    (Some((module, name)), Some(args)) if view::makes_tensor(module, name) => {
                        self.add_view(id, name, *args, path);
                    }
                    _ => self.todo.push((args, path)),
                }
            }
            Some(("collections", "OrderedDict" | "defaultdict" | "Counter")) => {
                // Old pickles pass a list of [key, value] pairs.
                let Some(&first) = list.first() else { return };
                if !self.enter(first, path) {
                    return;
                }
                for pair in pickle.sequence(first).unwrap_or_default() {
                    if let Some(pair @ [_, _]) = pickle.sequence(*pair) {
                        self.follow_pairs(pair, path);
                    }
                }
            }
            Some(("torch" | "numpy" | "_codecs", _)) => {}
            Some((module, name)) => {
                if !is_plain(module, name) && self.unknown.insert((module, name)) {
                    let name = quote(format!("{module}.{name}").as_bytes());
                    self.notes.push(format!(
                        "a pickle names {name}, which was not run; what it makes stays opaque"
                    ));
                }
                self.todo.push((args, path));
            }
            None => self.todo.push((args, path)),
        }
    }

    /// Whether a container is to be walked through: the first time, and not too deep.
    fn enter(&mut self, id: Id, path: u32) -> bool {
        if self.nodes[path as usize].depth >= MAX_DEPTH {
            self.notes.push(format!("a pickle is nested deeper than {MAX_DEPTH} levels"));
            return false;
        }
        !std::mem::replace(&mut self.entered[id.index()], true)
    }

    fn follow_elements(&mut self, ids: &[Id], path: u32) {
        for (i, id) in ids.iter().enumerate().rev() {
            self.follow(*id, path, Key::Index(i));
        }
    }

    fn follow_dict(&mut self, id: Id, pairs: &[Id], path: u32, optimizers: &mut Vec<(Id, u32)>) {
        let is_groups = |k: &[Id]| self.pickle.str(k[0]) == Some(b"param_groups");
        if pairs.chunks_exact(2).any(is_groups) {
            optimizers.push((id, path));
        }
        self.follow_pairs(pairs, path);
    }

    fn follow_pairs(&mut self, pairs: &[Id], path: u32) {
        for (i, pair) in pairs.chunks_exact(2).enumerate().rev() {
            let key = match self.pickle.get(pair[0]) {
                Value::Str(_) | Value::Int(_) => Key::Value(pair[0]),
                _ => Key::Index(i),
            };
            self.follow(pair[1], path, key);
        }
    }

    /// Notes that `id` is to be visited, if it can hold a tensor.
    fn follow(&mut self, id: Id, parent: u32, key: Key) {
        match self.pickle.get(id) {
            Value::Tuple(ids) | Value::List(ids) | Value::Dict(ids) if !ids.is_empty() => {}
            Value::Call { .. } | Value::Persistent(_) => {}
            _ => return,
        }
        let depth = self.nodes[parent as usize].depth + 1;
        self.nodes.push(Node { parent, depth, key });
        // Nodes are fewer than the pickle's values, which are fewer than 2^32.
        self.todo.push((id, self.nodes.len() as u32 - 1));
    }

    fn add_view(&mut self, id: Id, function: &str, args: Id, path: u32) {
        let list = self.pickle.sequence(args).unwrap_or_default();
        let call = match view::read(self.pickle, function, list) {
            Ok(call) => call,
            Err(why) => {
                let name = self.path_name(path);
                return self.notes.push(format!("tensor {} {why}", quote(name.as_bytes())));
            }
        };
        let Some(name) = self.name(path) else { return };
        let storage = self.storage(call.storage);
        let view::Call { dtype, offset, shape, strides, .. } = call;
        if self.out.storages[storage].dtype == Dtype::BYTES {
            self.out.storages[storage].dtype = dtype;
        }
        if shape.iter().all(|d| *d == 1) {
            self.scalars.insert(id, self.out.views.len());
        }
        self.out.views.push(View { name, storage, dtype, offset, shape, strides });
    }

    /// A storage saved by itself: a tensor of one dimension.
    fn add_storage(&mut self, id: Id, path: u32) {
        let Ok((storage, 0)) = view::read_storage(self.pickle, id) else { return };
        let Some(name) = self.name(path) else { return };
        let (dtype, shape) = (storage.dtype, vec![storage.n_elements]);
        let storage = self.storage(storage);
        self.out.views.push(View { name, storage, dtype, offset: 0, shape, strides: None });
    }

    fn storage(&mut self, storage: Storage) -> usize {
        if let Some(&known) = self.storages.get(&storage.key) {
            return known;
        }
        self.storages.insert(storage.key.clone(), self.out.storages.len());
        self.out.storages.push(storage);
        self.out.storages.len() - 1
    }

    /// A name for a tensor that no other has; `None` where names have used up their budget.
    fn name(&mut self, path: u32) -> Option<String> {
        let mut name = self.path_name(path);
        if name.is_empty() {
            name.push_str("tensor");
        }
        let used = self.names.get(&name).copied().unwrap_or(0);
        if used > 0 {
            let next = (used..used + 4).map(|n| format!("{name}~{n}"));
            let free = { next }.find(|n| !self.names.contains_key(n))?;
            self.names.insert(name, used + 1);
            name = free;
        }
        let Some(left) = self.name_budget.checked_sub(2 * name.len()) else {
            self.notes.push("tensors have too long names".into());
            return None;
        };
        self.name_budget = left;
        self.names.insert(name.clone(), 1);
        Some(name)
    }

    /// The keys that lead to a node, joined by dots; of too long a path, only the end. Attributes
    /// that hold a module's own parameters are left out.
    pub(super) fn path_name(&self, mut path: u32) -> String {
        let mut keys = Vec::new();
        let mut len = 0;
        while path != 0 && len <= MAX_NAME {
            let node = &self.nodes[path as usize];
            path = node.parent;
            let key = match &node.key {
                Key::None => continue,
                Key::Index(i) => i.to_string(),
                Key::Value(id) => self.key_text(*id),
            };
            if !matches!(key.as_str(), "_parameters" | "_modules" | "_buffers") {
                len += key.len() + 1;
                keys.push(key);
            }
        }
        if !self.prefix.is_empty() {
            keys.push(self.prefix.to_string());
        }
        keys.reverse();
        keys.join(".")
    }

    /// A key of a dict as text.
    pub(super) fn key_text(&self, id: Id) -> String {
        match self.pickle.get(id) {
            Value::Int(n) => n.to_string(),
            Value::Str(text) => {
                let bytes = self.pickle.text(*text);
                String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_NAME)]).into_owned()
            }
            _ => String::new(),
        }
    }
}

/// Whether a class is known to do nothing but hold its arguments or state.
fn is_plain(module: &str, name: &str) -> bool {
    module.starts_with("torch.nn.")
        || module.starts_with("__torch__")
        || module.starts_with("numpy.")
        || module == "torch.jit._pickle"
        || module == "torch.serialization"
        || (module == "torch._utils" && name.starts_with("_rebuild"))
        || (matches!(module, "builtins" | "__builtin__")
            && matches!(name, "set" | "frozenset" | "list" | "dict" | "tuple" | "complex"))
        || (module == "argparse" && name == "Namespace")
        || (module == "pathlib" && name.ends_with("Path"))
}
