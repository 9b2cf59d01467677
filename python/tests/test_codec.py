"""Bytes, arrays and files, in memory and on disk."""

import array
import json
import pathlib
import subprocess
import sys

import lmc_gpu
import numpy as np
import pytest


@pytest.mark.parametrize("data", [b"", b"x", bytes(70_000), bytes(range(256)) * 999])
def test_every_kind_of_buffer_comes_back(data):
    for kind in (bytes, bytearray, memoryview, lambda d: np.frombuffer(d, np.uint8)):
        packed = lmc_gpu.compress(kind(data))
        assert type(packed) is bytes
        assert lmc_gpu.decompress(packed) == data
        assert lmc_gpu.decompress(memoryview(packed)) == data


def test_the_type_of_an_array_is_that_of_its_elements(weights, bf16):
    packed = lmc_gpu.compress(weights)
    assert len(packed) < 0.95 * weights.nbytes
    assert lmc_gpu.decompress(packed) == weights.tobytes()
    assert lmc_gpu.compress(weights.tobytes(), dtype="f32") == packed
    assert lmc_gpu.compress(weights.view(np.uint8), dtype=np.dtype("float32")) == packed
    assert len(lmc_gpu.compress(bf16, dtype="bfloat16")) < 0.75 * bf16.nbytes
    words = array.array("f", weights[:1000].tolist())
    assert lmc_gpu.decompress(lmc_gpu.compress(words)) == words.tobytes()


def test_an_array_that_is_not_contiguous_is_stored_in_the_order_of_its_elements(weights):
    square = weights.reshape(512, 512)
    for view in (square.T, square[::2], square[:, 3], square[::-1]):
        assert lmc_gpu.decompress(lmc_gpu.compress(view)) == view.tobytes()
    with pytest.raises(BufferError):
        lmc_gpu.compress(memoryview(b"abcdefgh")[::2])


def test_the_archive_does_not_depend_on_threads(weights):
    assert lmc_gpu.compress(weights, threads=1) == lmc_gpu.compress(weights, threads=3)


def test_decompress_fills_memory_of_the_caller(weights):
    packed = lmc_gpu.compress(weights)
    out = np.empty_like(weights)
    assert lmc_gpu.decompress(packed, out=out) is out
    assert out.tobytes() == weights.tobytes()
    target = bytearray(weights.nbytes)
    lmc_gpu.decompress(packed, out=memoryview(target))
    assert target == weights.tobytes()
    with pytest.raises(lmc_gpu.ArgumentError, match="the archive restores"):
        lmc_gpu.decompress(packed, out=bytearray(5))
    with pytest.raises((BufferError, TypeError)):
        lmc_gpu.decompress(packed, out=bytes(weights.nbytes))
    out.flags.writeable = False
    with pytest.raises(BufferError):
        lmc_gpu.decompress(packed, out=out)
    assert lmc_gpu.decompress(lmc_gpu.compress(b""), out=bytearray()) == b""


def test_a_delta_needs_its_base(weights, tmp_path):
    later = weights.copy()
    later[::100] *= 1.001
    full, delta = lmc_gpu.compress(later), lmc_gpu.compress(later, base=weights)
    assert len(delta) < len(full) / 3
    assert lmc_gpu.decompress(delta, base=weights) == later.tobytes()
    assert lmc_gpu.decompress(delta, base=weights.tobytes()) == later.tobytes()
    path = tmp_path / "base"
    path.write_bytes(weights.tobytes())
    assert lmc_gpu.decompress(delta, base=path) == later.tobytes()
    with pytest.raises(lmc_gpu.BaseMismatchError):
        lmc_gpu.decompress(delta)
    with pytest.raises(lmc_gpu.BaseMismatchError):
        lmc_gpu.decompress(delta, base=later)


def test_every_method_restores_and_an_unknown_one_lists_those_there_are(weights):
    for method in ("fast", "max", "raw", "rans", "cascade", "zstd", "lmc"):
        packed = lmc_gpu.compress(weights[:9999], method=method)
        assert lmc_gpu.decompress(packed) == weights[:9999].tobytes()
    with pytest.raises(ValueError, match="auto, fast, max"):
        lmc_gpu.compress(b"", method="best")
    with pytest.raises(lmc_gpu.ArgumentError, match="element type"):
        lmc_gpu.compress(b"", dtype="f31")


def test_progress_sums_up_to_the_input(weights):
    for work in (
        lambda told: lmc_gpu.compress(weights, progress=told),
        lambda told: lmc_gpu.decompress(lmc_gpu.compress(weights), progress=told),
    ):
        seen = []
        work(seen.append)
        assert sum(seen) == weights.nbytes


def test_what_progress_raises_stops_the_work(tmp_path):
    class Enough(Exception):
        pass

    def told(n):
        raise Enough

    with pytest.raises(Enough):
        lmc_gpu.compress(bytes(1 << 20), progress=told)


def test_files_and_directories_come_back(tmp_path, weights):
    source = tmp_path / "run"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "w.bin").write_bytes(weights.tobytes())
    (source / "notes.txt").write_text("hello")
    summary = lmc_gpu.compress_file(source, dtype="f32")
    assert summary["input_bytes"] == weights.nbytes + 5 and summary["files"] == 2
    packed = tmp_path / "run.lmc"
    assert lmc_gpu.verify(packed)["ok"]
    assert lmc_gpu.inspect(packed)["archive"]
    assert not lmc_gpu.inspect(source)["archive"]
    restored = lmc_gpu.decompress_file(packed, tmp_path / "again")
    assert restored["ok"] and restored["files"] == 2
    assert (tmp_path / "again" / "sub" / "w.bin").read_bytes() == weights.tobytes()
    with pytest.raises(lmc_gpu.ArgumentError, match="exists"):
        lmc_gpu.compress_file(source)
    lmc_gpu.compress_file(source, overwrite=True)
    with pytest.raises(lmc_gpu.ArgumentError, match="directory"):
        lmc_gpu.decompress(packed.read_bytes())
    with pytest.raises(ValueError, match="does not end with .lmc"):
        lmc_gpu.decompress_file(source)


def test_a_file_that_is_not_there_is_a_FileNotFoundError(tmp_path):
    for function in (lmc_gpu.compress_file, lmc_gpu.verify, lmc_gpu.inspect, lmc_gpu.safe_open):
        with pytest.raises(FileNotFoundError) as caught:
            function(tmp_path / "nothing.lmc")
        assert isinstance(caught.value, lmc_gpu.MissingFileError)
        assert caught.value.errno == 2
        assert caught.value.file == str(tmp_path / "nothing.lmc")
        assert "nothing.lmc" in str(caught.value)


def test_the_command_is_the_same_command_line(tmp_path):
    script = pathlib.Path(sys.executable).with_name("lmc-gpu")
    path = tmp_path / "weights"
    path.write_bytes(bytes(9999))

    def run(*args):
        return subprocess.run([script, *args], capture_output=True, text=True)

    assert run("compress", path).returncode == 0
    shown = run("inspect", f"{path}.lmc", "--json")
    assert json.loads(shown.stdout)["bytes"] == 9999
    assert run("compress", path).returncode == 2
    assert "Usage" in run("--help").stdout
    assert run("nonsense").returncode == 2
