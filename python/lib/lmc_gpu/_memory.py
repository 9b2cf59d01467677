"""Memory of bytes-like objects, arrays and tensors, lent to the library without a copy."""

import ctypes
import sys

# Element types by the names that `numpy.dtype.name` and `str(torch.dtype)` have in common.
NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "complex128": "C128",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fn_x2": "F4",
}
TYPES = {code: name for name, code in NAMES.items()}
_FORMATS = {
    "e": "F16", "f": "F32", "d": "F64", "b": "I8", "h": "I16", "H": "U16",
    "i": "I32", "I": "U32", "q": "I64", "Q": "U64",
}  # fmt: skip


def is_tensor(value):
    """Whether it is a tensor of torch, which is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value):
    """Whether it is an array of numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def at_address(address, length, owner):
    """A buffer of memory that `owner` keeps."""
    if length == 0:
        return b""
    memory = (ctypes.c_char * length).from_address(address)
    memory.owner = owner
    return memory


def of_tensor(tensor):
    """The bytes of a tensor on the CPU that is contiguous."""
    return at_address(tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor)


def of_array(array):
    """The bytes of a contiguous array: numpy does not lend those of types that it does not know."""
    import numpy

    return array.reshape(-1).view(numpy.uint8) if array.size else b""


def lend(data):
    """A buffer of `data`, and its element type where it has one."""
    if isinstance(data, (bytes, bytearray)):
        return data, None
    if is_tensor(data):
        from .torch import plain

        data = plain(data, "the tensor")
        return of_tensor(data), _flat(str(data.dtype).removeprefix("torch."))
    if not is_array(data) and hasattr(data, "__dlpack__") and not _has_buffer(data):
        import numpy

        data = numpy.from_dlpack(data)
    if is_array(data):
        from .numpy import plain

        data = plain(data, "the array")
        return of_array(data), _flat(data.dtype.name)
    view = memoryview(data)
    if not view.c_contiguous:
        raise BufferError("the memory is not contiguous: pass a contiguous copy")
    return view, _FORMATS.get(view.format.lstrip("@=<"))


def _has_buffer(data):
    try:
        memoryview(data).release()
    except TypeError:
        return False
    return True


def _flat(name):
    """What tells the coder something: bytes may be a file of any format."""
    code = NAMES.get(name)
    return None if code in ("U8", "BOOL", "F4") else code
