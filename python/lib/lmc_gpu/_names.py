"""Names and metadata of tensors in files."""

import os

from ._errors import UnsupportedError
from ._memory import NAMES

_WIDTHS = {
    code: int("".join(c for c in code.split("_")[0] if c.isdigit()) or 8) // 8
    for code in NAMES.values()
}


def code_of(dtype, what):
    """The element type in safetensors files of a dtype, by its name."""
    code = NAMES.get(dtype)
    if code is None or code == "C128":
        raise UnsupportedError(f"{what} is of type {dtype}, which safetensors files do not have")
    return code


def texts(metadata):
    """Metadata that a safetensors file can hold."""
    metadata = {} if metadata is None else dict(metadata)
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata is texts by name, not {key!r}: {value!r}")
    return metadata


def named(filename):
    """A path, and the name of the file in its archive."""
    path = os.fsdecode(filename)
    return path, os.path.basename(path).removesuffix(".lmc") or "data.safetensors"


def in_order(lent):
    """Wide types first, so that all lie aligned."""
    return sorted(lent, key=lambda t: (-_WIDTHS.get(t[1], 1), t[0]))
