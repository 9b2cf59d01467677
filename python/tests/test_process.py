"""Signals, threads, forks and memory."""

import gc
import os
import re
import subprocess
import sys
import textwrap
import threading
import time

import lmc_gpu
import lmc_gpu.numpy
import numpy as np
import pytest
from conftest import package


def python(code, *args, **options):
    """Runs a program of its own and returns what it printed."""
    program = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_needs_neither_numpy_nor_torch():
    code = """
        import sys, importlib.abc
        class Refuse(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name.split(".")[0] in ("numpy", "torch", "ml_dtypes", "safetensors"):
                    raise ImportError(name)
        sys.meta_path.insert(0, Refuse())
        import lmc_gpu
        assert lmc_gpu.decompress(lmc_gpu.compress(bytes(9999))) == bytes(9999)
        import tempfile
        with lmc_gpu.Checkpointer(tempfile.mkdtemp()) as c:
            c.save(1, {"a": [1, "x", b"y"]}).wait()
            assert c.restore(1) == {"a": [1, "x", b"y"]}
        print(sorted(m for m in sys.modules if m in ("numpy", "torch", "ctypes.util")))
    """
    assert python(code).strip() == "[]"


INTERRUPTED = """
    import os, pathlib, signal, sys, threading, time
    import numpy as np
    import lmc_gpu, lmc_gpu.numpy
    what, root = sys.argv[1], pathlib.Path(sys.argv[2])
    data = np.random.default_rng(0).normal(size=24 << 20).astype(np.float32)
    if what == "decompress":
        packed = lmc_gpu.compress(data, method="zstd")
    elif what == "verify":
        lmc_gpu.numpy.save_file({"w": data}, root / "x.lmc", method="zstd")
    work = {
        "compress": lambda: [lmc_gpu.compress(data, threads=1) for _ in range(50)],
        "decompress": lambda: [lmc_gpu.decompress(packed, threads=1) for _ in range(50)],
        "save_file": lambda: save(50),
        "verify": lambda: [lmc_gpu.verify(root / "x.lmc", threads=1) for _ in range(50)],
    }[what]
    def save(times):
        for _ in range(times):
            lmc_gpu.numpy.save_file({"w": data}, root / "y.lmc")
            (root / "y.lmc").unlink()
    sent = []
    def interrupt():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        work()
        print("finished")
    except KeyboardInterrupt:
        print(time.monotonic() - sent[0])
"""


@pytest.mark.parametrize("what", ["compress", "decompress", "save_file", "verify"])
def test_ctrl_c_stops_long_work_and_leaves_nothing(tmp_path, what):
    before = {"x.lmc"} if what == "verify" else set()
    took = float(python(INTERRUPTED, what, tmp_path))
    assert {p.name for p in tmp_path.iterdir()} - {"y.lmc"} == before
    print(f"{what}: {took:.3f} s")


def test_ctrl_c_ends_a_wait_for_a_ticket(tmp_path):
    code = """
        import os, signal, sys, threading, time, numpy as np, lmc_gpu
        c = lmc_gpu.Checkpointer(sys.argv[1], method="max", threads=1)
        t = c.save(1, {"w": np.random.default_rng(0).normal(size=32 << 20)})
        threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            t.wait()
        except KeyboardInterrupt:
            c.close(abandon=True)
            print(lmc_gpu.Store(sys.argv[1]).steps())
    """
    assert python(code, tmp_path / "run").strip() == "[]"


def test_other_threads_go_on_while_coding(weights):
    data = np.concatenate([weights] * 16)
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        packed = lmc_gpu.compress(data, method="max", threads=1)
        assert counted[0] > before + 10
        before = counted[0]
        for _ in range(5):
            lmc_gpu.decompress(packed, threads=1)
        assert counted[0] > before + 10
    finally:
        stop.set()
        thread.join()


def test_threads_code_at_the_same_time(weights):
    results = {}

    def work(i):
        data = weights * (i + 1)
        results[i] = lmc_gpu.decompress(lmc_gpu.compress(data)) == data.tobytes()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(8), True)


def kept_threads():
    """Workers of this process that wait for work, by their numbers."""
    names = {}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as comm:
                names[task] = comm.read().strip()
        except FileNotFoundError:
            pass
    return {task for task, name in names.items() if re.fullmatch(r"lmc-\d+", name)}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_the_next_call_has_the_threads_of_the_one_before():
    code = """
        import sys, time
        sys.path.insert(0, sys.argv[1])
        import lmc_gpu, numpy as np
        from test_process import kept_threads
        data = np.random.default_rng(1).normal(size=1 << 22).astype(np.float32)
        first = lmc_gpu.compress(data, threads=3)
        before = kept_threads()
        assert len(before) == 3, before
        assert lmc_gpu.compress(data, threads=3) == first
        assert lmc_gpu.decompress(first, threads=3) == data.tobytes()
        assert kept_threads() == before
        # Threads of a few numbers are kept, not of all.
        for n in range(1, 12):
            assert lmc_gpu.compress(data, threads=n) == first
        until = time.monotonic() + 60
        while len(kept_threads()) > 4 * 11 and time.monotonic() < until:
            time.sleep(0.01)
        assert len(kept_threads()) <= 4 * 11
    """
    python(code, os.path.dirname(__file__))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_work_can_work(tmp_path, weights):
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / "a").write_bytes(b"a")
    (directory / "b").write_bytes(b"b")
    lmc_gpu.compress_file(directory, tmp_path / "d.lmc")
    lmc_gpu.decompress_file(tmp_path / "d.lmc", tmp_path / "before")
    packed = lmc_gpu.compress(weights)
    children = []
    for i in range(3):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                assert lmc_gpu.decompress(packed) == weights.tobytes()
                assert lmc_gpu.compress(weights) == packed
                lmc_gpu.decompress_file(tmp_path / "d.lmc", tmp_path / f"after{i}")
                with lmc_gpu.Checkpointer(tmp_path / f"run{i}") as checkpointer:
                    checkpointer.save(1, {"w": weights}).wait()
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0


