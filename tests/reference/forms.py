"""Payloads of chunks: all forms of docs/FORMAT.md but those of the studies."""
import numpy as np
from coders import Bits, Reader, check, clustered, frame, lanes, need, plane
from masked import differing
from quantised import QUANTISED, quantised

# Bytes of a word and bits of its exponent, 0 where it is no float, by element type.
TYPES = {code: (word, 0) for code, word in enumerate((1, 1, 1, 1, 2, 2, 4, 4, 8, 8))}
TYPES |= {16: (1, 0), 17: (1, 0), 18: (1, 0), 19: (1, 4), 20: (1, 5), 21: (1, 0), 22: (1, 4)}
TYPES |= {23: (1, 5), 24: (2, 5), 25: (2, 8), 26: (4, 8), 27: (8, 11), 28: (4, 8), 29: (8, 11)}
TYPES |= {code: (layout.word, 0) for code, layout in QUANTISED.items()}
HALVES, F32 = (24, 25), (26,)
np.seterr(all="ignore")
# Bytes of a word of each input (0: as the chunk's), and the element types that it suits.
PREDICTORS = [((0,), TYPES), ((2, 4), HALVES), ((4,), HALVES), ((2,), F32), ((4, 4, 4), F32)]
PREDICTORS += [PREDICTORS[4], ((2,), HALVES), ((4, 4), F32)]

def turned(data, word):
    return np.frombuffer(data, np.uint8).reshape(-1, word)[:, ::-1].tobytes()

def decode(chunk, length, inputs):
    """The bytes of a chunk, of its payload and of the bytes that it refers to."""
    dtype, form, big_endian, payload = chunk.dtype, chunk.form, chunk.flags & 1, chunk.payload
    (word, exponent), reader = TYPES[dtype], Reader(payload)
    need(1 <= form <= 11 and (form >= 7) == bool(inputs), "no such form, or its references")
    n, w = length // word, 1 if dtype >= 40 and form in (7, 8) else word
    if form < 3:
        data = reader.take(length) if form == 1 else reader.take(word) * n
    elif form == 3:
        need(reader.int(4) == check(payload[4:]), "the check of a frame")
        data = frame(reader.take(len(payload) - 4), length)
    elif form == 6:
        need(dtype >= 40 and not big_endian, "quantised groups that are none")
        data = quantised(reader, n, dtype)
    elif form == 11:
        from derived import derived
        need(len(inputs) == 1 and not big_endian, "floats that are not what a quantiser had")
        data = derived(reader, n, dtype, chunk.row_words, inputs[0])
    elif form < 6:
        need(exponent if form == 4 else not exponent and dtype < 40, "another form's element type")
        four = lambda: split(reader, n, 8 * word, exponent, chunk.row_words)
        words = four() if form == 4 else group(reader, n, word)
    else:
        need(form == 8 or (b"" < payload[:1] < b"\x08" if form == 7 else dtype in F32), "no such thing")
        widths, suits = PREDICTORS[payload[0]] if form == 7 else ((0,) * max(form - 8, 1), TYPES)
        n, widths = length // w, [width or w for width in widths]
        need([len(x) for x in inputs] == [n * v for v in widths] and dtype in suits, "inputs")
        inputs = [turned(x, v) if big_endian else x for x, v in zip(inputs, widths)]
        inputs = [np.frombuffer(x, f"<u{v}").astype(np.uint64) for x, v in zip(inputs, widths)]
        words = {7: lambda: delta(reader, n, 8 * w, exponent, inputs),
                 8: lambda: group(reader, n, w) ^ inputs[0], 9: lambda: moment(reader, n, *inputs),
                 10: lambda: gradient(reader, n, *inputs)}[form]()
    reader.end()
    if form not in (1, 2, 3, 6, 11):
        data = words.astype(f"<u{w}").tobytes()
        data = turned(data, w) if big_endian else data
    return data

def group(reader, n, word):
    return sum(plane(reader, n, 8)[1].astype(np.uint64) << 8 * k for k in range(word))

