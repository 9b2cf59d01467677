"""zarr and numcodecs: chunks of arrays as archives.

`Lmc` is a codec of numcodecs, for zarr's format 2 and whoever else uses them. `LmcCodec` is one of
zarr 3. Both are found by their name, `lmc_gpu`, once this module is imported; the package also
announces them, so that an array which was written with one opens without that.
"""

import dataclasses

from ._versions import require

require("numcodecs", "0.13")

import numcodecs.abc
import numcodecs.compat
import numcodecs.registry
import numpy

from ._codec import compress, decompress
from ._memory import NAMES

NAME = "lmc_gpu"
__all__ = ["Lmc"]


class Lmc(numcodecs.abc.Codec):
    """Compresses arrays of numbers.

    Args:
        method: how to code, as for `lmc_gpu.compress`.
        dtype: type of the elements, where what is encoded are bytes.

    >>> import numpy
    >>> from lmc_gpu.numcodecs import Lmc
    >>> array = numpy.linspace(0, 1, 10_000, dtype="float32")
    >>> packed = Lmc().encode(array)
    >>> bool((Lmc().decode(packed).view("float32") == array).all()), len(packed) < array.nbytes
    (True, True)
    """

    codec_id = NAME

    def __init__(self, method="auto", dtype=None):
        self.method = method
        self.dtype = None if dtype is None else str(dtype)

    def encode(self, buf):
        """The archive of a chunk."""
        if isinstance(buf, numpy.ndarray) and not buf.dtype.hasobject:
            data = numpy.ascontiguousarray(buf.T if buf.flags.f_contiguous else buf)
            swapped = not data.dtype.isnative and data.dtype.itemsize > 1
            if swapped or data.dtype.kind not in "fiubcV" or data.dtype.name not in NAMES:
                data = data.reshape(-1).view(numpy.uint8)
        else:
            data = numcodecs.compat.ensure_bytes(buf)
        return compress(data, dtype=_code(self.dtype), method=self.method, threads=1)

    def decode(self, buf, out=None):
        """The chunk of an archive."""
        packed = numcodecs.compat.ensure_bytes(buf)
        if out is None:
            return numpy.frombuffer(decompress(packed, threads=1), numpy.uint8)
        memory = numcodecs.compat.ensure_contiguous_ndarray(out)
        decompress(packed, out=memory.reshape(-1).view(numpy.uint8), threads=1)
        return out


def _code(dtype):
    return NAMES.get(dtype, dtype)


numcodecs.registry.register_codec(Lmc)

try:
    require("zarr", "3.0")
except ImportError:
    LmcCodec = None
else:
    import asyncio

    import zarr.registry
    from zarr.abc.codec import BytesBytesCodec
    from zarr.core.common import parse_named_configuration

    @dataclasses.dataclass(frozen=True)
    class LmcCodec(BytesBytesCodec):
        """Compresses the chunks of an array of zarr 3: `zarr.create_array(…, compressors=[…])`.

        Args:
            method: how to code, as for `lmc_gpu.compress`.
            dtype: type of the elements; by default that of the array.
        """

        is_fixed_size = False
        method: str = "auto"
        dtype: str | None = None

        @classmethod
        def from_dict(cls, data):
            """The codec that an array's metadata describes."""
            _, chosen = parse_named_configuration(data, NAME, require_configuration=False)
            return cls(**(chosen or {}))

        def to_dict(self):
            """What an array's metadata says of it."""
            return {"name": NAME, "configuration": {"method": self.method, "dtype": self.dtype}}

        def evolve_from_array_spec(self, array_spec):
            """The codec for an array of a type."""
            if self.dtype is not None:
                return self
            native = array_spec.dtype
            native = native.to_native_dtype() if hasattr(native, "to_native_dtype") else native
            name = native.name if native.name in NAMES and native.kind != "b" else None
            return dataclasses.replace(self, dtype=name)

        def _encode(self, chunk, spec):
            data = chunk.as_numpy_array().reshape(-1).view(numpy.uint8)
            packed = Lmc(self.method, self.dtype).encode(memoryview(data))
            return spec.prototype.buffer.from_bytes(packed)

        def _decode(self, chunk, spec):
            data = decompress(chunk.to_bytes(), threads=1)
            return spec.prototype.buffer.from_bytes(data)

        async def _encode_single(self, chunk_bytes, chunk_spec):
            return await asyncio.to_thread(self._encode, chunk_bytes, chunk_spec)

        async def _decode_single(self, chunk_bytes, chunk_spec):
            return await asyncio.to_thread(self._decode, chunk_bytes, chunk_spec)

        def compute_encoded_size(self, input_byte_length, chunk_spec):
            """Not known before."""
            raise NotImplementedError

    zarr.registry.register_codec(NAME, LmcCodec)
    __all__.append("LmcCodec")
