"""Tensors that numpy or torch lend, into an archive of one safetensors file."""

from . import _native
from ._codec import choices
from ._files import is_file, write_all
from ._names import named, texts

# What a file of tensors is called that has no name of its own.
_NAME = "data.safetensors"


def to_bytes(lent, metadata, **chosen):
    """The archive in memory."""
    return _native.save_tensors(lent, texts(metadata), _NAME, choices(**chosen))


def to_file(lent, filename, metadata, progress, **chosen):
    """The archive at a path, in the place of what was there, or into an open file."""
    if is_file(filename):
        write_all(filename, to_bytes(lent, metadata, **chosen))
        return
    path, name = named(filename)
    chosen = choices(overwrite=True, **chosen)
    _native.save_tensors_file(lent, texts(metadata), name, path, chosen, progress)
