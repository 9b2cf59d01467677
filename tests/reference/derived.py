"""Appendix: form 11, written after docs/FORMAT-DERIVED.md."""
import numpy as np
from coders import Reader, need
from forms import TYPES, changed, f32, predict, rounded, widened
from quantised import QUANTISED, fields, put

F32, F64 = np.float32, np.float64
EIGHT_BITS = {19: (448.0, 3, 0x7E), 20: (57344.0, 2, 0x7B), 3: (127.0, 0, 0)}

def to_type(kind, x):
    """Floats rounded to the type of the source, as F32."""
    if kind == 2:
        return x
    return f32(widened(rounded(x.view(np.uint32).astype(np.uint64), (8, 5)[kind]), kind))

def limited(x, least, most, if_nan):
    return np.clip(np.where(np.isnan(x), if_nan, x), least, most).astype(np.int64)

def nearest(x, least, most):
    return limited(np.rint(x), least, most, least)

def part(reader, n, bits, prediction, contexts):
    inner = Reader(reader.take(reader.varint()))
    words = changed(inner, n, bits, prediction.astype(np.uint64), contexts)
    inner.end()
    return words.astype(np.int64)

def of_predictor_0(reader, n, bits, prediction, exponent):
    return part(reader, n, bits, *predict(0, None, [prediction.astype(np.uint64)], bits, exponent))

def elements(reader, prediction, p, bits):
    p = np.where((p > 0) & (p < 1024), p, F32(0))
    contexts = np.floor((p - np.floor(p)) * F32(32)).astype(np.int64).ravel()
    words = part(reader, prediction.size, 8, prediction.ravel(), contexts)
    need(words.max() < 1 << bits, "an element of too many bits")
    return words

def fused(a, b, c):
    return F32(F64(a) * F64(b) + F64(c))

def blocks(reader, dtype, recipe, x):
    """Q4_0 to Q8_0."""
    n, magnitude, ordered = len(x), x.view(np.int32) & 0x7FFFFFFF, x.view(np.int32)
    ordered = ordered ^ (ordered >> 31 & 0x7FFFFFFF)
    at = lambda i: np.take_along_axis(x, i[:, None], 1)[:, 0]
    ranged = dtype in (41, 43)
    if ranged:
        low, high = at(ordered.argmin(1)), at(ordered.argmax(1))
        numbers = [(high - low) / F32(15 if dtype == 41 else 31), low]
    else:
        furthest = at(magnitude.argmax(1))
        numbers = [furthest / F32(-8 if dtype == 40 else -16) if dtype < 44 else abs(furthest) / F32(127)]
    floats = []
    for i, number in enumerate(numbers):
        bits = rounded(number.view(np.uint32).astype(np.uint64), 5)
        found = np.where(np.isnan(number), 0x7E00, bits)
        floats.append(of_predictor_0(reader, n, 16, found, 5))
        real = f32(widened(floats[-1].astype(np.uint64), 1))
        numbers[i] = np.where(floats[-1] == found, number, real)
    d, m = numbers[0][:, None], (numbers[-1] if ranged else np.zeros(n, F32))[:, None]
    i, over = np.where(d == 0, F32(0), F32(1) / d), x - m if ranged else x
    up = F32({40: 8.5, 42: 16.5, 44: 128.5}.get(dtype, 0.5))
    t, (_, bits, _) = over * i, QUANTISED[dtype].elements
    if dtype == 44:
        half = np.copysign(np.nextafter(F32(0.5), F32(0)), t)
        codes = nearest(t, -128, 127) if recipe else limited(np.trunc(t + half), -128, 127, 0)
        codes = codes & 255
    else:
        codes = limited(np.trunc(fused(over, i, up) if recipe else t + up), 0, (1 << bits) - 1, 0)
    return floats, elements(reader, codes, t + up, bits)

