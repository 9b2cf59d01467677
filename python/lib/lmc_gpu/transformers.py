"""Hugging Face: models as compressed shards, and the checkpoints of a `Trainer` in a store.

config.json                                   as `save_pretrained` writes it
model-00001-of-00002.safetensors.lmc          each shard an archive
model.safetensors.lmc.index.json              which tensor is in which shard
"""

import json
import os
import re
import shutil
import tempfile
import warnings

from ._versions import require

_transformers = require("transformers", "5.0")

from . import torch as _frame
from ._codec import compress_file
from ._errors import ArgumentError, BaseMismatchError, MissingFileError, StorageError
from ._open import Reader, Slice
from ._store import Store

__all__ = ["ArchiveCallback", "from_pretrained", "restore_checkpoint", "save_pretrained"]

INDEX = "model.safetensors.lmc.index.json"
_CHECKPOINT = "checkpoint-{}"
_SHARD = re.compile(r"model(?:-\d{5}-of-\d{5})?\.safetensors\.lmc")
# What a Trainer writes last into a checkpoint.
_LAST = "trainer_state.json"


def save_pretrained(
    model,
    directory,
    *,
    base=None,
    max_shard_size="5GB",
    method="auto",
    threads=None,
    scratch=None,
    **options,
):
    """Saves a model as `model.save_pretrained` does, with every shard an archive.

    The shards are written uncompressed first, into a directory that is removed again.

    Args:
        model: a `PreTrainedModel`.
        directory: where to. The index is written last, so that a model which was not saved to its
            end is not loaded.
        base: directory of another saved model, compressed or not, such as the one that this one was
            fine-tuned from. Shards become deltas to those of the same name.
        max_shard_size: as for `model.save_pretrained`.
        method, threads: as for `lmc_gpu.compress`.
        scratch: where there is room for the uncompressed shards; by default beside `directory`.
        options: what else `model.save_pretrained` takes, such as `state_dict`.

    Returns:
        A dictionary: `input_bytes`, `output_bytes`, `ratio` of all shards.
    """
    directory = os.path.abspath(os.fspath(directory))
    os.makedirs(directory, exist_ok=True)
    if base is not None and os.path.realpath(base) == os.path.realpath(directory):
        raise ArgumentError(f"{directory} is to be a delta to itself: save it elsewhere")
    beside = os.path.dirname(directory) if scratch is None else scratch
    total = [0, 0]
    with tempfile.TemporaryDirectory(dir=beside, prefix=".lmc-") as raw:
        model.save_pretrained(raw, max_shard_size=max_shard_size, **options)
        names = sorted(os.listdir(raw))
        shards = [n for n in names if n.endswith(".safetensors")]
        files = {}
        # From here on there is no whole model until the new one is.
        if shards and os.path.exists(os.path.join(directory, INDEX)):
            os.remove(os.path.join(directory, INDEX))
        for name in shards:
            source, packed = os.path.join(raw, name), os.path.join(directory, name + ".lmc")
            files[name] = _tensors_of(source)
            own = None if base is None else _shard_of(base, name)
            done = compress_file(
                source, packed, base=own, method=method, threads=threads, overwrite=True
            )
            os.remove(source)
            total[0] += done["input_bytes"]
            total[1] += done["output_bytes"]
        for name in names:
            if name not in shards and not name.endswith(".safetensors.index.json"):
                shutil.move(os.path.join(raw, name), os.path.join(directory, name))
        if shards:
            where = None if base is None else os.path.relpath(os.path.abspath(base), directory)
            _write_index(directory, files, total[0], where)
            for name in os.listdir(directory):
                if _SHARD.fullmatch(name) and name.removesuffix(".lmc") not in files:
                    os.remove(os.path.join(directory, name))
    ratio = total[1] / total[0] if total[0] else 1.0
    return {"input_bytes": total[0], "output_bytes": total[1], "ratio": ratio}


def _tensors_of(path):
    return sorted(e.name for e in Reader.open(path).entries.values())


def _shard_of(base, name):
    """The shard of a model that is called like another one."""
    for path in (os.path.join(base, name + ".lmc"), os.path.join(base, name)):
        if os.path.exists(path):
            return path
    raise ArgumentError(
        f"{os.fspath(base)} has no {name}, compressed or not: save with the max_shard_size that it "
        "was saved with, or without base="
    )


