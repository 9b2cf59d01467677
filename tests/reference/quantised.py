"""Form 6 of docs/FORMAT.md: groups of quantised elements."""

from collections import namedtuple

import numpy as np

from coders import need, plane

# A field of a group: w bits from bit `shift` on of some bytes are bits `to` and up of some values.
Field = namedtuple("Field", "at shift w values to")


def runs(at, r, w, to, k):
    per = 8 // w
    starts = [(at + r * (i // per), w * (i % per), r * i) for i in range(k)]
    return [Field(slice(a, a + r), shift, w, slice(v, v + r), to) for a, shift, v in starts]


def bits(at):
    return [Field(slice(at + i // 8, at + i // 8 + 1), i % 8, 1, slice(i, i + 1), 4) for i in range(32)]


def k_scales(at, high):
    """The scales (or mins) of Q4_K and Q5_K."""
    low = Field(slice(at, at + 4), 0, 6, slice(0, 4), 0)
    four = Field(slice(12, 16), high, 4, slice(4, 8), 0)
    return [low, four, Field(slice(at, at + 4), 6, 2, slice(4, 8), 4)]


# Floats at, scales, mins, elements: how many of how many bits, and where.
Layout = namedtuple("Layout", "word floats scales mins elements")
NONE = (0, 0, [])
K = ((8, 6, k_scales(4, 0)), (8, 6, k_scales(8, 4)))
LAYOUTS = {
    40: Layout(18, [0], NONE, NONE, (32, 4, runs(2, 16, 4, 0, 2))),
    41: Layout(20, [0, 2], NONE, NONE, (32, 4, runs(4, 16, 4, 0, 2))),
    42: Layout(22, [0], NONE, NONE, (32, 5, runs(6, 16, 4, 0, 2) + bits(2))),
    43: Layout(24, [0, 2], NONE, NONE, (32, 5, runs(8, 16, 4, 0, 2) + bits(4))),
    44: Layout(34, [0], NONE, NONE, (32, 8, runs(2, 32, 8, 0, 1))),
    45: Layout(36, [0, 2], NONE, NONE, (32, 8, runs(4, 32, 8, 0, 1))),
    46: Layout(84, [80, 82], (16, 4, [Field(slice(0, 16), 0, 4, slice(0, 16), 0)]),
               (16, 4, [Field(slice(0, 16), 4, 4, slice(0, 16), 0)]), (256, 2, runs(16, 32, 2, 0, 8))),
    47: Layout(110, [108], (16, 6, runs(96, 8, 4, 0, 2) + runs(104, 4, 2, 4, 4)), NONE,
               (256, 3, runs(32, 32, 2, 0, 8) + runs(0, 32, 1, 2, 8))),
    48: Layout(144, [0, 2], *K, (256, 4, runs(16, 32, 4, 0, 8))),
    49: Layout(176, [0, 2], *K, (256, 5, runs(48, 32, 4, 0, 8) + runs(16, 32, 1, 4, 8))),
    50: Layout(210, [208], (16, 8, runs(192, 16, 8, 0, 1)), NONE,
               (256, 6, runs(0, 64, 4, 0, 4) + runs(128, 32, 2, 4, 8))),
    51: Layout(292, [2], NONE, NONE, (256, 8, runs(4, 256, 8, 0, 1))),
}


def put(out, fields, values):
    for f in fields:
        part = values[:, f.values] >> f.to & (1 << f.w) - 1
        out[:, f.at] |= (part << f.shift).astype(np.uint8)


def read_floats(payload, n, d):
    kind, base, start = payload.int(1), payload.int(2), payload.int(2)
    need(kind < (2 if d is None else 3) and (start == 0 or kind == 1), "floats of no such kind")
    high, middle, low = (plane(payload, n, bits)[1] for bits in (4, 7, 5))
    t = (high << 12 | middle << 5 | low) + base & 0xFFFF
    if kind == 2:
        return t + d & 0xFFFF
    if kind == 1:
        p = 16 * start
        for i, x in enumerate(t.tolist()):
            t[i] = x + (p >> 4) & 0xFFFF
            p += (16 * int(t[i]) - p) >> 2
    return t


def ratio(d, m):
    """How many d make m, in 2^-16."""
    exponent = lambda x: max(x >> 10 & 31, 1)
    fraction = lambda x: x & 1023 | (1024 if x >> 10 & 31 else 0)
    if d & 0x7FFF == 0:
        return 0
    quotient, up = (fraction(m) << 16) // fraction(d), exponent(m) - exponent(d)
    return min(quotient << up if up >= 0 else quotient >> -up, (1 << 26) - 1)


def contexts(dtype, floats, scales, mins, most):
    """The context of each sub-group, and whether its elements are turned round."""
    n, subs = scales.shape
    has_mins = len(floats) == 2
    size = {47: abs(scales - 32), 50: abs((scales ^ 128) - 128)}.get(dtype, scales)
    width = np.repeat(floats[0] & 0x7FFF, subs)
    if dtype >= 46 and dtype != 51:
        size = np.maximum(size.ravel(), 1)
        e = np.array([int(s).bit_length() - 1 for s in size])
        width = width + (1024 * e + (size * 1024 >> e) - 1024)
    out, turned = [], []
    for at in range(0, len(width), 16):
        sixteen = width[at : at + 16]
        from_mean = sixteen - int(sixteen.sum()) // len(sixteen)
        if not has_mins:
            out.extend(np.clip(from_mean + 512 >> 7, 0, 7).tolist())
            turned.extend([False] * len(sixteen))
            continue
        for i, x in enumerate(np.clip(from_mean + 384 >> 8, 0, 2).tolist(), at):
            d, m = (int(f[i // subs]) for f in floats)
            scale, low = (int(a[i // subs, i % subs]) for a in (scales, mins)) if dtype >= 46 else (1, 1)
            opposite = (d ^ m) >> 15 == 1
            of = ratio(d, m) if opposite == (dtype < 46) else 0
            zero = min(of * low // scale >> 8, 256 * most) if scale else 0
            distance = abs(2 * zero - 256 * most)
            class_ = min(distance * (2560 // most) >> 16, 4) if scale else 4
            out.append(3 * class_ + x)
            turned.append(bool(scale) and 2 * zero > 256 * most)
    return out, turned


def quantised(payload, n, dtype):
    layout = LAYOUTS[dtype]
    out = np.zeros((n, layout.word), np.uint8)
    floats = []
    for at in layout.floats:
        floats.append(read_floats(payload, n, floats[0] if floats else None))
        out[:, at], out[:, at + 1] = floats[-1] & 255, floats[-1] >> 8
    if dtype == 51:
        for bytes_ in (slice(0, 2), slice(260, 292, 2), slice(261, 292, 2)):
            count = len(range(292)[bytes_])
            out[:, bytes_] = plane(payload, n * count, 8)[1].reshape(n, count)
    parts = []
    for count, width, fields in (layout.scales, layout.mins):
        values = plane(payload, n * count, width)[1].reshape(n, count) if count else np.zeros((n, 1), int)
        put(out, fields, values)
        parts.append(values)
    count, width, fields = layout.elements
    most = (1 << width) - 1
    # Types with two floats and small elements have minima, and more contexts.
    with_mins = len(floats) == 2 and dtype != 45
    of, turned = contexts(dtype, floats if with_mins else floats[:1], *parts, most)
    per = count // parts[0].shape[1]
    coder, values = plane(payload, n * count, width, np.repeat(of, per).tolist(), 15 if with_mins else 8, range(5))
    if coder == 4:
        values = np.where(np.repeat(turned, per), most - values, values)
    put(out, fields, values.reshape(n, count))
    payload.end()
    return out.tobytes()
