"""Decodes the golden archives, compares what they restore, and sees damaged ones refused."""

import random
import sys
from pathlib import Path

import xxhash

from archive import restore
from coders import Refused

GOLDEN = Path(__file__).parent.parent / "golden" / "v2"
# Methods of the studies, which are no part of the core.
STUDIES = ["sem", "xz", "byteplane-xz", "bitplane-xz", "class-group-xz", "exponent-group-xz",
           "lmc", "plmc", "lmc-plain", "long-lmc"]
BASES = {"delta": "base-training", "delta-auto": "base-tuned", "delta-diff": "base-tuned",
         "delta-gradient": "base-clipped", "delta-signed": "base-training",
         "delta-sizes": "base-sizes", "delta-wide": "base-wide", "delta-widen": "base-widened",
         "delta-xor": "base-tuned"}
NAMES = {b"back\\slash": b"1", b"line\nend \x1b[2J": b"22", b"not text \xff\xfe": b"333",
         b"nothing": b""}


def hash_of(files):
    """As in inputs.txt: of all paths, lengths and bytes."""
    whole = xxhash.xxh3_64()
    for path, data in sorted(files.items()):
        whole.update(path + len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()


def decode(archive, base):
    """The files that an archive restores, by path; a single one is called `data`."""
    is_directory, entries = restore(archive, base)
    return {e.path if is_directory else b"data": data for e, data in entries if e.kind != 1}

def failures(name, archive, base, expected):
    files = decode(archive, base)
    right = files == NAMES if name == "names" else hash_of(files) + (
        hash_of(base) if base else "") == expected[name]
    if not right:
        yield "other bytes than its input"
    # Every byte of small archives, some of others.
    rng = random.Random(name)
    for at in rng.sample(range(len(archive)), len(archive) if len(archive) < 500 else 6):
        damaged = bytearray(archive)
        damaged[at] ^= 1 << rng.randrange(8)
        try:
            decode(damaged, base)
            yield f"byte {at} is damaged, and nobody knows"
        except Refused:
            pass

def main():
    expected = dict(line.split() for line in (GOLDEN / "inputs.txt").read_text().splitlines())
    failed = []
    names = sorted(path.stem for path in GOLDEN.glob("*.lmc") if path.stem not in STUDIES)
    read = lambda name: (GOLDEN / f"{name}.lmc").read_bytes()
    for name in names:
        base = decode(read(BASES[name]), {}) if name in BASES else {}
        if name == "delta-signed":
            base = {path: base[path] for path in (b"exp_avg.safetensors", b"model.safetensors")}
        try:
            failed += [f"{name}: {what}" for what in failures(name, read(name), base, expected)]
        except Refused as why:
            failed.append(f"{name}: refused, {why}")
    print(*failed, sep="\n", end="")
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed, {len(STUDIES)} skipped")
    return bool(failed)

sys.exit(main())
