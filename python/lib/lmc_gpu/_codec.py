"""Compressing and decompressing, in memory and on disk."""

import json
import os

from . import _native
from ._files import is_file
from ._memory import NAMES, at_address, is_array, is_tensor, lend, of_array


def choices(
    *,
    method="auto",
    threads=None,
    dtype=None,
    base=None,
    overwrite=False,
    follow_symlinks=False,
    device=None,
):
    """The choices that every function of the extension takes."""
    # Bytes are a checkpoint in memory here, never a path. A list is of what a base is made of.
    if isinstance(base, (str, os.PathLike)):
        base = os.fsdecode(base)
    elif base is not None and not isinstance(base, list) and not is_file(base):
        base = lend(base)[0]
    return {
        "method": method,
        "threads": threads,
        "dtype": None if dtype is None else type_name(dtype),
        "base": base,
        "overwrite": overwrite,
        "follow_symlinks": follow_symlinks,
        "device": device,
    }


def type_name(dtype):
    """The name of an element type: a string, or a dtype of numpy or torch."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.removeprefix("torch.")
    return NAMES.get(name, name)


def compress(
    data, *, dtype=None, base=None, method="auto", threads=None, device=None, progress=None
):
    """Compresses bytes, an array or a tensor into an archive.

    The data is read where it is. Nobody may write to it until this returns; a `bytearray` cannot
    be resized meanwhile.

    Args:
        data: anything with a contiguous buffer (`bytes`, `memoryview`, a numpy array), a torch
            tensor, or what exports DLPack. Arrays and tensors that are not contiguous are copied.
        dtype: type of the elements, such as `"bf16"`, `numpy.float32` or `torch.bfloat16`. By
            default that of the array or tensor; bytes are looked at for the formats of model
            files.
        base: what the archive becomes a delta to: bytes of the same kind, or the path of a file.
        method: how to code, a name that `lmc-gpu compress --method` takes.
        threads: how many threads work; one a core by default. The archive does not depend on it.
        device: `"gpu"`, or number or name of an adapter that makes transforms.
        progress: called with the number of bytes dealt with since the last call, such as
            `tqdm.update`.

    Returns:
        The archive, which `decompress` and the command `lmc-gpu` read.

    Raises:
        ArgumentError: where a name is unknown.
        BufferError: where memory is not contiguous.

    >>> import lmc_gpu
    >>> archive = lmc_gpu.compress(b"weights" * 1000, method="max", threads=1)
    >>> lmc_gpu.decompress(archive)[:7]
    b'weights'
    """
    buffer, own = lend(data)
    chosen = choices(
        dtype=own if dtype is None else dtype,
        base=base,
        method=method,
        threads=threads,
        device=device,
    )
    return _native.compress(buffer, chosen, progress)


def decompress(data, *, out=None, base=None, threads=None, progress=None):
    """Decompresses an archive of one file.

    Args:
        data: the archive, as a buffer.
        out: memory that takes the file, with exactly its length: a `bytearray`, a writable
            `memoryview`, an array or a tensor on the CPU. What it holds after an error is not
            defined.
        base: what the archive is a delta to: the same bytes as for `compress`, or a path.
        threads: how many threads work; one a core by default.
        progress: called with the number of bytes dealt with since the last call.

    Returns:
        The file as `bytes`, or `out`.

    Raises:
        CorruptError: where the archive is damaged; `chunk` says where.
        BaseMismatchError: where the base is missing or another one.
        ArgumentError: where `out` has another length, or the archive holds a directory.

    >>> import lmc_gpu
    >>> out = bytearray(4000)
    >>> lmc_gpu.decompress(lmc_gpu.compress(b"abcd" * 1000), out=out) is out
    True
    >>> bytes(out[:4])
    b'abcd'
    """
    buffer, _ = lend(data)
    into = None if out is None else writable(out)
    found = _native.decompress(buffer, into, choices(base=base, threads=threads), progress)
    return found if out is None else out


def writable(out):
    """A buffer of the caller's memory."""
    if is_tensor(out):
        if out.device.type != "cpu" or not out.is_contiguous():
            raise BufferError("the output is a contiguous tensor on the CPU")
        return at_address(out.data_ptr(), out.numel() * out.element_size(), out) or bytearray()
    if is_array(out):
        if not out.flags.c_contiguous or not out.flags.writeable:
            raise BufferError("the output is a contiguous array that can be written to")
        return of_array(out) if out.size else bytearray()
    return out


