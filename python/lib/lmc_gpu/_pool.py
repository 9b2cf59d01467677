"""Memory that copies of states are made in, and the copying."""

import collections

from ._memory import is_array, is_tensor, of_array

# Bytes that are not worth giving back.
_SMALL = 1 << 20


class Pool:
    """Memory for copies of states, used again when nobody reads it any more."""

    def __init__(self):
        # Memory is given back by whatever thread drops the last reference to it, at any time, so
        # there is no lock here: a deque needs none.
        self._free = collections.deque()

    def take(self, length, make):
        """Memory of at least `length` bytes, made by `make` where none is free, and its lease."""
        memory = None
        while memory is None:
            try:
                found = self._free.pop()
            except IndexError:
                break
            if make.fits(found) and length <= make.length(found) <= 2 * length + _SMALL:
                memory = found
            # What does not fit is of a state that is no longer saved, and goes.
        if memory is None:
            memory = make.new(length)
        return memory, _Lease(self, memory)

    def give(self, memory):
        """Takes memory back."""
        self._free.append(memory)


class _Lease:
    """Gives memory back when it is collected."""

    def __init__(self, pool, memory):
        self._pool = pool
        self._memory = memory

    def __del__(self):
        self._pool.give(self._memory)


class OfNumpy:
    """Copies held by numpy."""

    @staticmethod
    def fits(memory):
        return is_array(memory)

    @staticmethod
    def length(memory):
        return memory.size

    @staticmethod
    def new(length):
        import numpy

        return numpy.empty(length, numpy.uint8)

    @staticmethod
    def address(memory):
        return memory.__array_interface__["data"][0]


class OfTorch:
    """Copies held by torch, pinned where a device is to write to them."""

    def __init__(self, pinned):
        self.pinned = pinned

    def fits(self, memory):
        return is_tensor(memory) and (not self.pinned or memory.is_pinned())

    @staticmethod
    def length(memory):
        return memory.numel()

    def new(self, length):
        import torch

        return torch.empty(length, dtype=torch.uint8, pin_memory=self.pinned)

    @staticmethod
    def address(memory):
        return memory.data_ptr()


class OfBytes:
    """Copies of states without tensors."""

    @staticmethod
    def fits(memory):
        return isinstance(memory, bytearray)

    @staticmethod
    def length(memory):
        return len(memory)

    @staticmethod
    def new(length):
        return bytearray(length)


def has_cuda():
    import torch

    return torch.cuda.is_available()


def copy_tensors(copies, memory, on_device):
    """Copies tensors and arrays into memory of torch. What was submitted to a device before is
    waited for, what is submitted after may overwrite the tensors."""
    import torch

    with torch.no_grad():
        if not on_device or not has_cuda():
            for value, at, length in copies:
                _copy_one(value, memory[at : at + length], False)
            return
        streams = {}
        for value, at, length in copies:
            if not is_tensor(value) or value.device.type != "cuda":
                _copy_one(value, memory[at : at + length], False)
                continue
            stream = streams.get(value.device)
            if stream is None:
                stream = streams[value.device] = torch.cuda.Stream(value.device)
                stream.wait_stream(torch.cuda.current_stream(value.device))
            with torch.cuda.stream(stream):
                _copy_one(value, memory[at : at + length], True)
                value.record_stream(stream)
        for stream in streams.values():
            stream.synchronize()


def _copy_one(value, out, non_blocking):
    import torch

    if not out.numel():
        return
    if is_array(value):
        out.numpy()[:] = of_array(value)
        return
    if not value.is_contiguous():
        value = value.contiguous()
    out.copy_(value.reshape(-1).view(torch.uint8), non_blocking=non_blocking)
