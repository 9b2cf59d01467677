"""How the items of a plan stand in the archive of a rank.

    model.safetensors     weights, and whatever else is no state of an optimizer
    master.safetensors    another copy of the weights, where there is one
    exp_avg.safetensors   the first moments by the names of their weights, and so on for each kind
    objects.safetensors   everything that is no tensor, as bytes

Moments go by the names of their weights, so that the library finds what belongs together. A part
of a tensor has its place behind its name: `layers.0.weight[0:128,0:64]`.
"""

import dataclasses
import re

import torch

from ..._errors import CorruptError
from ..._memory import NAMES, of_tensor
from ..._open import Slice
from .. import check, name_of, plain

# The first descriptor of an item that is in an archive; its file and name follow.
ARCHIVE = "lmc.archive/1"
OBJECTS = "objects.safetensors"
_STATE = re.compile(r"(?:^|\.)state\.(.+)\.([A-Za-z_][A-Za-z0-9_]*)$")
# What the library knows as another copy of the weights, in 32 bits.
_MASTERS = ("fp32", "fp32_weights", "master", "master_weights")
_PLAIN = set(NAMES.values()) - {"C128", "F4"}


@dataclasses.dataclass(frozen=True)
class Item:
    """A stretch of a tensor, or an object, and where it is in its archive."""

    fqn: str
    file: str
    name: str
    # None for objects.
    offsets: tuple | None = None
    sizes: tuple | None = None
    shape: tuple | None = None
    dtype: torch.dtype | None = None

    @property
    def length(self):
        """Bytes of its elements."""
        if self.sizes is None:
            return 0
        count = 1
        for n in self.sizes:
            count *= n
        return count * self.dtype.itemsize


def items(plan):
    """The items of a save plan, in its order."""
    states = {m[1] for m in (_STATE.search(w.index.fqn) for w in plan.items) if m}
    taken = set()
    return [_item(w, states, taken) for w in plan.items]


def _item(write, states, taken):
    fqn = write.index.fqn
    data = write.tensor_data
    if data is None:
        return Item(fqn, OBJECTS, _free(OBJECTS, fqn, taken))
    moment = _STATE.search(fqn)
    if moment:
        file, name = f"{moment[2]}.safetensors", moment[1]
    else:
        part, _, rest = fqn.partition(".")
        file, name = "model.safetensors", fqn
        if rest in states:
            file, name = f"{part}.safetensors" if part in _MASTERS else file, rest
    offsets, sizes = tuple(data.chunk.offsets), tuple(data.chunk.sizes)
    if sizes != tuple(data.size):
        name += "[" + ",".join(f"{o}:{o + n}" for o, n in zip(offsets, sizes)) + "]"
    name = _free(file, name, taken)
    return Item(fqn, file, name, offsets, sizes, tuple(data.size), data.properties.dtype)


def _free(file, name, taken):
    base, n = ("_" if name == "__metadata__" else name), 1
    name = base
    while (file, name) in taken:
        n += 1
        name = f"{base}#{n}"
    taken.add((file, name))
    return name


def stored(tensor, what):
    """Element type, shape and bytes of a tensor as a safetensors file holds it."""
    check(tensor, what)
    tensor = plain(tensor, what)
    code = NAMES.get(name_of(tensor.dtype))
    shape = list(tensor.shape)
    if code == "C128":
        return "F64", [*shape, 2], of_tensor(tensor)
    if code not in _PLAIN:
        return "U8", [*shape, tensor.element_size()], of_tensor(tensor)
    return code, shape, of_tensor(tensor)


def described(dtype, sizes):
    """Element type and shape of a tensor as a safetensors file holds it."""
    code = NAMES.get(name_of(dtype))
    if code == "C128":
        return "F64", [*sizes, 2]
    return ("U8", [*sizes, dtype.itemsize]) if code not in _PLAIN else (code, list(sizes))


class Part:
    """What is stored of a tensor in an open archive."""

    def __init__(self, reader, entry, dtype, sizes):
        code, shape = described(dtype, sizes)
        if entry.dtype != code or entry.shape != shape:
            raise CorruptError(
                f'"{entry.name}" is {entry.dtype} {entry.shape} in its archive, and {code} {shape} '
                "in the checkpoint's metadata"
            )
        self.reader = reader
        self.entry = entry
        self.dtype = dtype
        self.sizes = list(sizes)
        self.is_plain = shape == self.sizes

    def read_into(self, target, offsets, lengths):
        """Decodes what is from `offsets` on into `target`, and nothing else where the elements
        follow one another."""
        if not target.numel():
            return
        own = list(lengths) == self.sizes and target.dtype == self.dtype
        if own and target.device.type == "cpu" and target.is_contiguous():
            out = of_tensor(target)
            self.reader.native.read_into(self.entry.file, self.entry.offset, out, self.entry.name)
            return
        target.copy_(self.read(offsets, lengths))

    def read(self, offsets, lengths):
        """The elements from `offsets` on."""
        index = tuple(slice(o, o + n) for o, n in zip(offsets, lengths))
        from ... import torch as frame

        if self.is_plain:
            return Slice(frame, self.reader, self.entry, "cpu")[index]
        whole = frame.read(self.reader, self.entry).reshape(-1).view(torch.uint8)
        return whole.view(self.dtype).view(self.sizes)[index]
