"""Archives: everything of docs/FORMAT.md that stands outside the payloads of chunks."""

from collections import namedtuple
from itertools import accumulate

import xxhash
import zstandard

from coders import Reader, check, need
from forms import TYPES, decode, turned

LIMIT = 256 << 20

Record = namedtuple("Record", "kind meta payload at")
Entry = namedtuple("Entry", "kind dtype path len")
Reference = namedtuple("Reference", "sibling pieces digest")
Chunk = namedtuple("Chunk", "kind flags dtype form row digest pieces references source payload")


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data).to_bytes(8, "little")


def digest(data):
    return xxh3(b"".join(xxh3(data[i : i + (1 << 14)]) for i in range(0, len(data), 1 << 14)))


def read_record(reader):
    start = reader.at
    kind, reserved, meta_len, payload_len = (reader.int(n) for n in (1, 3, 4, 4))
    need(kind in (1, 2, 3, 4, 6) and reserved == 0, "a record of no known type")
    head, guard = reader.data[start : reader.at], reader.int(4)
    meta = reader.take(meta_len)
    need(check(head + meta) == guard, "the check of a record")
    return Record(kind, meta, reader.take(payload_len), start)


def zstd(frame, limit):
    """The content of exactly one frame, of at most `limit` bytes, and the frame's parameters."""
    need(frame[:4] == b"\x28\xb5\x2f\xfd", "no zstd frame")
    try:
        parameters = zstandard.get_frame_parameters(frame)
        need(parameters.content_size <= limit, "a frame of too much or of unknown length")
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
        content = reader.decompress(frame)
        need(reader.eof and reader.unused_data == b"", "other than one zstd frame")
    except zstandard.ZstdError as error:
        need(False, str(error))
    need(len(content) == parameters.content_size, "a frame of another length than it says")
    return content, parameters


def table(record):
    meta = Reader(record.meta)
    length, guard = meta.varint(), meta.take(8)
    meta.end()
    need(xxh3(record.payload) == guard, "the digest of a table")
    content, of = zstd(record.payload, min((1 << 20) + 64 * len(record.payload), LIMIT))
    need(not of.dict_id and not of.has_checksum, "a table with a dictionary or a checksum")
    need(record.payload[4] >> 5 & 1 or of.window_size <= 1 << 23, "a table with a large window")
    need(len(content) == length, "a table of another length")
    return Reader(content)


def read_path(reader):
    path = reader.take(reader.varint())
    parts = path.split(b"/")
    need(not {b"", b".", b".."} & set(parts) and b"\0" not in path, "a path that is none")
    return path


def ascending(paths):
    parts = [path.split(b"/") for path in paths]
    need(all(a < b for a, b in zip(parts, parts[1:])), "paths in another order")


def read_manifest(record):
    reader, entries = table(record), []
    root = reader.int(1)
    need(root in (0, 1), "neither a file nor a directory")
    for _ in range(reader.varint()):
        kind, dtype = reader.int(1), reader.int(1)
        entries.append(Entry(kind, dtype, read_path(reader), reader.varint()))
        need(kind in ((0, 1) if root else (0, 2)), "an entry of no such kind")
        need(dtype in TYPES, "no such element type")
        need(kind == 0 or entries[-1].len == 0, "a directory or a stream with a length")
    reader.end()
    ascending([e.path for e in entries])
    directories = {e.path for e in entries if e.kind == 1} | {b""}
    need(all(e.path.rpartition(b"/")[0] in directories for e in entries), "a directory is missing")
    need(root or (len(entries) == 1 and b"/" not in entries[0].path), "other than a single file")
    return root, entries


