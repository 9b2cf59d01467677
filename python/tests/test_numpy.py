"""Arrays, beside safetensors."""

import lmc_gpu
import lmc_gpu.numpy
import numpy as np
import pytest
from conftest import package
from lmc_gpu.numpy import load, load_file, save, save_file

TYPES = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"]
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 3), (2, 3, 4, 5)])
def test_every_type_and_shape_comes_back(tmp_path, shape):
    rng = np.random.default_rng(0)
    n = int(np.prod(shape))
    tensors = {}
    for t in TYPES:
        dtype = np.dtype(t)
        raw = rng.integers(0, 2 if t == "bool" else 256, n * dtype.itemsize, np.uint8)
        tensors[t] = raw.view(dtype).reshape(shape)
    path = tmp_path / "x.safetensors.lmc"
    save_file(tensors, path)
    for found in (load_file(path), load(save(tensors))):
        assert found.keys() == tensors.keys()
        for name in tensors:
            same(found[name], tensors[name])
    with lmc_gpu.safe_open(path, "np") as f:
        for name in tensors:
            same(f.get_tensor(name), tensors[name])


def test_the_file_inside_is_the_one_that_safetensors_reads(tmp_path, weights):
    st = package("safetensors")
    st_numpy = package("safetensors.numpy")
    tensors = {"w": weights.reshape(256, -1), "n": np.arange(3), "odd": np.ones(3, np.int8)}
    path = tmp_path / "m.safetensors.lmc"
    save_file(tensors, path, metadata={"format": "np", "é": "\n"})
    lmc_gpu.decompress_file(path)
    found = st_numpy.load_file(tmp_path / "m.safetensors")
    for name in tensors:
        same(found[name], tensors[name])
    with st.safe_open(tmp_path / "m.safetensors", "np") as theirs:
        with lmc_gpu.safe_open(path, "np") as ours:
            assert theirs.metadata() == ours.metadata() == {"format": "np", "é": "\n"}
            assert sorted(theirs.keys()) == ours.keys()
            assert theirs.offset_keys() == ours.offset_keys()
            for index in INDICES:
                # Theirs knows no negative numbers, and nothing of ends before beginnings.
                if index in (-1, (..., -1), slice(-5, None), slice(9, 3)):
                    continue
                same(ours.get_slice("w")[index], theirs.get_slice("w")[index])
            assert ours.get_slice("w").get_shape() == theirs.get_slice("w").get_shape()
            assert ours.get_slice("w").get_dtype() == theirs.get_slice("w").get_dtype()


def test_a_raw_safetensors_file_is_read_as_well(tmp_path, weights):
    st = package("safetensors.numpy")
    tensors = {"w": weights.reshape(256, -1), "bytes": np.arange(3, dtype=np.uint8)}
    st.save_file(tensors, tmp_path / "m.safetensors", {"a": "b"})
    for name, array in load_file(tmp_path / "m.safetensors").items():
        same(array, tensors[name])
    with lmc_gpu.safe_open(tmp_path / "m.safetensors") as f:
        assert f.metadata() == {"a": "b"}
        same(f.get_slice("w")[3:5], tensors["w"][3:5])
    raw = st.save(tensors)
    for name, array in load(raw).items():
        same(array, tensors[name])
    assert lmc_gpu.decompress(lmc_gpu.compress(raw)) == raw


INDICES = [
    slice(None), slice(3, 9), slice(-5, None), slice(9, 3), slice(0, 0), 0, -1, ..., 
    (slice(None), 0), (slice(2, 5), slice(1, 9)), (3, slice(4, 6)), (3, 4), (..., -1),
    (slice(0, 100, 7),), (slice(None), slice(1, 50, 3)),
]  # fmt: skip


@pytest.mark.parametrize("index", [*INDICES, slice(None, None, -1), (slice(50, 2, -5), 3), ()])
def test_a_slice_is_what_indexing_gives(archive, index):
    path, tensors = archive
    found = lmc_gpu.safe_open(path).get_slice("a")[index]
    np.testing.assert_array_equal(found, tensors["a"][index])
    assert found.shape == tensors["a"][index].shape


def test_a_wrong_index_is_refused(archive):
    part = lmc_gpu.safe_open(archive[0]).get_slice("a")
    for index in (512, -513, (0, 512), (0, 0, 0), (..., ...)):
        with pytest.raises(IndexError):
            part[index]
    for index in ("x", None, 1.5, [1, 2], True):
        with pytest.raises(TypeError):
            part[index]