def given(reader, dtype, recipe, x, floats, scales, mins):
    """Q2_K to Q6_K."""
    bits, scales = QUANTISED[dtype].elements[1], scales.astype(np.int64)
    c, scale = {47: (4, scales - 32), 50: (32, (scales ^ 128) - 128)}.get(dtype, (0, scales))
    number = lambda words: f32(widened(words.astype(np.uint64), 1))[:, None]
    step = (number(floats[0]) * F32(scale))[:, :, None]
    dmin, low = (number(floats[1])[:, :, None], F32(mins)[:, :, None]) if c == 0 else (F32(0), F32(0))
    x = x.reshape(len(x), scales.shape[1], -1)
    q = (x + dmin * low) / step
    of = fused(dmin, low, x) / step if recipe else q
    codes = np.where(step == 0, 0, nearest(of, -c, (1 << bits) - 1 - c) + c)
    return elements(reader, codes, np.where(step == 0, F32(0), q + F32(c) + F32(0.5)), bits)

def scaled(dtype, x, how, row, kind):
    """Words of 8 bits."""
    formula, rounds, rows, columns, factor = how
    most, mantissa, last = EIGHT_BITS[dtype]
    by, L = lambda bit, x: to_type(kind if rounds & bit else 2, x), F32(most)
    if factor is None:
        at, columns = np.arange(len(x)), columns or row
        block = at // row // rows * -(-row // columns) + at % row // columns
        largest = np.zeros(block.max() + 1, np.uint32)
        np.maximum.at(largest, block, x.view(np.uint32) & 0x7FFFFFFF)
        a = largest.view(F32)
        s = [lambda: by(1, a / L), lambda: by(1, L / a), lambda: by(1, F32(1) / by(1, a / L)),
             lambda: by(1, a * (F32(1) / L))][formula]()
        factor = np.where(a == 0, F32(1), s)[block]
    t = by(2, x * factor if formula in (1, 2) else x / factor)
    if dtype == 3:
        return nearest(t, -128, 127) & 255
    bias, nan = (1 << 6 - mantissa) - 1, np.isnan(t)
    size = np.where(nan, 0, np.minimum(abs(F64(t)), 2 * most))
    e = np.where(size == 0, 1, np.maximum(np.frexp(size)[1] - 1 + bias, 1))
    code = (e - 1 << mantissa) + np.rint(np.ldexp(size, mantissa + bias - e)).astype(np.int64)
    return np.where(nan, 0, np.minimum(code, last) | np.signbit(t) << 7)

def derived(reader, n, dtype, row_words, source):
    recipe, kind, half = *reader.ints(1, 1), reader.varint()
    need(dtype in EIGHT_BITS if recipe > 1 else dtype in QUANTISED and dtype not in (45, 51), "a type")
    need(recipe < 4 and kind < 3 and half < 1 << 32, "no such recipe, or type of floats")
    if recipe > 1:
        how = [*reader.ints(1, 1), 1, 0, None]
        need(how[0] < 4 and how[1] < 4, "no such formula, or rounds")
        how[2:4] = (reader.varint(), reader.varint()) if recipe == 2 else how[2:4]
        need(0 < how[2] < 1 << 32 and how[3] < 1 << 32, "a block of no such size")
        how[4] = reader.array(1, "<f4")[0] if recipe == 3 else None
    per = QUANTISED[dtype].elements[0] if dtype in QUANTISED else 1
    need(len(source) == n * per * (2, 2, 4)[kind], "floats of another number")
    words = np.frombuffer(source, ("<u2", "<u2", "<u4")[kind]).astype(np.uint64)
    x, row = f32(words if kind == 2 else widened(words, kind)), row_words * per
    if half:
        need(row and n * per % (2 * half * row) == 0, "rows that are no whole heads")
        x = x.reshape(-1, 2, half, row).transpose(0, 2, 1, 3).ravel()
    if dtype in EIGHT_BITS:
        prediction = scaled(dtype, x, how, row or n, kind)
        return of_predictor_0(reader, n, 8, prediction, TYPES[dtype][1]).astype(np.uint8).tobytes()
    x, layout = x.reshape(n, per), QUANTISED[dtype]
    if dtype < 46:
        floats, values = blocks(reader, dtype, recipe, x)
        out = np.zeros((n, layout.word), np.uint8)
        for at, words in zip(layout.floats, floats):
            out[:, at : at + 2] = words.astype("<u2").view(np.uint8).reshape(n, 2)
    else:
        out, floats, parts = fields(reader, n, dtype)
        values = given(reader, dtype, recipe, x, floats, *parts)
    put(out, layout.elements, values.reshape(n, -1))
    return out.tobytes()
