"""Tensors out of a checkpoint, one at a time."""

import json
import os

from . import _native
from ._codec import choices
from ._errors import ArgumentError
from ._files import is_file, readable


def _width(dtype, code):
    """Bytes of an element, by its dtype in numpy or torch; 0 where they are not whole bytes."""
    return 0 if dtype is None or code == "F4" else dtype.itemsize


class Entry:
    """Where a tensor is in a checkpoint."""

    __slots__ = ("file", "name", "dtype", "shape", "strides", "offset", "extent", "big_endian")

    def __init__(self, file, name, dtype, shape, strides, offset, extent, big_endian):
        self.file = file
        self.name = name
        self.dtype = dtype
        self.shape = list(shape)
        self.strides = strides
        self.offset = offset
        self.extent = extent
        self.big_endian = big_endian

    @property
    def is_plain(self):
        """Whether its bytes are the elements, one after the other, as memory has them."""
        return self.strides is None and not self.big_endian


class Reader:
    """An open checkpoint: its files and the tensors in them."""

    def __init__(self, native):
        self.native = native
        self.files = native.files()
        self.formats = []
        self.starts = []
        self.entries = {}
        at = 0
        found = []
        for i, (path, length, is_directory) in enumerate(self.files):
            self.starts.append(at)
            at += length
            tensors = ()
            if is_directory:
                self.formats.append("directory")
            else:
                name, tensors = native.tensors(i)
                self.formats.append(name)
            found.extend((path, Entry(i, *t)) for t in tensors)
        names = {}
        for _, entry in found:
            names[entry.name] = names.get(entry.name, 0) + 1
        for path, entry in found:
            key = entry.name if names[entry.name] == 1 else f"{path}:{entry.name}"
            self.entries[key] = entry

    @classmethod
    def open(cls, path, base=None, threads=None):
        """Opens what is at a path, or an open file."""
        chosen = choices(base=base, threads=threads)
        if is_file(path):
            return cls(_native.Checkpoint.from_bytes(readable(path), chosen))
        return cls(_native.Checkpoint.open(os.fspath(path), chosen))

    @classmethod
    def of_bytes(cls, data, base=None):
        """Opens what is in memory."""
        return cls(_native.Checkpoint.from_bytes(data, choices(base=base)))

    def find(self, name):
        """The place of a tensor."""
        entry = self.entries.get(name)
        if entry is None:
            import difflib

            near = difflib.get_close_matches(str(name), self.entries, 3, 0)
            hint = f"; the nearest are {', '.join(map(repr, near))}" if near else ""
            error = ArgumentError(f"there is no tensor {name!r}{hint}")
            error.tensor = name
            raise error
        return entry

    def metadata(self):
        """The texts that stand beside the tensors of safetensors files."""
        found = None
        for i, kind in enumerate(self.formats):
            if kind == "safetensors":
                length = int.from_bytes(self.native.read(i, 0, 8), "little")
                header = json.loads(self.native.read(i, 8, length))
                own = header.get("__metadata__")
                if own is not None:
                    found = {**(found or {}), **own}
        return found


def _frame(framework):
    """The module that makes tensors of a framework."""
    if framework in ("np", "numpy"):
        from . import numpy as frame
    elif framework in ("pt", "torch", "pytorch"):
        from . import torch as frame
    else:
        raise ArgumentError(f'no framework {framework!r}: choose "np" or "pt"')
    return frame


