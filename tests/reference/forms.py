"""Payloads of chunks: the forms of docs/FORMAT.md, but those of the studies."""

from collections import namedtuple

import numpy as np

from coders import Bits, Reader, check, clustered, lanes, need, plane, rans
from quantised import quantised

Type = namedtuple("Type", "word exponent")
TYPES = {code: Type(word, 0) for code, word in enumerate((1, 1, 1, 1, 2, 2, 4, 4, 8, 8))}
TYPES |= {code: Type(1, 0) for code in (16, 17, 18, 21)}
TYPES |= {19: Type(1, 4), 20: Type(1, 5), 22: Type(1, 4), 23: Type(1, 5), 24: Type(2, 5)}
TYPES |= {25: Type(2, 8), 26: Type(4, 8), 27: Type(8, 11), 28: Type(4, 8), 29: Type(8, 11)}
QUANTISED = (18, 20, 22, 24, 34, 36, 84, 110, 144, 176, 210, 292)
TYPES |= {40 + i: Type(word, 0) for i, word in enumerate(QUANTISED)}
BF16, F16, F32 = 25, 24, 26
STUDIES = range(128, 136)


class Skipped(Exception):
    """A method of the studies, which have no part in the core of the format."""


def turned(data, word):
    return np.frombuffer(data, np.uint8).reshape(-1, word)[:, ::-1].tobytes()


