"""Lightning: a plug-in that compresses what a `Trainer` saves."""

import os
import shutil

from ._versions import require

try:
    require("lightning", "2.2")
    from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO
except ModuleNotFoundError as _error:
    if _error.name != "lightning":
        raise
    # The same under its former name.
    require("pytorch_lightning", "2.2", "lightning")
    from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO

from . import torch as _torch
from ._errors import ArgumentError, MissingFileError

__all__ = ["LmcCheckpointIO"]


class LmcCheckpointIO(CheckpointIO):
    """Saves checkpoints as archives: `Trainer(plugins=[LmcCheckpointIO()])`.

    Files keep their names, such as `epoch=3-step=400.ckpt`. What Lightning saved before, without
    this, is loaded as well. In the background: `AsyncCheckpointIO(LmcCheckpointIO())`.

    Args:
        method, threads: as for `lmc_gpu.compress`.
    """

    def __init__(self, method="auto", threads=None):
        self.method = method
        self.threads = threads

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        """Writes a checkpoint, which appears whole or not at all."""
        if storage_options is not None:
            raise TypeError(
                f"{type(self).__name__} takes no storage_options, but method and threads when it "
                "is made"
            )
        path = _local(path)
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        _torch.save(checkpoint, path, method=self.method, threads=self.threads)

    def load_checkpoint(self, path, map_location=None, weights_only=None, *, state=None):
        """Loads a checkpoint, compressed or not.

        Args:
            path: the file.
            map_location: as for `torch.load`; by default tensors stay on the CPU.
            weights_only: whether nothing but tensors and plain containers are loaded. Lightning
                passes what its user chose; without a choice it is not restricted, as in Lightning
                for files on the local disk, which is for files that you trust.
            state: not used.
        """
        path = _local(path)
        if not os.path.exists(path):
            error = MissingFileError(f"{path} is not there")
            error.file = path
            raise error
        return _torch.load(
            path,
            map_location=map_location or "cpu",
            weights_only=bool(weights_only),
            threads=self.threads,
        )

    def remove_checkpoint(self, path):
        """Removes a checkpoint."""
        path = _local(path)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)


def _local(path):
    path = os.fspath(path)
    if "://" in path:
        raise ArgumentError(
            f"{path}: checkpoints are written to directories, not to a remote store"
        )
    return path
