from typing import Any

import numpy as np

from . import Data, File, Path, Progress

def save(
    tensor_dict: dict[str, np.ndarray[Any, Any]],
    metadata: dict[str, str] | None = None,
    *,
    base: Data | Path | None = None,
    method: str = "auto",
    threads: int | None = None,
) -> bytes: ...
def save_file(
    tensor_dict: dict[str, np.ndarray[Any, Any]],
    filename: Path | File,
    metadata: dict[str, str] | None = None,
    *,
    base: Path | None = None,
    method: str = "auto",
    threads: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> None: ...
def load(data: Data, *, base: Data | Path | None = None) -> dict[str, np.ndarray[Any, Any]]: ...
def load_file(
    filename: Path | File, *, base: Path | None = None, threads: int | None = None
) -> dict[str, np.ndarray[Any, Any]]: ...
