"""Bytes, bit strings and coded planes: the sections "Coded planes" and "Lanes" of docs/FORMAT.md."""

import numpy as np
import xxhash


class Refused(Exception):
    """What the format does not allow."""


def need(condition, why):
    if not condition:
        raise Refused(why)


def check(data):
    return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF


class Reader:
    """Fields of bytes, one after another."""

    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def take(self, n):
        need(self.at + n <= len(self.data), "the bytes end within a field")
        self.at += n
        return self.data[self.at - n : self.at]

    def int(self, n):
        return int.from_bytes(self.take(n), "little")

    def varint(self):
        value = 0
        for i in range(10):
            byte = self.int(1)
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                need(byte > 0 or i == 0, "a varint is longer than it needs to be")
                need(value < 1 << 64, "a varint above 2^64")
                return value
        raise Refused("a varint of more than ten bytes")

    def array(self, n, dtype):
        return np.frombuffer(self.take(n * np.dtype(dtype).itemsize), dtype)

    def end(self):
        need(self.at == len(self.data), "there is more than the fields")


class Bits:
    """A bit string whose fields have lengths of their own."""

    def __init__(self, data):
        self.value, self.at, self.len = int.from_bytes(data, "little"), 0, 8 * len(data)

    def take(self, n):
        need(self.at + n <= self.len, "a bit string is too short")
        self.at += n
        return self.value >> (self.at - n) & (1 << n) - 1

    def end(self):
        need(self.len - self.at < 8, "a bit string is too long")
        need(self.value >> self.at == 0, "a bit that is not used is not zero")


