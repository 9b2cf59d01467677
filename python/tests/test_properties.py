"""What holds of any tensors, by hypothesis."""

import numpy as np
from conftest import package

package("hypothesis")

import hypothesis.extra.numpy as arrays
import lmc_gpu
import lmc_gpu.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

TYPES = st.sampled_from(["?", "u1", "i1", "u2", "i2", "<f2", ">f2", "<f4", ">f4", "f8", "i8", "c8"])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
NAMES = st.text(max_size=12).filter(lambda s: s != "__metadata__" and _encodes(s))


def _encodes(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@st.composite
def tensors(draw):
    """An array of any type and shape, often a view with other strides."""
    array = draw(arrays.arrays(draw(TYPES), draw(SHAPES)))
    if array.ndim and draw(st.booleans()):
        array = array[draw(arrays.basic_indices(array.shape, allow_ellipsis=False))]
    if draw(st.booleans()):
        array = np.asarray(array).T
    return np.asarray(array)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, tensors(), max_size=5), st.dictionaries(NAMES, st.text(max_size=5)))
def test_any_tensors_come_back(state, metadata):
    metadata = {k: v for k, v in metadata.items() if _encodes(v)}
    packed = lmc_gpu.numpy.save(state, metadata)
    found = lmc_gpu.numpy.load(packed)
    assert found.keys() == state.keys()
    for name, array in state.items():
        native = array.astype(array.dtype.newbyteorder("="))
        assert found[name].dtype == native.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == native.tobytes()
    assert lmc_gpu.numpy.load(lmc_gpu.decompress(packed)).keys() == state.keys()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_slice_is_what_indexing_gives(tmp_path_factory, data):
    array = data.draw(arrays.arrays(np.int16, data.draw(SHAPES)))
    index = data.draw(arrays.basic_indices(array.shape))
    path = tmp_path_factory.mktemp("slice") / "x.lmc"
    lmc_gpu.numpy.save_file({"t": array}, path)
    found = lmc_gpu.safe_open(path).get_slice("t")[index]
    np.testing.assert_array_equal(found, array[index])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=3000), st.sampled_from([None, "u8", "bf16", "f32", "f64", "f8_e4m3"]))
def test_any_bytes_come_back(data, dtype):
    assert lmc_gpu.decompress(lmc_gpu.compress(data, dtype=dtype)) == data


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=500))
def test_bytes_that_are_no_archive_are_refused(data):
    try:
        lmc_gpu.decompress(data)
    except lmc_gpu.LmcError:
        return
    raise AssertionError("it was read")


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
)
KEYS = st.one_of(st.text(max_size=5), st.integers(), st.none())
STATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(STATES)
def test_any_state_comes_back(state):
    import json

    from lmc_gpu._pack import Packer
    from lmc_gpu._unpack import build

    tree = json.loads(json.dumps(Packer(state).walk(state, ())))
    assert build(tree, None) == state