def _write_index(directory, files, size, base):
    metadata = {"total_size": size, "format": "lmc"}
    if base is not None:
        metadata["base"] = base
    places = {tensor: f"{name}.lmc" for name, tensors in files.items() for tensor in tensors}
    path = os.path.join(directory, INDEX)
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump({"metadata": metadata, "weight_map": places}, file, indent=2, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


class _Lazy(Slice):
    """A tensor of a shard that is decoded when the model takes it."""

    @property
    def dtype(self):
        return _frame.dtype_of(self._entry.dtype)

    @property
    def shape(self):
        return tuple(self._entry.shape)

    def is_floating_point(self):
        return self.dtype.is_floating_point


def from_pretrained(cls, directory, *, base=None, threads=None, **options):
    """Loads a model that `save_pretrained` of this module saved.

    The model is made on the device `meta`, and each tensor decoded when it is put in its place.

    Args:
        cls: the class of the model, or one such as `AutoModelForCausalLM`.
        directory: where it was saved.
        base: directory of what it is a delta to; by default where that was when it was saved,
            relative to `directory`.
        threads: how many threads read a large tensor; one a core by default.
        options: what else `cls.from_pretrained` takes, such as `dtype` and `device_map`.

    Raises:
        MissingFileError: where there is no such model, or one that was not saved to its end.
    """
    directory = os.path.abspath(os.fspath(directory))
    path = os.path.join(directory, INDEX)
    if not os.path.exists(path):
        error = MissingFileError(
            f"{path} is not there: {directory} is no model that lmc_gpu.transformers saved to its "
            "end"
        )
        error.file = path
        raise error
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    if base is None and "base" in index["metadata"]:
        base = os.path.join(directory, index["metadata"]["base"])
        if not os.path.isdir(base):
            raise BaseMismatchError(
                f"{directory} is a delta to the model in {os.path.normpath(base)}, which is not "
                "there: pass base="
            )
    state = {}
    for name in sorted(set(index["weight_map"].values())):
        if os.path.basename(name) != name:
            raise ArgumentError(f"{path} names a shard elsewhere: {name}")
        own = None if base is None else _shard_of(base, name.removesuffix(".lmc"))
        reader = Reader.open(os.path.join(directory, name), own, threads)
        for entry in reader.entries.values():
            state[entry.name] = _Lazy(_frame, reader, entry, "cpu")
    config = options.pop("config", None)
    if config is None:
        config = _transformers.AutoConfig.from_pretrained(directory)
    if options.get("dtype", "auto") == "auto":
        options["dtype"] = getattr(config, "dtype", None) or _first_float(state)
    model = _model_class(cls, config).from_pretrained(
        None, config=config, state_dict=state, **options
    )
    generation = os.path.join(directory, "generation_config.json")
    if os.path.exists(generation) and hasattr(model, "generation_config"):
        made = _transformers.GenerationConfig.from_pretrained(directory)
        model.generation_config = made
    return model


def _first_float(state):
    return next((t.dtype for t in state.values() if t.is_floating_point()), None)


def _model_class(cls, config):
    """The class of a model, where a class is asked for that only finds others."""
    mapping = getattr(cls, "_model_mapping", None)
    if mapping is None:
        return cls
    found = mapping[type(config)]
    if isinstance(found, (list, tuple)):
        names = config.architectures or ()
        found = next((c for c in found if c.__name__ in names), found[0])
    return found


class ArchiveCallback(_transformers.TrainerCallback):
    """Puts every checkpoint of a `Trainer` into a store, as a delta to the one before.

    A checkpoint is stored when the Trainer has written all of it, before training goes on. A run
    that is resumed goes its own way: with its first checkpoint, later ones of the run before are
    removed from the store. A run that begins anew needs a store of its own.

    Args:
        store: directory of the store, made where it is none, or an `lmc_gpu.Store`.
        keep_raw: whether `checkpoint-N` stays where the Trainer wrote it. Without, it is removed
            once it is stored; then `load_best_model_at_end` does not find it.
        options: what `lmc_gpu.Store` takes: `full_every`, `keep_last`, `method`, ….

    Attributes:
        saved: what was stored: dictionaries as of `Store.save`.
    """

    def __init__(self, store, *, keep_raw=True, **options):
        self.store = store if isinstance(store, Store) else Store(store, create=True, **options)
        self.keep_raw = keep_raw
        self.saved = []
        self._after = None

    def on_train_begin(self, args, state, control, **others):
        """Looks whether the store is that of this run."""
        steps = self.store.steps()
        if state.global_step == 0 and steps:
            raise ArgumentError(
                f"the store {self.store.path} has checkpoints up to {steps[-1]} of another run: "
                "choose another directory, or resume that run with restore_checkpoint"
            )
        self._after = state.global_step

    def on_save(self, args, state, control, **others):
        """Stores the checkpoint that was just written."""
        _wait_for_all()
        if not state.is_world_process_zero:
            return
        step = state.global_step
        path = os.path.join(args.output_dir, _CHECKPOINT.format(step))
        if not os.path.exists(os.path.join(path, _LAST)):
            warnings.warn(f"{path} has no {_LAST}, so it is not stored", stacklevel=2)
            return
        if self._after is not None and any(s > self._after for s in self.store.steps()):
            self.store.gc(drop_after=self._after)
        self._after = None
        self.saved.append(self.store.save(path, step))
        if not self.keep_raw:
            shutil.rmtree(path)


def _wait_for_all():
    """Waits until every process has written what is its own."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def restore_checkpoint(store, output_dir, step=None):
    """Restores a checkpoint from a store to `output_dir/checkpoint-N`, whole or not at all.

    Args:
        store: directory of the store, or an `lmc_gpu.Store`.
        output_dir: that of the `TrainingArguments`. What is there of the checkpoint is replaced.
        step: which one; by default the last.

    Returns:
        The path, for `trainer.train(resume_from_checkpoint=path)`.
    """
    store = store if isinstance(store, Store) else Store(store)
    steps = store.steps()
    if step is None:
        if not steps:
            raise ArgumentError(f"the store {store.path} has no checkpoints")
        step = steps[-1]
    os.makedirs(output_dir, exist_ok=True)
    path = os.path.join(os.fspath(output_dir), _CHECKPOINT.format(step))
    with tempfile.TemporaryDirectory(dir=output_dir, prefix=".lmc-") as there:
        new = os.path.join(there, "new")
        store.restore(step, new)
        if os.path.exists(path):
            try:
                os.rename(path, os.path.join(there, "old"))
            except OSError as error:
                raise StorageError(f"{path} cannot be replaced: {error}") from error
        os.rename(new, path)
    return path
