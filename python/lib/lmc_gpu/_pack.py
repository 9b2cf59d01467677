"""States of training as files: tensors in safetensors files, everything else in `state.json`.

A state is a tree of dictionaries, lists and tuples. `state.json` holds the tree, with the file and
name of a tensor in the place of each; the files hold the tensors under names that tell what they
are, so that the library finds what belongs together:

    {"model": {"w": …}, "optimizer": {"state": {0: {"exp_avg": …}}, "param_groups": [{…}]}}

    model.safetensors      w
    exp_avg.safetensors    w          moments go by the names of their weights
    optimizer.safetensors  state.0.step
    state.json             the tree
"""

import base64
import collections
import json
import re
import sys

from ._memory import NAMES, at_address, is_array, is_tensor, of_array
from ._pool import OfBytes, OfNumpy, OfTorch, copy_tensors, has_cuda

TREE = "state.json"
_ALIGN = 64
# What safetensors files hold as it is; other types go as bytes.
_LEGAL = set(NAMES.values()) - {"C128", "F4"}


class Packer:
    """Walks over a state and plans where each tensor goes."""

    def __init__(self, state):
        self.files = collections.OrderedDict()
        self.copies = []
        self.length = 0
        self.known = {}
        self.on_device = False
        self.has_torch = False
        self.names = _moments(state)
        self.parts = {}

    def part(self, key):
        """The file of a part of the state."""
        path = self.parts.get(key)
        if path is None:
            good = isinstance(key, str) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", key)
            path = f"{key}.safetensors" if good else f"part{len(self.parts)}.safetensors"
            while path in self.parts.values():
                path = "_" + path
            self.parts[key] = path
        return path

    def walk(self, value, place):
        """The node of a value that stands at `place`, a tuple of keys."""
        if is_tensor(value):
            return self.tensor(value, place)
        if is_array(value):
            return self.array(value, place)
        if value is None or isinstance(value, (bool, str)) and type(value) in (bool, str):
            return value
        if type(value) in (int, float):
            return value
        if isinstance(value, dict):
            kind = type(value)
            if kind not in (dict, collections.OrderedDict, collections.defaultdict):
                raise self.refused(value, place)
            items = [[self.key(k, place), self.walk(v, (*place, k))] for k, v in value.items()]
            return {"dict": items} if kind is not collections.OrderedDict else {"odict": items}
        if type(value) in (list, tuple):
            items = [self.walk(v, (*place, i)) for i, v in enumerate(value)]
            return {"list" if type(value) is list else "tuple": items}
        if type(value) in (set, frozenset):
            items = [self.walk(v, (*place, "…")) for v in sorted(value, key=repr)]
            return {type(value).__name__: items}
        if isinstance(value, (bytes, bytearray)):
            return {type(value).__name__: base64.b64encode(value).decode()}
        if type(value) is complex:
            return {"complex": [value.real, value.imag]}
        torch = sys.modules.get("torch")
        if torch is not None:
            if isinstance(value, torch.Size):
                return {"torch.Size": list(value)}
            if isinstance(value, (torch.dtype, torch.device)):
                name = str(value).removeprefix("torch.")
                return {"torch.dtype" if isinstance(value, torch.dtype) else "torch.device": name}
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
            data = base64.b64encode(value.tobytes()).decode()
            return {
                "scalar": [value.dtype.str if value.dtype.isbuiltin else value.dtype.name, data]
            }
        raise self.refused(value, place)

    @staticmethod
    def refused(value, place):
        where = ".".join(map(str, place)) or "the state"
        return TypeError(
            f"{where} is of type {type(value).__name__}, which is no part of a state: save its "
            "tensors, numbers, texts and bytes in dictionaries, lists and tuples"
        )

    def key(self, key, place):
        if key is None or type(key) in (str, int, float, bool):
            return key
        if type(key) is tuple:
            return {"tuple": [self.key(k, place) for k in key]}
        raise self.refused(key, (*place, "a key"))

    def name(self, place):
        """File and name of the tensor at a place."""
        moment = self.names.get(place)
        if moment is not None:
            leaf, name = moment
            path = self.part(leaf)
        elif len(place) > 1:
            path, name = self.part(place[0]), ".".join(map(str, place[1:]))
        else:
            path, name = self.part("state"), ".".join(map(str, place)) or "state"
        taken = self.files.setdefault(path, {})
        base, n = ("_" if name == "__metadata__" else name), 1
        name = base
        while name in taken:
            n += 1
            name = f"{base}#{n}"
        return path, name

    def add(self, value, place, identity, kind, dtype, shape, length, item):
        """Plans the copy of a tensor, once for the same memory."""
        known = self.known.get(identity) if length else None
        if known is None:
            path, name = self.name(place)
            code = NAMES.get(dtype)
            stored = list(shape)
            if code == "C128":
                code, stored = "F64", [*shape, 2]
            elif code not in _LEGAL:
                code, stored = "U8", [*shape, item]
            self.length = -(-self.length // _ALIGN) * _ALIGN
            self.files[path][name] = (name, code, stored, self.length, length)
            self.copies.append((value, self.length, length))
            self.length += length
            known = (path, name)
            self.known[identity] = known
        return {"tensor": known, "kind": kind, "dtype": dtype, "shape": list(shape)}

    def tensor(self, tensor, place):
        import torch

        from .torch import check, name_of

        self.has_torch = True
        check(tensor, ".".join(map(str, place)))
        kind = "torch"
        if isinstance(tensor, torch.nn.Parameter):
            kind = "parameter"
        elif isinstance(tensor, getattr(torch.nn, "Buffer", ())):
            kind = "buffer"
        source = tensor.detach()
        if type(source) is not torch.Tensor:
            source = source.as_subclass(torch.Tensor)
        if source.is_conj() or source.is_neg():
            source = source.resolve_conj().resolve_neg()
        self.on_device |= source.device.type != "cpu"
        identity = (source.device, source.data_ptr(), source.shape, source.stride(), source.dtype)
        node = self.add(
            source,
            place,
            identity,
            kind,
            name_of(source.dtype),
            source.shape,
            source.numel() * source.element_size(),
            source.element_size(),
        )
        if tensor.requires_grad:
            node["grad"] = True
        return node

    def array(self, array, place):
        from .numpy import plain

        where = ".".join(map(str, place))
        source = plain(array, where)
        dtype = source.dtype.name
        if dtype not in NAMES:
            dtype = source.dtype.str
        address = source.__array_interface__["data"][0]
        identity = ("numpy", address, source.shape, dtype)
        return self.add(
            source, place, identity, "numpy", dtype, source.shape, source.nbytes, source.itemsize
        )


def _moments(state):
    """For the tensors of an optimizer, by their place: the stream they belong to and the name of
    their weights. Parameters have numbers, in the order of the model; so what is left of the
    weights of a shape, in order, has the numbers of that shape, in order. Where that is wrong,
    files are larger and come back the same."""
    if not isinstance(state, dict):
        return {}
    optimizers = [k for k, v in state.items() if _is_optimizer(v)]
    model = state.get("model")
    if len(optimizers) != 1 or not isinstance(model, dict):
        return {}
    key = optimizers[0]
    left = {}
    for name, value in model.items():
        if is_tensor(value):
            left.setdefault(tuple(value.shape), collections.deque()).append(name)
    found = {}
    order = [p for group in state[key]["param_groups"] for p in group.get("params", ())]
    for number in order:
        moments = state[key]["state"].get(number)
        if not isinstance(moments, dict):
            continue
        large = {k: v for k, v in moments.items() if is_tensor(v) and v.ndim and isinstance(k, str)}
        shapes = {tuple(v.shape) for v in large.values()}
        if len(shapes) != 1 or any(k in state for k in large):
            continue
        names = left.get(shapes.pop())
        if not names:
            return {}
        name = names.popleft()
        for leaf in large:
            found[(key, "state", number, leaf)] = (leaf, name)
    return found


def _is_optimizer(value):
    return (
        isinstance(value, dict)
        and isinstance(value.get("state"), dict)
        and isinstance(value.get("param_groups"), list)
        and all(isinstance(g, dict) for g in value["param_groups"])
    )


def pack(state, pool):
    """Copies a state into memory of the pool.

    Returns the memory, the tensors of each file as (name, type, shape, offset, length), and the
    other files."""
    packer = Packer(state)
    tree = packer.walk(state, ())
    if packer.has_torch:
        make = OfTorch(packer.on_device and has_cuda())
    else:
        make = OfNumpy if packer.copies else OfBytes
    memory, lease = pool.take(packer.length, make)
    if packer.has_torch:
        copy_tensors(packer.copies, memory, packer.on_device)
    else:
        for array, at, length in packer.copies:
            if length:
                memory[at : at + length] = of_array(array)
    if packer.length:
        flat = at_address(make.address(memory), packer.length, lease)
    else:
        flat = b""
    files = [(path, list(tensors.values())) for path, tensors in packer.files.items()]
    return (
        flat,
        files,
        [(TREE, json.dumps({"format": "lmc-gpu-state", "version": 1, "tree": tree}).encode())],
    )
