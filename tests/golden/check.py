"""Decodes the golden archives, compares what they restore, and sees damaged ones refused."""
import random
import sys
from pathlib import Path

import xxhash

sys.path.insert(0, str(Path(__file__).parent.parent / "reference"))
from archive import restore
from coders import Refused

GOLDEN = Path(__file__).parent / "v2"
# Methods of the studies, which are no part of the core.
STUDIES = ["sem", "xz", "byteplane-xz", "bitplane-xz", "class-group-xz", "exponent-group-xz",
           "lmc", "plmc", "lmc-plain", "long-lmc"]
BASES = {"delta": "training", "delta-auto": "tuned", "delta-diff": "tuned", "delta-xor": "tuned",
         "delta-gradient": "clipped", "delta-signed": "training", "delta-sizes": "sizes",
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
    print(f"{len(names) - failed} passed, {failed} failed, {len(STUDIES)} of the studies skipped")
    return failed

sys.exit(main() > 0)
