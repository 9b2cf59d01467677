"""Decodes the golden archives, compares what they restore, and sees damaged ones refused."""
import random
import sys
from pathlib import Path

import xxhash
import zstandard

sys.path.insert(0, str(Path(__file__).parent.parent / "reference"))
from archive import Chunk, read_chunk, Record, restore
from coders import Reader, Refused, check, frame, frequency_table
from forms import decode

GOLDEN = Path(__file__).parent / "v2"
# Methods of the studies, which are no part of the core.
STUDIES = ["sem", "xz", "byteplane-xz", "bitplane-xz", "class-group-xz", "exponent-group-xz",
           "lmc", "plmc", "lmc-plain", "long-lmc"]
BASES = {"delta": "training", "delta-auto": "tuned", "delta-diff": "tuned", "delta-xor": "tuned",
         "delta-average": "averaged", "delta-fused": "clipped", "delta-gradient": "clipped",
         "delta-masked": "stepped", "delta-signed": "training", "delta-sizes": "sizes",
         "delta-wide": "wide", "delta-widen": "widened", "branches": "branches",
         "branches-derived": "branches-derived"}
NAMES = {b"back\\slash": b"1", b"line\nend \x1b[2J": b"22", b"not text \xff\xfe": b"333",
         b"nothing": b""}

def hash_of(files, only):
    """As in inputs.txt: of all paths, lengths and bytes; that of a single file is `data`."""
    whole = xxhash.xxh3_64()
    for path, data in sorted(files.items()):
        whole.update((b"data" if only else path) + len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()

def failure(name, expected):
    archive, base = (GOLDEN / f"{name}.lmc").read_bytes(), {}
    if name in BASES:
        of, base = restore((GOLDEN / f"base-{BASES[name]}.lmc").read_bytes(), {})
    if name == "delta-signed":
        base = {path: base[path] for path in (b"exp_avg.safetensors", b"model.safetensors")}
    is_directory, files = restore(archive, base)
    hashes = hash_of(files, not is_directory) + (hash_of(base, not of) if base else "")
    if files != NAMES if name == "names" else hashes != expected[name]:
        return "other bytes than its input"
    # Every byte of small archives, some of others.
    rng = random.Random(name)
    for at in rng.sample(range(len(archive)), len(archive) if len(archive) < 500 else 6):
        damaged = bytearray(archive)
        damaged[at] ^= 1 << rng.randrange(8)
        try:
            restore(damaged, base)
            return f"byte {at} is damaged, and nobody knows"
        except Refused:
            pass

def taken(decode, data):
    try:
        decode(data)
        return True
    except Refused:
        return False

def payloads():
    """What is taken, and beside it what is not, though only one thing is other: as the tests of the
    library have them."""
    def of(dtype, form, n, known=()):
        return lambda payload: decode(Chunk(0, dtype, form, 0, b"", [], [], None, payload), n, known)
    constant = lambda *values: b"".join(bytes([0, 1, 0, 0, 0, value]) for value in values)
    coded = zstandard.ZstdCompressor(level=9).compress(bytes(3000))
    summed = zstandard.ZstdCompressor(level=9, write_checksum=True).compress(bytes(3000))
    whole = lambda data: frame(data, 3000)
    yield "one frame", whole, coded, coded + coded
    yield "no skippable frame", whole, coded, b"\x50\x2a\x4d\x18\1\0\0\0\x09" + coded
    yield "no checksum", whole, coded, summed
    guarded = lambda data: check(data).to_bytes(4, "little") + data
    yield "a frame of a chunk", of(0, 3, 3000), guarded(coded), guarded(coded + coded)
    # A residual of 24 under the parameter 1, and as an escape; then one of 0 under 2.
    short, long = 7 | 1 << 8 | 1 << 34 | 1 << 36, 7 | 1 << 8 | 24 << 38 | 1 << 51
    table = lambda bits: frequency_table(Reader(bits.to_bytes(8, "little")))
    yield "no escape that is not needed", table, short, long
    for dtype, rest, low, most in ((24, 11, 2, 31), (19, 4, 1, 15)):
        split = bytes([0, rest, 1, 0]) + constant(0)[: 6 * (low > 1)] + constant(1)
        n = 3 * (2 if dtype == 24 else 1)
        yield "bits of s", of(dtype, 4, n), split + constant(most), split + constant(most + 1)
    changed = bytes([0, 1, 1]) + constant(0)
    yield "a change", of(25, 7, 6, [bytes(6)]), changed + constant(1), changed + constant(0)
    stream = b"".join(bytes([symbol, 0, 1, 0]) for symbol in (7, 8, 7, 0))
    symbols = bytes([1, 2]) + short.to_bytes(5, "little") + (16).to_bytes(4, "little") + stream + b"\0"
    moment = [bytes([8, base, 0]) + constant(1, 2, 3) + symbols for base in (1, 2)]
    yield "a base of one", of(26, 9, 12, [bytes(12)]), *moment
    # The last of three values, which all stand in the states, has three bits.
    of_1_and_2 = (1 | 1 << 8 | 1 << 34 | 1 << 36).to_bytes(5, "little")
    tail = [bytes([2]) + of_1_and_2 + b"".join(bytes([v, 0, 1, 0]) for v in (1, 2, last, 0))
            for last in (3, 4)]
    plane = [bytes([2]) + len(data).to_bytes(4, "little") + data for data in tail]
    rest = lambda data: bytes([0, 2, 1, 0]) + data + constant(1)
    yield "bits of last values", of(19, 4, 3), rest(plane[0]), rest(plane[1])
    meta = lambda flags, dtype: Record(3, bytes([flags, dtype, 1, 0]) + bytes(8) + b"\0\x08", b"")
    yield "an order of words", lambda m: read_chunk(m, False), meta(1, 25), meta(1, 2)

def main():
    expected = dict(line.split() for line in (GOLDEN / "inputs.txt").read_text().splitlines())
    names, failed = sorted({path.stem for path in GOLDEN.glob("*.lmc")} - set(STUDIES)), 0
    for name in names:
        try:
            what = failure(name, expected)
        except Refused as why:
            what = f"refused, {why}"
        if what:
            failed += 1
            print(f"{name}: {what}")
    for name, read, good, bad in payloads():
        if not taken(read, good) or taken(read, bad):
            failed += 1
            print(f"{name}: refused where it is, or taken where it is not")
    print(f"{len(names) - failed} passed, {failed} failed, {len(STUDIES)} of the studies skipped")
    return failed

sys.exit(main() > 0)
