"""Measures the package beside others: `python bench.py [--mib N] [--series DIR] [--threads N]`.

Every figure is the median of several runs, in one process, with buffers that were touched before.
What is decoded is compared with what was encoded. Packages that are not installed are left out.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import lmc_gpu
import lmc_gpu.numpy
import numpy as np


def seconds(work, runs=5):
    """The median time of some runs, and what the last one returned."""
    times, result = [], None
    for _ in range(runs):
        result = None
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return statistics.median(times), result


def row(name, bytes_, stored, encode, decode):
    """One line of a table."""
    rate = lambda t: f"{bytes_ / t / 1e9:8.2f}" if t else "       -"
    print(f"  {name:34} {stored / bytes_:7.4f} {rate(encode)} {rate(decode)}")


def weights(mib):
    """Normal bfloat16 weights, as words of 16 bits."""
    rng = np.random.default_rng(0)
    part = rng.normal(0, 0.02, 4 << 20).astype(np.float32)
    words = (part.view(np.uint32) >> 16).astype(np.uint16)
    repeats = mib * (1 << 20) // words.nbytes
    # Each part is another one, so that no window of a general compressor finds it again.
    return np.concatenate([np.roll(words, i * 4099) ^ np.uint16(i & 1) for i in range(repeats)])


def in_memory(data, threads):
    """Bytes in memory, beside what compresses bytes."""
    print(f"\nin memory, {data.nbytes >> 20} MiB of bf16: ratio, GB/s encoding, GB/s decoding")
    out = np.zeros_like(data)
    for method in ("auto", "fast"):
        work = lambda: lmc_gpu.compress(data, dtype="bf16", method=method, threads=threads)
        encode, packed = seconds(work)
        decode, _ = seconds(lambda: lmc_gpu.decompress(packed, out=out, threads=threads))
        assert np.array_equal(out, data)
        row(f"lmc_gpu {method}", data.nbytes, len(packed), encode, decode)
    fresh, _ = seconds(lambda: lmc_gpu.decompress(packed, threads=threads))
    row("  … to new bytes", data.nbytes, len(packed), None, fresh)
    copy, _ = seconds(lambda: np.copyto(out, data))
    row("memcpy", data.nbytes, data.nbytes, copy, copy)
    try:
        import zstandard

        coder = zstandard.ZstdCompressor(level=3, threads=threads or -1)
        encode, packed = seconds(lambda: coder.compress(data), 1)
        decode, back = seconds(lambda: zstandard.ZstdDecompressor().decompress(packed), 1)
        assert back == data.tobytes()
        row("zstd 3", data.nbytes, len(packed), encode, decode)
    except ImportError:
        print("  zstandard is not installed")
    try:
        import zipnn

        coder = zipnn.ZipNN(
            input_format="byte", bytearray_dtype="bfloat16", threads=threads or os.cpu_count()
        )
        encode, packed = seconds(lambda: coder.compress(data.tobytes()), 1)
        decode, back = seconds(lambda: coder.decompress(packed), 1)
        assert bytes(back) == data.tobytes()
        row("zipnn", data.nbytes, len(packed), encode, decode)
    except ImportError:
        print("  zipnn is not installed")


def files(data, root, threads):
    """Files of tensors, beside safetensors and torch.save."""
    print("\nfiles: ratio, GB/s saving, GB/s loading")
    tensors = {f"layer{i}": part.reshape(-1, 1024) for i, part in enumerate(np.split(data, 16))}
    path = root / "x.safetensors.lmc"
    save, _ = seconds(lambda: lmc_gpu.numpy.save_file(tensors, path, threads=threads), 3)
    load, _ = seconds(lambda: lmc_gpu.numpy.load_file(path, threads=threads), 3)
    row("lmc_gpu.numpy (as u16)", data.nbytes, path.stat().st_size, save, load)
    try:
        import safetensors.numpy as st

        raw = root / "x.safetensors"
        save, _ = seconds(lambda: st.save_file(tensors, raw), 3)
        load, _ = seconds(lambda: {k: v.copy() for k, v in st.load_file(raw).items()}, 3)
        row("safetensors.numpy", data.nbytes, raw.stat().st_size, save, load)
    except ImportError:
        print("  safetensors is not installed")
    try:
        import torch
        from lmc_gpu import torch as packed_torch

        state = {k: torch.from_numpy(v).view(torch.bfloat16) for k, v in tensors.items()}
        save, _ = seconds(lambda: packed_torch.save_file(state, path, threads=threads), 3)
        load, back = seconds(lambda: packed_torch.load_file(path, threads=threads), 3)
        assert all(torch.equal(back[k], state[k]) for k in state)
        row("lmc_gpu.torch.save_file", data.nbytes, path.stat().st_size, save, load)
        save, _ = seconds(lambda: packed_torch.save(state, path, threads=threads), 3)
        load, _ = seconds(lambda: packed_torch.load(path, threads=threads), 3)
        row("lmc_gpu.torch.save", data.nbytes, path.stat().st_size, save, load)
        raw = root / "x.pt"
        save, _ = seconds(lambda: torch.save(state, raw), 3)
        load, _ = seconds(lambda: torch.load(raw), 3)
        row("torch.save", data.nbytes, raw.stat().st_size, save, load)
    except ImportError:
        print("  torch is not installed")


def slices(root, mib, threads):
    """A slice of 1 MiB out of a large tensor."""
    tensor = weights(mib).reshape(-1, 1024)
    path = root / "large.lmc"
    lmc_gpu.numpy.save_file({"w": tensor}, path, threads=threads)
    rows = (1 << 20) // tensor[:1].nbytes
    opened, file = seconds(lambda: lmc_gpu.safe_open(path), 5)
    part = file.get_slice("w")
    places = iter(np.random.default_rng(1).integers(0, len(tensor) - rows, 64))

    def read():
        at = int(next(places))
        found = part[at : at + rows]
        assert np.array_equal(found, tensor[at : at + rows])

    got, _ = seconds(read, 32)
    print(
        f"\nget_slice of 1 MiB out of {mib} MiB: {got * 1e3:.2f} ms; opening {opened * 1e3:.2f} ms"
    )


def checkpointer(root, mib):
    """How long `save` blocks beside a copy of the state, and how training goes meanwhile."""
    words = (mib << 20) // 4
    state = {
        "model": {f"w{i}": a for i, a in enumerate(np.split(weights(mib).view(np.float32), 16))}
    }
    arrays = list(state["model"].values())
    target = [np.zeros_like(a) for a in arrays]
    copy, _ = seconds(lambda: [np.copyto(t, a) for t, a in zip(target, arrays)], 5)
    with lmc_gpu.Checkpointer(root / "run") as saver:
        blocked = []
        for step in range(1, 9):
            for array in arrays:
                array[::97] += 1e-4
            ticket = saver.save(step, state)
            blocked.append(ticket.blocked)
            ticket.wait()
        stats = saver.stats()
    later = statistics.median(blocked[3:])
    print(
        f"\nCheckpointer, {words * 4 >> 20} MiB: save blocks {later * 1e3:.1f} ms, a copy takes "
        f"{copy * 1e3:.1f} ms: {later / copy:.2f}; ratio {stats['ratio']:.4f}"
    )


def series(directory, root):
    """The checkpoints of a run, saved one after the other."""
    print(f"\n{directory}: step, bytes, ratio, seconds")
    steps = sorted(p for p in pathlib.Path(directory).iterdir() if any(c.isdigit() for c in p.name))
    store = lmc_gpu.Store(root / "series", create=True)
    total = [0, 0]
    for number, path in enumerate(steps, 1):
        saved = store.save(path, number)
        total[0] += saved["input_bytes"]
        total[1] += saved["archive_bytes"]
        print(
            f"  {path.name:28} {saved['input_bytes']:9} {saved['ratio']:.4f} {saved['seconds']:.2f}"
        )
    assert store.verify()["ok"]
    print(f"  all: {total[1] / max(total[0], 1):.4f}")


def damaged(paths):
    """Changes a bit in the middle of the largest of some files."""
    path = max(paths, key=lambda p: p.stat().st_size)
    path.chmod(0o600)
    with open(path, "r+b") as f:
        f.seek(path.stat().st_size // 2)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 1]))


def verdict(load, tensors):
    """What loading gives after damage."""
    import torch

    try:
        found = load()
    except Exception as error:  # whatever it is that they raise
        return f"refused, {type(error).__name__}"
    same = all(torch.equal(found[k], t) for k, t in tensors.items())
    return "not noticed, not needed" if same else "OTHER TENSORS without an error"


def savers(directory, root):
    """A run saved from memory: sizes, how long `save` blocks, and what damage does."""
    try:
        import torch
        from safetensors.torch import load_file
    except ImportError:
        print("\ntorch or safetensors is not installed")
        return
    flat = lambda state: {f"{k}/{n}": t for k, part in state.items() for n, t in part.items()}
    names = ["exp_avg", "exp_avg_sq", "master", "model"]
    states = {}
    for path in sorted(pathlib.Path(directory).glob("step*")):
        files = {name: path / f"{name}.safetensors" for name in names}
        if all(file.exists() for file in files.values()):
            states[int(path.name[4:])] = {n: load_file(file) for n, file in files.items()}
    last = max(states)

    def ours(place):
        saver = lmc_gpu.Checkpointer(place)

        def save(step, state):
            ticket = saver.save(step, state)
            return ticket.blocked, ticket.wait

        return save, lambda: flat(saver.restore(last))

    def moonclip(place):
        import moonclip

        saver = moonclip.CheckpointManager(str(place))

        def save(step, state):
            start = time.perf_counter()
            saver.save_raw(step, flat(state))
            return time.perf_counter() - start, saver.flush

        def load():
            like = flat(states[last])
            found = saver.load_tensors(saver.list_snapshots()[-1]["id"], like)
            return {
                name: torch.frombuffer(bytearray(data), dtype=like[name].dtype).view(like[name].shape)
                for name, data in found.items()
            }

        return save, load

    def plain(place):
        place.mkdir()

        def save(step, state):
            start = time.perf_counter()
            torch.save(state, place / f"{step}.pt")
            return time.perf_counter() - start, lambda: None

        return save, lambda: flat(torch.load(place / f"{last}.pt"))

    files = lambda place: {p for p in place.rglob("*") if p.is_file()}
    size = lambda place: sum(p.stat().st_size for p in files(place))
    print(f"\n{directory}: stored bytes of each step by its own, blocked time (median), damage")
    for name, make in (("lmc_gpu", ours), ("moonclip", moonclip), ("torch.save", plain)):
        place = root / f"savers-{name}"
        try:
            save, load = make(place)
        except ImportError:
            print(f"  {name} is not installed")
            continue
        stored, raw, ratios, blocked, new = 0, 0, [], [], set()
        for step, state in states.items():
            before = files(place)
            took, finish = save(step, state)
            finish()
            new = files(place) - before
            bytes_ = sum(t.nbytes for t in flat(state).values())
            ratios.append(f"{step}: {(size(place) - stored) / bytes_:.4f}")
            blocked.append(took)
            stored, raw = size(place), raw + bytes_
        found = load()
        assert all(torch.equal(found[k], t) for k, t in flat(states[last]).items()), name
        damaged(new)
        print(f"  {name:11} {', '.join(ratios)}")
        print(f"              all {stored / raw:.4f}, {statistics.median(blocked) * 1e3:.1f} ms, ", end="")
        print(verdict(load, flat(states[last])))


def main():
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=512, help="size of the tensor in memory")
    parser.add_argument("--large", type=int, default=4096, help="size of the tensor to slice")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--series", help="a directory of checkpoints")
    parser.add_argument("--only", choices=["savers"], help="of all of it, this")
    parser.add_argument("--dir", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    args = parser.parse_args()
    print(f"lmc_gpu {lmc_gpu.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(dir=args.dir) as root:
        root = pathlib.Path(root)
        if args.only:
            return savers(args.series, root)
        data = weights(args.mib)
        in_memory(data, args.threads)
        files(data, root, args.threads)
        slices(root, args.large, args.threads)
        checkpointer(root, args.mib)
        if args.series:
            series(args.series, root)
            savers(args.series, root)


if __name__ == "__main__":
    main()
