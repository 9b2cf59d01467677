"""Tensors of torch: what `safetensors.torch` does, compressed, and `torch.save`."""

import io

import torch as _torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .. import _native
from .._codec import choices
from .._errors import LimitError, UnsupportedError
from .._files import MemoryFile, is_file, write_all
from .._memory import TYPES, at_address, of_tensor
from .._names import code_of, in_order, named
from .._open import Reader
from .._save import to_bytes, to_file

__all__ = [
    "load",
    "load_bytes",
    "load_file",
    "load_model",
    "save",
    "save_bytes",
    "save_file",
    "save_model",
]

_LARGE = 4 << 20


def save_file(
    tensors,
    filename,
    metadata=None,
    *,
    base=None,
    method="auto",
    threads=None,
    device=None,
    progress=None,
):
    """Compresses tensors as one safetensors file into the archive `filename`, which appears whole
    or not at all and replaces what was there. Nobody may write to the tensors meanwhile.

    Args:
        tensors: tensors by name: dense, contiguous, none sharing memory with another.
        filename: path of the archive. Without `.lmc` at its end it is the name of the file inside.
            Or an open file to write to, for an archive that is made in memory first.
        metadata: texts by name.
        base: path of what the archive becomes a delta to. To read it, the base has to be there.
        method, threads, device, progress: as for `lmc_gpu.compress`.

    Raises:
        ValueError: for what is no dense, contiguous tensor.
        RuntimeError: for tensors that share memory: `save_model` takes care of them.
        UnsupportedError: for types that safetensors files do not have.

    >>> import torch, lmc_gpu.torch, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors.lmc")
    >>> lmc_gpu.torch.save_file({"w": torch.ones(3, dtype=torch.bfloat16)}, path)
    >>> lmc_gpu.torch.load_file(path)
    {'w': tensor([1., 1., 1.], dtype=torch.bfloat16)}
    """
    chosen = {"base": base, "method": method, "threads": threads, "device": device}
    to_file(_lent(tensors), filename, metadata, progress, **chosen)


def save_bytes(tensors, metadata=None, *, base=None, method="auto", threads=None):
    """As `save_file`, to `bytes`: what `safetensors.torch.save` does."""
    return to_bytes(_lent(tensors), metadata, base=base, method=method, threads=threads)


def load_file(filename, device="cpu", *, base=None, threads=None):
    """The tensors of an archive, or of a raw file, by name. They share one stretch of memory.

    Args:
        filename: path of the archive or file, or an open file that can seek.
        device: where the tensors go.
        base: path of what the archive is a delta to; by default it is looked for beside it.
        threads: how many threads work; one a core by default.

    Raises:
        CorruptError, BaseMismatchError, MissingFileError: as for `lmc_gpu.safe_open`.
    """
    return _all(Reader.open(filename, base, threads), device)


def load_bytes(data, *, base=None):
    """The tensors of an archive, or of a raw safetensors file, in memory: what
    `safetensors.torch.load` does."""
    return _all(Reader.of_bytes(data, base), "cpu")


def save_model(model, filename, metadata=None, force_contiguous=True, *, base=None, method="auto"):
    """Saves the state of a model. Of tensors that are the same one is saved, and the metadata says
    which other names it has.

    Args:
        model: a `torch.nn.Module`.
        filename: path of the archive.
        metadata: texts by name.
        force_contiguous: whether tensors that are not contiguous are saved as if they were.
        base, method: as for `save_file`.

    Raises:
        RuntimeError: where tensors share memory and none of them has all of it.
    """
    state = model.state_dict()
    metadata = dict(metadata or {})
    for kept, others in _duplicates(state).items():
        for name in others:
            metadata.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    save_file(state, filename, metadata, base=base, method=method)


