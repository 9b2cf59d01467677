"""Form 6 of docs/FORMAT.md: groups of quantised elements."""
from collections import namedtuple
import numpy as np
from coders import need, plane

# Fields are (at, shift, w, of, to): `w` bits from bit `shift` on of the bytes `at` are the bits `to`
# and up of the values `of`.
def runs(at, r, w, to, k):
    starts = [(at + r * (i // (8 // w)), w * (i % (8 // w)), r * i) for i in range(k)]
    return [(slice(a, a + r), shift, w, slice(v, v + r), to) for a, shift, v in starts]

def bits(at):
    starts = [(at + i // 8, i % 8, i) for i in range(32)]
    return [(slice(a, a + 1), shift, 1, slice(i, i + 1), 4) for a, shift, i in starts]

def of_k(at, shift):
    """The scales or mins of Q4_K and Q5_K."""
    (low,), (high,) = runs(at, 4, 8, 0, 1), runs(12, 4, 8, 0, 1)
    fields = [(low[0], 0, 6, slice(0, 4), 0), (high[0], shift, 4, slice(4, 8), 0)]
    return 8, 6, fields + [(low[0], 6, 2, slice(4, 8), 4)]

# Bytes of a group, where its floats are, its elements, scales, mins: number, bits, fields of each.
Layout = namedtuple("Layout", "word floats elements scales mins", defaults=[None, None])
K5 = (256, 5, runs(48, 32, 4, 0, 8) + runs(16, 32, 1, 4, 8))
ALL, HIGH = slice(0, 16), runs(104, 4, 2, 4, 4)
QUANTISED = {
    40: Layout(18, [0], (32, 4, runs(2, 16, 4, 0, 2))),
    41: Layout(20, [0, 2], (32, 4, runs(4, 16, 4, 0, 2))),
    42: Layout(22, [0], (32, 5, runs(6, 16, 4, 0, 2) + bits(2))),
    43: Layout(24, [0, 2], (32, 5, runs(8, 16, 4, 0, 2) + bits(4))),
    44: Layout(34, [0], (32, 8, runs(2, 32, 8, 0, 1))),
    45: Layout(36, [0, 2], (32, 8, runs(4, 32, 8, 0, 1))),
    46: Layout(84, [80, 82], (256, 2, runs(16, 32, 2, 0, 8)),
               (16, 4, [(ALL, 0, 4, ALL, 0)]), (16, 4, [(ALL, 4, 4, ALL, 0)])),
    47: Layout(110, [108], (256, 3, runs(32, 32, 2, 0, 8) + runs(0, 32, 1, 2, 8)),
               (16, 6, runs(96, 8, 4, 0, 2) + HIGH)),
    48: Layout(144, [0, 2], (256, 4, runs(16, 32, 4, 0, 8)), of_k(4, 0), of_k(8, 4)),
    49: Layout(176, [0, 2], K5, of_k(4, 0), of_k(8, 4)),
    50: Layout(210, [208], (256, 6, runs(0, 64, 4, 0, 4) + runs(128, 32, 2, 4, 8)),
               (16, 8, runs(192, 16, 8, 0, 1))),
    51: Layout(292, [2], (256, 8, runs(4, 256, 8, 0, 1))),
}

def read_floats(reader, n, d=None):
    kind, base, start = reader.ints(1, 2, 2)
    need(kind < (2 if d is None else 3) and (start == 0 or kind == 1), "floats of no such kind")
    high, middle, low = (plane(reader, n, width)[1] for width in (4, 7, 5))
    t, p = (high << 12 | middle << 5 | low) + base & 0xFFFF, 16 * start
    for i in range(n if kind == 1 else 0):
        t[i] = t[i] + (p >> 4) & 0xFFFF
        p += 16 * int(t[i]) - p >> 2
    return t + d & 0xFFFF if kind == 2 else t

def contexts(dtype, floats, scales, mins, most):
    """Of each sub-group: the context of its elements, and whether they are turned round."""
    subs, scaled = (1, False) if scales is None else (scales.shape[1], True)
    d, width = np.repeat(floats[0], subs), np.repeat(floats[0] & 0x7FFF, subs)
    if scaled:
        size = {47: abs(scales - 32), 50: abs((scales ^ 128) - 128)}.get(dtype, scales)
        size = np.maximum(size.ravel(), 1)
        e = np.frexp(size)[1] - 1
        width = width + 1024 * e + (size * 1024 >> e) - 1024
    sixteens = [width[i : i + 16] for i in range(0, len(width), 16)]
    from_mean = np.concatenate([part - int(part.sum()) // len(part) for part in sixteens])
    if len(floats) == 1:
        return np.clip(from_mean + 512 >> 7, 0, 7), np.zeros(len(width), bool)
    m, ones = np.repeat(floats[1], subs), np.ones(len(width), int)
    scale, low = (scales.ravel(), mins.ravel()) if scaled else (ones, ones)
    of_d, of_m = ((x & 1023 | np.where(x & 0x7C00, 1024, 0)) for x in (d, m))
    up = np.maximum(m >> 10 & 31, 1) - np.maximum(d >> 10 & 31, 1)
    quotient = (of_m << 16) // np.maximum(of_d, 1)
    ratio = np.minimum(quotient << np.maximum(up, 0) >> np.maximum(-up, 0), (1 << 26) - 1)
    ratio[(of_d == 0) | ((d ^ m) >> 15 == scaled)] = 0
    zero = np.minimum(ratio * low // np.maximum(scale, 1) >> 8, 256 * most)
    class_ = np.minimum(abs(2 * zero - 256 * most) * (2560 // most) >> 16, 4)
    third = np.clip(from_mean + 384 >> 8, 0, 2)
    return 3 * np.where(scale, class_, 4) + third, (scale > 0) & (2 * zero > 256 * most)

def put(out, part, values):
    for at, shift, w, of, to in part[2]:
        out[:, at] |= ((values[:, of] >> to & (1 << w) - 1) << shift).astype(np.uint8)

def fields(reader, n, dtype):
    """Groups with all but their elements; their floats; their scales and mins."""
    layout, floats = QUANTISED[dtype], []
    out = np.zeros((n, layout.word), np.uint8)
    for at in layout.floats:
        floats.append(read_floats(reader, n, *floats))
        out[:, at : at + 2] = floats[-1].astype("<u2").view(np.uint8).reshape(n, 2)
    for part in (slice(0, 2), slice(260, 292, 2), slice(261, 292, 2)) if dtype == 51 else ():
        out[:, part] = plane(reader, out[:, part].size, 8)[1].reshape(n, -1)
    parts = [part and plane(reader, n * part[0], part[1])[1].reshape(n, -1) for part in layout[3:]]
    for part, values in zip(layout[3:], parts):
        if part:
            put(out, part, values)
    return out, floats, parts

def quantised(reader, n, dtype):
    out, floats, parts = fields(reader, n, dtype)
    layout = count, width, _ = QUANTISED[dtype].elements
    most = (1 << width) - 1
    # Q8_1 has a second float, which is no minimum.
    context, around = contexts(dtype, floats[: 1 if dtype == 45 else 2], *parts, most)
    tables, per = 15 if len(floats) > 1 and dtype != 45 else 8, n * count // len(context)
    coder, elements = plane(reader, n * count, width, range(5), tables, np.repeat(context, per))
    if coder == 4:
        elements = np.where(np.repeat(around, per), most - elements, elements)
    put(out, layout, elements.reshape(n, -1))
    return out.tobytes()
