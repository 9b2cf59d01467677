"""Archives: everything of docs/FORMAT.md that stands outside the payloads of chunks."""
from collections import namedtuple
from itertools import accumulate
import xxhash
from coders import Reader, check, frame, need
from forms import TYPES, decode

LIMIT = 256 << 20
Record = namedtuple("Record", "kind meta payload")
Entry = namedtuple("Entry", "kind dtype path len digest", defaults=[None])
Reference = namedtuple("Reference", "sibling pieces digest")
Chunk = namedtuple("Chunk", "flags dtype form row_words digest pieces references source payload")

def xxh3(data):
    return xxhash.xxh3_64_intdigest(data).to_bytes(8, "little")

def digest(data):
    return xxh3(b"".join(xxh3(data[i : i + (1 << 14)]) for i in range(0, len(data), 1 << 14)))

def read_record(reader):
    start = reader.at
    kind, reserved, meta_len, payload_len, guard = reader.ints(1, 3, 4, 4, 4)
    need(kind in (1, 2, 3, 4, 6) and reserved == 0, "a record of no known type")
    meta = reader.take(meta_len)
    need(check(reader.data[start : start + 12] + meta) == guard, "the check of a record")
    return Record(kind, meta, reader.take(payload_len))

def table(record):
    meta = Reader(record.meta)
    length, guard = meta.varint(), meta.take(8)
    meta.end()
    need(xxh3(record.payload) == guard, "the digest of a table")
    content = frame(record.payload, min((1 << 20) + 64 * len(record.payload), LIMIT))
    need(len(content) == length, "a table of another length")
    return Reader(content)

def read_path(reader):
    parts = reader.take(reader.varint()).split(b"/")
    need(not {b"", b".", b".."} & set(parts) and b"\0" not in b"".join(parts), "no path")
    return parts

def read_manifest(record):
    reader, entries, folders = table(record), [], [[]]
    is_directory = reader.int(1)
    need(is_directory < 2, "neither a file nor a directory")
    for _ in range(reader.varint()):
        (kind, dtype), path, length = reader.ints(1, 1), read_path(reader), reader.varint()
        need(kind in ((0, 1) if is_directory else (0, 2)) and dtype in TYPES, "no such entry")
        need(kind == 0 or length == 0 and dtype * (kind == 1) == 0, "a length, or type, of none")
        need(not entries or entries[-1].path < path, "paths in another order")
        need(path[:-1] in folders, "a directory is missing")
        entries.append(Entry(kind, dtype, path, length))
        folders += [path] if kind == 1 else []
    reader.end()
    need(is_directory or len(entries) == 1, "other than a single file")
    return is_directory, entries

def read_base(record):
    """The lengths of the base's files, by their paths."""
    reader, files = table(record), []
    name = reader.take(reader.varint())
    need(b"/" not in name and b"\0" not in name and name not in (b".", b".."), "no name")
    for _ in range(reader.varint()):
        path, length = read_path(reader), reader.varint()
        before = files[-1][0] if files else []
        need(before < path and (not before or path[: len(before)] != before), "paths out of order")
        files.append((path, length))
    reader.end()
    return {b"/".join(path): length for path, length in files}

def read_pieces(reader, several, gaps):
    count, pieces, end = reader.varint() if several else 1, [], 0
    need(count > several, "several pieces that are one")
    for i in range(count):
        offset, length = reader.varint(), reader.varint()
        need(length > 0 and (i == 0 or offset != (0 if gaps else end)), "pieces without a gap")
        pieces.append((offset + end * gaps, length))
        end = sum(pieces[-1])
        need(end < 1 << 64, "a piece at 2^64")
    need(sum(n for _, n in pieces) <= LIMIT, "more bytes than this reader takes")
    return pieces

def read_chunk(record, has_base):
    reader, references = Reader(record.meta), []
    flags, dtype, form, row_words, guard = *reader.ints(1, 1, 1), reader.varint(), reader.take(8)
    need(flags < 32 and dtype in TYPES, "a chunk of unknown flags or element type")
    need(TYPES[dtype][0] > 1 or not flags & 1, "an order of bytes in words of one")
    need((record.kind == 4) == (flags > 15) == (form == 0), "neither a chunk nor a copy")
    pieces, count = read_pieces(reader, flags >> 2 & 1, 1), reader.varint() if flags & 8 else 0
    need(bool(flags & 8) <= count <= 4, "no such number of references")
    for _ in range(count):
        bits = reader.int(1)
        need(bits < 4 and (has_base or bits & 1), "a reference to nothing")
        of = read_pieces(reader, bits >> 1, 0)
        references.append(Reference(bits & 1, of, None if bits & 1 else reader.take(8)))
    source = reader.varint() if flags > 15 else None
    need(source is None or flags < 18 and not record.payload, "a copy of more than a copy has")
    reader.end()
    need(sum(n for _, n in pieces) % TYPES[dtype][0] == 0, "a chunk of other than whole words")
    return Chunk(flags, dtype, form, row_words, guard, pieces, references, source, record.payload)