def compress_file(
    source,
    out=None,
    *,
    dtype=None,
    base=None,
    method="auto",
    threads=None,
    device=None,
    overwrite=False,
    follow_symlinks=False,
    progress=None,
):
    """Compresses a file or directory into the archive `out`, by default `source` + `.lmc`.

    `out` appears whole or not at all.

    Args:
        source: path of the file or directory.
        out: path of the archive.
        dtype: element type of files that are arrays without a header.
        base: path of what the archive becomes a delta to.
        method, threads, device, progress: as for `compress`.
        overwrite: whether an existing file is replaced.
        follow_symlinks: whether symbolic links are followed; they are an error otherwise.

    Returns:
        A dictionary: `input_bytes`, `output_bytes`, `ratio`, `files`, `seconds`, `notes`, ….

    Raises:
        ArgumentError: where `out` exists.
        StorageError: where reading or writing fails; `MissingFileError` where `source` is not
            there, which is a `FileNotFoundError` as well.

    >>> import lmc_gpu, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "weights")
    >>> _ = path.write_bytes(bytes(100_000))
    >>> lmc_gpu.compress_file(path)["input_bytes"]
    100000
    >>> lmc_gpu.verify(f"{path}.lmc")["ok"]
    True
    """
    source = os.fspath(source)
    out = os.fspath(source + ".lmc" if out is None else out)
    chosen = choices(
        dtype=dtype,
        base=base,
        method=method,
        threads=threads,
        device=device,
        overwrite=overwrite,
        follow_symlinks=follow_symlinks,
    )
    return json.loads(_native.compress_file(source, out, chosen, progress))


def decompress_file(
    source,
    out=None,
    *,
    base=None,
    threads=None,
    overwrite=False,
    keep_going=False,
    progress=None,
):
    """Restores an archive to `out`, by default its path without `.lmc`.

    Args:
        source: path of the archive.
        out: path of the file or directory that is made. It appears whole or not at all.
        base: path of what the archive is a delta to; by default it is looked for beside it.
        threads, progress: as for `decompress`.
        overwrite: whether existing files are replaced.
        keep_going: whether to restore what can be restored of a damaged archive, with zeros in
            place of the rest.

    Returns:
        A dictionary: `ok`, `bytes`, `files`, and `damage`, what is lost with `keep_going`.

    Raises:
        CorruptError, BaseMismatchError, ArgumentError, StorageError: as for `decompress` and
            `compress_file`.
    """
    source = os.fspath(source)
    if out is None:
        out = source.removesuffix(".lmc")
        if out == source:
            raise ValueError(f"{source} does not end with .lmc: pass the path to restore to")
    chosen = choices(base=base, threads=threads, overwrite=overwrite)
    found = _native.decompress_file(source, os.fspath(out), keep_going, chosen, progress)
    return json.loads(found)


def verify(source, *, base=None, threads=None, keep_going=False, progress=None):
    """Decodes an archive and checks every checksum, writing nothing.

    Args:
        source: path of the archive.
        base: path of what it is a delta to; by default it is looked for beside it.
        threads, progress: as for `decompress`.
        keep_going: whether damage is listed instead of raised.

    Returns:
        A dictionary: `ok`, `bytes`, `files`, and `damage`: for each damaged stretch `file`,
        `chunk`, `offset`, `bytes`, `tensors` and `reason`.

    Raises:
        CorruptError: for the first damage, unless `keep_going`; `tensor` and `chunk` name it.
    """
    chosen = choices(base=base, threads=threads)
    return json.loads(_native.verify(os.fspath(source), keep_going, chosen, progress))


def inspect(source, *, base=None, threads=None):
    """Describes a file, directory or archive.

    Returns:
        A dictionary: `archive`, `bytes`, `stored_bytes` (`estimated_bytes` of what is not
        compressed), `ratio`, `files`, and `spans`: tensors with `name`, `dtype`, `shape`, `bytes`,
        `method` and `ratio`, and what lies between them.

    Raises:
        StorageError, CorruptError: as for `verify`.
    """
    return json.loads(_native.inspect(os.fspath(source), choices(base=base, threads=threads)))
