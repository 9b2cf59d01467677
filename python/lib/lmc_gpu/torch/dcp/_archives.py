"""The archives of a checkpoint, and the stretches of tensors in them."""

import os

from torch.distributed.checkpoint.metadata import MetadataIndex

from ..._errors import CorruptError
from ..._open import Reader
from .. import room
from ._layout import ARCHIVE, OBJECTS, Item, Part
from ._metadata import BASES, read_metadata


def is_archived(info):
    """Whether an item is in an archive of this package."""
    descriptors = getattr(info, "transform_descriptors", None) or ()
    if not descriptors or descriptors[0] != ARCHIVE:
        return False
    if len(descriptors) != 3:
        raise CorruptError(f"the place of an item in an archive is not understood: {descriptors}")
    return True


class Archives:
    """The archives of one checkpoint, each opened when something in it is read."""

    def __init__(self, path, metadata=None, threads=None):
        self.path = os.path.abspath(os.fspath(path))
        self.metadata = read_metadata(self.path) if metadata is None else metadata
        self.threads = threads
        self._open = {}
        self._items = None
        self._chunks = {}

    def bases(self):
        """What is known of the bases of its archives: by archive, the paths of a chain of
        archives, or of the checkpoint that the base is gathered from."""
        return getattr(self.metadata, BASES, None) or {}

    def at(self, path):
        """A path that is stored relative to this checkpoint."""
        return os.path.normpath(os.path.join(self.path, path))

    def items(self):
        """The items of each archive, in the order of the metadata."""
        if self._items is None:
            self._items = {}
            for index, info in self.metadata.storage_data.items():
                if is_archived(info):
                    item = self._item(index, info)
                    if item is not None:
                        self._items.setdefault(info.relative_path, []).append(item)
        return self._items

    def _item(self, index, info):
        _, file, name = info.transform_descriptors
        found = self.metadata.state_dict_metadata.get(index.fqn)
        if file == OBJECTS:
            return Item(index.fqn, file, name)
        if index.fqn not in self._chunks:
            self._chunks = {index.fqn: {c.offsets: c.sizes for c in getattr(found, "chunks", ())}}
        sizes = self._chunks[index.fqn].get(index.offset)
        if sizes is None:
            return None
        offsets, sizes, shape = tuple(index.offset), tuple(sizes), tuple(found.size)
        return Item(index.fqn, file, name, offsets, sizes, shape, found.properties.dtype)

    def _archive(self, relative):
        opened = self._open.get(relative)
        if opened is None:
            from ._base import base_of

            base = base_of(self, relative)
            reader = Reader.open(os.path.join(self.path, relative), base, self.threads)
            entries = {(reader.files[e.file][0], e.name): e for e in reader.entries.values()}
            opened = self._open[relative] = (reader, entries)
        return opened

    def _entry(self, info):
        _, file, name = info.transform_descriptors
        reader, entries = self._archive(info.relative_path)
        entry = entries.get((file, name))
        if entry is None:
            raise CorruptError(
                f'{info.relative_path} has no "{name}" in {file}, which the metadata says it has'
            )
        return reader, entry

    def object(self, info):
        """The bytes of an object."""
        reader, entry = self._entry(info)
        return reader.native.read(entry.file, entry.offset, entry.extent)

    def part(self, info, dtype, sizes):
        """A stored stretch of a tensor."""
        return Part(*self._entry(info), dtype, sizes)

    def holds(self, item):
        """Whether this checkpoint has such a tensor or object, wherever its parts are."""
        found = self.metadata.state_dict_metadata.get(item.fqn)
        if item.offsets is None:
            info = self.metadata.storage_data.get(MetadataIndex(item.fqn))
            return info is not None and is_archived(info)
        return (
            getattr(found, "chunks", None) is not None
            and tuple(found.size) == item.shape
            and found.properties.dtype == item.dtype
            and all(
                is_archived(self.metadata.storage_data.get(MetadataIndex(item.fqn, c.offsets)))
                for c in found.chunks
                if overlap(c.offsets, c.sizes, item.offsets, item.sizes)
            )
        )

    def gather(self, item):
        """The bytes of a stretch that may lie in several archives."""
        if item.offsets is None:
            return self.object(self.metadata.storage_data[MetadataIndex(item.fqn)])
        memory = room(item.length)
        out = memory.view(item.dtype).view(item.sizes)
        for chunk in self.metadata.state_dict_metadata[item.fqn].chunks:
            shared = overlap(chunk.offsets, chunk.sizes, item.offsets, item.sizes)
            if shared is None:
                continue
            info = self.metadata.storage_data[MetadataIndex(item.fqn, chunk.offsets)]
            lengths = [b - a for a, b in shared]
            target = out
            for d, (a, b) in enumerate(shared):
                target = target.narrow(d, a - item.offsets[d], b - a)
            start = [a - o for (a, _), o in zip(shared, chunk.offsets)]
            self.part(info, item.dtype, chunk.sizes).read_into(target, start, lengths)
        return memory

    def object_length(self, item):
        """Bytes of an object."""
        info = self.metadata.storage_data[MetadataIndex(item.fqn)]
        return info.length


def overlap(offsets, sizes, other, other_sizes):
    """From where to where two stretches overlap in each dimension, `None` where they do not."""
    found = []
    for a, n, b, m in zip(offsets, sizes, other, other_sizes):
        low, high = max(a, b), min(a + n, b + m)
        if low >= high:
            return None
        found.append((low, high))
    return found