def open_archive(data):
    """Whether it is a directory, its entries, its base, its chunks; all guards are checked."""
    reader = Reader(data)
    magic, version, reserved, features, other, guard = reader.ints(8, 2, 2, 4, 4, 4)
    need(magic == 0x0A1A0A0D434D4C89, "no archive")
    need(version == 2 and features < 2, "another version, or features that are not known")
    need(reserved == other == 0 and guard == check(data[:20]), "the check of the header")
    records = []
    while not records or records[-1].kind != 6:
        at = reader.at
        records.append(read_record(reader))
    index_at, length, guard, trailer_check, last = reader.ints(8, 8, 8, 4, 4)
    reader.end()
    need(trailer_check == check(data[-32:-8]) and last == 0x7A434D4C, "the check of the trailer")
    trailer = index_at, length, guard.to_bytes(8, "little")
    need(trailer == (at, len(data), xxh3(data[at:-32])), "the trailer of another archive")
    first, kinds = [1, 2][: 1 + features], [record.kind for record in records]
    need(kinds[: len(first)] == first and not {1, 2} & set(kinds[len(first) :]), "another order")
    is_directory, entries = read_manifest(records[0])
    base = read_base(records[1]) if features else {}
    chunks = [read_chunk(record, features) for record in records[len(first) : -1]]
    index = table(records[-1])
    need(index.varint() == len(records) - 1, "an index of other records")
    for kind, meta, payload in records[:-1]:
        listed = index.int(1), index.varint(), index.varint()
        need(listed == (kind, len(meta), len(payload)) and index.take(len(meta)) == meta, "a record")
    need(index.varint() == len(entries), "an index of other entries")
    for i, entry in enumerate(entries):
        n = index.varint()
        need(entry.kind == 2 or n == entry.len, "an entry of another length than in the index")
        entries[i] = entry._replace(len=n, digest=index.take(16) if n else None)
    index.end()
    return is_directory, entries, base, chunks

def within(piece, others):
    return any(at <= piece[0] and sum(piece) <= at + n for at, n in others)

def restore(data, base_files):
    """Whether an archive is a directory, and the bytes of its files by path. `base_files` are those
    of the base; a single one may have another name."""
    is_directory, entries, base, chunks = open_archive(data)
    starts = list(accumulate((entry.len for entry in entries), initial=0))
    files = list(zip(starts, (entry.len for entry in entries)))
    pieces = sorted(piece for chunk in chunks for piece in chunk.pieces)
    need([at for at, _ in pieces] + [starts[-1]] == [0] + [sum(piece) for piece in pieces],
         "bytes that no chunk covers, or two")
    if len(base) == len(base_files) == 1:
        base_files = dict(zip(base, base_files.values()))
    need(all(len(base_files.get(path, b"")) == n for path, n in base.items()), "another base")
    whole_base, space = b"".join(base_files.get(path, b"") for path in base), bytearray(starts[-1])
    begun, group = {}, []
    for chunk in chunks:
        length, first, inputs = sum(n for _, n in chunk.pieces), chunk.pieces[0], []
        read = lambda space, pieces: b"".join(space[at : at + n] for at, n in pieces)
        if chunk.source is not None:
            source, group = begun.get(chunk.source), []
            same = source and (source.dtype, source.flags & 1) == (chunk.dtype, chunk.flags & 1)
            need(same and within(first, files), "a copy of nothing, or in several files")
            words = read(space, source.pieces)
        else:
            need(0 < len(group) < 16 if chunk.flags & 2 else True, "no such group")
            group = group if chunk.flags & 2 else []
            siblings = [piece for other in group for piece in other.pieces]
            for reference in chunk.references:
                inside = siblings if reference.sibling else [(0, len(whole_base))]
                need(all(within(piece, inside) for piece in reference.pieces), "no such reference")
                inputs.append(read(space if reference.sibling else whole_base, reference.pieces))
                need(reference.digest in (None, digest(inputs[-1])), "another base")
            words = decode(chunk, length, inputs)
            group.append(chunk)
            begun[first[0]] = chunk
        need(len(words) == length and digest(words) == chunk.digest, "the digest of a chunk")
        for at, n in chunk.pieces:
            space[at : at + n], words = words[:n], words[n:]
    for (start, n), entry in zip(files, entries):
        ends = [(max(at, start), min(at + m, start + n)) for at, m in pieces]
        stretches = b"".join(digest(space[a:b]) for a, b in ends if a < b)
        whole = xxhash.xxh3_128_intdigest(stretches).to_bytes(16, "little")
        need(entry.digest in (None, whole), "the digest of a file")
    return is_directory, {b"/".join(entry.path): bytes(space[start : start + n])
                          for entry, (start, n) in zip(entries, files) if entry.kind != 1}
