"""Deltas on disk as slime and miles write them, and SGLang's `/pull_weights` reads them.

weight_v000007/
  model.safetensors.index.json        {"metadata": {"version": "000007", "base_version": "000006",
                                       "delta_encoding": "xor", "compression_format": "zstd",
                                       "checksum_format": "adler32"}, "weight_map": {name: file}}
  model-00000-of-00001.safetensors    of each tensor that changed, bytes in a frame of zstd; the
                                      checksums of the new tensors are the file's metadata

xor         old bytes xor new bytes
overwrite   how many bytes changed (u32), where they are (u32 each), what they are
"""

import json
import os
import re
import zlib

import numpy

from .._errors import (
    ArgumentError,
    BaseMismatchError,
    CorruptError,
    MissingFileError,
    UnsupportedError,
)
from .._open import Reader
from .._versions import require
from ._image import describe, fill

_INDEX = "model.safetensors.index.json"
_ENCODINGS = ("xor", "overwrite")


def _checksum(name):
    if name == "adler32":
        return lambda data: f"{zlib.adler32(data):08x}"
    if name == "xxh3-128":
        xxhash = require("xxhash", "3.0")
        return lambda data: xxhash.xxh3_128(data).hexdigest()
    if name == "blake3":
        blake3 = require("blake3", "0.3")
        return lambda data: blake3.blake3(data).hexdigest()
    raise UnsupportedError(f"no checksum {name!r}: adler32, xxh3-128 and blake3 are known")


def _bytes_of(name, tensor):
    data = numpy.empty(describe(name, tensor)[3], numpy.uint8)
    fill(data, tensor)
    return data


class DiskDelta:
    """Writes deltas on disk for engines that read those of slime and miles.

    What is written first is version 1, a delta to `baseline`, which engines know as version 0.

    Args:
        path: the directory that versions are written to.
        baseline: tensors by name, as the engines have them.
        encoding: `"xor"`, or `"overwrite"`, which may be applied twice.
        checksum: `"adler32"`, or `"xxh3-128"` and `"blake3"`, which need packages of these names.
    """

    def __init__(self, path, baseline, *, encoding="xor", checksum="adler32"):
        if encoding not in _ENCODINGS:
            raise ArgumentError(f"no encoding {encoding!r}: choose one of {', '.join(_ENCODINGS)}")
        self._zstandard = require("zstandard", "0.20")
        self._checksum = _checksum(checksum)
        self._names = (encoding, checksum)
        self.path = os.fspath(path)
        self.version = 0
        pairs = baseline.items() if hasattr(baseline, "items") else baseline
        self._old = {name: _bytes_of(name, tensor) for name, tensor in pairs}

    def write(self, named_tensors):
        """Writes what changed since the version before.

        Returns:
            The path of the version; its index is written last.
        """
        pairs = named_tensors.items() if hasattr(named_tensors, "items") else named_tensors
        new, changed, sums = {}, {}, {}
        coder = self._zstandard.ZstdCompressor(level=1)
        for name, tensor in pairs:
            data = _bytes_of(name, tensor)
            old = self._old.get(name)
            if old is None or old.size != data.size:
                raise ArgumentError(
                    f'"{name}" is not among the tensors that it began with: engines have no such '
                    "tensor to change"
                )
            new[name] = data
            differs = data != old
            if not differs.any():
                continue
            if self._names[0] == "xor":
                delta = data ^ old
            else:
                at = numpy.flatnonzero(differs)
                if data.size > 1 << 32:
                    raise UnsupportedError(f'"{name}" is larger than 4 GiB: use xor')
                count = numpy.array([at.size], "<u4").view(numpy.uint8)
                delta = numpy.concatenate([count, at.astype("<u4").view(numpy.uint8), data[at]])
            changed[name] = coder.compress(delta)
            sums[name] = self._checksum(data)
        version = self.version + 1
        path = os.path.join(self.path, f"weight_v{version:06d}")
        os.makedirs(path, exist_ok=True)
        file = "model-00000-of-00001.safetensors"
        if changed:
            _put(os.path.join(path, file), *_safetensors(changed, sums))
        index = {
            "metadata": {
                "version": f"{version:06d}",
                "base_version": f"{version - 1:06d}",
                "delta_encoding": self._names[0],
                "compression_format": "zstd",
                "checksum_format": self._names[1],
            },
            "weight_map": dict.fromkeys(changed, file),
        }
        _put(os.path.join(path, _INDEX), json.dumps(index).encode())
        self._old.update(new)
        self.version = version
        return path


