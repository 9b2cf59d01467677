"""Loading: what this package wrote, and what DCP wrote without it."""

import dataclasses
import io
import os

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import StorageMeta
from torch.distributed.checkpoint.planner import LoadItemType
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.futures import Future

from ..._errors import LmcError, UnsupportedError
from ._archives import Archives, is_archived
from ._extension import registry
from ._metadata import read_metadata


class LmcReader(FileSystemReader):
    """Reads checkpoints of DCP: those of `LmcWriter`, those with `LmcExtension`, and plain ones.

    A rank decodes what it loads: of a tensor that is cut along its first dimension, the rows that
    are asked for. The metadata is read without running code from it; objects are what the planner
    loads, by default with `pickle`: see `SafeLoadPlanner`.

    Args:
        path: directory of the checkpoint.
        threads: how many threads work; one a core by default.
    """

    def __init__(self, path, *, threads=None):
        super().__init__(path, _extension_registry=registry())
        self.threads = threads

    def read_metadata(self, *args, **kwargs):
        """The checkpoint's metadata."""
        found = read_metadata(self.path, kwargs.get("rank"))
        if getattr(found, "storage_meta", None) is None:
            found.storage_meta = StorageMeta()
        found.storage_meta.load_id = self.load_id
        self.metadata = found
        return found

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Takes the metadata of what is going to be read."""
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)
        self.metadata = metadata

    def read_data(self, plan, planner):
        """Reads what the plan asks for."""
        archives = Archives(self.path, self.metadata, self.threads)
        others = []
        for request in plan.items:
            info = self.storage_data[request.storage_index]
            if not is_archived(info):
                others.append(request)
            elif request.type == LoadItemType.BYTE_IO:
                planner.load_bytes(request, io.BytesIO(archives.object(info)))
            else:
                self._read_tensor(archives, info, request, planner)
        if others:
            return super().read_data(dataclasses.replace(plan, items=others), planner)
        future = Future()
        future.set_result(None)
        return future

    def _read_tensor(self, archives, info, request, planner):
        known = self.metadata.state_dict_metadata[request.storage_index.fqn]
        offset = request.storage_index.offset
        sizes = next(c.sizes for c in known.chunks if c.offsets == offset)
        part = archives.part(info, known.properties.dtype, sizes)
        target = planner.resolve_tensor(request).detach()
        if tuple(target.shape) != tuple(request.lengths):
            raise ValueError(
                f'"{request.dest_index.fqn}" is to be loaded into {list(target.shape)}, and '
                f"{list(request.lengths)} is what is there for it"
            )
        try:
            with torch.no_grad():
                part.read_into(target, request.storage_offsets, request.lengths)
        except LmcError as error:
            error.tensor = request.dest_index.fqn
            raise
        planner.commit_tensor(request, target)


class _Safe:
    """Loads no object that is not made of tensors and plain containers."""

    def load_bytes(self, read_item, value):
        try:
            torch.load(value, map_location="cpu", weights_only=True)
        except Exception as error:
            raise UnsupportedError(
                f'"{read_item.dest_index.fqn}" is not loaded, since it is more than tensors and '
                f"plain containers: {error}"
            ) from error
        value.seek(0)
        super().load_bytes(read_item, value)


class SafeLoadPlanner(_Safe, DefaultLoadPlanner):
    """DCP's planner for loading, but that it runs no code from the checkpoint's objects: those that
    `torch.load(weights_only=True)` refuses are an `UnsupportedError`."""


class _SafeWholePlanner(_Safe, _EmptyStateDictLoadPlanner):
    """Loads everything there is, as above."""


def to_torch_save(checkpoint, path, *, weights_only=True, threads=None):
    """Converts a checkpoint of DCP, whoever wrote it, into a file of `torch.save`.

    Args:
        checkpoint: directory of the checkpoint.
        path: the file, which appears whole or not at all.
        weights_only: whether objects that are more than tensors and plain containers are an error.
            Otherwise code from the checkpoint may run.
        threads: how many threads work.
    """
    state = {}
    planner = _SafeWholePlanner() if weights_only else _EmptyStateDictLoadPlanner()
    reader = LmcReader(checkpoint, threads=threads)
    try:
        _load_state_dict(state, storage_reader=reader, planner=planner, no_dist=True)
    except CheckpointException as error:
        # There is one process, and what it met is what there is to tell.
        raise error.failures[0][0] from None
    path = os.fspath(path)
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)
