"""Accelerate: `accelerator.save_state` and `load_state`, into a store and out of it."""

import os
import tempfile

from ._versions import require

require("accelerate", "1.0")

from ._errors import ArgumentError

__all__ = ["load_state", "save_state"]


def _shared(store, accelerator):
    """A directory in the store's own that every process knows, made by the main one."""
    from accelerate.utils import broadcast_object_list

    path = [None]
    if accelerator.is_main_process:
        path[0] = tempfile.mkdtemp(dir=os.path.dirname(os.path.abspath(store.path)), prefix=".lmc-")
    return broadcast_object_list(path)[0]


def _remove(path, accelerator):
    import shutil

    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(path, ignore_errors=True)


def save_state(accelerator, store, step, **options):
    """Saves what `accelerator.save_state` saves as a step of a store, a delta to the one before.
    Every process calls it; the store is on a disk that all of them see.

    Args:
        accelerator: an `accelerate.Accelerator`.
        store: an `lmc_gpu.Store`.
        step: a number that the store does not have yet.
        options: what else `accelerator.save_state` takes.

    Returns:
        A dictionary as of `Store.save` in the main process, `None` in the others.
    """
    path = _shared(store, accelerator)
    try:
        accelerator.save_state(os.path.join(path, "state"), **options)
        accelerator.wait_for_everyone()
        saved = None
        if accelerator.is_main_process:
            saved = store.save(os.path.join(path, "state"), step)
        return saved
    finally:
        _remove(path, accelerator)


def load_state(accelerator, store, step=None, **options):
    """Loads a step that `save_state` saved.

    Args:
        accelerator: an `accelerate.Accelerator` that has prepared the same objects.
        store: an `lmc_gpu.Store`.
        step: which one; by default the last.
        options: what else `accelerator.load_state` takes.

    Returns:
        The step.
    """
    if step is None:
        steps = store.steps()
        if not steps:
            raise ArgumentError(f"the store {store.path} has no checkpoints")
        step = steps[-1]
    path = _shared(store, accelerator)
    try:
        if accelerator.is_main_process:
            store.restore(step, os.path.join(path, "state"))
        accelerator.wait_for_everyone()
        accelerator.load_state(os.path.join(path, "state"), **options)
    finally:
        _remove(path, accelerator)
    return step