def test_small_floats_are_those_of_ml_dtypes(tmp_path):
    ml_dtypes = package("ml_dtypes")
    tensors = {n: np.arange(200).astype(np.uint8).view(getattr(ml_dtypes, n)) for n in SMALL[1:]}
    tensors["bfloat16"] = np.arange(300).astype(np.uint16).view(ml_dtypes.bfloat16)
    path = tmp_path / "x.lmc"
    save_file(tensors, path)
    for name, array in load_file(path).items():
        same(array, tensors[name])
    packed = lmc_gpu.compress(tensors["bfloat16"])
    assert lmc_gpu.decompress(packed) == tensors["bfloat16"].tobytes()


def test_without_ml_dtypes_small_floats_are_unsigned_integers(tmp_path, monkeypatch):
    ml_dtypes = package("ml_dtypes")
    path = tmp_path / "x.lmc"
    words = np.arange(300).astype(np.uint16)
    save_file({"b": words.view(ml_dtypes.bfloat16), "f": np.zeros(3, ml_dtypes.float8_e5m2)}, path)
    real = np.dtype

    def dtype(name):
        return real(name)

    import lmc_gpu.numpy as module

    class Numpy:
        def __getattr__(self, name):
            return getattr(np, name)

        @staticmethod
        def dtype(name):
            if name in SMALL:
                raise TypeError(name)
            return np.dtype(name)

    monkeypatch.setattr(module, "np", Numpy())
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    found = load_file(path)
    assert found["b"].dtype == np.uint16 and (found["b"] == words).all()
    assert found["f"].dtype == np.uint8


def test_orders_and_strides_of_memory_do_not_matter(tmp_path):
    grid = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    tensors = {
        "big": grid.astype(">f4"),
        "fortran": np.asfortranarray(grid),
        "every other": grid[:, ::2],
        "backwards": grid[::-1],
        "broadcast": np.broadcast_to(np.float32(3), (5, 5)),
        "scalar": np.float64(2),
    }
    path = tmp_path / "x.lmc"
    save_file(tensors, path)
    for name, array in load_file(path).items():
        np.testing.assert_array_equal(array, tensors[name])
        assert array.dtype.isnative and array.shape == np.shape(tensors[name])


def test_what_is_no_array_is_refused(tmp_path):
    path = tmp_path / "x.lmc"
    for tensors in ([1], {"a": [1, 2]}, {1: np.ones(2)}, {"a": None}):
        with pytest.raises(TypeError):
            save_file(tensors, path)
    for array in (np.array(["text"]), np.array([None]), np.array([1], "M8[s]"), np.ones(1, "c16")):
        with pytest.raises(lmc_gpu.UnsupportedError, match='tensor "a"'):
            save_file({"a": array}, path)
    with pytest.raises(TypeError, match="metadata"):
        save_file({"a": np.ones(2)}, path, {"step": 7})
    with pytest.raises(lmc_gpu.ArgumentError):
        save_file({"__metadata__": np.ones(2)}, path)
    assert not path.exists()


def test_saving_replaces_and_a_delta_refers_to_an_earlier_save(tmp_path, weights):
    one, two = tmp_path / "1.lmc", tmp_path / "2.lmc"
    later = weights.copy()
    later[::50] += 1e-3
    save_file({"w": later}, one)
    save_file({"w": weights}, one)
    save_file({"w": later}, two)
    full = two.stat().st_size
    save_file({"w": later}, two, base=one)
    assert two.stat().st_size < full / 2
    same(load_file(two, base=one)["w"], later)
    same(load_file(two)["w"], later)
    same(lmc_gpu.safe_open(two).get_slice("w")[100:200], later[100:200])
    one.unlink()
    with pytest.raises(lmc_gpu.BaseMismatchError):
        load_file(two)


def test_tensors_of_other_formats_are_read(tmp_path, weights):
    np.save(tmp_path / "w.npy", weights.reshape(512, -1).astype(">f4"))
    np.save(tmp_path / "f.npy", np.asfortranarray(weights[:35].reshape(5, 7)))
    lmc_gpu.compress_file(tmp_path, tmp_path.with_name("npy.lmc"), overwrite=True)
    with lmc_gpu.safe_open(tmp_path.with_name("npy.lmc")) as f:
        found = [f.get_tensor(k) for k in f.keys()]
        np.testing.assert_array_equal(found[1], weights.reshape(512, -1))
        np.testing.assert_array_equal(found[0], weights[:35].reshape(5, 7))
        np.testing.assert_array_equal(f.get_slice(f.keys()[1])[5:7, 3], found[1][5:7, 3])


def test_a_closed_file_and_an_unknown_framework_are_errors(archive):
    with lmc_gpu.safe_open(archive[0]) as f:
        pass
    with pytest.raises(lmc_gpu.ArgumentError, match="closed"):
        f.keys()
    with pytest.raises(lmc_gpu.ArgumentError, match="framework"):
        lmc_gpu.safe_open(archive[0], framework="abacus")
