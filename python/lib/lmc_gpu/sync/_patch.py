"""What changes of a tensor from one version to another."""

import numpy

from ._image import as_tensor, take

# Where more than this part of a tensor's elements changed, it is copied as a whole.
_SPARSE = 0.125


class Patch:
    """What changed of a tensor.

    Attributes:
        name, dtype, shape: of the tensor; `dtype` by its name in safetensors files.
        indices: places of the elements that changed, in the flat tensor, ascending (int64); `None`
            where most of it changed.
        values: their new values, as unsigned integers of the elements' width; of all elements where
            `indices` is `None`.
    """

    __slots__ = ("name", "dtype", "shape", "indices", "values")

    def __init__(self, name, dtype, shape, indices, values):
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.indices = indices
        self.values = values

    def tensor(self):
        """The values as a flat tensor of torch, of the tensor's own type."""
        flat = numpy.ascontiguousarray(self.values)
        return as_tensor(flat.view(numpy.uint8), self.dtype, [flat.size])


def changed(new, old):
    """Places of the elements that differ, `None` where they are too many to be worth naming."""
    # Most of them do not, and are passed over eight bytes at a time.
    each = 8 // new.itemsize
    whole = new.size // each
    head = whole * each
    coarse = numpy.flatnonzero(new[:head].view(numpy.uint64) != old[:head].view(numpy.uint64))
    if coarse.size > _SPARSE * new.size:
        return None
    if each > 1:
        pick = lambda words: words[:head].view(numpy.uint64)[coarse].view(words.dtype)
        fine = numpy.flatnonzero(pick(new) != pick(old))
        at = coarse[fine // each] * each + fine % each
    else:
        at = coarse
    if head < new.size:
        at = numpy.concatenate([at, head + numpy.flatnonzero(new[head:] != old[head:])])
    return None if at.size > _SPARSE * new.size else at


def put(target, patch, slot):
    """Writes what changed of a tensor, which is `slot` as a whole."""
    if patch.indices is None:
        take(target, slot, patch.dtype, patch.shape)
        return
    if isinstance(target, numpy.ndarray):
        if target.flags.c_contiguous:
            flat = target.reshape(-1).view(patch.values.dtype)
            flat[patch.indices] = patch.values
        else:
            take(target, slot, patch.dtype, patch.shape)
        return
    import torch

    with torch.no_grad():
        target = target.detach()
        if not target.is_contiguous():
            take(target, slot, patch.dtype, patch.shape)
            return
        at = torch.from_numpy(patch.indices).to(target.device)
        values = torch.from_numpy(patch.values).to(target.device)
        # As integers, since not every type of float can be indexed.
        signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        kind = signed[values.element_size()]
        target.view(-1).view(kind).index_copy_(0, at, values.view(kind))