def load_model(model, filename, strict=True, device="cpu", *, base=None):
    """Loads the state of a model that `save_model` saved.

    Args:
        model: a `torch.nn.Module` of the same architecture.
        filename: path of the archive, or of a raw safetensors file.
        strict: whether missing and unexpected names are an error.
        device: where the tensors go first.
        base: as for `load_file`.

    Returns:
        The missing and the unexpected names.

    Raises:
        RuntimeError: with `strict`, for missing and unexpected names; for wrong shapes always.
    """
    state = load_file(filename, device, base=base)
    same = _duplicates(model.state_dict(), preferred=state.keys())
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing, unexpected = set(missing), list(unexpected)
    for names in same.values():
        for name in names:
            if name in missing:
                missing.discard(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        text = f"Error(s) in loading state_dict for {type(model).__name__}:"
        for what, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                listed = ", ".join(f'"{name}"' for name in sorted(names))
                text += f"\n    {what} key(s) in state_dict: {listed}"
        raise RuntimeError(text)
    return missing, unexpected


def save(obj, path, base=None, *, method="auto", threads=None, progress=None):
    """Saves what `torch.save` can save, compressed. The file inside the archive is the one that
    `torch.save` writes, which is held in memory meanwhile.

    Args:
        obj: a state, or any object that can be pickled.
        path: path of the archive, which appears whole or not at all and replaces what was there;
            or an open file to write to.
        base: path of an earlier save that the archive becomes a delta to.
        method, threads, progress: as for `lmc_gpu.compress`.

    >>> import torch, lmc_gpu.torch, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "state.pt.lmc")
    >>> lmc_gpu.torch.save({"step": 7, "w": torch.zeros(2)}, path)
    >>> lmc_gpu.torch.load(path)
    {'step': 7, 'w': tensor([0., 0.])}
    """
    file = io.BytesIO()
    _torch.save(obj, file)
    chosen = choices(base=base, method=method, threads=threads, overwrite=True)
    if is_file(path):
        with file.getbuffer() as data:
            return write_all(path, _native.compress(data, chosen, progress))
    path, name = named(path)
    with file.getbuffer() as data:
        _native.save_bytes_file(data, name, path, chosen, progress)


def load(path, *, map_location=None, weights_only=True, base=None, threads=None):
    """Loads what `save` saved, or any archive or raw file of what `torch.save` wrote.

    Args:
        path: path of the archive or file, or an open file that can seek.
        map_location: where tensors go, as for `torch.load`.
        weights_only: whether nothing but tensors and plain containers are loaded. Without it,
            loading runs whatever code the file holds.
        base: path of what the archive is a delta to; by default it is looked for beside it.
        threads: how many threads work; one a core by default.
    """
    native = Reader.open(path, base, threads).native
    memory = room(native.total)
    if native.is_directory:
        raise UnsupportedError(f"{path} holds a directory, not a file of torch.save")
    if native.total:
        native.read_all_into(of_tensor(memory))
    file = MemoryFile(of_tensor(memory))
    return _torch.load(file, map_location=map_location, weights_only=weights_only)


def check(tensor, what):
    """Refuses tensors that have no bytes of their own."""
    if is_traceable_wrapper_subclass(tensor):
        kind = type(tensor).__name__
        raise UnsupportedError(
            f"{what} is a {kind}, which is made of other tensors: save those instead, such as "
            "to_local() or full_tensor() of a DTensor"
        )
    if tensor.layout != _torch.strided:
        raise ValueError(f"{what} is sparse: make it dense, or save its indices and values")
    if tensor.is_quantized:
        raise UnsupportedError(f"{what} is quantized: save int_repr(), scale and zero point")
    if tensor.device.type == "meta":
        raise ValueError(f"{what} is on the device meta: it has no bytes")


def plain(tensor, what):
    """The tensor dense, contiguous and on the CPU."""
    check(tensor, what)
    tensor = tensor.detach()
    if type(tensor) is not _torch.Tensor:
        tensor = tensor.as_subclass(_torch.Tensor)
    return tensor.resolve_conj().resolve_neg().cpu().contiguous()


def name_of(dtype):
    """The name of a dtype without its module."""
    return str(dtype).removeprefix("torch.")


def logical_shape(tensor):
    """Dimensions in elements: two stand in each of a packed type."""
    shape = list(tensor.shape)
    if name_of(tensor.dtype) == "float4_e2m1fn_x2" and shape:
        shape[-1] *= 2
    return shape


def _lent(tensors):
    """Tensors as the extension takes them, refused as safetensors refuses them."""
    if not isinstance(tensors, dict):
        kind = type(tensors).__name__
        raise ValueError(f"the tensors are a dictionary by name, not {kind}")
    lent, places = [], {}
    for name, tensor in tensors.items():
        what = f'tensor "{name}"'
        if not isinstance(name, str):
            raise ValueError(f"the name {name!r} is no text")
        if not isinstance(tensor, _torch.Tensor):
            raise ValueError(f"{what} is no tensor of torch but {type(tensor).__name__}")
        dense = plain(tensor, what)
        if not tensor.is_contiguous():
            raise ValueError(
                f"{what} is not contiguous: call .contiguous() on it, or use save_model"
            )
        code = code_of(name_of(dense.dtype), what)
        if tensor.numel():
            key = (tensor.device, tensor.untyped_storage().data_ptr())
            places.setdefault(key, []).append((tensor.data_ptr(), tensor.nbytes, name))
        lent.append((name, code, logical_shape(dense), of_tensor(dense)))
    for spans in places.values():
        spans.sort()
        for (a, length, first), (b, _, second) in zip(spans, spans[1:]):
            if b < a + length:
                raise RuntimeError(
                    f'tensors "{first}" and "{second}" share memory: save one of them, or copies, '
                    "or use save_model"
                )
    return in_order(lent)


def _duplicates(state, preferred=()):
    """For every tensor that is to be kept, the names of those that share its memory."""
    places = {}
    for name, tensor in state.items():
        if tensor.device.type != "meta" and tensor.numel():
            storage = tensor.untyped_storage()
            key = (tensor.device, storage.data_ptr(), storage.nbytes())
            places.setdefault(key, []).append(name)
    found = {}
    for names in places.values():
        spans = sorted((state[n].data_ptr(), n) for n in names)
        groups, end = [], None
        for start, name in spans:
            if end is None or start >= end:
                groups.append([])
            groups[-1].append(name)
            end = max(end or 0, start + state[name].nbytes)
        for group in groups:
            if len(group) > 1:
                whole = [n for n in sorted(group) if _is_complete(state[n])]
                if not whole:
                    raise RuntimeError(
                        f"tensors {sorted(group)} share memory and none of them has all of it"
                    )
                kept = next((n for n in whole if n in preferred), whole[0])
                found[kept] = [n for n in sorted(group) if n != kept]
    return found


def _is_complete(tensor):
    storage = tensor.untyped_storage()
    return tensor.data_ptr() == storage.data_ptr() and tensor.nbytes == storage.nbytes()


def dtype_of(code):
    """The dtype of an element type, `None` where this torch has none."""
    return getattr(_torch, TYPES.get(code, ""), None)


def view(memory, entry):
    """The tensor whose bytes `memory` holds."""
    dtype = dtype_of(entry.dtype)
    if dtype is None:
        # Packed types that torch does not have: the bytes.
        return memory
    if entry.big_endian and dtype.itemsize > 1:
        word = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        memory = memory.view(-1, word).flip(1).reshape(-1)
    if memory.storage_offset() % dtype.itemsize or memory.data_ptr() % dtype.itemsize:
        memory = memory.clone()
    flat = memory.view(dtype)
    shape = list(entry.shape)
    if entry.dtype == "F4" and shape:
        shape[-1] //= 2
    if entry.strides is None:
        return flat.view(shape)
    if 0 in shape:
        return _torch.empty(shape, dtype=dtype)
    return flat.as_strided(shape, entry.strides, flat.storage_offset()).clone()


def _numpy():
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def room(length):
    """Memory for so many bytes. That of numpy comes in huge pages where there are some, and fresh
    small pages take longer than decoding."""
    try:
        if length >= _LARGE and (numpy := _numpy()):
            return _torch.from_numpy(numpy.empty(length, numpy.uint8))
        return _torch.empty(length, dtype=_torch.uint8)
    except (MemoryError, RuntimeError) as error:
        raise LimitError(f"{length} bytes do not fit into memory") from error


def read(reader, entry, device="cpu"):
    """The tensor of a checkpoint."""
    memory = room(entry.extent)
    if entry.extent:
        out = at_address(memory.data_ptr(), entry.extent, memory)
        reader.native.read_into(entry.file, entry.offset, out, entry.name)
    return view(memory, entry).to(device)


def _all(reader, device):
    memory = room(reader.native.total)
    if reader.native.total:
        reader.native.read_all_into(of_tensor(memory))
    found = {}
    for name, entry in reader.entries.items():
        start = reader.starts[entry.file] + entry.offset
        found[name] = view(memory[start : start + entry.extent], entry).to(device)
    return found
