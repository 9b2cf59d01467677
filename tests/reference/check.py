"""Decodes the golden archives, compares what they restore, and sees damaged ones refused."""

import random
import sys
from pathlib import Path

import xxhash

from archive import restore
from coders import Refused
from forms import Skipped

GOLDEN = Path(__file__).parent.parent / "golden" / "v2"
# The archives of the deltas' bases; all others of one name are the same input.
BASES = {"delta": "training", "delta-signed": "training", "delta-gradient": "clipped",
         "delta-sizes": "sizes", "delta-wide": "wide", "delta-widen": "widened",
         "delta-auto": "tuned", "delta-xor": "tuned", "delta-diff": "tuned"}
NAMES = {b"back\\slash": b"1", b"line\nend \x1b[2J": b"22", b"not text \xff\xfe": b"333", b"nothing": b""}