def test_a_program_that_ends_without_closing_loses_no_save(tmp_path):
    code = """
        import sys, numpy as np, lmc_gpu
        c = lmc_gpu.Checkpointer(sys.argv[1], method="max", threads=1)
        for step in range(1, 4):
            c.save(step, {"w": np.random.default_rng(step).normal(size=1 << 20)})
    """
    python(code, tmp_path / "run")
    assert lmc_gpu.Store(tmp_path / "run").steps() == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_checkpointer_is_not_taken_through_a_fork(tmp_path):
    checkpointer = lmc_gpu.Checkpointer(tmp_path / "run")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            checkpointer.save(1, {})
        except RuntimeError as error:
            code = 0 if "process" in str(error) else 1
            del checkpointer
            gc.collect()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    checkpointer.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_data_loader_read_archives(archive):
    torch = package("torch")

    class Rows(torch.utils.data.Dataset):
        def __init__(self, path):
            self.file = lmc_gpu.safe_open(path, "pt")

        def __len__(self):
            return 64

        def __getitem__(self, i):
            return self.file.get_slice("a")[i]

    path, tensors = archive
    rows = torch.utils.data.DataLoader(Rows(path), batch_size=8, num_workers=2)
    assert np.array_equal(torch.cat(list(rows)).numpy(), tensors["a"][:64])


def test_a_buffer_that_is_lent_cannot_be_resized(weights):
    data = bytearray(weights.tobytes() * 8)
    held = []

    def resize(n):
        if not held:
            with pytest.raises(BufferError):
                data.append(0)
            held.append(True)

    lmc_gpu.compress(data, progress=resize)
    assert held
    data.append(0)


def test_what_is_lent_is_given_back(weights, archive):
    def references(work):
        data = weights.copy()
        before = sys.getrefcount(data)
        try:
            work(data)
        except lmc_gpu.LmcError:
            pass
        return sys.getrefcount(data) - before

    path = archive[0].with_name("z.lmc")
    assert references(lmc_gpu.compress) == 0
    assert references(lmc_gpu.decompress) == 0
    assert references(lambda d: lmc_gpu.compress(d, base=d)) == 0
    assert references(lambda d: lmc_gpu.decompress(b"bad", out=d)) == 0
    assert references(lambda d: lmc_gpu.numpy.save_file({"w": d}, path)) == 0


PEAK = """
    import sys, threading, time
    import numpy as np
    import lmc_gpu, lmc_gpu.numpy
    MIB = 1 << 20
    def rss():
        return int(open("/proc/self/statm").read().split()[1]) * 4096
    def peak(work):
        stop, most = threading.Event(), [0]
        def watch():
            while not stop.is_set():
                most[0] = max(most[0], rss())
                time.sleep(0.001)
        thread = threading.Thread(target=watch)
        thread.start()
        before = rss()
        result = work()
        stop.set()
        thread.join()
        return (most[0] - before) // MIB, result
    path = sys.argv[1]
    small = np.ones(1 << 16, np.float32)
    lmc_gpu.decompress(lmc_gpu.compress(small))
    data = np.random.default_rng(0).normal(size=64 << 20).astype(np.float32)
    data = np.ascontiguousarray(data)
    size = data.nbytes // MIB
    save, _ = peak(lambda: lmc_gpu.numpy.save_file({"w": data, "v": data}, path))
    load, found = peak(lambda: lmc_gpu.numpy.load_file(path))
    del found
    pack, packed = peak(lambda: lmc_gpu.compress(data))
    out = np.zeros_like(data)
    into, _ = peak(lambda: lmc_gpu.decompress(packed, out=out))
    unpack, _ = peak(lambda: lmc_gpu.decompress(packed))
    print(size, save, load, pack, len(packed) // MIB, into, unpack)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc here")
def test_tensors_are_not_copied(tmp_path):
    numbers = python(PEAK, tmp_path / "x.lmc").split()
    size, save, load, pack, packed, into, unpack = map(int, numbers)
    room = 64
    assert size == 256
    assert save < room, "saving reads tensors where they are"
    assert load < 2 * size + room, "loading takes the memory of the tensors"
    assert pack < packed + room, "compressing takes the memory of the archive"
    assert into < room, "decompressing into memory takes none"
    assert unpack < size + room, "decompressing takes the memory of the file"


def test_python_allocates_no_copies(tmp_path, weights):
    import tracemalloc

    data = np.concatenate([weights] * 8)
    path = tmp_path / "x.lmc"
    lmc_gpu.numpy.save_file({"w": weights}, path)
    tracemalloc.start()
    try:
        lmc_gpu.numpy.save_file({"w": data}, path)
        assert tracemalloc.get_traced_memory()[1] < data.nbytes / 8
        tracemalloc.reset_peak()
        lmc_gpu.numpy.load_file(path)
        assert tracemalloc.get_traced_memory()[1] < 1.2 * data.nbytes
    finally:
        tracemalloc.stop()
