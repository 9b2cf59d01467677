"""Lossless compression of model checkpoints.

>>> import lmc_gpu
>>> weights = bytes(100_000)
>>> archive = lmc_gpu.compress(weights)
>>> len(archive) < 1000
True
>>> lmc_gpu.decompress(archive) == weights
True

Tensors of numpy and torch are in `lmc_gpu.numpy` and `lmc_gpu.torch`, which take the place of
`safetensors.numpy` and `safetensors.torch`. Neither package is needed for anything else.
"""

from ._codec import compress, compress_file, decompress, decompress_file, inspect, verify
from ._errors import (
    ArgumentError,
    BaseMismatchError,
    CorruptError,
    DeviceError,
    LimitError,
    LmcError,
    MissingFileError,
    StorageError,
    TruncatedError,
    UnsupportedError,
)
from ._native import __version__
from ._open import safe_open
from ._store import Checkpointer, Store, Ticket

__all__ = [
    "ArgumentError",
    "BaseMismatchError",
    "Checkpointer",
    "CorruptError",
    "DeviceError",
    "LimitError",
    "LmcError",
    "MissingFileError",
    "StorageError",
    "Store",
    "Ticket",
    "TruncatedError",
    "UnsupportedError",
    "__version__",
    "compress",
    "compress_file",
    "decompress",
    "decompress_file",
    "inspect",
    "safe_open",
    "verify",
]
