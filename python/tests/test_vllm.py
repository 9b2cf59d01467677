"""The plug-in of vLLM, with stand-ins for the two names of vLLM that it uses: what they are was
read in vLLM's `model_loader/base_loader.py`, since vLLM itself does not install without a GPU."""

import abc
import json
import sys
import types

import lmc_gpu
import pytest
from conftest import package

torch = package("torch")

from lmc_gpu.torch import save_file


@pytest.fixture
def loaders(monkeypatch):
    known = {}

    class BaseModelLoader(abc.ABC):
        def __init__(self, load_config):
            self.load_config = load_config

        @abc.abstractmethod
        def download_model(self, model_config): ...

        @abc.abstractmethod
        def load_weights(self, model, model_config): ...

    def register_model_loader(name):
        return lambda cls: known.setdefault(name, cls)

    root = "vllm.model_executor.model_loader"
    for name in ("vllm", "vllm.model_executor", root, f"{root}.base_loader"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules[root].register_model_loader = register_model_loader
    sys.modules[f"{root}.base_loader"].BaseModelLoader = BaseModelLoader
    return known


def test_a_model_is_loaded_as_vllm_asks_for_it(tmp_path, loaders):
    from lmc_gpu.vllm import INDEX, register

    first = {"a.weight": torch.randn(40, 30).to(torch.bfloat16)}
    second = {"b.weight": torch.randn(7), "b.scale": torch.tensor(2.0)}
    for name, tensors in (("x", first), ("y", second)):
        save_file(tensors, tmp_path / f"{name}.safetensors.lmc")
    places = {"a.weight": "x.safetensors.lmc"} | dict.fromkeys(second, "y.safetensors.lmc")
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    register()
    config = types.SimpleNamespace(model_loader_extra_config={"threads": 1})
    loader = loaders["lmc"](config)
    got = {}
    model = types.SimpleNamespace(load_weights=lambda pairs: got.update(pairs))
    of_model = types.SimpleNamespace(model=str(tmp_path))
    loader.download_model(of_model)
    loader.load_weights(model, of_model)
    expected = first | second
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[k], t) and got[k].dtype == t.dtype for k, t in expected.items())
    with pytest.raises(ValueError, match="no options bese"):
        loaders["lmc"](types.SimpleNamespace(model_loader_extra_config={"bese": "x"}))
    with pytest.raises(lmc_gpu.MissingFileError, match="downloads nothing"):
        loader.download_model(types.SimpleNamespace(model="org/name"))
    (tmp_path / INDEX).unlink()
    with pytest.raises(lmc_gpu.MissingFileError, match="save_pretrained"):
        loader.load_weights(model, of_model)
