"""What the archive of a rank is a delta to.

Where a rank saves the same stretches of the same tensors as one did before, its base is that one's
archive, with those that it is itself a delta to behind it. After the number of ranks has changed
there is no such archive: then the base is *gathered*, a safetensors file that exists nowhere, of
the same stretches as the new archive has, read out of the former checkpoint where they are needed.
The metadata says for each archive which it is:

    {"chain": ["../step1/__0_5f0d.lmc", "../step0/__0_90ab.lmc"]}
    {"gathered": "../step1"}
"""

import collections
import io
import json
import os

from ..._errors import ArgumentError, BaseMismatchError
from ._archives import Archives
from ._layout import described

# An archive that has less than this part of the bytes that the former checkpoint has is no base.
_ENOUGH = 0.9
# Bytes of tensors that are kept of a gathered file, beside the one that was read last.
_KEPT = 64 << 20


def bases(path):
    """The checkpoints that the one at `path` needs, nearest first: they may not be removed before
    it."""
    found, left = [], [os.path.abspath(os.fspath(path))]
    while left:
        archives = Archives(left.pop(0))
        for record in archives.bases().values():
            paths = [os.path.dirname(p) for p in record.get("chain", ())]
            paths += [record["gathered"]] if "gathered" in record else []
            for other in map(archives.at, paths):
                if other not in found and other != archives.path:
                    found.append(other)
                    left.append(other)
    return found


def choose(former, items, path):
    """The base for an archive of these items in the checkpoint `path`, as the native code takes it,
    and the record of it; `None` and `None` where nothing of them was there before."""
    known = [item for item in items if former.holds(item)]
    total = sum(item.length for item in known)
    if not known:
        return None, None
    places = {(i.fqn, i.offsets, i.sizes, i.dtype) for i in known}
    best, most = None, -1
    for relative, own in former.items().items():
        same = sum(i.length for i in own if (i.fqn, i.offsets, i.sizes, i.dtype) in places)
        if same > most and "gathered" not in former.bases().get(relative, {}):
            best, most = relative, same
    if best is not None and most >= _ENOUGH * total:
        chain = [os.path.join(former.path, best)]
        chain += [former.at(p) for p in former.bases().get(best, {}).get("chain", ())]
        return chain, {"chain": [os.path.relpath(p, path) for p in chain]}
    return gathered(former, known), {"gathered": os.path.relpath(former.path, path)}


def base_of(archives, relative):
    """The base of an archive, as the native code takes it."""
    record = archives.bases().get(relative)
    if record is None:
        return None
    chain = [archives.at(p) for p in record.get("chain", ())]
    place = chain[0] if chain else archives.at(record["gathered"])
    for needed in chain or [os.path.join(place, ".metadata")]:
        if not os.path.exists(needed):
            error = BaseMismatchError(
                f"{os.path.join(archives.path, relative)} is a delta to {needed}, which is not "
                "there: a checkpoint is removed after those that need it"
            )
            error.file = needed
            raise error
    if chain:
        return chain
    if place == archives.path:
        raise ArgumentError(f"{place} says that it is its own base")
    former = Archives(place, threads=archives.threads)
    return gathered(former, [i for i in archives.items()[relative] if former.holds(i)])


def gathered(former, items):
    """Files that hold these items as they are in a former checkpoint: names, and files to read."""
    files = {}
    for item in items:
        files.setdefault(item.file, []).append(item)
    return [(file, _Gathered(former, files[file])) for file in sorted(files)]


class _Gathered(io.RawIOBase):
    """A safetensors file whose tensors are read from elsewhere when they are asked for."""

    def __init__(self, former, items):
        self._former = former
        header, at, parts = {}, 0, []
        for item in sorted(items, key=lambda i: i.name):
            if item.offsets is None:
                length = former.object_length(item)
                code, shape = "U8", [length]
            else:
                length = item.length
                code, shape = described(item.dtype, item.sizes)
            header[item.name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + length]}
            parts.append((at, at + length, item))
            at += length
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        self._header = len(text).to_bytes(8, "little") + text
        self._parts = parts
        self._length = len(self._header) + at
        self._at = 0
        self._kept = collections.OrderedDict()
        self._bytes = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        self._at = max(0, offset + (0, self._at, self._length)[whence])
        return self._at

    def tell(self):
        return self._at

    def readinto(self, out):
        view = memoryview(out).cast("B")
        done = 0
        while done < len(view):
            piece = self._piece(self._at, len(view) - done)
            if not piece:
                break
            view[done : done + len(piece)] = piece
            done += len(piece)
            self._at += len(piece)
        return done

    def _piece(self, at, most):
        """Bytes from `at` on, of the header or of one tensor."""
        if at < len(self._header):
            return self._header[at : at + most]
        at -= len(self._header)
        low, high = 0, len(self._parts)
        while low < high:
            middle = (low + high) // 2
            if self._parts[middle][1] <= at:
                low = middle + 1
            else:
                high = middle
        if low == len(self._parts):
            return b""
        start, _, item = self._parts[low]
        data = self._kept.get(low)
        if data is None:
            data = self._former.gather(item)
            data = memoryview(data if isinstance(data, bytes) else data.numpy())
            # Small tensors share a chunk there: each is asked for again with every other one.
            self._bytes += len(data)
            while self._kept and self._bytes > _KEPT:
                self._bytes -= len(self._kept.popitem(last=False)[1])
            self._kept[low] = data
        else:
            self._kept.move_to_end(low)
        return data[at - start : at - start + most]
