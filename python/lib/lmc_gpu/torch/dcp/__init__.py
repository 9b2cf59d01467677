"""Checkpoints of `torch.distributed.checkpoint`, compressed.

Two ways, of which the first keeps DCP's own files and the second makes deltas:

    FileSystemWriter(path, _extensions=[LmcExtension()])    each item is compressed by itself
    LmcWriter(path, base=former)                            each rank writes one archive

`LmcReader` reads both, and what DCP writes without either. It runs no code from a checkpoint's
metadata; with `SafeLoadPlanner`, none from its objects.
"""

from ..._versions import require

require("torch", "2.7")

from ._base import bases
from ._extension import LmcExtension, registry
from ._metadata import read_metadata
from ._read import LmcReader, SafeLoadPlanner, to_torch_save
from ._write import LmcWriter

__all__ = [
    "LmcExtension",
    "LmcReader",
    "LmcWriter",
    "SafeLoadPlanner",
    "bases",
    "read_metadata",
    "registry",
    "to_torch_save",
]