def float_fields(reader, n, bits, exponent, scales):
    """What forms 4 and 9 begin with; at last a function that puts words together of their s."""
    flags, base = reader.ints(1, 2)
    r, equal, sign, scaled = flags & 15, flags >> 4 & 1, flags >> 5 & 1, flags >> 6 & 1
    head_bits, width = min(bits, 16), r - equal
    need(r <= head_bits - exponent and width >= 0 and sign <= equal, "a rest that there is not")
    need(flags >> 7 <= scaled <= min(scales, r), "scales that there are not")
    low, rest = np.zeros(n, np.uint64), 0
    for _ in range(bits // 8 - 2):
        low = low << 8 | plane(reader, n, 8)[1].astype(np.uint64)
    for part in [width - 8] * (width > 8) + [min(width, 8)] * (width > 0):
        rest = rest << 8 | plane(reader, n, part)[1]
    s_bits = head_bits - r
    windowed, top = s_bits > 8 or scaled, 1 << (16 if scaled else s_bits)
    need(1 <= base <= top - 254 if windowed else base == 1, "a window of no such base")
    def join(s):
        need(s.max() < 1 << s_bits, "a symbol of too many bits")
        head = s << r | rest << equal | sign
        return (head >> 1 | (head & 1) << head_bits - 1).astype(np.uint64) << bits - head_bits | low
    return flags, base if windowed else None, s_bits, join

def through_window(reader, symbols, base, shift=255):
    """The s of every word, where there is a window; the escapes follow."""
    if base is None:
        return symbols
    escapes = reader.array(reader.varint(), "<u2").astype(np.int64)
    need(len(escapes) == (symbols == 255).sum(), "another number of escapes")
    s = np.where(symbols == 0, 0, symbols + base - 1 - 255 + shift & 0xFFFF)
    s[symbols == 255] = escapes
    t = s + 255 - shift & 0xFFFF
    right = np.where(s == 0, 0, np.where((t >= base) & (t < base + 254), t - base + 1, 255))
    need((right == symbols).all(), "another symbol than that of its s")
    return s

def split(reader, n, bits, exponent, row_words):
    again = reader.int(1)
    flags, base, s_bits, join = float_fields(reader, n, bits, exponent, True)
    tables, contexts, shift = 0, None, 255
    if flags & 64:
        need(16 <= row_words <= n // 2, "scales of less than two rows of 16 words")
        rows, columns = plane(reader, -(-n // row_words), 8)[1], np.zeros(row_words, np.int64)
        columns = plane(reader, row_words, 8)[1] if flags & 128 else columns
        k = s_bits - exponent
        u = np.minimum((rows[:, None] + columns).ravel()[:n], 8 * (255 >> k) + 7)
        tables, contexts, shift = 8, u % 8, u // 8 << k
    coder, symbols = plane(reader, n, 8, (4,) if tables else (0, 1, 2, 3, 5), tables, contexts)
    need(coder == again, "another coder of the symbols")
    return join(through_window(reader, symbols, base, shift))

def moment(reader, n, v):
    _, base, _, join = float_fields(reader, n, 32, 8, False)
    symbols = clustered(reader, v >> 23 & 255)
    need(base is not None or reader.varint() == 0, "escapes without a window")
    return join(through_window(reader, symbols, base))

def f32(words):
    return words.astype(np.uint32).view(np.float32)

def words_of(floats, instead):
    """The bits of floats, those of `instead` where they are no numbers."""
    bits = floats.view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(floats), instead, bits)

def rounded(x, exponent):
    """32-bit floats to 16 bits."""
    nearest, nan = x + 0x7FFF + (x >> 16 & 1) >> 16, x >> 16 | 0x40
    if exponent == 5:
        nearest = f32(x).astype(np.float16).view(np.uint16).astype(np.uint64)
        nan = x >> 16 & 0x8000 | 0x7E00 | x >> 13 & 0x3FF
    return np.where(np.isnan(f32(x)), nan, nearest)

def widened(x, of_f16):
    need(of_f16 < 2, "no such type")
    floats = x.astype(np.uint16).view(np.float16).astype(np.float32)
    nan = (x & 0x8000) << 16 | 0x7F800000 | (x & 0x3FF) << 13
    return words_of(floats, nan) if of_f16 else x << 16

def adam(kind, reader, a, b, c):
    """Predictors 4 and 5, and the contexts of their words."""
    order, single, double = reader.int(1), np.float32, np.float64
    need(order < (4 if kind == 4 else 3), "no such order")
    if kind == 4:
        (beta1, inverse), (beta2, gain) = reader.array(2, "<f8"), reader.array(2, "<f4")
        v0, m0, m1 = f32(a), f32(b), f32(c)
        g = single((double(m1) - beta1 * double(m0)) * inverse)
        v1 = [lambda: single(double(gain * g) * double(g) + double(v0 * beta2)),
              lambda: gain * g * g + v0 * beta2,
              lambda: single(double(g * g) * double(gain) + double(v0 * beta2)),
              lambda: single(double(v0) * double(beta2) + double(gain * g * g))][order]()
        e = [x.view(np.uint32).astype(np.int64) >> 23 & 255 for x in (g, m1, v1)]
        return words_of(v1, a), np.clip(e[0] + e[1] - e[2], 0, 255)
    decay, step, bias, eps = reader.array(4, "<f4")
    w0, m1, v1 = f32(a), f32(b), f32(c)
    w, d = w0 * decay, np.sqrt(v1) / bias + eps
    words = words_of([lambda: w + step * m1 / d, lambda: w + step * (m1 / d),
                      lambda: single(double(w) + double(step) * double(m1 / d))][order](), a)
    return words, words >> 23 & 255

def predict(kind, reader, inputs, bits, exponent):
    """Predictions, and the contexts of their words."""
    if kind in (4, 5):
        return adam(kind, reader, *inputs)
    if kind == 7:
        order, (keep, gain) = reader.int(1), reader.array(2, "<f4")
        a1 = words_of(averaged(order, keep, gain, *map(f32, inputs)), inputs[0])
        words = np.where(inputs[1] == 0x7F800000, inputs[0], a1)
        return words, words >> 23 & 255
    x = rounded(widened(inputs[0], exponent == 8), exponent) if kind == 6 else inputs[0]
    x = rounded(x, exponent) if kind == 2 else x
    x = widened(x, reader.int(1)) if kind == 3 else x
    if bits == 8:
        contexts = x & (127 if exponent else 255)
    elif exponent == 0:
        contexts = np.array([bits - int(word).bit_length() for word in x], np.uint64)
    else:
        at = {16: 8 if exponent == 5 else 7, 32: 23, 64: 52}[bits]
        contexts = x >> at & (127 if exponent == 5 else 255)
    return x, contexts & 127 | inputs[1] >> 31 << 7 if kind == 1 else contexts

def following(classes, bits):
    """How many bits follow each class of magnitudes of words of `bits` bits."""
    need(classes.max() < (bits + 5 if bits == 64 else 4 * bits - 7), "a class that there is not")
    return np.where(classes < 8, 0, classes - 5 if bits == 64 else classes - 4 >> 2)

def magnitude(c, low, bits):
    if c < 8:
        return c
    return 1 << c - 5 | low if bits == 64 else (4 + c % 4 << (c - 4 >> 2)) + low

def delta(reader, n, bits, exponent, inputs):
    return changed(reader, n, bits, *predict(reader.int(1), reader, inputs, bits, exponent))

def changed(reader, n, bits, prediction, contexts):
    mode, at = reader.int(1), range(n)
    need(mode < 4, "no such mode")
    if mode == 0:
        return prediction
    if mode == 1:
        count = reader.varint()
        need(1 <= count <= n, "no such number of changes")
        gaps, symbols = plane(reader, count, 8)[1], plane(reader, count, 8)[1]
        need(symbols.min() > 0, "a change that is none")
        pairs = np.array([following(gaps, 32), following(symbols + 1 >> 1, bits)]).T
        string = Bits(reader.take(-(-int(pairs.sum()) // 8)))
        taken = [[string.take(b) for b in pair] for pair in pairs.tolist()]
        string.end()
        steps = [1 + magnitude(c, low, 32) for c, (low, _) in zip(gaps.tolist(), taken)]
        at, lows = [sum(steps[: i + 1]) - 1 for i in range(count)], [low for _, low in taken]
        need(at[-1] < n, "a change beyond the last word")
    else:
        at = differing(reader, contexts) if mode == 3 else at
        symbols = clustered(reader, contexts[at])
        need(mode < 3 or symbols.all(), "a change that is none")
        shape = (1, 1) if bits == 64 or len(at) < 4096 else (16, 4) if bits == 32 else (32, 2)
        lows = lanes(reader, following(symbols + 1 >> 1, bits), *shape)
    words, sign = prediction.tolist(), 1 << bits - 1
    order = lambda x: x ^ (sign - 1) if x & sign else x
    for i, symbol, low in zip(at, symbols.tolist(), lows):
        residual = magnitude(symbol + 1 >> 1, low, bits) * (1 if symbol & 1 else -1)
        words[i] = order(order(words[i]) + residual & 2 * sign - 1)
    return np.array(words, np.uint64)

def averaged(order, keep, gain, m0, g):
    need(order < 7, "no such order")
    single, double, d = np.float32, np.float64, g - m0
    return [lambda: single(double(gain) * double(d) + double(m0)), lambda: gain * d + m0,
            lambda: single(double(-keep) * double(d) + double(g)), lambda: g - keep * d,
            lambda: single(double(gain) * double(g) + double(keep * m0)),
            lambda: keep * m0 + gain * g,
            lambda: single(double(keep) * double(m0) + double(gain * g))][order]()

def gradient(reader, n, m0_words, v0):
    order, (keep, gain, clip) = reader.int(1), reader.array(3, "<f4")
    c = v0.astype(np.int64) >> 23 & 255
    kinds = clustered(reader, c)
    lengths = clustered(reader, kinds)
    need(((kinds >= 3) == (lengths > 0)).all() and lengths.max() <= 24, "no such length")
    raw = reader.array(reader.varint(), "<u4")
    need(len(raw) == (kinds == 2).sum(), "another number of words")
    lows = np.array(lanes(reader, np.maximum(lengths - 1, lengths > 0), 16, 4))
    # All bits from the leading one to the last one, as an integer.
    digits = np.where(lengths > 1, (1 << np.maximum(lengths - 1, 0)) | lows >> 1 << 1 | 1, lengths)
    exponent = np.where(kinds >= 3, kinds - 67 + c // 2 - 127 - (lengths - 1), 0)
    G = np.ldexp(digits * (1.0 - 2 * (lows & 1)), exponent)
    g, m0 = np.float32(np.float64(clip) * G), f32(m0_words)
    m1 = averaged(order, keep, gain, m0, g)
    words = np.where(kinds == 1, m0_words, words_of(m1, m0_words))
    words[kinds == 2] = raw
    return words
