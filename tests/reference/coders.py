"""Bytes, bit strings and coded planes: the section "Coded planes" of docs/FORMAT.md."""
import numpy as np
import xxhash
import zstandard

class Refused(Exception):
    pass

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
    def ints(self, *lengths):
        return [self.int(n) for n in lengths]
    def varint(self):
        byte, value, shift = 128, 0, 0
        while byte > 127:
            byte = self.int(1)
            value |= (byte & 127) << shift
            need(value < 1 << 64 and (byte or not shift), "a varint of another form")
            shift += 7
        return value
    def array(self, n, dtype):
        return np.frombuffer(self.take(n * np.dtype(dtype).itemsize), dtype)
    def end(self):
        need(self.at == len(self.data), "there is more than the fields")

class Bits:
    """Fields of bits."""
    def __init__(self, data):
        self.value, self.at, self.len = int.from_bytes(data, "little"), 0, 8 * len(data)

    def take(self, n):
        need(self.at + n <= self.len, "a bit string is too short")
        self.at += n
        return self.value >> (self.at - n) & (1 << n) - 1
    def end(self):
        need(self.len - self.at < 8 and self.value >> self.at == 0, "bits that are not used")

def frame(data, limit):
    """The content, of at most `limit` bytes, of one zstd frame that says how many there are."""
    try:
        of = zstandard.get_frame_parameters(data)
        need(data[:4] == b"\x28\xb5\x2f\xfd" and data[4] & 31 == 0, "no frame, or with a dictionary")
        small = data[4] & 32 or of.window_size <= 1 << 23
        need(small and of.content_size <= limit, "more than it may hold, or who knows how much")
        decoder = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
        content = decoder.decompress(data)
    except zstandard.ZstdError as error:
        raise Refused(str(error)) from None
    need(decoder.eof and not decoder.unused_data and len(content) <= limit, "other than one frame")
    return content