def _safetensors(changed, sums):
    header, at = {"__metadata__": sums}, 0
    for name, data in changed.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *changed.values()]


def _put(path, *parts):
    with open(path + ".tmp", "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def read_disk_delta(path, weights, *, base_version=None):
    """Applies a delta on disk, as `DiskDelta`, slime and miles write them: all of it, or nothing.

    Args:
        path: the directory of a version.
        weights: tensors or arrays by name, contiguous and on the CPU, which are written to where
            they are.
        base_version: which version they are, where that is known.

    Returns:
        The version and the names of the tensors that changed.

    Raises:
        BaseMismatchError: where the delta is to another version, or its checksums are not those of
            what comes out: the weights are others than those it was made against.
        CorruptError: where the files contradict each other.
    """
    zstandard = require("zstandard", "0.20")
    path = os.fspath(path)
    index = os.path.join(path, _INDEX)
    if not os.path.exists(index):
        raise MissingFileError(f"{index} is not there: the version was not written to its end")
    try:
        with open(index, encoding="utf-8") as file:
            told = json.load(file)
        about, places = told["metadata"], told["weight_map"]
        version, base = int(about["version"]), int(about["base_version"])
        encoding, compression = about["delta_encoding"], about["compression_format"]
        checksum = _checksum(about["checksum_format"])
        files = sorted(set(places.values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{index} is damaged: {error!r}") from error
    if encoding not in _ENCODINGS or compression != "zstd":
        raise UnsupportedError(f"{index} has the encoding {encoding!r} in {compression!r}")
    if base_version is not None and base != base_version:
        raise BaseMismatchError(f"{path} is a delta to version {base}, not to {base_version}")
    new = {}
    for name in files:
        if not re.fullmatch(r"[\w.-]+\.safetensors", name):
            raise CorruptError(f"{index} names a file elsewhere: {name!r}")
        reader = Reader.open(os.path.join(path, name))
        sums = reader.metadata() or {}
        for entry in reader.entries.values():
            if entry.name not in weights:
                raise ArgumentError(f'"{entry.name}" changed, and is not among the weights')
            data = reader.native.read(entry.file, entry.offset, entry.extent)
            old = _bytes_of(entry.name, weights[entry.name])
            made = _applied(zstandard, data, old, encoding, f'{name}: "{entry.name}"')
            if checksum(made) != sums.get(entry.name):
                raise BaseMismatchError(
                    f'{path}: "{entry.name}" does not come out as its checksum says: the weights '
                    f"are not those of version {base}, or the file is damaged"
                )
            new[entry.name] = made
    if set(new) != set(places):
        raise CorruptError(f"{index} and its files name other tensors")
    targets = [(_memory(name, weights[name]), data) for name, data in new.items()]
    for memory, data in targets:
        memory[:] = data
    return version, sorted(new)


def _applied(zstandard, data, old, encoding, what):
    most = old.size if encoding == "xor" else 4 + 5 * old.size
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as stream:
            delta = numpy.frombuffer(stream.read(most + 1), numpy.uint8)
    except zstandard.ZstdError as error:
        raise CorruptError(f"{what}: {error}") from error
    if encoding == "xor":
        if delta.size != old.size:
            raise CorruptError(f"{what} is a delta of {delta.size} bytes for {old.size}")
        return delta ^ old
    count = int(delta[:4].view("<u4")[0]) if delta.size >= 4 else -1
    if count < 0 or delta.size != 4 + 5 * count:
        raise CorruptError(f"{what} has no room for the changes that it tells of")
    at = delta[4 : 4 + 4 * count].copy().view("<u4")
    if count and at.max() >= old.size:
        raise CorruptError(f"{what} changes bytes beyond the tensor's end")
    old[at] = delta[4 + 4 * count :]
    return old


def _memory(name, tensor):
    """The bytes of a tensor or array, to be written to."""
    if isinstance(tensor, numpy.ndarray):
        if not tensor.flags.c_contiguous or not tensor.flags.writeable:
            raise ArgumentError(f'"{name}" is no contiguous array that can be written to')
        return tensor.reshape(-1).view(numpy.uint8)
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ArgumentError(f'"{name}" is no contiguous tensor on the CPU')
    import torch

    return tensor.detach().reshape(-1).view(torch.uint8).numpy()
