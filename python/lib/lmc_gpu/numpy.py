"""Arrays of numpy: what `safetensors.numpy` does, compressed.

Types that numpy does not have, bfloat16 and those of 8 bits, come as those of `ml_dtypes` where
that package is installed, and else as unsigned integers of the same width.
"""

import numpy as np

from ._errors import UnsupportedError
from ._memory import TYPES, of_array
from ._names import code_of, in_order
from ._open import Reader
from ._save import to_bytes, to_file

__all__ = ["load", "load_file", "save", "save_file"]


def save(tensor_dict, metadata=None, *, base=None, method="auto", threads=None):
    """Compresses arrays as one safetensors file in memory.

    Args:
        tensor_dict: arrays by name.
        metadata: texts by name.
        base: what the archive becomes a delta to: an archive or safetensors file in memory, or
            a path.
        method, threads: as for `lmc_gpu.compress`.

    Returns:
        The archive as `bytes`.

    >>> import numpy, lmc_gpu.numpy
    >>> archive = lmc_gpu.numpy.save({"w": numpy.arange(6.0).reshape(2, 3)})
    >>> lmc_gpu.numpy.load(archive)["w"].shape
    (2, 3)
    """
    return to_bytes(_lent(tensor_dict), metadata, base=base, method=method, threads=threads)


def save_file(
    tensor_dict,
    filename,
    metadata=None,
    *,
    base=None,
    method="auto",
    threads=None,
    device=None,
    progress=None,
):
    """Compresses arrays as one safetensors file into the archive `filename`, which appears whole
    or not at all and replaces what was there.

    Args:
        tensor_dict: arrays by name. Those that are not contiguous, or big-endian, are copied.
        filename: path of the archive. Without `.lmc` at its end it is the name of the file inside.
            Or an open file to write to, for an archive that is made in memory first.
        metadata: texts by name.
        base: path of what the archive becomes a delta to. To read it, the base has to be there.
        method, threads, device, progress: as for `lmc_gpu.compress`.

    Raises:
        TypeError: for what is no array.
        UnsupportedError: for types that safetensors files do not have.
    """
    chosen = {"base": base, "method": method, "threads": threads, "device": device}
    to_file(_lent(tensor_dict), filename, metadata, progress, **chosen)


def load(data, *, base=None):
    """The arrays of an archive, or of a raw safetensors file, in memory."""
    return _all(Reader.of_bytes(data, base))


def load_file(filename, *, base=None, threads=None):
    """The arrays of an archive, or of a raw file, by name. They share one stretch of memory.

    Args:
        filename: path of the archive or file, or an open file that can seek.
        base: path of what the archive is a delta to; by default it is looked for beside it.
        threads: how many threads work; one a core by default.

    Raises:
        CorruptError, BaseMismatchError, MissingFileError: as for `lmc_gpu.safe_open`.

    >>> import numpy, lmc_gpu.numpy, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors.lmc")
    >>> lmc_gpu.numpy.save_file({"w": numpy.zeros((2, 3), "float32")}, path)
    >>> lmc_gpu.numpy.load_file(path)["w"].dtype
    dtype('float32')
    """
    return _all(Reader.open(filename, base, threads))


def plain(array, what):
    """The array contiguous and little-endian."""
    if array.dtype.hasobject or array.dtype.fields is not None:
        raise UnsupportedError(f"{what} is of type {array.dtype}, which no file can hold")
    order = array.dtype.byteorder
    if order == ">" or (order == "=" and np.little_endian is False):
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.asarray(array, order="C")


def _lent(arrays):
    """Arrays as the extension takes them."""
    if not isinstance(arrays, dict):
        raise TypeError(f"the arrays are a dictionary by name, not {type(arrays).__name__}")
    lent = []
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"the name {name!r} is no text")
        if not isinstance(array, (np.ndarray, np.generic)):
            raise TypeError(f'tensor "{name}" is no array of numpy but {type(array).__name__}')
        array = plain(np.asanyarray(array), f'tensor "{name}"')
        code = code_of(array.dtype.name, f'tensor "{name}"')
        lent.append((name, code, list(array.shape), of_array(array)))
    return in_order(lent)


def dtype_of(code):
    """The dtype of an element type, `None` where there is none."""
    name = TYPES.get(code)
    if name is None or code == "F4":
        return None
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        return np.dtype("uint16" if code == "BF16" else "uint8")


def view(memory, entry):
    """The array of a tensor whose bytes `memory` holds."""
    dtype = dtype_of(entry.dtype)
    if dtype is None:
        # Packed types: the bytes.
        return memory
    if entry.big_endian and dtype.itemsize > 1:
        word = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
        memory = memory.view(f"u{word}").byteswap().view(np.uint8)
    address = memory.__array_interface__["data"][0]
    if address % dtype.alignment:
        memory = memory.copy()
    flat = memory.view(dtype)
    if entry.strides is None:
        return flat.reshape(entry.shape)
    if 0 in entry.shape:
        return np.empty(entry.shape, dtype)
    strides = [s * dtype.itemsize for s in entry.strides]
    return np.lib.stride_tricks.as_strided(flat, entry.shape, strides).copy()


def read(reader, entry, device="cpu"):
    """The array of a tensor in a checkpoint."""
    memory = np.empty(entry.extent, np.uint8)
    if entry.extent:
        reader.native.read_into(entry.file, entry.offset, memory, entry.name)
    return view(memory, entry)


def _all(reader):
    memory = np.empty(reader.native.total, np.uint8)
    if memory.size:
        reader.native.read_all_into(memory)
    found = {}
    for name, entry in reader.entries.items():
        start = reader.starts[entry.file] + entry.offset
        found[name] = view(memory[start : start + entry.extent], entry)
    return found
