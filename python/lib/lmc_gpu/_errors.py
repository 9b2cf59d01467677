"""What can go wrong, by who is at fault."""

import os


class LmcError(Exception):
    """Anything that this package reports.

    Attributes:
        file: the file that was worked on, where there is one.
        tensor: name of the tensor that is concerned, where it is known.
        chunk: number of the chunk that is concerned, where it is known.
    """

    file = None
    tensor = None
    chunk = None


class CorruptError(LmcError):
    """The bytes of an archive contradict their checksums or the format."""


class TruncatedError(CorruptError):
    """An archive ends before it should."""


class UnsupportedError(LmcError):
    """A valid file that this version cannot read, or a tensor that no file can hold."""


class ArgumentError(LmcError, ValueError):
    """The caller asked for something impossible."""


class LimitError(LmcError):
    """A size stated in a file exceeds a limit, or does not fit into memory."""


class BaseMismatchError(LmcError):
    """The base of a delta is missing, or is not the one that the delta was made against."""


class DeviceError(LmcError):
    """The GPU failed."""


class StorageError(LmcError, OSError):
    """The operating system failed. `errno` and `filename` are set where they are known."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class MissingFileError(StorageError, FileNotFoundError):
    """A file that is not there."""


for _class in [LmcError, *LmcError.__subclasses__(), TruncatedError, MissingFileError]:
    _class.__module__ = "lmc_gpu"

_KINDS = {
    "corrupt": CorruptError,
    "truncated": TruncatedError,
    "unsupported": UnsupportedError,
    "argument": ArgumentError,
    "limit": LimitError,
    "base": BaseMismatchError,
    "device": DeviceError,
}


def make(kind, message, file, errno, os_kind, place=(None, None)):
    """The exception for an error of the library; `place` is its tensor and its chunk."""
    if kind == "io":
        cls = MissingFileError if os_kind == "NotFound" else StorageError
    else:
        cls = _KINDS.get(kind, LmcError)
    error = cls(message)
    if errno is not None:
        error.errno = errno
        error.strerror = os.strerror(errno)
        error.filename = file
    error.file = file
    error.tensor, error.chunk = place
    return error
