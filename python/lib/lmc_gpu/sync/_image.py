"""All tensors of a version in one stretch of memory: a safetensors file."""

import json
import math

import numpy

from .._errors import ArgumentError, CorruptError, UnsupportedError
from .._memory import NAMES, TYPES, is_array, is_tensor, of_array

_ALIGN = 64


class Layout:
    """Names, types and shapes of tensors, and where each is in an image."""

    def __init__(self, header, places):
        self.header = header
        self.places = places
        self.length = len(header) + max((p[3] for p in places.values()), default=0)

    @classmethod
    def of(cls, described):
        """The layout for tensors: name, element type, shape, length."""
        listed = sorted(described, key=lambda d: (-_width(d[1]), d[0]))
        header, places, at = {}, {}, 0
        for name, code, shape, length in listed:
            header[name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + length]}
            places[name] = (code, shape, at, at + length)
            at += length
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        # Tensors begin at a place that suits every type.
        text += b" " * (-(len(text) + 8) % _ALIGN)
        return cls(len(text).to_bytes(8, "little") + text, places)

    @classmethod
    def read(cls, image):
        """The layout of an image."""
        try:
            length = int.from_bytes(bytes(image[:8]), "little")
            if length > len(image) - 8:
                raise ValueError("its header is longer than it is")
            head = bytes(image[: 8 + length])
            places = {}
            for name, entry in json.loads(head[8:]).items():
                if name == "__metadata__":
                    continue
                low, high = entry["data_offsets"]
                code, shape = entry["dtype"], list(entry["shape"])
                if not 0 <= low <= high <= len(image) - len(head):
                    raise ValueError(f'"{name}" reaches beyond its end')
                if code not in TYPES or 8 * (high - low) != math.prod(shape) * _width(code):
                    raise ValueError(f'"{name}" is {code} {shape} in {high - low} bytes')
                places[name] = (code, shape, low, high)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"what was published is no set of tensors: {error}") from error
        return cls(head, places)

    def slot(self, image, name):
        """The bytes of a tensor in an image."""
        _, _, low, high = self.places[name]
        return image[len(self.header) + low : len(self.header) + high]


def _width(code):
    return int("".join(c for c in code.split("_")[0] if c.isdigit()) or 8)


def describe(name, tensor):
    """Name, element type, shape and length of a tensor or array."""
    if not isinstance(name, str):
        raise ArgumentError(f"the name {name!r} is no text")
    what = f'tensor "{name}"'
    if is_tensor(tensor):
        from ..torch import check, name_of

        check(tensor, what)
        code = NAMES.get(name_of(tensor.dtype))
        length = tensor.numel() * tensor.element_size()
    elif is_array(tensor):
        code = NAMES.get(tensor.dtype.name) if tensor.dtype.isnative else None
        length = tensor.nbytes
    else:
        raise ArgumentError(f"{what} is no tensor and no array but {type(tensor).__name__}")
    if code is None or code in ("C128", "F4"):
        raise UnsupportedError(f"{what} is of type {tensor.dtype}, which cannot be published")
    return name, code, list(tensor.shape), length


def fill(slot, tensor):
    """Copies a tensor or array into an image."""
    if not slot.size:
        return
    if is_tensor(tensor):
        import torch

        with torch.no_grad():
            source = tensor.detach()
            target = torch.from_numpy(slot).view(source.dtype).view(source.shape)
            target.copy_(source)
        return
    slot[:] = of_array(numpy.ascontiguousarray(tensor))


def as_tensor(slot, code, shape):
    """The tensor of torch that lies in an image."""
    import torch

    dtype = getattr(torch, TYPES[code], None)
    if dtype is None:
        raise UnsupportedError(f"this version of torch has no type {TYPES[code]}")
    return torch.from_numpy(slot).view(dtype).view(shape)


def as_array(slot, code, shape):
    """The array of numpy that lies in an image."""
    from ..numpy import dtype_of

    return slot.view(dtype_of(code)).reshape(shape)


def words(slot, code):
    """The elements as unsigned integers of their width."""
    width = {8: numpy.uint8, 16: numpy.uint16, 32: numpy.uint32, 64: numpy.uint64}
    return slot.view(width.get(_width(code) if code != "BOOL" else 8, numpy.uint8))


def take(target, slot, code, shape):
    """Copies a tensor of an image into one that is there."""
    if not slot.size:
        return
    if is_tensor(target):
        import torch

        with torch.no_grad():
            target.detach().copy_(as_tensor(slot, code, shape))
    else:
        target[...] = as_array(slot, code, shape)


def fits(name, target, code, shape):
    """Checks that a tensor that is there is the one that was published."""
    found, own, own_shape, _ = describe(name, target)
    if own != code or own_shape != list(shape):
        raise ArgumentError(
            f'"{found}" is {own} {own_shape} here, and {code} {list(shape)} was published'
        )
