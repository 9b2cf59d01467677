"""The metadata of a checkpoint, without running code from it.

`.metadata` is a pickle. Of the names that it may refer to, only those stand here that DCP's own
metadata consists of; objects are made of these classes and of nothing else, and nothing but such
objects may be given attributes.
"""

import os
import pathlib
import pickle

import torch
from torch.distributed.checkpoint import filesystem, metadata

from ..._errors import CorruptError, MissingFileError, UnsupportedError

FILE = ".metadata"
# What one of this package's checkpoints says of the bases of its archives.
BASES = "lmc_bases"

_CLASSES = {
    (module.__name__, name): getattr(module, name)
    for module, names in (
        (
            metadata,
            (
                "BytesStorageMetadata",
                "ChunkStorageMetadata",
                "Metadata",
                "MetadataIndex",
                "StorageMeta",
                "TensorProperties",
                "TensorStorageMetadata",
            ),
        ),
        (filesystem, ("_StorageInfo",)),
    )
    for name in names
}
_OTHERS = {
    (metadata.__name__, "_MEM_FORMAT_ENCODING"): metadata._MEM_FORMAT_ENCODING,
    ("torch", "Size"): torch.Size,
    ("torch.serialization", "_get_layout"): torch.serialization._get_layout,
}
_FOLDERS = ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")


class _Unpickler(pickle._Unpickler):
    """Reads a pickle that is made of metadata."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def find_class(self, module, name):
        found = _CLASSES.get((module, name)) or _OTHERS.get((module, name))
        if found is not None:
            return found
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if module in ("pathlib", "pathlib._local") and name in _FOLDERS:
            windows = "Windows" in name
            return pathlib.PureWindowsPath if windows else pathlib.PurePosixPath
        raise UnsupportedError(
            f"the metadata refers to {module}.{name}, which is no part of a checkpoint's metadata: "
            "it is not loaded, since that might run code"
        )

    def load_build(self):
        if type(self.stack[-2]) not in _CLASSES.values():
            kind = type(self.stack[-2]).__name__
            raise UnsupportedError(f"the metadata gives attributes to a {kind}: it is not loaded")
        super().load_build()

    dispatch[pickle.BUILD[0]] = load_build


def read_metadata(path, rank=None):
    """The metadata of a checkpoint of DCP, whoever wrote it. No code from it is run.

    Args:
        path: directory of the checkpoint.
        rank: whose metadata, of checkpoints that were saved with `use_collectives=False`.

    Returns:
        A `torch.distributed.checkpoint.metadata.Metadata`.

    Raises:
        MissingFileError: where there is no complete checkpoint.
        UnsupportedError: where the file refers to anything but metadata.
    """
    file = os.path.join(os.fspath(path), FILE if rank is None else f"__{rank}{FILE}")
    try:
        stream = open(file, "rb")
    except FileNotFoundError:
        error = MissingFileError(
            f"{file} is not there: {os.fspath(path)} is no checkpoint, or one that was not finished"
        )
        error.file = file
        raise error from None
    with stream:
        return load(stream, file)


def load(stream, file):
    """The metadata in an open file."""
    try:
        found = _Unpickler(stream).load()
    except UnsupportedError as error:
        error.file = file
        raise
    except Exception as error:
        corrupt = CorruptError(f"{file} is damaged: {error or type(error).__name__}")
        corrupt.file = file
        raise corrupt from error
    if not isinstance(found, metadata.Metadata):
        raise CorruptError(f"{file} holds no metadata but a {type(found).__name__}")
    return found
