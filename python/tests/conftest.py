"""What the tests share. `LMC_REQUIRE=torch` makes it a failure where a package is not there, which
otherwise skips what needs it."""

import importlib
import os

import numpy as np
import pytest

REQUIRED = os.environ.get("LMC_REQUIRE", "").split(",")


def package(name):
    """A package that not every environment has."""
    if name in REQUIRED:
        return importlib.import_module(name)
    return pytest.importorskip(name)


@pytest.fixture(scope="session")
def weights():
    """Numbers as models have them: 1 MiB of float32."""
    return np.random.default_rng(1).normal(0, 0.02, 1 << 18).astype(np.float32)


@pytest.fixture(scope="session")
def bf16(weights):
    """The same as 16-bit words, a bfloat16 each."""
    return (weights.view(np.uint32) >> 16).astype(np.uint16)


@pytest.fixture
def archive(tmp_path, weights):
    """An archive of a safetensors file with a few tensors."""
    import lmc_gpu.numpy

    path = tmp_path / "model.safetensors.lmc"
    tensors = {"a": weights.reshape(512, 512), "b.c": weights[:1000] * 2, "empty": weights[:0]}
    lmc_gpu.numpy.save_file(tensors, path, {"step": "7"})
    return path, tensors
