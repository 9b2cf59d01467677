"""Saving: each rank writes one archive."""

import os
import pickle

from torch.distributed.checkpoint.filesystem import CURRENT_DCP_VERSION, FileSystemWriter
from torch.distributed.checkpoint.filesystem import _StorageInfo as _Place
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from ... import _native
from ..._codec import choices, compress
from ..._errors import ArgumentError
from ..._names import in_order
from ._archives import Archives
from ._base import choose
from ._layout import ARCHIVE, items, stored
from ._metadata import BASES


class LmcWriter(FileSystemWriter):
    """Writes checkpoints of DCP, each rank one archive, which appears whole or not at all.

    Everything else is as with `FileSystemWriter`: planners, process groups, `save`, `async_save`.
    The tensors of a rank are in host memory while its archive is written. `LmcReader` reads it.

    Args:
        path: directory of the checkpoint; `checkpoint_id` of `dcp.save` takes its place.
        base: directory of a former checkpoint that `LmcWriter` wrote, which this one becomes a
            delta to, whatever the number of ranks was. To load this one, that one has to be there,
            at the same place relative to it.
        overwrite: whether a checkpoint in `path` is replaced; it is an error otherwise.
        method, threads: as for `lmc_gpu.compress`.
        cache_staged_state_dict: as for `FileSystemWriter`.

    >>> import os, tempfile, torch, torch.distributed.checkpoint as dcp, warnings
    >>> from lmc_gpu.torch.dcp import LmcReader, LmcWriter
    >>> warnings.simplefilter("ignore")  # there is one process
    >>> root, state = tempfile.mkdtemp(), {"w": torch.randn(50_000)}
    >>> _ = dcp.save(state, storage_writer=LmcWriter(f"{root}/1"))
    >>> state["w"][:7] += 1
    >>> _ = dcp.save(state, storage_writer=LmcWriter(f"{root}/2", base=f"{root}/1"))
    >>> loaded = {"w": torch.zeros(50_000)}
    >>> dcp.load(loaded, storage_reader=LmcReader(f"{root}/2"))
    >>> torch.equal(loaded["w"], state["w"])
    True
    """

    def __init__(
        self,
        path,
        *,
        base=None,
        overwrite=False,
        method="auto",
        threads=None,
        cache_staged_state_dict=False,
    ):
        super().__init__(path, overwrite=overwrite, cache_staged_state_dict=cache_staged_state_dict)
        self.base = None if base is None else os.path.abspath(os.fspath(base))
        self.method = method
        self.threads = threads
        # A name that is wrong is told before anybody waits for anybody.
        compress(b"", method=method)

    def prepare_local_plan(self, plan):
        """Checks the base, before anything is written."""
        if self.base is not None:
            if os.path.realpath(self.base) == os.path.realpath(self.path):
                raise ArgumentError(
                    f"{self.path} is to be a delta to itself: save it elsewhere, or without base="
                )
            Archives(self.base)
        return super().prepare_local_plan(plan)

    def write_data(self, plan, planner):
        """Writes the archive of this rank."""
        future = Future()
        if not plan.items:
            future.set_result([])
            return future
        path = os.fspath(self.path)
        # No archive is called as another one: that of a checkpoint that is replaced stays what it
        # is for those that are deltas to it.
        relative = f"{plan.storage_data.prefix}{self.save_id[:13]}.lmc"
        chosen = items(plan)
        files, lengths = {}, []
        for write, item in zip(plan.items, chosen):
            data = planner.resolve_data(write)
            if item.offsets is None:
                data = bytes(data.getbuffer())
                lent = (item.name, "U8", [len(data)], data)
                lengths.append(len(data))
            else:
                lent = (item.name, *stored(data, f'"{item.fqn}"'))
                lengths.append(item.length)
            files.setdefault(item.file, []).append(lent)
        base, record = None, None
        if self.base is not None:
            base, record = choose(Archives(self.base, threads=self.threads), chosen, path)
        _native.save_files(
            [(file, in_order(files[file])) for file in sorted(files)],
            [],
            os.path.join(path, relative),
            choices(base=base, method=self.method, threads=self.threads),
            None,
        )
        results = []
        for write, item, length in zip(plan.items, chosen, lengths):
            place = _Place(relative, 0, length, [ARCHIVE, item.file, item.name])
            if record is not None:
                place.lmc_base = record
            results.append(WriteResult(write.index, length, place))
        future.set_result(results)
        return future

    def finish(self, metadata, results):
        """Writes the metadata, which makes the checkpoint one."""
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_meta = self.storage_meta()
        metadata.storage_data = {}
        bases = {}
        for result in (r for rank in results for r in rank):
            place = result.storage_data
            record = place.__dict__.pop("lmc_base", None)
            if record is not None:
                bases[place.relative_path] = record
            metadata.storage_data[result.index] = place
        setattr(metadata, BASES, bases)
        own = not self.use_collectives and self.rank is not None
        path = os.fspath(self._get_metadata_path(self.rank if own else None))
        with open(path + ".tmp", "wb") as file:
            pickle.dump(metadata, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
