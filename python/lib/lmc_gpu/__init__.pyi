import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar, overload

__version__: str

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
"""A path of the file system."""
File = Any
"""An open file: `read` and `seek`, or `write`."""
Data = Any
"""What has a contiguous buffer, a torch tensor, or what exports DLPack."""
Progress = Callable[[int], object]
"""Called with the number of bytes dealt with since the last call."""
_Out = TypeVar("_Out")

class LmcError(Exception):
    file: str | None
    tensor: str | None
    chunk: int | None

class CorruptError(LmcError): ...
class TruncatedError(CorruptError): ...
class UnsupportedError(LmcError): ...
class ArgumentError(LmcError, ValueError): ...
class LimitError(LmcError): ...
class BaseMismatchError(LmcError): ...
class DeviceError(LmcError): ...
class StorageError(LmcError, OSError): ...
class MissingFileError(StorageError, FileNotFoundError): ...

def compress(
    data: Data,
    *,
    dtype: Any | None = None,
    base: Data | Path | None = None,
    method: str = "auto",
    threads: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> bytes: ...
@overload
def decompress(
    data: Data,
    *,
    out: None = None,
    base: Data | Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> bytes: ...
@overload
def decompress(
    data: Data,
    *,
    out: _Out,
    base: Data | Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> _Out: ...
def compress_file(
    source: Path,
    out: Path | None = None,
    *,
    dtype: Any | None = None,
    base: Path | None = None,
    method: str = "auto",
    threads: int | None = None,
    device: str | None = None,
    overwrite: bool = False,
    follow_symlinks: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]: ...
def decompress_file(
    source: Path,
    out: Path | None = None,
    *,
    base: Path | None = None,
    threads: int | None = None,
    overwrite: bool = False,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]: ...
def verify(
    source: Path,
    *,
    base: Path | None = None,
    threads: int | None = None,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]: ...
def inspect(
    source: Path, *, base: Path | None = None, threads: int | None = None
) -> dict[str, Any]: ...

class _Slice(Protocol):
    def get_shape(self) -> list[int]: ...
    def get_dtype(self) -> str: ...
    def __getitem__(self, index: Any) -> Any: ...

class safe_open:
    def __init__(
        self,
        path: Path | File,
        framework: Literal["np", "numpy", "pt", "torch", "pytorch"] = "np",
        device: Any = "cpu",
        base: Path | None = None,
        *,
        threads: int | None = None,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def keys(self) -> list[str]: ...
    def offset_keys(self) -> list[str]: ...
    def metadata(self) -> dict[str, str] | None: ...
    def get_tensor(self, name: str) -> Any: ...
    def get_slice(self, name: str) -> _Slice: ...
    def get_tensors(self) -> dict[str, Any]: ...

class Store:
    path: str
    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        full_every: int | None = None,
        rebase_above: float | None = None,
        max_chain: int | None = None,
        keep_last: int | None = None,
        keep_every: int | None = None,
        state_last: int | None = None,
        method: str = "auto",
        threads: int | None = None,
    ) -> None: ...
    def save(
        self,
        source: Path,
        step: int,
        *,
        replace: bool = False,
        full: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Any]: ...
    def restore(
        self,
        step: int,
        out: Path,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Any]: ...
    def open(self, step: int) -> safe_open: ...
    def steps(self) -> list[int]: ...
    def records(self) -> list[dict[str, Any]]: ...
    def gc(
        self,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        state_last: int | None = None,
        drop_after: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...
    def verify(self, steps: Iterable[int] = ()) -> dict[str, Any]: ...

class Ticket:
    step: int
    stalled: float
    blocked: float
    def done(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> dict[str, Any]: ...

class Checkpointer:
    store: Store
    def __init__(
        self,
        dir: Path,
        *,
        full_every: int | None = None,
        rebase_above: float | None = None,
        max_chain: int | None = None,
        keep_last: int | None = None,
        keep_every: int | None = None,
        state_last: int | None = None,
        queue: int = 1,
        max_bytes: int | None = None,
        compare_in_memory: bool = True,
        replace: bool = False,
        method: str = "auto",
        threads: int | None = None,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def save(self, step: int, state: Any) -> Ticket: ...
    def restore(self, step: int, *, device: Any | None = None) -> Any: ...
    def restore_into(self, step: int, state: Any) -> Any: ...
    def steps(self) -> list[int]: ...
    def gc(self, **rules: Any) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...
    def flush(self) -> None: ...
    def close(self, *, abandon: bool = False) -> None: ...
