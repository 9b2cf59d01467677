"""Deltas on disk as slime and miles write them. What writes them here is written anew from what
slime's `update_weight_from_disk_delta.py` does, with the same packages."""

import json
import zlib

import lmc_gpu
import numpy as np
import pytest
from conftest import package
from lmc_gpu.sync import DiskDelta, read_disk_delta

zstandard = package("zstandard")
safetensors = package("safetensors.numpy")


def weights():
    rng = np.random.default_rng(0)
    return {
        "w": rng.normal(0, 0.02, (300, 200)).astype(np.float32),
        "h": rng.normal(0, 1, 1000).astype(np.float16),
        "same": np.arange(10),
    }


def changed(old, seed):
    new = {k: v.copy() for k, v in old.items()}
    new["w"].reshape(-1)[seed::400] += 1e-3
    new["h"][seed] += 1
    return new


def theirs(path, version, old, new, encoding):
    """What slime writes."""
    folder = path / f"weight_v{version:06d}"
    folder.mkdir(parents=True)
    delta, sums = {}, {}
    for name in new:
        a, b = old[name].reshape(-1).view(np.uint8), new[name].reshape(-1).view(np.uint8)
        mask = a != b
        if not mask.any():
            continue
        if encoding == "xor":
            diff = a ^ b
        else:
            at = np.flatnonzero(mask).astype("<u4")
            count = np.array([at.size], "<u4").view(np.uint8)
            diff = np.concatenate([count, at.view(np.uint8), b[mask]])
        packed = zstandard.ZstdCompressor(level=1).compress(diff)
        delta[name] = np.frombuffer(packed, np.uint8)
        sums[name] = f"{zlib.adler32(b):08x}"
    file = "model-00000-of-00001.safetensors"
    (folder / file).write_bytes(safetensors.save(delta, metadata=sums))
    about = {
        "version": f"{version:06d}",
        "base_version": f"{version - 1:06d}",
        "delta_encoding": encoding,
        "compression_format": "zstd",
        "checksum_format": "adler32",
    }
    index = {"metadata": about, "weight_map": {name: file for name in delta}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def same(a, b):
    return all(a[k].tobytes() == b[k].tobytes() for k in a)


@pytest.mark.parametrize("encoding", ["xor", "overwrite"])
def test_both_sides_write_the_same_files_and_read_them(tmp_path, encoding):
    old = weights()
    mine = {k: v.copy() for k, v in old.items()}
    writer = DiskDelta(tmp_path / "ours", old, encoding=encoding)
    for version in range(1, 4):
        new = changed(old, version)
        expected = theirs(tmp_path / "theirs", version, old, new, encoding)
        path = writer.write(new)
        assert path.endswith(f"weight_v{version:06d}")
        for file in sorted(p.name for p in expected.iterdir()):
            ours, other = (tmp_path / "ours" / expected.name / file), expected / file
            if file.endswith(".json"):
                assert json.loads(ours.read_text()) == json.loads(other.read_text())
            else:
                a, b = safetensors.load(ours.read_bytes()), safetensors.load(other.read_bytes())
                assert a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)
        found = read_disk_delta(expected if version % 2 else path, mine, base_version=version - 1)
        assert found == (version, ["h", "w"]) and same(mine, new)
        old = new
    writer.write(old)
    assert read_disk_delta(tmp_path / "ours" / "weight_v000004", mine) == (4, [])


def test_a_wrong_base_and_damage_change_nothing(tmp_path):
    old = weights()
    for encoding in ("xor", "overwrite"):
        new = changed(old, 1)
        folder = theirs(tmp_path / encoding, 1, old, new, encoding)
        mine = {k: v.copy() for k, v in old.items()}
        with pytest.raises(lmc_gpu.BaseMismatchError, match="to version 0, not to 4"):
            read_disk_delta(folder, mine, base_version=4)
        mine["w"][5, 5] += 1
        before = {k: v.copy() for k, v in mine.items()}
        with pytest.raises(lmc_gpu.BaseMismatchError, match='"w" does not come out'):
            read_disk_delta(folder, mine)
        assert same(mine, before)
        mine["w"][5, 5] = old["w"][5, 5]
        (file,) = folder.glob("*.safetensors")
        whole = file.read_bytes()
        for at in range(8, len(whole), 97):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
            try:
                read_disk_delta(folder, mine)
            except lmc_gpu.LmcError:
                assert same(mine, old)
            else:
                # A byte that says nothing, such as a space.
                assert same(mine, new)
                mine = {k: v.copy() for k, v in old.items()}
        file.write_bytes(whole)
        index = folder / "model.safetensors.index.json"
        told = json.loads(index.read_text())
        for bad in (
            {},
            {**told, "weight_map": {"w": "../x.safetensors"}},
            {**told, "weight_map": {"w": told["weight_map"]["w"]}},
            {**told, "metadata": {**told["metadata"], "delta_encoding": "and"}},
            {**told, "metadata": {**told["metadata"], "checksum_format": "crc"}},
        ):
            index.write_text(json.dumps(bad))
            with pytest.raises(lmc_gpu.LmcError):
                read_disk_delta(folder, mine)
        index.unlink()
        with pytest.raises(lmc_gpu.MissingFileError, match="to its end"):
            read_disk_delta(folder, mine)
        assert same(mine, old)
    with pytest.raises(lmc_gpu.ArgumentError, match="no encoding"):
        DiskDelta(tmp_path, old, encoding="and")
    with pytest.raises(lmc_gpu.ArgumentError, match="not among"):
        DiskDelta(tmp_path / "x", old).write({"other": np.zeros(3)})
