"""States of training out of files: what `_pack` wrote, as new objects or into those there are."""

import base64
import collections
import json

from ._errors import CorruptError, UnsupportedError
from ._memory import NAMES, at_address, is_array, is_tensor, of_array
from ._pack import TREE


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
        self.paths = paths
        self.entries = {}
        for entry in reader.entries.values():
            self.entries[reader.files[entry.file][0], entry.name] = entry

    def entry(self, node):
        """The place of a tensor's bytes."""
        path, name = node["tensor"]
        entry = self.entries.get((path, name))
        if path not in self.paths:
            raise UnsupportedError(
                f"the step has given up the state of its optimizer ({path}), as `state_last` of the "
                "store has it: Store.open gives the tensors that it kept"
            )
        if entry is None:
            raise CorruptError(f"{TREE} names a tensor {name!r} in {path} that is not there")
        return entry


def unpack(reader, device=None):
    """The state of an open step."""
    source = _Source(reader)
    memory, made = None, {}
    total = reader.native.total
    text = json.dumps(source.tree)
    use_torch = (
        '"kind": "torch"' in text or '"kind": "parameter"' in text or '"kind": "buffer"' in text
    )
    if '"tensor": [' in text:
        if use_torch:
            from .torch import room

            memory = room(total)
            reader.native.read_all_into(at_address(memory.data_ptr(), total, memory))
        else:
            import numpy

            memory = numpy.empty(total, numpy.uint8)
            reader.native.read_all_into(memory)

    def tensor(node):
        key = (
            tuple(node["tensor"]),
            node["kind"],
            node["dtype"],
            tuple(node["shape"]),
            node.get("grad"),
        )
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

    return build(source.tree, tensor)


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


def build(node, tensor):
    """The value of a node of the tree."""
    if not isinstance(node, dict):
        return node
    if "tensor" in node:
        return tensor(node)
    ((kind, content),) = node.items()
    if kind in ("dict", "odict"):
        items = ((_key(k), build(v, tensor)) for k, v in content)
        return dict(items) if kind == "dict" else collections.OrderedDict(items)
    if kind in ("list", "tuple", "set", "frozenset"):
        make = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        return make(build(v, tensor) for v in content)
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
    elif build(node, None) != value:
        raise ValueError(f"{where} cannot be changed in place: it is {value!r}")


def _place(source, node, container, key, place, writes):
    """Notes what is to be written at one place of a container."""
    nested = isinstance(node, dict) and not {"tensor", "dict", "odict", "list", "tuple"}.isdisjoint(
        node
    )
    if nested or isinstance(container, tuple):
        _match(source, node, container[key], place, writes)
    else:
        writes.append(lambda: container.__setitem__(key, build(node, None)))


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
