"""States of training as files: tensors in safetensors files, everything else in `state.json`.

A state is a tree of dictionaries, lists and tuples. `state.json` holds the tree, with the file and
name of a tensor in the place of each; the files hold the tensors under names that tell what they
are, so that the library finds what belongs together:

    {"model": {"w": …}, "optimizer": {"state": {0: {"exp_avg": …}}, "param_groups": [{…}]}}

    model.safetensors      w
    exp_avg.safetensors    w          moments go by the names of their weights, where those are known
    optimizer.safetensors  state.0.step
    state.json             the tree
"""

import base64
import collections
import json
import re
import sys
import threading

from ._errors import CorruptError, UnsupportedError
from ._memory import NAMES, at_address, is_array, is_tensor, of_array

TREE = "state.json"
_ALIGN = 64
# What safetensors files hold as it is; other types go as bytes.
_LEGAL = set(NAMES.values()) - {"C128", "F4"}


class Pool:
    """Memory for copies of states, used again when nobody reads it any more."""

    def __init__(self):
        self._free = []
        self._lock = threading.Lock()

    def take(self, length, make):
        """Memory of at least `length` bytes, made by `make` where none is free, and its lease."""
        with self._lock:
            fit = [m for m in self._free if make.fits(m) and length <= make.length(m)]
            # Memory of other sizes is of a state that is no longer saved.
            self._free = []
            memory = fit.pop() if fit else None
            self._free.extend(fit)
        if memory is None:
            memory = make.new(length)
        return memory, _Lease(self, memory)

    def give(self, memory):
        """Takes memory back."""
        with self._lock:
            self._free.append(memory)


class _Lease:
    """Gives memory back when it is collected."""

    def __init__(self, pool, memory):
        self._pool = pool
        self._memory = memory

    def __del__(self):
        self._pool.give(self._memory)


class _OfNumpy:
    """Copies held by numpy."""

    @staticmethod
    def fits(memory):
        return is_array(memory)

    @staticmethod
    def length(memory):
        return memory.size

    @staticmethod
    def new(length):
        import numpy

        return numpy.empty(length, numpy.uint8)

    @staticmethod
    def address(memory):
        return memory.__array_interface__["data"][0]


class _OfTorch:
    """Copies held by torch, pinned where a device is to write to them."""

    def __init__(self, pinned):
        self.pinned = pinned

    def fits(self, memory):
        return is_tensor(memory) and (not self.pinned or memory.is_pinned())

    @staticmethod
    def length(memory):
        return memory.numel()

    def new(self, length):
        import torch

        return torch.empty(length, dtype=torch.uint8, pin_memory=self.pinned)

    @staticmethod
    def address(memory):
        return memory.data_ptr()


class _Bytes:
    """Copies of states without tensors."""

    @staticmethod
    def fits(memory):
        return isinstance(memory, bytearray)

    @staticmethod
    def length(memory):
        return len(memory)

    @staticmethod
    def new(length):
        return bytearray(length)


class _Packer:
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
            items = [
                [self.key(k, place), self.walk(v, (*place, k))] for k, v in value.items()
            ]
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
            return {"scalar": [value.dtype.str if value.dtype.isbuiltin else value.dtype.name, data]}
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

        from .torch import name_of, plain

        self.has_torch = True
        where = ".".join(map(str, place))
        checked = plain(tensor[:0] if tensor.ndim and _is_simple(tensor) else tensor, where)
        del checked
        kind = "torch"
        if isinstance(tensor, torch.nn.Parameter):
            kind = "parameter"
        elif isinstance(tensor, getattr(torch.nn, "Buffer", ())):
            kind = "buffer"
        source = tensor.detach()
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


def _is_simple(tensor):
    import torch

    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and tensor.device.type != "meta"
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
    packer = _Packer(state)
    tree = packer.walk(state, ())
    if packer.has_torch:
        make = _OfTorch(packer.on_device and _has_cuda())
    else:
        make = _OfNumpy if packer.copies else _Bytes
    memory, lease = pool.take(packer.length, make)
    if packer.has_torch:
        _copy_torch(packer.copies, memory, packer.on_device)
    else:
        for array, at, length in packer.copies:
            if length:
                memory[at : at + length] = of_array(array)
    if packer.length:
        flat = at_address(make.address(memory), packer.length, lease)
    else:
        flat = b""
    files = [(path, list(tensors.values())) for path, tensors in packer.files.items()]
    return flat, files, [(TREE, json.dumps({"format": "lmc-gpu-state", "version": 1, "tree": tree}).encode())]


def _has_cuda():
    import torch

    return torch.cuda.is_available()