def packed(data, n, width):
    """The n values of a bit string in which all have one width."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    need(not bits[n * width :].any(), "a bit that is not used is not zero")
    return bits[: n * width].reshape(n, width) @ (1 << np.arange(width))

def frequency_table(reader):
    """The frequencies of symbols up to the last that occurs."""
    bits = Bits(reader.data[reader.at : reader.at + 1024])
    first = bits.take(8)
    last, k, p = first + bits.take(8), bits.take(4), (0, 1, 2, 4)[bits.take(2)]
    need(first < last < 256 and k <= 11, "a table of no such symbols")
    # Five ranks of zero stand before the first one, so that each has others before it.
    largest, a, q, frequencies = 13 - k << k, 8, [0] * 5, [0] * first
    for _ in range(first, last + 1):
        r, zeros = max(a // 4, 1).bit_length() - 1, 0
        while zeros < 16 and not bits.take(1):
            zeros += 1
        residual = zeros << r | bits.take(r) if zeros < 16 else bits.take(13)
        need(zeros < 16 or residual >> r >= 16, "a residual in a longer form")
        a += residual - a // 4
        prediction = q[-1]
        if p and q[-p] and q[-p - 1]:
            prediction = min(max(q[-1] + q[-p] - q[-p - 1], 0), largest)
        q.append(prediction + (-(residual + 1) // 2 if residual & 1 else residual // 2))
        need(0 <= q[-1] <= largest, "a rank that stands for nothing")
        mantissa, e = (1 << k) + q[-1] % (1 << k), (q[-1] >> k) - 1
        frequencies.append(q[-1] if e < 1 else mantissa << e)
    used = int.from_bytes(reader.take(-(-bits.at // 8)), "little")
    need(used < 1 << bits.at, "bits that are not used")
    above, at = sum(frequencies) - 4096, frequencies.index(max(frequencies))
    need(frequencies[first] and frequencies[last] and above >= 0, "frequencies of too little")
    frequencies[at] -= above
    need(frequencies[at] > 0 and sum(f > 0 for f in frequencies) > 1, "one symbol, or none")
    return frequencies

def rans(data, lanes_log2, tables, contexts):
    """A symbol for each context, under its table."""
    need(lanes_log2 in (2, 6), "a stream of other than 4 or 64 lanes")
    reader, lanes, n = Reader(data), 1 << lanes_log2, len(contexts)
    x = reader.array(lanes, "<u4").tolist()
    need(min(x) >= 1 << 16 and len(data) % 2 == 0, "a state below 2^16, or half a word")
    words = reader.array((len(data) - reader.at) // 2, "<u2").tolist()[::-1]
    slots = [[(s, f, i) for s, f in enumerate(table) for i in range(f)] for table in tables]
    m, symbols = max(n - 2 * lanes, 0), []
    for start in range(0, m, lanes):
        group = range(min(lanes, m - start))
        for j in group:
            symbol, frequency, offset = slots[contexts[start + j]][x[j] & 4095]
            x[j] = frequency * (x[j] >> 12) + offset
            symbols.append(symbol)
        for j in group:
            if x[j] < 1 << 16:
                need(words, "a stream ends before its symbols")
                x[j] = x[j] << 16 | words.pop()
    need(not words, "a stream goes on after its symbols")
    symbols += [x[t % lanes] >> 8 * (t // lanes) & 255 for t in range(n - m)]
    for j in range(lanes):
        of_symbols = 8 * len(range(j, n - m, lanes))
        need(x[j] >> of_symbols == 1 << 16 - of_symbols, "a stream ends in another state")
    return np.array(symbols)

def cascade(reader, n):
    guard, levels = reader.ints(4, 1)
    need(1 <= levels <= 4, "a cascade of no such number of levels")
    symbols, counts = reader.array(3 * levels, np.uint8), [n] + reader.ints(*[4] * levels)
    need(guard == check(reader.data[reader.at - 1 - 7 * levels : reader.at]), "the cascade's check")
    need(len(set(symbols.tolist())) == 3 * levels, "two symbols of a cascade are equal")
    need(sorted(counts)[::-1] == counts, "a level with more than the one before")
    digits = [packed(reader.take(-(-m // 4)), m, 2) for m in counts[:-1]]
    values = reader.array(counts[-1], np.uint8)
    for k in reversed(range(levels)):
        need((digits[k] == 3).sum() == len(values), "a level with another number of digits 3")
        level = symbols[3 * k : 3 * k + 3][digits[k] % 3]
        level[digits[k] == 3] = values
        values = level
    return values

def shifted(reader, n):
    log2 = reader.int(1)
    need(6 <= log2 <= 11, "blocks of no such length")
    bases = plane(reader, -(-n // (1 << log2)), 8, (0, 1, 2))[1]
    return (cascade(reader, n) + np.repeat(bases, 1 << log2)[:n]) % 256

def plane(reader, n, bits, coders=(0, 1, 2, 3, 5), tables=0, contexts=None):
    """The coder of a plane, and its n values."""
    coder, data = reader.int(1), Reader(reader.take(reader.int(4)))
    need(coder in coders, "no such coder, or not here")
    if coder < 2:
        values = packed(data.take(-(-n * bits // 8)), n, bits) if coder else np.full(n, data.int(1))
    elif coder in (3, 5):
        values = (cascade if coder == 3 else shifted)(data, n)
    else:
        lanes, contexts = data.int(1), contexts.tolist() if coder == 4 else [0] * n
        tables = [frequency_table(data) for _ in range(tables if coder == 4 else 1)]
        need(all(len(table) <= 1 << bits for table in tables), "a table with too large a symbol")
        values = rans(data.take(len(data.data) - data.at), lanes, tables, contexts)
    data.end()
    need(values.max() < 1 << bits, "a value that is too large")
    return coder, values.astype(np.int64)

def clustered(reader, contexts):
    """A symbol for each context; each cluster of contexts has a table."""
    count = reader.int(1)
    need(1 <= count <= 16, "no such number of clusters")
    starts = list(reader.take(count - 1))
    need(sorted({0, *starts}) == [0] + starts, "clusters in another order")
    lanes, tables = reader.int(1), [frequency_table(reader) for _ in range(count)]
    clusters = np.searchsorted(starts, contexts, "right").tolist()
    return rans(reader.take(reader.int(4)), lanes, tables, clusters)

def lanes(reader, counts, count, unit):
    """As many bits as counts says for each word, in `count` lanes of units of `unit` bytes."""
    held, have, out = [0] * count, [0] * count, []
    for i, b in enumerate(counts.tolist()):
        j = i % count
        while have[j] < b:
            held[j] |= reader.int(unit) << have[j]
            have[j] += 8 * unit
        out.append(held[j] & (1 << b) - 1)
        held[j], have[j] = held[j] >> b, have[j] - b
    need(not any(held), "a bit that is not used is not zero")
    return out
