"""Tensors of torch, beside safetensors."""

import collections
import warnings

import numpy as np
import pytest
from conftest import package

torch = package("torch")

import lmc_gpu
import lmc_gpu.torch as lt

TYPES = """bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64
    complex64 float8_e4m3fn float8_e5m2 float8_e8m0fnu float8_e4m3fnuz float8_e5m2fnuz""".split()


def raw(dtype, shape, seed=0):
    n = int(np.prod(shape)) * dtype.itemsize
    if n == 0:
        return torch.empty(shape, dtype=dtype)
    high = 2 if dtype == torch.bool else 256
    data = np.random.default_rng(seed).integers(0, high, n, np.uint8)
    return torch.from_numpy(data).view(dtype).reshape(shape)


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same(a, b):
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert torch.equal(bits(a), bits(b))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors.lmc"


@pytest.mark.parametrize("shape", [(), (0,), (4, 0), (7,), (3, 5), (2, 3, 4)])
def test_every_type_and_shape_comes_back(path, shape):
    tensors = {name: raw(getattr(torch, name), shape) for name in TYPES}
    lt.save_file(tensors, path)
    packed = lt.save_bytes(tensors)
    for found in (lt.load_file(path), lt.load_bytes(packed)):
        assert found.keys() == tensors.keys()
        for name in tensors:
            same(found[name], tensors[name])
    with lmc_gpu.safe_open(path, "pt") as f:
        for name in tensors:
            same(f.get_tensor(name), tensors[name])
            if shape == (3, 5):
                same(f.get_slice(name)[1:, 2:4], tensors[name][1:, 2:4])


def test_packed_fours_come_back(path):
    tensor = raw(torch.uint8, (6, 8)).view(torch.float4_e2m1fn_x2)
    lt.save_file({"f": tensor}, path)
    with lmc_gpu.safe_open(path, "pt") as f:
        found = f.get_tensor("f")
        assert f.get_slice("f").get_shape() == [6, 16]
    assert found.dtype == tensor.dtype and found.shape == tensor.shape
    assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))


def test_the_file_inside_is_the_one_that_safetensors_reads(tmp_path, path):
    st = package("safetensors.torch")
    tensors = {n: raw(getattr(torch, n), (16, 5)) for n in TYPES[:15]}
    lt.save_file(tensors, path, {"format": "pt"})
    lmc_gpu.decompress_file(path)
    found = st.load_file(tmp_path / "x.safetensors")
    for name in tensors:
        same(found[name], tensors[name])
    st.save_file(tensors, tmp_path / "raw.safetensors")
    for name, tensor in lt.load_file(tmp_path / "raw.safetensors").items():
        same(tensor, tensors[name])


def refusals():
    shared = torch.ones(10)
    yield "no dictionary", [torch.ones(2)]
    yield "no tensor", {"a": 3}
    yield "not contiguous", {"a": torch.ones(3, 4).t()}
    yield "sparse", {"a": torch.eye(3).to_sparse()}
    yield "meta", {"a": torch.ones(3, device="meta")}
    yield "shared", {"a": shared, "b": shared}
    yield "overlapping", {"a": shared[:6], "b": shared[4:]}


@pytest.mark.parametrize("what, tensors", list(refusals()))
def test_what_safetensors_refuses_is_refused_with_the_same_kind_of_error(path, what, tensors):
    st = package("safetensors.torch")
    with pytest.raises(Exception) as theirs:
        st.save_file(tensors, path)
    with pytest.raises((ValueError, RuntimeError)) as ours:
        lt.save_file(tensors, path)
    if what != "meta":
        assert isinstance(ours.value, (type(theirs.value), RuntimeError))
    assert not path.exists()


def test_neighbours_in_one_storage_are_no_shared_tensors(path):
    whole = torch.arange(10.0)
    lt.save_file({"a": whole[:5], "b": whole[5:]}, path)
    found = lt.load_file(path)
    same(found["a"], whole[:5])
    same(found["b"], whole[5:])


def test_quantized_and_wrapped_tensors_and_wide_complex_numbers_are_refused(path):
    with warnings.catch_warnings(action="ignore"):
        quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    with pytest.raises(lmc_gpu.UnsupportedError, match='tensor "q" is quantized'):
        lt.save_file({"q": quantized}, path)
    with pytest.raises(lmc_gpu.UnsupportedError, match="complex128"):
        lt.save_file({"c": torch.ones(2, dtype=torch.complex128)}, path)

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(tensors, context, size, stride):
            return Wrapper(tensors["inner"])

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError

    with pytest.raises(lmc_gpu.UnsupportedError, match="Wrapper, which is made of other tensors"):
        lt.save_file({"w": Wrapper(torch.ones(2))}, path)


