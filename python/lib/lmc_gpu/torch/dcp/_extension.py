"""DCP's own files, with each item in them an archive."""

import io

from torch.distributed.checkpoint._extension import ExtensionRegistry, StreamTransformExtension

from ... import _native
from ..._codec import choices, compress
from ..._files import write_all

_VERSION = "1"


class LmcExtension(StreamTransformExtension):
    """Compresses what DCP's `FileSystemWriter` and `FsspecWriter` write, item by item.

    What `torch.save` wrote is understood, so tensors are coded as what they are. An item is held in
    memory while it is written. Reading decodes what is asked for, and holds the compressed item.

    Args:
        method, threads: as for `lmc_gpu.compress`.

    >>> import tempfile, torch, torch.distributed.checkpoint as dcp, warnings
    >>> from lmc_gpu.torch.dcp import LmcExtension, registry
    >>> warnings.simplefilter("ignore")  # there is one process
    >>> path, state = tempfile.mkdtemp(), {"w": torch.zeros(50_000)}
    >>> _ = dcp.save(state, storage_writer=dcp.FileSystemWriter(path, _extensions=[LmcExtension()]))
    >>> loaded = {"w": torch.ones(50_000)}
    >>> dcp.load(loaded, storage_reader=dcp.FileSystemReader(path, _extension_registry=registry()))
    >>> torch.equal(loaded["w"], state["w"])
    True
    """

    def __init__(self, method="auto", threads=None):
        self._method = method
        self._threads = threads
        # A name that is wrong is told before anything is written.
        compress(b"", method=method)

    @staticmethod
    def registry_name():
        """The name by which a reader finds it."""
        return "stream.lmc"

    @staticmethod
    def from_descriptor(version):
        """The extension that reads what was written as `version`."""
        if version.partition(".")[0] != _VERSION:
            raise ValueError(
                f"the checkpoint was written as stream.lmc/{version}, and this version of lmc_gpu "
                f"reads stream.lmc/{_VERSION}: update it"
            )
        return LmcExtension()

    def get_descriptor(self):
        """What the checkpoint's metadata says of it."""
        return f"{self.registry_name()}/{_VERSION}"

    def transform_to(self, output):
        """A stream whose content goes to `output` as an archive when it is closed."""
        return _Writer(output, self._method, self._threads)

    def transform_from(self, input):
        """The content of an archive, to be read anywhere."""
        return _Reader(input, self._threads)


def registry():
    """DCP's registry of extensions, with `LmcExtension` in it."""
    made = ExtensionRegistry()
    made.register(LmcExtension)
    return made


class _Writer(io.RawIOBase):
    def __init__(self, output, method, threads):
        self._output = output
        self._method = method
        self._threads = threads
        self._data = io.BytesIO()

    def writable(self):
        return True

    def write(self, data):
        return self._data.write(data)

    def close(self):
        if self.closed:
            return
        super().close()
        with self._data.getbuffer() as data:
            packed = compress(data, method=self._method, threads=self._threads)
        write_all(self._output, packed)
        self._output.close()


class _Reader(io.RawIOBase):
    def __init__(self, input, threads):
        packed = input.read()
        self._native = _native.Checkpoint.from_bytes(packed, choices(threads=threads))
        self._length = self._native.total
        self._at = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        self._at = max(0, offset + (0, self._at, self._length)[whence])
        return self._at

    def tell(self):
        return self._at

    def readinto(self, out):
        view = memoryview(out).cast("B")
        n = max(0, min(len(view), self._length - self._at))
        if n:
            self._native.read_into(0, self._at, view[:n], None)
        self._at += n
        return n

    def readall(self):
        n = max(0, self._length - self._at)
        data = self._native.read(0, self._at, n)
        self._at += n
        return data