def _copy_torch(copies, memory, on_device):
    """Copies tensors and arrays into memory of torch. What was submitted to a device before is
    waited for, what is submitted after may overwrite the tensors."""
    import torch

    with torch.no_grad():
        if not on_device or not _has_cuda():
            for value, at, length in copies:
                _copy_one(value, memory[at : at + length], False)
            return
        streams = {}
        for value, at, length in copies:
            if not is_tensor(value) or value.device.type != "cuda":
                _copy_one(value, memory[at : at + length], False)
                continue
            stream = streams.get(value.device)
            if stream is None:
                stream = streams[value.device] = torch.cuda.Stream(value.device)
                stream.wait_stream(torch.cuda.current_stream(value.device))
            with torch.cuda.stream(stream):
                _copy_one(value, memory[at : at + length], True)
                value.record_stream(stream)
        for stream in streams.values():
            stream.synchronize()


def _copy_one(value, out, non_blocking):
    import torch

    if not out.numel():
        return
    if is_array(value):
        out.numpy()[:] = of_array(value)
        return
    if not value.is_contiguous():
        value = value.contiguous()
    out.copy_(value.reshape(-1).view(torch.uint8), non_blocking=non_blocking)


class _Source:
    """The tree of a state, and where its tensors are."""

    def __init__(self, reader):
        self.reader = reader
        paths = {path: i for i, (path, _, _) in enumerate(reader.files)}
        tree = paths.get(TREE)
        if tree is None:
            raise UnsupportedError(
                f"the step holds no state of a Checkpointer ({TREE} is not there): restore it "
                "with Store.restore, or open it with Store.open"
            )
        text = reader.native.read(tree, 0, reader.files[tree][1])
        found = json.loads(text)
        if found.get("format") != "lmc-gpu-state" or found.get("version") != 1:
            raise UnsupportedError(f"{TREE} is of a version that this package does not read")
        self.tree = found["tree"]
        self.entries = {}
        for entry in reader.entries.values():
            self.entries[reader.files[entry.file][0], entry.name] = entry

    def entry(self, node):
        """The place of a tensor's bytes."""
        path, name = node["tensor"]
        entry = self.entries.get((path, name))
        if entry is None:
            raise CorruptError(f"{TREE} names a tensor {name!r} in {path} that is not there")
        return entry


def unpack(reader, device=None):
    """The state of an open step."""
    source = _Source(reader)
    memory, made = None, {}
    total = reader.native.total
    text = json.dumps(source.tree)
    use_torch = '"kind": "torch"' in text or '"kind": "parameter"' in text or '"kind": "buffer"' in text
    if '"tensor": [' in text:
        if use_torch:
            import torch

            memory = torch.empty(total, dtype=torch.uint8)
            reader.native.read_all_into(at_address(memory.data_ptr(), total, memory))
        else:
            import numpy

            memory = numpy.empty(total, numpy.uint8)
            reader.native.read_all_into(memory)

    def tensor(node):
        key = (tuple(node["tensor"]), node["kind"], node["dtype"], tuple(node["shape"]), node.get("grad"))
        # The same memory comes back as the same tensor.
        if key in made:
            return made[key]
        entry = source.entry(node)
        start = reader.starts[entry.file] + entry.offset
        part = memory[start : start + entry.extent]
        if node["kind"] == "numpy":
            value = _array(part.numpy() if use_torch else part, node)
        else:
            value = _tensor(part, node, device)
        made[key] = value
        return value

    return _build(source.tree, tensor)


def _array(part, node):
    import numpy

    from .numpy import dtype_of

    dtype = dtype_of(NAMES[node["dtype"]]) if node["dtype"] in NAMES else numpy.dtype(node["dtype"])
    if part.__array_interface__["data"][0] % dtype.alignment:
        part = part.copy()
    return part.view(dtype).reshape(node["shape"])


def _tensor(part, node, device):
    import torch

    dtype = getattr(torch, node["dtype"], None)
    if dtype is None:
        raise UnsupportedError(f"this version of torch has no type {node['dtype']}")
    if part.storage_offset() % dtype.itemsize or part.data_ptr() % dtype.itemsize:
        part = part.clone()
    value = part.view(dtype).view(node["shape"])
    if device is not None:
        value = value.to(device)
    if node["kind"] == "parameter":
        return torch.nn.Parameter(value, requires_grad=bool(node.get("grad")))
    if node["kind"] == "buffer" and hasattr(torch.nn, "Buffer"):
        return torch.nn.Buffer(value)
    return value.requires_grad_() if node.get("grad") else value


def _key(node):
    return tuple(_key(k) for k in node["tuple"]) if isinstance(node, dict) else node


