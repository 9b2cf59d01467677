"""Tensors that numpy or torch lend, into an archive of one safetensors file."""

from . import _native
from ._codec import choices
from ._names import named, texts


def to_bytes(lent, metadata, **chosen):
    """The archive in memory."""
    return _native.save_tensors(lent, texts(metadata), "data.safetensors", choices(**chosen))


def to_file(lent, filename, metadata, progress, **chosen):
    """The archive at a path, in the place of what was there."""
    path, name = named(filename)
    chosen = choices(overwrite=True, **chosen)
    _native.save_tensors_file(lent, texts(metadata), name, path, chosen, progress)
