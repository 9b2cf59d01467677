"""vLLM: `--load-format lmc` loads a model that `lmc_gpu.transformers.save_pretrained` saved.

vLLM finds this by the entry point `vllm.general_plugins` of the package. Options go into
`--model-loader-extra-config`: `base`, the directory of what the model is a delta to, and `threads`.
"""

import json
import os

from ._errors import ArgumentError, BaseMismatchError, MissingFileError
from ._open import safe_open

__all__ = ["register", "weights"]

INDEX = "model.safetensors.lmc.index.json"


def weights(directory, base=None, threads=None):
    """The names and tensors of a model, one at a time, each decoded when it is asked for."""
    directory = os.path.abspath(os.fspath(directory))
    path = os.path.join(directory, INDEX)
    if not os.path.exists(path):
        raise MissingFileError(
            f"{path} is not there: save the model with lmc_gpu.transformers.save_pretrained"
        )
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    if base is None and "base" in index["metadata"]:
        base = os.path.join(directory, index["metadata"]["base"])
    for name in sorted(set(index["weight_map"].values())):
        if os.path.basename(name) != name:
            raise ArgumentError(f"{path} names a shard elsewhere: {name}")
        own = None
        if base is not None:
            places = [os.path.join(base, name), os.path.join(base, name.removesuffix(".lmc"))]
            own = next((p for p in places if os.path.exists(p)), None)
            if own is None:
                raise BaseMismatchError(f"{name} is a delta to {places[0]}, which is not there")
        with safe_open(os.path.join(directory, name), "pt", base=own, threads=threads) as shard:
            for key in shard.offset_keys():
                yield key, shard.get_tensor(key)


def register():
    """Makes the load format `lmc` known to vLLM."""
    from vllm.model_executor.model_loader import register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    @register_model_loader("lmc")
    class LmcModelLoader(BaseModelLoader):
        """Loads archives."""

        def __init__(self, load_config):
            super().__init__(load_config)
            extra = dict(load_config.model_loader_extra_config or {})
            self._options = {name: extra.pop(name, None) for name in ("base", "threads")}
            if extra:
                raise ValueError(f"the load format lmc has no options {', '.join(extra)}")

        def download_model(self, model_config):
            """Models are in directories."""
            if not os.path.isdir(model_config.model):
                raise MissingFileError(
                    f"{model_config.model} is no directory: the load format lmc downloads nothing"
                )

        def load_weights(self, model, model_config):
            """Hands the tensors to the model."""
            model.load_weights(weights(model_config.model, **self._options))

    return LmcModelLoader
