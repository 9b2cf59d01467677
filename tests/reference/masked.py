"""Mode 3 of form 7: which words differ from their predictions."""
import numpy as np
from coders import need, rans

def table(r, whole):
    """Frequencies of bytes of a string of rate r: of all of it, or of its bytes that are not 0."""
    r = min(r, 40)
    a = (16384, 13777, 11585, 9742)[r % 4] >> r // 4
    w = [a**b * ((1 << 14) - a) ** (8 - b) for b in range(9)]
    set_bits = [byte.bit_count() for byte in range(256)]
    if whole:
        of, left = [max(1, w[b] >> 100) for b in set_bits], 255 if a > 1 << 13 else 0
        of[left] += 4096 - sum(of)
        return of
    of = [max(1, (w[b] << 12) // ((1 << 112) - w[0])) if b > 1 else 0 for b in set_bits]
    share, remainder = divmod(4096 - sum(of), 8)
    return [share + remainder * (byte == 1) if b == 1 else f
            for byte, (b, f) in enumerate(zip(set_bits, of))]

def split(r, n):
    """Rates and lengths in bits of a string of n bits, and of those that tell of its bytes."""
    out = [(r, n)]
    while out[-1][0] > 12:
        r, n = out[-1]
        out.append((r - (10 if r < 16 else 11 if r < 24 else 12), -(-n // 8)))
    return out

def differing(reader, contexts):
    """The numbers of the words that differ, in order."""
    count = reader.int(1)
    need(1 <= count <= 16, "no such number of runs of contexts")
    starts = list(reader.take(count - 1))
    need(sorted({0, *starts}) == [0] + starts, "runs in another order")
    of_runs = np.array(list(reader.take(count)))
    need(of_runs.max() <= 80, "no such rate")
    rates = of_runs[np.searchsorted(starts, contexts, "right")]
    # Of each rate of words: the strings that are still to come, the last one first, and the bits of
    # the one before, which say which bytes of the next are not 0.
    used = sorted(set(rates.tolist()) - {0})
    pending, known = {r: split(r, int((rates == r).sum())) for r in used}, {}
    while any(pending.values()):
        parts, tables, which = [], [], []
        for r in (r for r in used if pending[r]):
            rate, n = pending[r].pop()
            size, whole = -(-n // 8), r not in known
            at = np.arange(size) if whole else np.flatnonzero(known[r])
            parts.append((r, n, size, at))
            which += [len(tables)] * len(at)
            tables.append(table(rate, whole))
        data = b""
        if which:
            stream = reader.take(reader.varint())
            data = rans(stream, 6 if len(which) >= 12288 else 2, tables, which).astype(np.uint8)
        for r, n, size, at in parts:
            need(r not in known or data[: len(at)].all(), "a byte that is 0, and should not be")
            string = np.zeros(size, np.uint8)
            string[at], data = data[: len(at)], data[len(at) :]
            bits = np.unpackbits(string, bitorder="little")
            need(not bits[n:].any(), "a bit that is not used is not zero")
            known[r] = bits[:n]
    differ = np.zeros(len(rates), bool)
    for r in used:
        differ[rates == r] = known[r]
    need(differ.any(), "no word differs")
    return np.flatnonzero(differ)