def read_base(record):
    """The lengths of the base's files by their paths."""
    reader = table(record)
    name = reader.take(reader.varint())
    need(b"/" not in name and b"\0" not in name and name not in (b".", b".."), "a name that is none")
    files = [(read_path(reader), reader.varint()) for _ in range(reader.varint())]
    reader.end()
    paths = [path for path, _ in files]
    ascending(paths)
    need(not any(b.startswith(a + b"/") for a, b in zip(paths, paths[1:])), "a file in a file")
    need(sum(n for _, n in files) < 1 << 64, "a base of 2^64 bytes")
    return dict(files)


def read_pieces(reader, several, gaps):
    count = reader.varint() if several else 1
    need(count > several, "several pieces that are one")
    pieces, end = [], 0
    for i in range(count):
        offset, length = reader.varint(), reader.varint()
        need(length > 0 and (i == 0 or offset != (0 if gaps else end)), "two pieces that are one")
        offset += end if gaps else 0
        end = offset + length
        need(end < 1 << 64, "a piece at 2^64")
        pieces.append((offset, length))
    return pieces


def read_chunk(record, has_base):
    reader, references, source = Reader(record.meta), [], None
    flags, dtype, form, row, guard = *(reader.int(1) for _ in range(3)), reader.varint(), reader.take(8)
    need(flags < 32 and dtype in TYPES, "a chunk with unknown flags or of no element type")
    pieces = read_pieces(reader, flags >> 2 & 1, True)
    if flags >> 3 & 1:
        count = reader.varint()
        need(1 <= count <= 4, "no such number of references")
        for _ in range(count):
            bits = reader.int(1)
            need(bits < 4 and (has_base or bits & 1), "a reference to nothing")
            parts = read_pieces(reader, bits >> 1, False)
            references.append(Reference(bits & 1, parts, None if bits & 1 else reader.take(8)))
            need(sum(n for _, n in parts) <= LIMIT, "a reference to too much")
    if flags >> 4:
        source = reader.varint()
    reader.end()
    length = sum(n for _, n in pieces)
    need(length % TYPES[dtype].word == 0 and length <= LIMIT, "a chunk of other than whole words")
    need((record.kind == 4) == flags >> 4 == (form == 0), "neither a chunk nor a copy")
    if flags >> 4:
        need(not flags & 14 and record.payload == b"", "a copy with more than a copy has")
    return Chunk(record.kind, flags, dtype, form, row, guard, pieces, references, source, record.payload)


class Space:
    """Files laid end to end."""

    def __init__(self, lengths):
        self.starts = list(accumulate(lengths, initial=0))
        need(self.starts[-1] < 1 << 64, "files of 2^64 bytes")
        self.bytes = bytearray(self.starts[-1])

    def read(self, pieces):
        need(all(a + n <= len(self.bytes) for a, n in pieces), "a piece beyond the last file")
        return b"".join(self.bytes[a : a + n] for a, n in pieces)


def open_archive(data):
    """All records of an archive, checked: whether it is a directory, entries, base, chunks, index."""
    reader = Reader(data)
    magic, version, reserved, features, other = (reader.int(n) for n in (8, 2, 2, 4, 4))
    need(magic.to_bytes(8, "little") == b"\x89LMC\r\n\x1a\n", "no archive")
    need(version == 2 and features < 2, "another version, or features that are not known")
    need(reserved == other == 0 and reader.int(4) == check(data[:20]), "the check of the header")
    records = [read_record(reader)]
    while records[-1].kind != 6:
        records.append(read_record(reader))
    trailer = reader.take(32)
    reader.end()
    fields = Reader(trailer)
    index_at, length, guard, trailer_check, last = (fields.int(n) for n in (8, 8, 8, 4, 4))
    need(last.to_bytes(4, "little") == b"LMCz" and trailer_check == check(trailer[:24]), "the trailer")
    need(index_at == records[-1].at and length == len(data), "a trailer of another archive")
    need(guard.to_bytes(8, "little") == xxh3(data[index_at:-32]), "the digest of the index")

    kinds = [record.kind for record in records]
    first = [1, 2] if features else [1]
    need(kinds[: len(first)] == first and not {1, 2} & set(kinds[len(first) :]), "records out of order")
    is_directory, entries = read_manifest(records[0])
    base = read_base(records[1]) if features else {}
    chunks = [read_chunk(record, features) for record in records[len(first) : -1]]

    index = table(records[-1])
    need(index.varint() == len(records) - 1, "an index of another number of records")
    for record in records[:-1]:
        listed = index.int(1), index.varint(), index.varint()
        need(listed == (record.kind, len(record.meta), len(record.payload)), "another record")
        need(index.take(listed[1]) == record.meta, "other metadata than the index has")
    need(index.varint() == len(entries), "an index of another number of entries")
    for i, entry in enumerate(entries):
        n = index.varint()
        need(entry.kind == 2 or n == entry.len, "an entry of another length than in the index")
        entries[i] = entry._replace(len=n), index.take(16) if n else None
    index.end()
    return is_directory, entries, base, chunks