def test_parameters_conjugates_and_gradients_are_saved_as_their_values(path):
    z = torch.view_as_complex(torch.arange(8.0).reshape(4, 2))
    tensors = {
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "grad": torch.ones(2, requires_grad=True) * 2,
        "conj": z.conj(),
        "neg": z.conj().imag.contiguous(),
    }
    lt.save_file(tensors, path)
    found = lt.load_file(path)
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)
        assert type(found[name]) is torch.Tensor and not found[name].requires_grad


def test_tied_models_are_saved_once_and_loaded_whole(path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(8, 8)
            self.b = torch.nn.Linear(8, 8)
            self.b.weight = self.a.weight
            self.norm = torch.nn.BatchNorm1d(8)

    one, two = Tied(), Tied()
    lt.save_model(one, path, {"mine": "yes"})
    with lmc_gpu.safe_open(path) as f:
        assert f.metadata() == {"mine": "yes", "b.weight": "a.weight"}
        assert "b.weight" not in f.keys()
    assert lt.load_model(two, path) == (set(), [])
    for name, tensor in one.state_dict().items():
        same(two.state_dict()[name], tensor)
    st = package("safetensors.torch")
    lmc_gpu.decompress_file(path)
    three = Tied()
    st.load_model(three, str(path)[:-4])
    same(three.a.weight.data, one.a.weight.data)


def test_load_model_tells_missing_and_unexpected_names(path):
    lt.save_model(torch.nn.Linear(3, 3), path)
    other = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with pytest.raises(RuntimeError, match="Missing key.*0.bias.*\n.*Unexpected"):
        lt.load_model(other, path)
    missing, unexpected = lt.load_model(other, path, strict=False)
    assert missing == {"0.bias", "0.weight"} and sorted(unexpected) == ["bias", "weight"]


def test_save_and_load_take_what_torch_save_takes(tmp_path):
    w = torch.randn(1000)
    state = {
        "model": collections.OrderedDict(w=w, view=w[:10]),
        "step": 3,
        "nested": [1, (2.5, None, "x"), {"t": torch.ones(2, dtype=torch.bfloat16)}],
    }
    path = tmp_path / "state.pt.lmc"
    lt.save(state, path)
    found = lt.load(path)
    assert found["step"] == 3 and found["nested"][1] == (2.5, None, "x")
    same(found["model"]["w"], w)
    found["model"]["w"][0] = 5
    assert found["model"]["view"][0] == 5
    torch.save(state, tmp_path / "raw.pt")
    same(lt.load(tmp_path / "raw.pt")["model"]["w"], w)
    lmc_gpu.decompress_file(path)
    same(torch.load(tmp_path / "state.pt")["model"]["w"], w)
    with lmc_gpu.safe_open(path, "pt") as f:
        same(f.get_tensor("model.w"), w)


def test_load_runs_no_code_unless_it_is_asked_to(tmp_path):
    path = tmp_path / "x.lmc"
    lt.save({"f": np.testing.assert_equal}, path)
    with pytest.raises(Exception, match="[Ww]eights"):
        lt.load(path)
    assert lt.load(path, weights_only=False)["f"] is np.testing.assert_equal


def test_a_saved_state_can_be_a_delta(tmp_path):
    w = torch.randn(100_000)
    one, two = tmp_path / "1.pt.lmc", tmp_path / "2.pt.lmc"
    lt.save({"w": w}, one)
    v = w.clone()
    v[::100] += 1e-3
    lt.save({"w": v}, two, base=one)
    assert two.stat().st_size < one.stat().st_size / 2
    same(lt.load(two)["w"], v)


def test_tensors_are_compressed_without_numpy_types_in_between():
    for name in ("bfloat16", "float8_e5m2", "float32"):
        tensor = raw(getattr(torch, name), (1000,))
        packed = lmc_gpu.compress(tensor)
        out = torch.empty_like(tensor)
        assert lmc_gpu.decompress(packed, out=out) is out
        same(out, tensor)
    strided = torch.arange(100.0).reshape(10, 10).t()
    assert lmc_gpu.decompress(lmc_gpu.compress(strided)) == bits(strided).numpy().tobytes()


def test_what_exports_dlpack_is_read():
    class Exporter:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    tensor = torch.arange(1000.0)
    assert lmc_gpu.decompress(lmc_gpu.compress(Exporter(tensor))) == tensor.numpy().tobytes()


def test_loading_onto_a_device(path):
    lt.save_file({"a": torch.ones(4)}, path)
    assert lt.load_file(path, device="meta")["a"].device.type == "meta"
    assert lmc_gpu.safe_open(path, "pt", device="meta").get_tensor("a").device.type == "meta"