class safe_open:  # noqa: N801 - the name is the one of safetensors
    """Opens an archive, or a raw file of any format that the library knows, and reads tensors.

    Args:
        path: path of the archive or file, or an open file that can seek, such as those of fsspec.
        framework: `"np"` (or `"numpy"`) for arrays, `"pt"` (or `"torch"`) for tensors.
        device: where tensors of torch go.
        base: path of what the archive is a delta to; by default it is looked for beside it.
        threads: how many threads read a large tensor; one a core by default.

    Raises:
        MissingFileError: where there is no such file, as `FileNotFoundError`.
        CorruptError, BaseMismatchError: also from every method that reads.

    >>> import lmc_gpu.numpy, numpy, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors.lmc")
    >>> lmc_gpu.numpy.save_file({"w": numpy.ones((4, 3), "float32")}, path, {"step": "7"})
    >>> with lmc_gpu.safe_open(path, framework="np") as f:
    ...     f.keys(), f.metadata(), f.get_slice("w")[1:3, 0].tolist()
    (['w'], {'step': '7'}, [1.0, 1.0])
    """

    def __init__(self, path, framework="np", device="cpu", base=None, *, threads=None):
        self._frame = _frame(framework)
        self._device = device
        self._reader = Reader.open(path, base, threads)

    @classmethod
    def of(cls, reader, framework="np", device="cpu"):
        """The same of a checkpoint that is open already."""
        made = cls.__new__(cls)
        made._frame = _frame(framework)
        made._device = device
        made._reader = reader
        return made

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self._reader = None

    def _open(self):
        if self._reader is None:
            raise ArgumentError("the file is closed")
        return self._reader

    def keys(self):
        """Names of the tensors, sorted. Where several files have a tensor of the same name, they
        are called `FILE:TENSOR`."""
        return sorted(self._open().entries)

    def offset_keys(self):
        """Names of the tensors, in the order of the file."""
        entries = self._open().entries
        return sorted(entries, key=lambda k: (entries[k].file, entries[k].offset))

    def metadata(self):
        """The texts that stand beside the tensors, a dictionary, or `None`."""
        return self._open().metadata()

    def get_tensor(self, name):
        """A tensor as a whole.

        Raises:
            ArgumentError: where there is no such tensor.
            CorruptError: where what holds it is damaged; `tensor` and `chunk` say where.
        """
        reader = self._open()
        return self._frame.read(reader, reader.find(name), self._device)

    def get_slice(self, name):
        """A tensor to be indexed: only what holds the elements asked for is decoded."""
        reader = self._open()
        return Slice(self._frame, reader, reader.find(name), self._device)

    def get_tensors(self):
        """All tensors by name."""
        return {name: self.get_tensor(name) for name in self.keys()}


class Slice:
    """A tensor that is read when it is indexed."""

    def __init__(self, frame, reader, entry, device):
        self._frame = frame
        self._reader = reader
        self._entry = entry
        self._device = device

    def get_shape(self):
        """Its dimensions."""
        return list(self._entry.shape)

    def get_dtype(self):
        """Its element type, by the name in safetensors files."""
        return self._entry.dtype

    def __getitem__(self, index):
        """The elements that integers, slices and `...` choose, with the shape that numpy gives."""
        entry = self._entry
        index = expand(index, entry.shape)
        width = _width(self._frame.dtype_of(entry.dtype), entry.dtype)
        if not entry.is_plain or not width or 0 in entry.shape:
            whole = self._frame.read(self._reader, entry, self._device)
            return whole[tuple(index)]
        rows = list(entry.shape)
        at = 0
        # Leading integers and the first slice choose one stretch of the elements.
        while rows and isinstance(index[0], int):
            stride = product(rows[1:])
            at += index.pop(0) * stride
            rows.pop(0)
        if rows:
            chosen = range(rows[0])[index[0]]
            if not chosen:
                low, high = 0, 0
            else:
                low, high = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1]) + 1
            at += low * product(rows[1:])
            index[0] = relative(chosen, low)
            rows[0] = high - low
        part = Entry(
            entry.file,
            entry.name,
            entry.dtype,
            rows,
            None,
            entry.offset + at * width,
            product(rows) * width,
            False,
        )
        found = self._frame.read(self._reader, part, self._device)
        return found[tuple(index)] if rows else found


def relative(chosen, low):
    """The slice that chooses the same elements once `low` elements are gone."""
    if not chosen:
        return slice(0, 0)
    stop = chosen[-1] - low + (1 if chosen.step > 0 else -1)
    return slice(chosen[0] - low, None if stop < 0 else stop, chosen.step)


def product(numbers):
    """The product of some numbers."""
    total = 1
    for n in numbers:
        total *= n
    return total


def expand(index, shape):
    """One integer or slice for every dimension."""
    index = list(index) if isinstance(index, tuple) else [index]
    dots = sum(1 for i in index if i is ...)
    if dots > 1:
        raise IndexError("an index has one ellipsis at most")
    if len(index) - dots > len(shape):
        raise IndexError(f"too many indices for a tensor of {len(shape)} dimensions")
    missing = [slice(None)] * (len(shape) - len(index) + dots)
    if dots:
        at = next(i for i, part in enumerate(index) if part is ...)
        index[at : at + 1] = missing
    else:
        index += missing
    for d, part in enumerate(index):
        if isinstance(part, slice):
            continue
        if isinstance(part, bool) or not hasattr(part, "__index__"):
            raise TypeError("tensors are indexed by integers, slices and ...")
        i = part.__index__()
        if not -shape[d] <= i < shape[d]:
            raise IndexError(f"index {i} is out of range for dimension {d} of {shape[d]}")
        index[d] = i % shape[d]
    return index
