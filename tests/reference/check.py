"""Decodes the golden archives, compares what they restore, and sees damaged ones refused.

    python tests/reference/check.py
"""

import random
import sys
import time
from pathlib import Path

import xxhash

from archive import restore
from coders import Refused
from forms import Skipped
from inputs import BASES

GOLDEN = Path(__file__).parent.parent / "golden" / "v2"
ODD_NAMES = {b"back\\slash": b"1", b"line\nend \x1b[2J": b"22", b"not text \xff\xfe": b"333", b"nothing": b""}


def hash_of(files):
    """As in inputs.txt: of all paths, lengths and bytes."""
    whole = xxhash.xxh3_64()
    for path, data in sorted(files.items()):
        whole.update(path + len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()


def decode(archive, base):
    """The files that an archive restores, by path; a single one is called `data`."""
    is_directory, entries = restore(archive, base)
    files = [(e.path if is_directory else b"data", data) for e, data in entries if e.kind != 1]
    return dict(files)


def refuses(archive, base, at, bit):
    damaged = bytearray(archive)
    damaged[at] ^= 1 << bit
    try:
        decode(bytes(damaged), base)
    except Refused:
        return True
    return False


def main():
    expected = dict(line.split() for line in (GOLDEN / "inputs.txt").read_text().splitlines())
    rng, failed, passed, skipped, flips = random.Random(1), [], 0, 0, 0
    for path in sorted(GOLDEN.glob("*.lmc")):
        name, start, archive = path.stem, time.monotonic(), path.read_bytes()
        base = BASES.get(name, dict)()
        try:
            files = decode(archive, base)
        except Skipped:
            skipped += 1
            continue
        except Refused as why:
            failed.append(f"{name}: {why}")
            continue
        right = files == ODD_NAMES if name == "names" else (
            hash_of(files) + (hash_of(base) if base else "") == expected[name])
        passed += right
        if not right:
            failed.append(f"{name}: other bytes than its input")
        # Every byte of small archives; of others some, and as many again of what is outside payloads.
        small = len(archive) < 500
        places = range(len(archive)) if small else rng.sample(range(len(archive)), 8)
        for at in places:
            flips += 1
            if not refuses(archive, base, at, rng.randrange(8)):
                failed.append(f"{name}: byte {at} is damaged and nobody knows")
        print(f"{name}: {len(archive)} bytes, {time.monotonic() - start:.1f} s", flush=True)
    print(f"{flips} damaged archives refused")
    print("\n".join(failed))
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
