"""The bases of golden deltas: what tests/golden/input.rs makes for step 0."""

import numpy as np

N = 1 << 14


class Rng:
    def __init__(self, seed):
        self.state = seed * 0x9E3779B97F4A7C15 % 2**64 | 1

    def next(self):
        self.state ^= self.state << 13 & 2**64 - 1
        self.state ^= self.state >> 7
        self.state ^= self.state << 17 & 2**64 - 1
        return self.state * 0x2545F4914F6CDD1D % 2**64

    def normal(self):
        return sum((self.next() >> 11) / 2**53 for _ in range(12)) - 6.0


def rounded(x):
    """To bf16; to the nearest, ties to even."""
    bits = x.view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype("<u2")


def truncated(values):
    """To bf16, of doubles by way of floats."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()


def safetensors(tensors):
    header, at = [], 0
    for name, dtype, shape, data in tensors:
        shape = ", ".join(map(str, shape))
        header.append(f'"{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{at},{at + len(data)}]}}')
        at += len(data)
    header = ("{" + ",".join(header) + "}").encode()
    return len(header).to_bytes(8, "little") + header + b"".join(data for *_, data in tensors)


def weights(rng, n):
    return np.array([rng.normal() * 0.02 for _ in range(n)])


def tuned():
    rng, parts = Rng(76), []
    for one_in in (0, 100, 1):
        data = []
        for _ in range(N):
            data.append(rng.normal() * 0.02)
            if one_in:
                rng.next()
            rng.normal()
        parts.append(truncated(np.array(data)))
    shape = [N // 64, 64]
    return {b"data": safetensors([(n, "BF16", shape, p) for n, p in zip(("same", "few", "most"), parts)])}


def widened():
    return {b"data": safetensors([("w", "BF16", [N // 64, 64], truncated(weights(Rng(78), N)))])}


def wide():
    rng = Rng(79)
    values = [(rng.normal() * 0.02, rng.normal())[0] for _ in range(2000)]
    return {b"data": safetensors([("w", "F64", [20, 100], np.array(values).tobytes())])}


def sizes():
    kinds = [("F8_E4M3", 5000, "u1"), ("U8", 700, "u1"), ("F16", 5000, "f2"), ("BF16", 700, "b2"),
             ("I16", 4097, "i2"), ("F32", 5000, "f4"), ("I32", 700, "i4"), ("U32", 4096, "u4"),
             ("F64", 4500, "f8"), ("I64", 700, "i8")]
    rng, tensors = Rng(81), []
    for name, n, kind in kinds:
        values = weights(rng, n)
        for _ in range(n):
            rng.next(), rng.normal()
        if kind[0] == "f":
            data = values.astype("<" + kind).tobytes()
        elif kind == "b2":
            data = truncated(values)
        else:
            data = (values * 1000).astype("<i8").astype("<" + kind).tobytes()
        tensors.append((name.lower(), name, [n], data))
    return {b"data": safetensors(tensors)}


def files(tensors):
    """A file of a tensor each."""
    shape = [N // 64, 64]
    return {name.encode(): safetensors([("up.weight", dtype, shape, data)]) for name, dtype, data in tensors}


def training(names=None):
    rng, f32 = Rng(77), np.float32
    w, m, v = np.zeros((3, N), f32)
    for i in range(N):
        size = 1.0 + i % 5 if i // 64 % 8 == 0 else 0.0
        w[i] = f32(rng.normal() * size) * f32(0.02)
        m[i] = f32(rng.normal() * size) * f32(1e-3)
        root = f32(rng.normal() * size) * f32(1e-3)
        v[i] = root * root
        rng.normal()
    tensors = [("exp_avg", "F32", m), ("exp_avg_sq", "F32", v), ("master", "F32", w)]
    tensors.append(("model", "BF16", rounded(w)))
    tensors = [(n + ".safetensors", d, x.tobytes()) for n, d, x in tensors if n in (names or n)]
    out = files(tensors)
    if not names:
        out[b"meta.json"] = b'{"step": 400, "lr": 0.00037}'
    return out


def clipped():
    rng, f32 = Rng(80), np.float32
    m, v = np.zeros((2, N), f32)
    for i in range(N):
        m[i] = rng.normal() * 3e-4
        root = f32(rng.normal() * 1e-3)
        v[i] = root * root
        rng.normal(), rng.normal()
    return files([("exp_avg.safetensors", "F32", m.tobytes()), ("exp_avg_sq.safetensors", "F32", v.tobytes())])


BASES = {
    "delta": training,
    "delta-signed": lambda: training(("exp_avg", "model")),
    "delta-auto": tuned,
    "delta-xor": tuned,
    "delta-diff": tuned,
    "delta-widen": widened,
    "delta-gradient": clipped,
    "delta-wide": wide,
    "delta-sizes": sizes,
}
