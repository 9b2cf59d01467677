"""Distributed checkpoints of torch: what one process does, and programs of several."""

import io
import os
import pathlib
import pickle
import subprocess
import sys

import lmc_gpu
import pytest
from conftest import package

torch = package("torch")

import torch.distributed.checkpoint as dcp
from lmc_gpu.torch.dcp import (
    LmcExtension,
    LmcReader,
    LmcWriter,
    SafeLoadPlanner,
    bases,
    read_metadata,
    registry,
    to_torch_save,
)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def state():
    torch.manual_seed(0)
    return {
        "model": {"w": torch.randn(600, 500) * 0.02, "b": torch.randn(500).to(torch.bfloat16)},
        "optim": {"state": {"w": {"exp_avg": torch.randn(600, 500), "step": torch.tensor(3.0)}}},
        "step": 7,
        "schedule": {"lr": [0.1, None], "name": "x"},
    }


def emptied(state):
    if isinstance(state, dict):
        return {k: emptied(v) for k, v in state.items()}
    return torch.zeros_like(state) if isinstance(state, torch.Tensor) else None


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return a == b


def load(path, state, **options):
    found = emptied(state)
    found["schedule"] = {"lr": [None, None], "name": None}
    dcp.load(found, storage_reader=LmcReader(path), **options)
    return found


@pytest.mark.parametrize("program", ["series", "killed", "extension"])
def test_programs_of_several_processes_end_well(tmp_path, program):
    beside = pathlib.Path(__file__).with_name("ranks.py")
    done = subprocess.run(
        [sys.executable, str(beside), program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr


def test_a_delta_is_small_needs_its_base_and_says_so(tmp_path, state):
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "1"))
    state["model"]["w"][3] += 1
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "2", base=tmp_path / "1"))
    size = lambda step: sum(f.stat().st_size for f in (tmp_path / step).glob("*.lmc"))
    assert size("2") < 0.05 * size("1")
    assert same(load(tmp_path / "2", state), state)
    assert bases(tmp_path / "2") == [str(tmp_path / "1")] and bases(tmp_path / "1") == []
    # Both may move together.
    (tmp_path / "elsewhere").mkdir()
    for step in ("1", "2"):
        (tmp_path / step).rename(tmp_path / "elsewhere" / step)
    assert same(load(tmp_path / "elsewhere" / "2", state), state)
    (tmp_path / "elsewhere" / "1").rename(tmp_path / "gone")
    with pytest.raises(dcp.CheckpointException, match="which is not there"):
        load(tmp_path / "elsewhere" / "2", state)


def test_a_chain_of_deltas_is_followed_to_its_end(tmp_path, state):
    for step in range(1, 6):
        base = tmp_path / str(step - 1) if step > 1 else None
        state["model"]["w"][step] -= 0.5
        state["step"] += 1
        dcp.save(state, storage_writer=LmcWriter(tmp_path / str(step), base=base))
    assert same(load(tmp_path / "5", state), state)
    assert len(bases(tmp_path / "5")) == 4


def test_a_checkpoint_is_neither_overwritten_unasked_nor_a_delta_to_itself(tmp_path, state):
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "1"))
    with pytest.raises(dcp.CheckpointException, match="already exists"):
        dcp.save(state, storage_writer=LmcWriter(tmp_path / "1"))
    with pytest.raises(dcp.CheckpointException, match="delta to itself"):
        dcp.save(state, storage_writer=LmcWriter(tmp_path / "1", base=tmp_path / "1"))
    with pytest.raises(dcp.CheckpointException, match="is no checkpoint"):
        dcp.save(state, storage_writer=LmcWriter(tmp_path / "2", base=tmp_path / "none"))
    with pytest.raises(lmc_gpu.ArgumentError, match="no method"):
        LmcWriter(tmp_path / "2", method="bets")
    # A delta stays what it is when its base is replaced.
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "2", base=tmp_path / "1"))
    other = {**state, "step": 9}
    dcp.save(other, storage_writer=LmcWriter(tmp_path / "1", overwrite=True))
    assert same(load(tmp_path / "1", state), other) and same(load(tmp_path / "2", state), state)


def test_only_the_rows_that_are_asked_for_are_decoded(tmp_path):
    from lmc_gpu.torch.dcp._archives import Archives

    state = {"w": torch.randn(4000, 1000)}
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "1"))
    (file,) = (tmp_path / "1").glob("*.lmc")
    data = bytearray(file.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    file.write_bytes(data)
    archives = Archives(tmp_path / "1")
    (info,) = archives.metadata.storage_data.values()
    part = archives.part(info, torch.float32, (4000, 1000))
    assert torch.equal(part.read((100, 200), (50, 3)), state["w"][100:150, 200:203])
    with pytest.raises(dcp.CheckpointException, match="chunk") as caught:
        dcp.load({"w": torch.zeros(4000, 1000)}, storage_reader=LmcReader(tmp_path / "1"))
    error = caught.value.failures[0][0]
    assert isinstance(error, lmc_gpu.CorruptError) and error.tensor == "w"


def test_the_extension_compresses_tensors_as_what_they_are(tmp_path, state):
    state["model"]["w"] = state["model"]["w"].to(torch.bfloat16)
    for name, extensions in (("raw", None), ("lmc", [LmcExtension()])):
        writer = dcp.FileSystemWriter(tmp_path / name, _extensions=extensions)
        dcp.save(state, storage_writer=writer)
    size = lambda name: sum(f.stat().st_size for f in (tmp_path / name).glob("*.distcp"))
    assert size("lmc") < 0.9 * size("raw")
    for reader in (
        dcp.FileSystemReader(tmp_path / "lmc", _extension_registry=registry()),
        LmcReader(tmp_path / "lmc"),
        LmcReader(tmp_path / "raw"),
    ):
        found = emptied(state)
        found["schedule"] = {"lr": [None, None], "name": None}
        dcp.load(found, storage_reader=reader)
        assert same(found, state)
    with pytest.raises(ValueError, match="stream.lmc/2"):
        registry().from_descriptor_list(["stream.lmc/2"])


def test_the_reader_of_an_extension_can_seek():
    out = io.BytesIO()
    data = os.urandom(100_000) + bytes(100_000)
    stream = LmcExtension().transform_to(out)
    stream.write(data[:70_000])
    stream.write(data[70_000:])
    out.close = lambda: None
    stream.close()
    stream.close()
    out.seek(0)
    found = LmcExtension().transform_from(out)
    assert found.seekable() and found.seek(-5, 2) == 199_995 and found.read() == bytes(5)
    assert found.seek(1234) == 1234 and found.read(50_000) == data[1234:51_234]
    assert found.seek(0) == 0 and found.read(-1) == data


def test_a_checkpoint_becomes_a_file_of_torch(tmp_path, state):
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "1"))
    to_torch_save(tmp_path / "1", tmp_path / "x.pt")
    assert same(torch.load(tmp_path / "x.pt"), state)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


