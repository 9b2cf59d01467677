"""Arrays of zarr, codecs of numcodecs, and open files in the place of paths."""

import io

import lmc_gpu
import lmc_gpu.numpy
import numpy as np
import pytest
from conftest import package


def arrays():
    rng = np.random.default_rng(0)
    base = rng.normal(0, 0.02, (60, 50))
    yield base.astype(np.float32)
    yield base.astype(">f4")
    yield base.astype(np.float16).T
    yield (base * 1e4).astype(np.int32)
    yield base.astype(np.complex128)
    yield base > 0
    yield np.array(["a", "bcd"])
    yield np.array("2026-01-01", dtype="datetime64[D]").reshape(1)
    yield np.empty((0, 3))
    yield np.asfortranarray(base)


def test_every_array_comes_back_from_the_codec():
    package("numcodecs")
    import numcodecs
    from lmc_gpu.numcodecs import Lmc

    for array in arrays():
        codec = numcodecs.get_codec({"id": "lmc_gpu", "method": "fast"})
        assert isinstance(codec, Lmc) and codec.get_config()["method"] == "fast"
        packed = codec.encode(array)
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        assert bytes(codec.decode(packed)) == array.tobytes(order)
        out = np.empty_like(array.T if order == "F" else array)
        codec.decode(packed, out=out)
        assert out.tobytes() == array.tobytes(order)
    floats = next(arrays())
    assert Lmc(dtype="float32").encode(floats.tobytes()) == Lmc().encode(floats)
    with pytest.raises(lmc_gpu.ArgumentError, match="no method"):
        Lmc("bets").encode(floats)


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_of_zarr_come_back(tmp_path, version):
    zarr = package("zarr")
    from lmc_gpu.numcodecs import Lmc, LmcCodec

    data = np.random.default_rng(0).normal(0, 0.02, (300, 200)).astype(np.float32)
    sizes = {}
    for name, codec in (("lmc", LmcCodec() if version == 3 else Lmc()), ("raw", None)):
        path = tmp_path / name
        made = zarr.create_array(
            path,
            shape=data.shape,
            chunks=(100, 100),
            dtype=data.dtype,
            compressors=codec,
            zarr_format=version,
        )
        made[...] = data
        sizes[name] = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
        found = zarr.open_array(path, mode="r")
        assert np.array_equal(found[...], data) and np.array_equal(
            found[5:7, 150:], data[5:7, 150:]
        )
    assert sizes["lmc"] < 0.95 * sizes["raw"]


def test_open_files_take_the_place_of_paths(tmp_path):
    tensors = {"w": np.random.default_rng(0).normal(0, 0.02, (500, 200)).astype(np.float32)}
    lmc_gpu.numpy.save_file(tensors, tmp_path / "x.safetensors.lmc")
    with open(tmp_path / "y.lmc", "wb") as file:
        lmc_gpu.numpy.save_file(tensors, file)
    for path in (tmp_path / "x.safetensors.lmc", tmp_path / "y.lmc"):
        with open(path, "rb") as file:
            assert np.array_equal(lmc_gpu.numpy.load_file(file)["w"], tensors["w"])
            with lmc_gpu.safe_open(file) as opened:
                assert np.array_equal(opened.get_slice("w")[7:9, 3], tensors["w"][7:9, 3])
    changed = {"w": tensors["w"].copy()}
    changed["w"][3] = 0
    out = io.BytesIO()
    with open(tmp_path / "x.safetensors.lmc", "rb") as base:
        lmc_gpu.numpy.save_file(changed, out, base=base)
        assert len(out.getvalue()) < 0.1 * (tmp_path / "y.lmc").stat().st_size
        found = lmc_gpu.numpy.load_file(out, base=base)
    assert np.array_equal(found["w"], changed["w"])
    packed = (tmp_path / "x.safetensors.lmc").read_bytes()
    assert np.array_equal(lmc_gpu.numpy.load(out.getvalue(), base=packed)["w"], changed["w"])


def test_only_what_is_needed_is_read_from_an_open_file():
    out = io.BytesIO()
    tensors = {"w": np.random.default_rng(0).normal(size=(4000, 1000)).astype(np.float32)}
    lmc_gpu.numpy.save_file(tensors, out)

    class Counting(io.BytesIO):
        n = 0

        def read(self, size=-1):
            data = super().read(size)
            self.n += len(data)
            return data

    file = Counting(out.getvalue())
    with lmc_gpu.safe_open(file) as opened:
        assert np.array_equal(opened.get_slice("w")[100:102], tensors["w"][100:102])
    assert file.n < 0.3 * len(out.getvalue())


def test_files_that_fail_or_cannot_seek_say_so(tmp_path):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            raise OSError("the network is down")

    with pytest.raises(lmc_gpu.StorageError, match="the network is down"):
        lmc_gpu.numpy.load_file(Failing(b"x" * 1000))

    class Stream:
        def read(self, size=-1):
            return b""

    with pytest.raises(lmc_gpu.ArgumentError, match="can seek"):
        lmc_gpu.safe_open(Stream())
    (tmp_path / "x").write_text("x")
    with open(tmp_path / "x") as file, pytest.raises(lmc_gpu.ArgumentError, match="'rb'"):
        lmc_gpu.safe_open(file)


def test_files_of_fsspec_and_of_torch():
    torch, fsspec = package("torch"), package("fsspec")
    import lmc_gpu.torch

    memory = fsspec.filesystem("memory")
    with memory.open("/x.pt.lmc", "wb") as file:
        lmc_gpu.torch.save({"w": torch.arange(5), "n": 3}, file)
    with memory.open("/x.pt.lmc", "rb") as file:
        found = lmc_gpu.torch.load(file)
    assert found["n"] == 3 and found["w"].tolist() == [0, 1, 2, 3, 4]
    with memory.open("/x.safetensors.lmc", "wb") as file:
        lmc_gpu.torch.save_file({"w": torch.arange(5)}, file)
    with memory.open("/x.safetensors.lmc", "rb") as file:
        assert lmc_gpu.torch.load_file(file)["w"].tolist() == [0, 1, 2, 3, 4]