def _build(node, tensor):
    """The value of a node of the tree."""
    if not isinstance(node, dict):
        return node
    if "tensor" in node:
        return tensor(node)
    ((kind, content),) = node.items()
    if kind in ("dict", "odict"):
        items = ((_key(k), _build(v, tensor)) for k, v in content)
        return dict(items) if kind == "dict" else collections.OrderedDict(items)
    if kind in ("list", "tuple", "set", "frozenset"):
        make = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        return make(_build(v, tensor) for v in content)
    if kind in ("bytes", "bytearray"):
        data = base64.b64decode(content)
        return data if kind == "bytes" else bytearray(data)
    if kind == "complex":
        return complex(*content)
    if kind == "scalar":
        import numpy

        from .numpy import dtype_of

        name, data = content
        dtype = dtype_of(NAMES[name]) if name in NAMES else numpy.dtype(name)
        return numpy.frombuffer(base64.b64decode(data), dtype)[0]
    if kind.startswith("torch."):
        import torch

        if kind == "torch.Size":
            return torch.Size(content)
        return torch.device(content) if kind == "torch.device" else getattr(torch, content)
    raise UnsupportedError(f"{TREE} holds {kind!r}, which this package does not know")


def assign(reader, state):
    """Writes the state of an open step into `state`."""
    source = _Source(reader)
    writes = []
    _match(source, source.tree, state, (), writes)
    for write in writes:
        write()
    return state


def _match(source, node, value, place, writes):
    """Checks that a value has the nesting of a node and notes what is to be written."""
    where = ".".join(map(str, place)) or "the state"
    if isinstance(node, dict) and "tensor" in node:
        shape = list(getattr(value, "shape", ()))
        known = is_array(value) or is_tensor(value)
        dtype = str(value.dtype).removeprefix("torch.") if known else type(value).__name__
        if not known or shape != node["shape"] or dtype != node["dtype"]:
            raise ValueError(
                f"{where} is {dtype} {shape}, and the step has {node['dtype']} {node['shape']}"
            )
        entry = source.entry(node)
        writes.append(lambda: _fill(source.reader, entry, value, node))
    elif isinstance(node, dict) and ("dict" in node or "odict" in node):
        items = node.get("dict", node.get("odict"))
        keys = [_key(k) for k, _ in items]
        if not isinstance(value, dict) or set(keys) != set(value):
            have = sorted(map(str, value)) if isinstance(value, dict) else type(value).__name__
            raise ValueError(f"{where} has {have}, and the step has {sorted(map(str, keys))}")
        for key, (_, child) in zip(keys, items):
            _place(source, child, value, key, (*place, key), writes)
    elif isinstance(node, dict) and ("list" in node or "tuple" in node):
        items = node.get("list", node.get("tuple"))
        if not isinstance(value, (list, tuple)) or len(items) != len(value):
            raise ValueError(f"{where} is no list of {len(items)}, which the step has")
        for i, child in enumerate(items):
            _place(source, child, value, i, (*place, i), writes)
    elif _build(node, None) != value:
        raise ValueError(f"{where} cannot be changed in place: it is {value!r}")


def _place(source, node, container, key, place, writes):
    """Notes what is to be written at one place of a container."""
    nested = isinstance(node, dict) and not {"tensor", "dict", "odict", "list", "tuple"}.isdisjoint(node)
    if nested or isinstance(container, tuple):
        _match(source, node, container[key], place, writes)
    else:
        writes.append(lambda: container.__setitem__(key, _build(node, None)))


def _fill(reader, entry, value, node):
    """Decodes a tensor into memory that there is."""
    if not entry.extent:
        return
    if is_array(value):
        if value.flags.c_contiguous and value.dtype.isnative:
            reader.native.read_into(entry.file, entry.offset, of_array(value), entry.name)
        else:
            import numpy

            part = numpy.empty(entry.extent, numpy.uint8)
            reader.native.read_into(entry.file, entry.offset, part, entry.name)
            value[...] = _array(part, node)
        return
    import torch

    with torch.no_grad():
        tensor = value.detach()
        if tensor.device.type == "cpu" and tensor.is_contiguous():
            out = at_address(tensor.data_ptr(), entry.extent, tensor)
            reader.native.read_into(entry.file, entry.offset, out, entry.name)
            return
        part = torch.empty(entry.extent, dtype=torch.uint8)
        out = at_address(part.data_ptr(), entry.extent, part)
        reader.native.read_into(entry.file, entry.offset, out, entry.name)
        tensor.copy_(_tensor(part, {**node, "kind": "torch", "grad": False}, None))