class Attribute:
    """A pickle that changes an attribute of a function."""

    def __reduce__(self):
        return torch.serialization._get_layout, ("torch.strided",), {"a": 1}


@pytest.mark.parametrize("what", [Evil(), Attribute(), os.system, b"", 7])
def test_the_metadata_runs_no_code(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".metadata").write_bytes(what if what == b"" else pickle.dumps(what))
    with pytest.raises(lmc_gpu.LmcError, match="metadata") as caught:
        read_metadata(tmp_path)
    assert caught.value.file is None or caught.value.file.endswith(".metadata")
    assert not (tmp_path / "evil").exists()


def test_cut_and_changed_metadata_is_an_error(tmp_path, state):
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "1"))
    file = tmp_path / "1" / ".metadata"
    whole = file.read_bytes()
    for n in range(0, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:n])
        with pytest.raises(lmc_gpu.LmcError):
            read_metadata(tmp_path / "1")
    with pytest.raises(lmc_gpu.MissingFileError, match="not finished"):
        read_metadata(tmp_path)


def test_objects_run_no_code_with_the_safe_planner(tmp_path, state, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "1"))
    assert same(load(tmp_path / "1", state, planner=SafeLoadPlanner()), state)
    state["evil"] = Evil()
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "2"))
    with pytest.raises(dcp.CheckpointException, match="more than tensors"):
        load(tmp_path / "2", state, planner=SafeLoadPlanner())
    with pytest.raises(lmc_gpu.UnsupportedError, match="more than tensors"):
        to_torch_save(tmp_path / "2", tmp_path / "x.pt")
    assert not (tmp_path / "evil").exists() and not (tmp_path / "x.pt").exists()


def test_an_old_torch_is_refused_by_name(monkeypatch):
    from lmc_gpu._versions import require

    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    with pytest.raises(ImportError, match=r"needs torch 2\.7 or later, and 2\.5\.1\+cpu is inst"):
        require("torch", "2.7")
    with pytest.raises(ModuleNotFoundError, match="pip install 'nowhere>=1'"):
        require("nowhere", "1")


def test_moments_and_masters_stand_beside_their_weights(tmp_path):
    torch.manual_seed(0)
    master = torch.randn(100, 200)
    state = {
        "model": {"w": master.to(torch.bfloat16)},
        "master": {"w": master},
        "optim": {"state": {"w": {"exp_avg": master * 0.1, "exp_avg_sq": master**2 * 0.01}}},
    }
    dcp.save(state, storage_writer=LmcWriter(tmp_path / "1"))
    (file,) = (tmp_path / "1").glob("*.lmc")
    names = {(s["file"], s["name"]) for s in lmc_gpu.inspect(file)["spans"] if s["name"]}
    kinds = ("model", "master", "exp_avg", "exp_avg_sq")
    assert names == {(f"{kind}.safetensors", "w") for kind in kinds}
    # The narrow copy is the rounding of the wide one, and takes nothing.
    found = {s["file"]: s["stored_bytes"] for s in lmc_gpu.inspect(file)["spans"] if s["name"]}
    assert found["model.safetensors"] < 0.01 * state["model"]["w"].nbytes


def test_a_gathered_base_reads_every_small_tensor_once(tmp_path, monkeypatch):
    from lmc_gpu.torch.dcp import _base
    from lmc_gpu.torch.dcp._archives import Archives

    monkeypatch.setattr(_base, "_ENOUGH", 2)
    calls = []
    gather = Archives.gather
    monkeypatch.setattr(Archives, "gather", lambda s, i: calls.append(i.fqn) or gather(s, i))
    state = {f"w{i}": torch.randn(20, 10) for i in range(200)}
    for step in (1, 2, 3):
        base = tmp_path / str(step - 1) if step > 1 else None
        dcp.save(state, storage_writer=LmcWriter(tmp_path / str(step), base=base))
        state["w7"][step] += 1
    state["w7"][3] -= 1
    assert read_metadata(tmp_path / "3").lmc_bases
    assert all("gathered" in r for r in read_metadata(tmp_path / "3").lmc_bases.values())
    found = {k: torch.zeros_like(v) for k, v in state.items()}
    calls.clear()
    dcp.load(found, storage_reader=LmcReader(tmp_path / "3"))
    assert all(torch.allclose(found[k], v) for k, v in state.items())
    # Once for each of the two links.
    assert len(calls) <= 2 * len(state)
