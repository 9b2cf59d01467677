from typing import Any

import torch

from .. import Data, File, Path, Progress

def save_file(
    tensors: dict[str, torch.Tensor],
    filename: Path | File,
    metadata: dict[str, str] | None = None,
    *,
    base: Path | None = None,
    method: str = "auto",
    threads: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> None: ...
def save_bytes(
    tensors: dict[str, torch.Tensor],
    metadata: dict[str, str] | None = None,
    *,
    base: Data | Path | None = None,
    method: str = "auto",
    threads: int | None = None,
) -> bytes: ...
def load_file(
    filename: Path | File,
    device: Any = "cpu",
    *,
    base: Path | None = None,
    threads: int | None = None,
) -> dict[str, torch.Tensor]: ...
def load_bytes(data: Data, *, base: Data | Path | None = None) -> dict[str, torch.Tensor]: ...
def save_model(
    model: torch.nn.Module,
    filename: Path | File,
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
    *,
    base: Path | None = None,
    method: str = "auto",
) -> None: ...
def load_model(
    model: torch.nn.Module,
    filename: Path | File,
    strict: bool = True,
    device: Any = "cpu",
    *,
    base: Path | None = None,
) -> tuple[set[str], list[str]]: ...
def save(
    obj: Any,
    path: Path | File,
    base: Path | None = None,
    *,
    method: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> None: ...
def load(
    path: Path | File,
    *,
    map_location: Any | None = None,
    weights_only: bool = True,
    base: Path | None = None,
    threads: int | None = None,
) -> Any: ...
