"""Form 6 of docs/FORMAT.md: groups of quantised elements."""
from collections import namedtuple

import numpy as np

from coders import need, plane

# `w` bits from bit `shift` on of the bytes `at` are the bits `to` and up of the values `of`.
Field = namedtuple("Field", "at shift w of to")

def runs(at, r, w, to, k):
    per = 8 // w
    return [Field(slice(at + r * (i // per), at + r * (i // per + 1)), w * (i % per), w,
                  slice(r * i, r * i + r), to) for i in range(k)]

def bits(at):
    return [Field(slice(at + i // 8, at + i // 8 + 1), i % 8, 1, slice(i, i + 1), 4) for i in range(32)]

def of_k(at, shift):
    """The scales or mins of Q4_K and Q5_K."""
    low, high = slice(0, 4), slice(4, 8)
    return 8, 6, [Field(slice(at, at + 4), 0, 6, low, 0), Field(slice(12, 16), shift, 4, high, 0),
                  Field(slice(at, at + 4), 6, 2, high, 4)]

# Bytes of a group, where its floats are, its elements, scales, mins: number, bits, fields of each.
Layout = namedtuple("Layout", "word floats elements scales mins", defaults=(None, None))
QUANTISED = {
    40: Layout(18, [0], (32, 4, runs(2, 16, 4, 0, 2))),
    41: Layout(20, [0, 2], (32, 4, runs(4, 16, 4, 0, 2))),
    42: Layout(22, [0], (32, 5, runs(6, 16, 4, 0, 2) + bits(2))),
    43: Layout(24, [0, 2], (32, 5, runs(8, 16, 4, 0, 2) + bits(4))),
    44: Layout(34, [0], (32, 8, runs(2, 32, 8, 0, 1))),
    45: Layout(36, [0, 2], (32, 8, runs(4, 32, 8, 0, 1))),
    46: Layout(84, [80, 82], (256, 2, runs(16, 32, 2, 0, 8)),
               (16, 4, [Field(slice(0, 16), 0, 4, slice(0, 16), 0)]),
               (16, 4, [Field(slice(0, 16), 4, 4, slice(0, 16), 0)])),
    47: Layout(110, [108], (256, 3, runs(32, 32, 2, 0, 8) + runs(0, 32, 1, 2, 8)),
               (16, 6, runs(96, 8, 4, 0, 2) + runs(104, 4, 2, 4, 4))),
    48: Layout(144, [0, 2], (256, 4, runs(16, 32, 4, 0, 8)), of_k(4, 0), of_k(8, 4)),
    49: Layout(176, [0, 2], (256, 5, runs(48, 32, 4, 0, 8) + runs(16, 32, 1, 4, 8)),
               of_k(4, 0), of_k(8, 4)),
    50: Layout(210, [208], (256, 6, runs(0, 64, 4, 0, 4) + runs(128, 32, 2, 4, 8)),
               (16, 8, runs(192, 16, 8, 0, 1))),
    51: Layout(292, [2], (256, 8, runs(4, 256, 8, 0, 1))),
}

def read_floats(reader, n, d=None):
    kind, base, start = reader.ints(1, 2, 2)
    need(kind < (2 if d is None else 3) and (start == 0 or kind == 1), "floats of no such kind")
    high, middle, low = (plane(reader, n, width)[1] for width in (4, 7, 5))
    t = (high << 12 | middle << 5 | low) + base & 0xFFFF
    if kind == 2:
        return t + d & 0xFFFF
    p = 16 * start
    for i in range(n if kind == 1 else 0):
        t[i] = t[i] + (p >> 4) & 0xFFFF
        p += 16 * int(t[i]) - p >> 2
    return t

def ratio(d, m, opposite):
    """m / d in units of 2^-16, where their signs are what they are in groups with minima."""
    (fraction_d, e), (fraction_m, f) = (
        (x & 1023 | (1024 if x & 0x7C00 else 0), max(x >> 10 & 31, 1)) for x in (d, m))
    if fraction_d == 0 or (d ^ m) >> 15 != opposite:
        return 0
    quotient = (fraction_m << 16) // fraction_d
    return min(quotient << f - e if f > e else quotient >> e - f, (1 << 26) - 1)

def contexts(dtype, floats, scales, mins, most):
    """Of each sub-group: the context of its elements, and whether they are turned round."""
    d, subs = floats[0].tolist(), 1 if scales is None else scales.shape[1]
    width = np.repeat(floats[0] & 0x7FFF, subs)
    if scales is not None:
        size = {47: abs(scales - 32), 50: abs((scales ^ 128) - 128)}.get(dtype, scales)
        size = np.maximum(size.ravel(), 1)
        e = np.frexp(size)[1] - 1
        width = width + 1024 * e + (size * 1024 >> e) - 1024
    sixteens = [width[i : i + 16] for i in range(0, len(width), 16)]
    from_mean = np.concatenate([part - int(part.sum()) // len(part) for part in sixteens])
    if len(floats) == 1:
        return np.clip(from_mean + 512 >> 7, 0, 7), np.zeros(len(width), bool)
    classes, around = [], []
    for i in range(len(width)):
        of = ratio(d[i // subs], int(floats[1][i // subs]), 0 if scales is not None else 1)
        scale, low = (1, 1) if scales is None else (int(x.flat[i]) for x in (scales, mins))
        zero = min(of * low // max(scale, 1) >> 8, 256 * most)
        class_ = min(abs(2 * zero - 256 * most) * (2560 // most) >> 16, 4)
        classes.append(class_ if scale else 4)
        around.append(scale > 0 and 2 * zero > 256 * most)
    return 3 * np.array(classes) + np.clip(from_mean + 384 >> 8, 0, 2), np.array(around)

def quantised(reader, n, dtype):
    word, places, (count, width, _), *_ = layout = QUANTISED[dtype]
    out, floats, parts = np.zeros((n, word), np.uint8), [], []
    for at in places:
        floats.append(read_floats(reader, n, *floats))
        out[:, at : at + 2] = floats[-1].astype("<u2").view(np.uint8).reshape(n, 2)
    for part in (slice(0, 2), slice(260, 292, 2), slice(261, 292, 2)) if dtype == 51 else ():
        out[:, part] = plane(reader, out[:, part].size, 8)[1].reshape(n, -1)
    for part in (layout.scales, layout.mins):
        parts.append(part and plane(reader, n * part[0], part[1])[1].reshape(n, -1))
    # Q8_1 has a second float, which is no minimum.
    of_minima = floats[: 1 if dtype == 45 else 2]
    context, around = contexts(dtype, of_minima, *parts, (1 << width) - 1)
    per = n * count // len(context)
    coder, elements = plane(reader, n * count, width, range(5), (8, 15)[len(of_minima) - 1],
                            np.repeat(context, per))
    if coder == 4:
        elements = np.where(np.repeat(around, per), (1 << width) - 1 - elements, elements)
    parts.append(elements.reshape(n, -1))
    for part, values in zip((layout.scales, layout.mins, layout.elements), parts):
        for f in part[2] if part else ():
            out[:, f.at] |= ((values[:, f.of] >> f.to & (1 << f.w) - 1) << f.shift).astype(np.uint8)
    return out.tobytes()