def decode(chunk, length, inputs):
    """The bytes of a chunk, of its payload and of what it refers to."""
    dtype, form, payload = chunk.dtype, chunk.form, Reader(chunk.payload)
    word, exponent = TYPES[dtype]
    if form in STUDIES:
        raise Skipped(form)
    need(1 <= form <= 10, "no such form")
    need((form >= 7) == bool(inputs), "a form with references that it does not have")
    if form == 1:
        data = payload.take(length)
    elif form == 2:
        data = payload.take(word) * (length // word)
    elif form == 3:
        from archive import zstd
        guard, frame = payload.int(4), payload.take(len(chunk.payload) - 4)
        need(guard == check(frame), "the check of a frame")
        data = zstd(frame, length)[0]
    if form <= 3:
        payload.end()
        return data

    big_endian = chunk.flags & 1
    need(form != 6 or not big_endian, "quantised words are not turned around")
    n = length // word
    w = 1 if dtype >= 40 and form in (7, 8) else word
    if big_endian:
        inputs = list(map(turned, inputs, input_words(chunk, word)))
    if form == 4:
        need(exponent, "floats that are none")
        values = split(payload, n, 8 * word, exponent, chunk.row)
    elif form == 5:
        need(not exponent and dtype < 40, "integers that are none")
        values = group(payload, n, word)
    elif form == 6:
        need(dtype >= 40, "quantised groups that are none")
        return quantised(payload, n, dtype)
    elif form == 7:
        values = delta(payload, length // w, dtype, 8 * w, exponent, inputs)
    elif form == 8:
        need(len(inputs) == 1 and len(inputs[0]) == length, "a reference of another length")
        values = group(payload, length // w, w) ^ words(inputs[0], w)
    else:
        need(dtype == F32, "moments of other than 32 bits")
        need(len(inputs) == form - 8, "another number of references")
        values = (moment if form == 9 else gradient)(payload, n, [words(x, 4, n) for x in inputs])
    payload.end()
    data = values.astype(f"<u{w}").tobytes()
    return turned(data, word) if big_endian else data


def input_words(chunk, word):
    """The bytes of a word of each reference."""
    if chunk.form != 7:
        return [word] * len(chunk.references)
    return [n or word for n in PREDICTORS[chunk.payload[0]][0]]


def words(data, word, n=None):
    need(n is None or len(data) == n * word, "a reference of another length")
    return np.frombuffer(data, f"<u{word}").astype(np.uint64)


def group(payload, n, word):
    return sum(plane(payload, n, 8)[1].astype(np.uint64) << np.uint64(8 * k) for k in range(word))


# Form 4: heads, rests, tails, windows.

def fields(payload, n, bits, exponent, scales, row_words=0):
    """What forms 4 and 9 begin with: flags, base, tails, rest. Gives words without their symbols."""
    flags, base = payload.int(1), payload.int(2)
    head_bits = min(bits, 16)
    r, equal, sign = flags & 15, flags >> 4 & 1, flags >> 5 & 1
    need(r <= head_bits - exponent and (not equal or r > 0) and (not sign or equal), "bad flags")
    need(flags < (256 if scales else 64) and (not flags & 128 or flags & 64), "bad flags of scales")
    low = np.zeros(n, np.uint64)
    for k in reversed(range(bits // 8 - 2)):
        low |= plane(payload, n, 8)[1].astype(np.uint64) << np.uint64(8 * k)
    rest, width = np.zeros(n, np.int64), r - equal
    if width > 8:
        rest = plane(payload, n, width - 8)[1] << 8
    if width > 0:
        rest |= plane(payload, n, min(width, 8))[1]
    rest = rest << equal | sign
    s_bits = head_bits - r
    windowed = s_bits > 8 or flags >> 6 & 1
    top = 1 << 16 if flags >> 6 & 1 else 1 << s_bits
    need(1 <= base and base + 254 <= top if windowed else base == 1, "a window of no such base")

    def join(s):
        need(s.max(initial=0) < 1 << s_bits, "a symbol with too many bits")
        head = s << r | rest
        head = head >> 1 | (head & 1) << head_bits - 1
        return head.astype(np.uint64) << np.uint64(bits - head_bits) | low

    return flags, base if windowed else None, s_bits, join


def windowed(payload, symbols, base, shift):
    """The s of every word whose symbol went through a window; its escapes end the payload."""
    escapes = payload.array(payload.varint(), "<u2").astype(np.int64)
    s = symbols + base - 1 - (255 - shift & 0xFFFF) & 0xFFFF
    s[symbols == 0] = 0
    need(len(escapes) == (symbols == 255).sum(), "another number of escapes")
    s[symbols == 255] = escapes
    t = s + 255 - shift & 0xFFFF
    inside = (s == 0) | (t >= base) & (t < base + 254)
    need((inside == (symbols != 255)).all() and ((s == 0) == (symbols == 0)).all(), "an escape of what has a symbol")
    return s


def split(payload, n, bits, exponent, row_words):
    again = payload.int(1)
    flags, base, s_bits, join = fields(payload, n, bits, exponent, True)
    if not flags & 64:
        coder, s = plane(payload, n, 8)
        if base is not None:
            s = windowed(payload, s, base, np.full(n, 255))
    else:
        need(row_words >= 16 and n > row_words, "scales of less than two rows of 16 words")
        row = plane(payload, -(-n // row_words), 8)[1]
        column = plane(payload, row_words, 8)[1] if flags & 128 else np.zeros(row_words, np.int64)
        k = s_bits - exponent
        u = np.minimum((row[:, None] + column).ravel()[:n], 8 * (255 >> k) + 7)
        coder, s = plane(payload, n, 8, (u % 8).tolist(), 8, (4,))
        s = windowed(payload, s, base, u // 8 << k)
    need(coder == again, "the coder of the symbols is another one")
    return join(s)


# Forms 7, 9 and 10: predictions.

def f32(bits):
    return bits.astype(np.uint32).view(np.float32)


def bits_of(values, instead):
    """The bits of floats; those of `instead` where they are no numbers."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(values), instead, bits)


def exponent_of(bits):
    return (bits.astype(np.int64) >> 23) & 255


def magnitude_context(prediction, bits, exponent):
    """How large a prediction is, by the table of contexts."""
    if bits == 8:
        return prediction.astype(np.int64) & (127 if exponent else 255)
    if not exponent:
        return np.array([bits - int(x).bit_length() for x in prediction], np.int64)
    at = {16: 7 if exponent == 8 else 8, 32: 23, 64: 52}[bits]
    return (prediction >> np.uint64(at)).astype(np.int64) & (127 if exponent == 5 else 255)


def base_word(payload, inputs, of):
    return inputs[0], magnitude_context(inputs[0], of.bits, of.exponent)


def signed(payload, inputs, of):
    context = magnitude_context(inputs[0], 16, of.exponent) & 127
    return inputs[0], context | (inputs[1] >> np.uint64(31)).astype(np.int64) << 7


def narrow(payload, inputs, of):
    x = inputs[0]
    if of.exponent == 8:
        top = x >> np.uint64(16)
        rounded = (x + np.uint64(0x7FFF) + (top & np.uint64(1))) >> np.uint64(16)
        quiet = top | np.uint64(0x40)
    else:
        rounded = f32(x).astype(np.float16).view(np.uint16).astype(np.uint64)
        quiet = (x >> np.uint64(16) & np.uint64(0x8000)) | np.uint64(0x7E00) | (x >> np.uint64(13) & np.uint64(0x3FF))
    prediction = np.where(np.isnan(f32(x)), quiet, rounded)
    return prediction, magnitude_context(prediction, 16, of.exponent)


def widen(payload, inputs, of):
    kind, x = payload.int(1), inputs[0]
    need(kind < 2, "no such type")
    if kind == 0:
        prediction = x << np.uint64(16)
    else:
        wide = x.astype(np.uint16).view(np.float16)
        quiet = (x & np.uint64(0x8000)) << np.uint64(16) | np.uint64(0x7FC00000) | (x & np.uint64(0x3FF)) << np.uint64(13)
        prediction = np.where(np.isnan(wide), quiet, bits_of(wide, x))
    return prediction, magnitude_context(prediction, 32, 8)


def second(payload, inputs, of):
    order, beta1, inverse = payload.int(1), payload.array(1, "<f8"), payload.array(1, "<f8")
    beta2, gain = payload.array(2, "<f4")
    need(order < 3, "no such order")
    v0, m0, m1 = map(f32, inputs)
    f64 = np.float64
    g = ((m1.astype(f64) - beta1 * m0.astype(f64)) * inverse).astype(np.float32)
    if order == 0:
        v1 = (gain * g).astype(f64) * g.astype(f64) + (v0 * beta2).astype(f64)
    elif order == 1:
        v1 = (gain * g) * g + v0 * beta2
    else:
        v1 = (g * g).astype(f64) * f64(gain) + (v0 * beta2).astype(f64)
    v1 = v1.astype(np.float32)
    context = exponent_of(g.view(np.uint32)) + exponent_of(inputs[2]) - exponent_of(v1.view(np.uint32))
    return bits_of(v1, inputs[0]), np.clip(context, 0, 255)


def weights(payload, inputs, of):
    order, (decay, step, bias, eps) = payload.int(1), payload.array(4, "<f4")
    need(order < 3, "no such order")
    w0, m1, v1 = map(f32, inputs)
    w, d = w0 * decay, np.sqrt(v1) / bias + eps
    if order == 0:
        w1 = w + (step * m1) / d
    elif order == 1:
        w1 = w + step * (m1 / d)
    else:
        f64 = np.float64
        w1 = (w.astype(f64) + f64(step) * (m1 / d).astype(f64)).astype(np.float32)
    prediction = bits_of(w1, inputs[0])
    return prediction, exponent_of(prediction)


# Bytes of a word of each input (0: as the chunk's), the element types that it suits.
PREDICTORS = [
    ((0,), None, base_word),
    ((2, 4), (BF16, F16), signed),
    ((4,), (BF16, F16), narrow),
    ((2,), (F32,), widen),
    ((4, 4, 4), (F32,), second),
    ((4, 4, 4), (F32,), weights),
]
Of = namedtuple("Of", "bits exponent")


def following(symbols, coarse):
    """Of the symbols of residuals: their classes, and how many bits follow each."""
    classes = (symbols + 1) // 2
    need(classes.max(initial=0) < (69 if coarse else 124), "a class that does not exist")
    long = np.where(classes < 8, 0, classes - 5 if coarse else (classes - 8) // 4 + 1)
    return classes, long


def magnitude(c, low, coarse):
    if c < 8:
        return c
    if coarse:
        return 1 << c - 5 | low
    return (4 | (c - 8) % 4) << (c - 8) // 4 + 1 | low


def delta(payload, n, dtype, bits, exponent, inputs):
    kind = payload.int(1)
    need(kind < len(PREDICTORS), "no such predictor")
    lengths, suits, predict = PREDICTORS[kind]
    need(len(inputs) == len(lengths) and (suits is None or dtype in suits), "inputs of another predictor")
    inputs = [words(x, length or bits // 8, n) for x, length in zip(inputs, lengths)]
    with np.errstate(all="ignore"):
        prediction, contexts = predict(payload, inputs, Of(bits, exponent))
    mode, coarse = payload.int(1), bits == 64
    need(mode < 3, "no such mode")
    if mode == 0:
        return prediction
    at = range(n)
    if mode == 1:
        count = payload.varint()
        need(1 <= count <= n, "no such number of changes")
        gaps, symbols = plane(payload, count, 8)[1], plane(payload, count, 8)[1]
        need(symbols.min() > 0, "a change that is none")
        gap_long, gap_bits = gaps, np.where(gaps < 8, 0, (gaps - 8) // 4 + 1)
        need(gaps.max() < 124, "a class that does not exist")
        classes, long = following(symbols, coarse)
        string = Bits(payload.take(-(-int(gap_bits.sum() + long.sum()) // 8)))
        at, low, last = [], [], -1
        for gap, more, b in zip(gaps.tolist(), gap_bits.tolist(), long.tolist()):
            last += 1 + magnitude(gap, string.take(more), False)
            at.append(last)
            low.append(string.take(b))
        need(last < n, "a change beyond the last word")
        string.end()
    else:
        symbols = clustered(payload, contexts)
        classes, long = following(symbols, coarse)
        low = lanes(payload, long, bits)
    out, sign, mask = prediction.tolist(), 1 << bits - 1, (1 << bits) - 1
    order = lambda x: x ^ (sign - 1) if x & sign else x
    for i, symbol, c, b in zip(at, symbols.tolist(), classes.tolist(), low):
        size = magnitude(c, b, coarse)
        need(size <= sign - (symbol & 1 if size else 0), "a residual of too many bits")
        out[i] = order(order(out[i]) + (size if symbol & 1 else -size) & mask)
    return np.array(out, np.uint64)


def moment(payload, n, inputs):
    flags, base, s_bits, join = fields(payload, n, 32, 8, False)
    s = clustered(payload, exponent_of(inputs[0]))
    if base is not None:
        s = windowed(payload, s, base, np.full(n, 255))
    return join(s)


def gradient(payload, n, inputs):
    order, (keep, gain, clip) = payload.int(1), payload.array(3, "<f4")
    need(order < 7, "no such order")
    contexts = exponent_of(inputs[1])
    kinds = clustered(payload, contexts)
    lengths = clustered(payload, kinds)
    need(((kinds >= 3) == (lengths > 0)).all() and lengths.max(initial=0) <= 24, "no such length")
    raw = payload.array(payload.varint(), "<u4").astype(np.uint64)
    need(len(raw) == (kinds == 2).sum(), "another number of words")
    low = lanes(payload, np.maximum(lengths - 1, lengths > 0), 32)
    # The significand without its last bits of zero, and the power of two that it is worth.
    size = [0 if L == 0 else 1 if L == 1 else 1 << L - 1 | b >> 1 << 1 | 1 for L, b in zip(lengths.tolist(), low)]
    power = kinds - 67 + contexts // 2 - 127 - (lengths - 1)
    G = np.ldexp(np.array(size, np.float64) * (1 - 2 * (np.array(low) & 1)), power)
    G[kinds < 3] = 0
    f64, narrow = np.float64, lambda x: x.astype(np.float32)
    with np.errstate(all="ignore"):
        g, m0 = narrow(f64(clip) * G), f32(inputs[0])
        d = g - m0
        m1 = [
            lambda: narrow(f64(gain) * f64(d) + f64(m0)),
            lambda: gain * d + m0,
            lambda: narrow(f64(-keep) * f64(d) + f64(g)),
            lambda: g - keep * d,
            lambda: narrow(f64(gain) * f64(g) + f64(keep * m0)),
            lambda: keep * m0 + gain * g,
            lambda: narrow(f64(keep) * f64(m0) + f64(gain * g)),
        ][order]()
    out = np.where(kinds == 1, inputs[0], bits_of(m1, inputs[0]))
    out[kinds == 2] = raw
    return out
