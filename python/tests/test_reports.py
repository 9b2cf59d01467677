"""What the library says of its work: one form of it, whoever asks."""

import json

import pytest

import lmc_gpu
from lmc_gpu import _native


@pytest.mark.skipif(not hasattr(_native, "command"), reason="built without the command")
def test_dictionaries_are_what_the_command_prints(tmp_path, capfd):
    def told(*args):
        capfd.readouterr()
        assert _native.command(["lmc-gpu", *map(str, args), "--json"]) == 0
        return json.loads(capfd.readouterr().out)

    source, run = tmp_path / "weights", tmp_path / "run"
    source.write_bytes(bytes(range(256)) * 100)
    store = lmc_gpu.Store(run, create=True)
    store.save(source, 1)
    saved = store.save(source, 2)
    assert saved["kind"] == "delta" and saved["chain"] == [1]
    assert saved["waited_seconds"] >= 0
    assert store.records() == told("store", "list", run)["steps"]
    assert store.stats() == told("store", "stats", run)
    assert store.verify() == told("store", "verify", run)
    for path in (source, run / "steps" / "0000000001.lmc"):
        assert lmc_gpu.inspect(path) == told("inspect", path)

    again = told("compress", source, "-o", tmp_path / "a.lmc")
    made = lmc_gpu.compress_file(source, tmp_path / "b.lmc")
    assert made.keys() <= again.keys()
    same = ("input_bytes", "output_bytes", "ratio", "files", "spans", "notes")
    assert [made[key] for key in same] == [again[key] for key in same]


def test_the_place_of_an_error_comes_from_the_library(tmp_path):
    path = tmp_path / "a.lmc"
    archive = bytearray(lmc_gpu.compress(bytes(range(256)) * 4000))
    archive[len(archive) // 2] ^= 1
    path.write_bytes(archive)
    with pytest.raises(lmc_gpu.CorruptError) as caught:
        lmc_gpu.verify(path)
    assert caught.value.chunk is not None
    assert caught.value.tensor is None