def group_of(chunks, i):
    """The chunks before chunk i in its group."""
    start = i
    while chunks[start].flags & 2:
        start -= 1
        need(start >= 0 and chunks[start].kind == 3, "a group that begins with nothing")
    need(i - start < 16, "a group of more than 16 chunks")
    return chunks[start:i]


def restore(data, base_files):
    """Whether an archive is a directory, and its entries, each with its bytes.

    base_files has the bytes of the base's files by path, or of the only one.
    """
    is_directory, entries, base, chunks = open_archive(data)
    space = Space(entry.len for entry, _ in entries)
    base_space = Space(base.values())
    if len(base) == len(base_files) == 1:
        base_files = dict(zip(base, base_files.values()))
    need(base.keys() <= base_files.keys(), "a file of the base is missing")
    base_space.bytes[:] = b"".join(base_files[path] for path in base)
    need(len(base_space.bytes) == base_space.starts[-1], "the base has other lengths")
    pieces = sorted(piece for chunk in chunks for piece in chunk.pieces)
    ends = [0] + [a + n for a, n in pieces]
    need([a for a, _ in pieces] + [space.starts[-1]] == ends, "not all bytes are covered once")

    begins = {}
    for i, chunk in enumerate(chunks):
        length = sum(n for _, n in chunk.pieces)
        group = group_of(chunks, i)
        if chunk.kind == 4:
            source = begins.get(chunk.source)
            need(source is not None, "a copy of nothing")
            inside = any(a <= chunk.pieces[0][0] and chunk.pieces[0][0] + length <= b
                         for a, b in zip(space.starts, space.starts[1:]))
            need(inside and source[1:] == (length, chunk.digest), "a copy of something else")
            words = space.read(source[0])
        else:
            begins[chunk.pieces[0][0]] = chunk.pieces, length, chunk.digest
            inputs = []
            for reference in chunk.references:
                if reference.sibling:
                    earlier = [piece for other in group for piece in other.pieces]
                    need(all(any(a <= at and at + n <= a + m for a, m in earlier)
                             for at, n in reference.pieces), "a sibling that is none")
                    inputs.append(space.read(reference.pieces))
                else:
                    inputs.append(base_space.read(reference.pieces))
                    need(digest(inputs[-1]) == reference.digest, "another base")
            words = decode(chunk, length, inputs)
        need(len(words) == length and digest(words) == chunk.digest, "the digest of a chunk")
        at = 0
        for start, n in chunk.pieces:
            space.bytes[start : start + n] = words[at : at + n]
            at += n

    files = []
    for start, end, (entry, guard) in zip(space.starts, space.starts[1:], entries):
        stretches = [digest(space.bytes[max(a, start) : min(a + n, end)])
                     for a, n in pieces if max(a, start) < min(a + n, end)]
        whole = xxhash.xxh3_128_intdigest(b"".join(stretches)).to_bytes(16, "little")
        need(guard in (None, whole), "the digest of a file")
        files.append((entry, bytes(space.bytes[start:end])))
    return is_directory, files
