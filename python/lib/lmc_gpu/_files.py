"""Open files in the place of paths: those of `open`, `io.BytesIO`, fsspec, smart_open, …."""

import io
import os

from ._errors import ArgumentError


def is_file(value):
    """Whether it is an open file: something that reads or writes and is no path."""
    if isinstance(value, (str, bytes, bytearray, memoryview, os.PathLike)):
        return False
    return hasattr(value, "read") or hasattr(value, "write")


def readable(file):
    """Checks that a file is one that can be read anywhere."""
    if not hasattr(file, "read") or not hasattr(file, "seek"):
        raise ArgumentError("an archive is read from its end: pass a file that can seek")
    if "b" not in str(getattr(file, "mode", "rb")) and not isinstance(
        getattr(file, "mode", "rb"), int
    ):
        raise ArgumentError(f"{getattr(file, 'name', 'the file')} is open as text: open it as 'rb'")
    return file


def write_all(file, data):
    """Writes all of `data`, whatever a single call of `write` takes."""
    view = memoryview(data).cast("B")
    while view:
        n = file.write(view)
        if n is None:
            return
        view = view[n:]


class MemoryFile(io.RawIOBase):
    """Memory that is read as a file."""

    def __init__(self, memory):
        self._memory = memoryview(memory).cast("B")
        self._at = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def readinto(self, out):
        n = max(0, min(len(out), len(self._memory) - self._at))
        memoryview(out).cast("B")[:n] = self._memory[self._at : self._at + n]
        self._at += n
        return n

    def seek(self, offset, whence=0):
        self._at = max(0, offset + (0, self._at, len(self._memory))[whence])
        return self._at

    def tell(self):
        return self._at