def packed(data, n, width):
    """The n values of a bit string in which all have one width."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    need(not bits[n * width :].any(), "a bit that is not used is not zero")
    return bits[: n * width].reshape(n, width) @ (1 << np.arange(width))


def frequency_table(reader):
    """Reads a table: the frequency of each of 256 symbols."""
    bits = Bits(reader.data[reader.at : reader.at + 1024])
    first = bits.take(8)
    last = first + bits.take(8)
    k = bits.take(4)
    period = (0, 1, 2, 4)[bits.take(2)]
    need(first < last < 256 and k <= 11, "a table of no such symbols")
    largest = 13 - k << k
    ranks, frequencies, a = [0] * 256, [0] * 256, 8
    before = lambda i: ranks[i] if i >= 0 else 0
    for i in range(first, last + 1):
        r = max(a // 4, 1).bit_length() - 1
        zeros = 0
        while zeros < 16 and bits.take(1) == 0:
            zeros += 1
        residual = zeros << r | bits.take(r) if zeros < 16 else bits.take(13)
        need(zeros < 16 or residual >> r >= 16, "a residual with a longer code than its own")
        a += residual - a // 4
        prediction = before(i - 1)
        if period and before(i - period) and before(i - period - 1):
            prediction += before(i - period) - before(i - period - 1)
            prediction = min(max(prediction, 0), largest)
        q = prediction + (-(residual + 1) // 2 if residual & 1 else residual // 2)
        need(0 <= q <= largest, "a rank that stands for nothing")
        ranks[i] = q
        frequencies[i] = q if q < 2 << k else ((1 << k) + (q & (1 << k) - 1)) << (q >> k) - 1
    used = -(-bits.at // 8)
    reader.take(used)
    need(bits.value & (1 << 8 * used) - 1 < 1 << bits.at, "a bit that is not used is not zero")
    need(frequencies[first] and frequencies[last], "a symbol at the end of a table has no frequency")
    above = sum(frequencies) - 4096
    need(above >= 0, "frequencies of less than 4096 in all")
    at = frequencies.index(max(frequencies))
    frequencies[at] -= above
    need(frequencies[at] > 0, "frequencies of too much in all")
    need(sum(f > 0 for f in frequencies) > 1, "a table of one symbol")
    return frequencies


def rans(data, n, lanes_log2, tables, contexts):
    """The n symbols of a stream, each under the table of its context."""
    need(lanes_log2 in (2, 6), "a stream of other than 4 or 64 lanes")
    reader, lanes = Reader(data), 1 << lanes_log2
    x = [int(v) for v in reader.array(lanes, "<u4")]
    need(min(x) >= 1 << 16, "a state below 2^16")
    need((len(data) - reader.at) % 2 == 0, "half a word")
    words = iter(reader.array((len(data) - reader.at) // 2, "<u2").tolist())
    slots = []
    for table in tables:
        start = np.cumsum([0] + table[:-1])
        pairs = [(s, f, int(c)) for s, (f, c) in enumerate(zip(table, start))]
        slots.append([(s, f, i) for s, f, c in pairs for i in range(f)])
    m = max(n - 2 * lanes, 0)
    symbols = []
    for start in range(0, m, lanes):
        group = range(min(lanes, m - start))
        for j in group:
            s, frequency, offset = slots[contexts[start + j]][x[j] & 4095]
            x[j] = frequency * (x[j] >> 12) + offset
            symbols.append(s)
        for j in group:
            if x[j] < 1 << 16:
                word = next(words, None)
                need(word is not None, "a stream ends too early")
                x[j] = x[j] << 16 | word
    need(next(words, None) is None, "a stream goes on after its symbols")
    for t in range(n - m):
        symbols.append(x[t % lanes] >> 8 * (t // lanes) & 255)
    for j in range(lanes):
        ours = len(range(j, n - m, lanes))
        need(x[j] >> 8 * ours == 1 << 16 - 8 * ours, "a stream ends in another state")
    return np.array(symbols, np.int64)


def cascade(reader, n):
    guard = reader.int(4)
    start = reader.at
    levels = reader.int(1)
    need(1 <= levels <= 4, "a cascade of no such number of levels")
    symbols = np.frombuffer(reader.take(3 * levels), np.uint8)
    need(len(set(symbols)) == len(symbols), "two symbols of a cascade are equal")
    left = [n] + [reader.int(4) for _ in range(levels)]
    need(guard == check(reader.data[start : reader.at]), "the check of a cascade")
    need(all(a >= b for a, b in zip(left, left[1:])), "a level with more than the one before")
    digits = [packed(reader.take(-(-m // 4)), m, 2) for m in left[:-1]]
    values = reader.array(left[-1], np.uint8)
    for k in reversed(range(levels)):
        need((digits[k] == 3).sum() == left[k + 1], "a level with another number of digits 3")
        level = symbols[3 * k : 3 * k + 3][np.minimum(digits[k], 2)]
        level[digits[k] == 3] = values
        values = level
    return values


def plane(reader, n, bits, contexts=None, tables=0, coders=(0, 1, 2, 3)):
    """A coded plane of n values; coder 4 where there are contexts. Gives the coder as well."""
    coder, length = reader.int(1), reader.int(4)
    data = Reader(reader.take(length))
    need(coder in coders, f"coder {coder}, where there is no such coder")
    if coder == 0:
        values = np.full(n, data.int(1))
    elif coder == 1:
        values = packed(data.take(-(-n * bits // 8)), n, bits)
    elif coder == 3:
        values = cascade(data, n)
    else:
        lanes = data.int(1)
        all_tables = [frequency_table(data) for _ in range(tables if coder == 4 else 1)]
        need(not any(any(t[1 << bits :]) for t in all_tables), "a symbol is too large")
        contexts = contexts if coder == 4 else [0] * n
        values = rans(data.take(length - data.at), n, lanes, all_tables, contexts)
    data.end()
    values = values.astype(np.int64)
    need(n == 0 or values.max() < 1 << bits, "a value is too large")
    return coder, values


def clustered(reader, contexts):
    """Symbols with a table for each cluster of contexts, which are below 256."""
    count = reader.int(1)
    need(1 <= count <= 16, "no such number of clusters")
    starts = list(reader.take(count - 1))
    need(all(a < b for a, b in zip([0] + starts, starts)), "clusters in another order")
    lanes = reader.int(1)
    tables = [frequency_table(reader) for _ in range(count)]
    clusters = np.searchsorted(starts, contexts, "right").tolist()
    return rans(reader.take(reader.int(4)), len(clusters), lanes, tables, clusters)


def lanes(reader, counts, width):
    """The bits that belong to words of `width` bits, as many as counts says for each."""
    many = len(counts) >= 4096 and width < 64
    count, unit = (1, 1) if not many else (16, 4) if width == 32 else (32, 2)
    held, have, out = [0] * count, [0] * count, []
    for i, b in enumerate(counts.tolist()):
        j = i % count
        while have[j] < b:
            held[j] |= reader.int(unit) << have[j]
            have[j] += 8 * unit
        out.append(held[j] & (1 << b) - 1)
        held[j] >>= b
        have[j] -= b
    need(not any(held), "a bit that is not used is not zero")
    reader.end()
    return out
