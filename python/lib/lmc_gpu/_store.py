"""Stores of checkpoints, and saving into them beside training."""

import atexit
import json
import os
import threading
import time
import weakref

from ._codec import choices
from ._native import Store as _NativeStore
from ._open import Reader, safe_open
from ._pack import pack
from ._pool import Pool
from ._unpack import assign, unpack

_RULES = ("full_every", "rebase_above", "max_chain", "keep_last", "keep_every", "state_last")


def _rules(**chosen):
    return {name: chosen.get(name) for name in _RULES}


class Store:
    """A directory of checkpoints, each stored in full or as a delta to the one before.

    Args:
        path: the directory.
        create: whether to make it a store where it is none.
        full_every: every how many saves one is stored in full; 0 leaves it to `max_chain`.
        rebase_above: a delta that takes more than this fraction of a full save is stored in full.
        max_chain: most deltas between a checkpoint and the one stored in full.
        keep_last, keep_every: what `gc` keeps: that many of the highest steps, and the multiples.
        state_last: of how many of the highest steps `gc` keeps the files of the optimizer's state;
            older ones keep the others, whose tensors `open` gives.
            Of the rules, those given are kept in the store; the others stay as they are.
        method, threads: how to code, as for `lmc_gpu.compress`.

    Raises:
        ArgumentError: where there is no store and `create` is not set.

    >>> import lmc_gpu, pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "weights").write_bytes(bytes(5000))
    >>> store = lmc_gpu.Store(root / "run", create=True, full_every=8)
    >>> store.save(root / "weights", 100)["step"]
    100
    >>> store.steps()
    [100]
    >>> store.restore(100, root / "again")["ok"]
    True
    """

    def __init__(
        self,
        path,
        *,
        create=False,
        full_every=None,
        rebase_above=None,
        max_chain=None,
        keep_last=None,
        keep_every=None,
        state_last=None,
        method="auto",
        threads=None,
    ):
        rules = _rules(
            full_every=full_every,
            rebase_above=rebase_above,
            max_chain=max_chain,
            keep_last=keep_last,
            keep_every=keep_every,
            state_last=state_last,
        )
        chosen = choices(method=method, threads=threads)
        self.path = os.fspath(path)
        self._native = _NativeStore(self.path, create, rules, chosen)

    def save(self, source, step, *, replace=False, full=False, progress=None):
        """Stores a file or directory as `step`. When this returns, it is on disk.

        Args:
            source: path of the file or directory.
            step: a number; the base of a delta is the highest step below it.
            replace: whether a step that exists is replaced; it is an error otherwise.
            full: whether it is stored in full, whatever the rules say.
            progress: as for `lmc_gpu.compress`.

        Returns:
            A dictionary: `step`, `base`, `input_bytes`, `archive_bytes`, `ratio`, `seconds`, ….
        """
        return json.loads(self._native.save(os.fspath(source), step, replace, full, progress))

    def restore(self, step, out, *, overwrite=False, progress=None):
        """Restores a step to the path `out`, which appears whole or not at all."""
        found = self._native.restore(step, os.fspath(out), overwrite, progress)
        return json.loads(found)

    def open(self, step):
        """The tensors of a step, as `lmc_gpu.safe_open` gives them for numpy."""
        return safe_open.of(Reader(self._native.open_step(step)))

    def steps(self):
        """The steps, in ascending order."""
        return [record["step"] for record in self.records()]

    def records(self):
        """What the store knows of every step: `step`, `base`, `archive_bytes`, `files`, …."""
        return json.loads(self._native.records())["steps"]

    def gc(
        self, *, keep_last=None, keep_every=None, state_last=None, drop_after=None, dry_run=False
    ):
        """Removes steps.

        Args:
            keep_last, keep_every: what to keep instead of what the store's rules say.
            state_last: of how many steps to keep the optimizer's state, likewise.
            drop_after: remove every step above this one, whatever the rules say.
            dry_run: only say what would be removed.

        Returns:
            A dictionary: `steps` that were removed, `kept_as_base`, `without_state`, `files`,
            `bytes`.
        """
        rules = _rules(keep_last=keep_last, keep_every=keep_every, state_last=state_last)
        return json.loads(self._native.gc(rules, drop_after, dry_run))

    def stats(self):
        """Sizes by step and stream."""
        return json.loads(self._native.stats())

    def verify(self, steps=()):
        """Decodes the given steps, or all, and checks them: `ok`, and `steps` with `problems`."""
        return json.loads(self._native.verify(list(steps)))


class Ticket:
    """The promise of a save that goes on in the background.

    Attributes:
        step: the step that is saved.
        stalled: seconds that `save` waited for room.
        blocked: seconds that `save` took in all, with the copy of the state.
    """

    def __init__(self, native, step, blocked):
        self._native = native
        self._lock = threading.Lock()
        self._result = None
        self._error = None
        self.step = step
        self.stalled = native.stalled
        self.blocked = blocked

    def done(self):
        """Whether the checkpoint is on disk, or failed to get there."""
        return self._result is not None or self._error is not None or self._native.done()

    def wait(self, timeout=None):
        """Waits until the checkpoint is on disk.

        Args:
            timeout: seconds to wait at most.

        Returns:
            A dictionary, as of `Store.save`.

        Raises:
            TimeoutError: where it takes longer.
            LmcError: what saving reported.
        """
        end = None if timeout is None else time.monotonic() + timeout
        pause = 0.0005
        while not self.done():
            left = pause if end is None else min(pause, end - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"step {self.step} is still being saved")
            time.sleep(left)
            pause = min(2 * pause, 0.02)
        with self._lock:
            if self._result is None and self._error is None:
                try:
                    self._result = json.loads(self._native.take())
                except Exception as error:
                    self._error = error
        if self._error is not None:
            raise self._error
        return self._result


# Those that are to end what they were given before the interpreter ends.
_open = weakref.WeakSet()


@atexit.register
def _close_all():
    for checkpointer in list(_open):
        if checkpointer._pid == os.getpid():
            checkpointer.close()


class Checkpointer:
    """Saves the state of training into a store while training goes on.

    `save` copies the state and returns; threads without the interpreter code and write it. A state
    is nested dictionaries, lists and tuples of tensors, arrays, numbers, texts and bytes. Tensors
    that are the same memory are stored once and come back as one.

    Memory: the copies that wait and are written, and the one before, at most `queue` + 3 copies of
    the state; they are reused. While there is no room, `save` waits, and the ticket says how long.

    Args:
        dir: the directory, made into a store where it is none.
        full_every, rebase_above, max_chain, keep_last, keep_every, state_last: as for `Store`.
        queue: how many states may wait while one is written.
        max_bytes: most bytes of states that wait and are written; one is always accepted.
        compare_in_memory: whether the copy saved last stays, so that the next one is compared with
            it; otherwise it is decoded from the store.
        replace: whether steps that exist are replaced; they are an error otherwise.
        method, threads: as for `lmc_gpu.compress`.

    >>> import lmc_gpu, numpy, tempfile
    >>> with lmc_gpu.Checkpointer(tempfile.mkdtemp(), full_every=10) as checkpointer:
    ...     state = {"model": {"w": numpy.ones(1000, "float32")}, "epoch": 3}
    ...     ticket = checkpointer.save(100, state)
    ...     ticket.wait()["step"], checkpointer.restore(100)["epoch"], checkpointer.steps()
    (100, 3, [100])
    """

    def __init__(
        self,
        dir,
        *,
        full_every=None,
        rebase_above=None,
        max_chain=None,
        keep_last=None,
        keep_every=None,
        state_last=None,
        queue=1,
        max_bytes=None,
        compare_in_memory=True,
        replace=False,
        method="auto",
        threads=None,
    ):
        self.store = Store(
            dir,
            create=True,
            full_every=full_every,
            rebase_above=rebase_above,
            max_chain=max_chain,
            keep_last=keep_last,
            keep_every=keep_every,
            state_last=state_last,
            method=method,
            threads=threads,
        )
        native = self.store._native
        self._native = native.checkpointer(queue, max_bytes, compare_in_memory, replace)
        self._pool = Pool()
        self._pid = os.getpid()
        _open.add(self)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close(abandon=kind is not None and not issubclass(kind, Exception))

    def save(self, step, state):
        """Copies a state and hands it over.

        When this returns, training may change every tensor. Tensors on a CUDA device are copied to
        pinned memory on a stream of their own.

        Args:
            step: a number that the store does not have yet.
            state: such as `{"model": model.state_dict(), "optimizer": optimizer.state_dict()}`.

        Returns:
            A `Ticket`.

        Raises:
            TypeError: for an object that is no part of a state, with its place.
            UnsupportedError: for tensors that are sparse, quantized, or made of others.
            LmcError: the first error of an earlier save that no call has raised yet; this state is
                then not saved.
        """
        self._check_process()
        started = time.perf_counter()
        flat, files, others = pack(state, self._pool)
        native = self._native.save(step, flat, files, others)
        return Ticket(native, step, time.perf_counter() - started)

    def restore(self, step, *, device=None):
        """The state of a step: the same nesting, names and kinds.

        Args:
            step: a step that is on disk.
            device: where tensors of torch go; by default they stay on the CPU.
        """
        return unpack(Reader(self.store._native.open_step(step)), device)

    def restore_into(self, step, state):
        """Writes the state of a step into `state`: tensors and arrays in place, what else there is
        in the dictionaries and lists that hold it. Nothing is written where nesting, shapes or
        types differ.

        Raises:
            ValueError: names the first difference.
        """
        return assign(Reader(self.store._native.open_step(step)), state)

    def steps(self):
        """The steps on disk, in ascending order."""
        return self.store.steps()

    def gc(self, **rules):
        """Removes steps; see `Store.gc`."""
        return self.store.gc(**rules)

    def stats(self):
        """Sizes by step and stream, and what the background thread did: `saved`, `failed`,
        `stalled`, `busy`."""
        background = json.loads(self._native.report())
        return {**self.store.stats(), "background": background}

    def flush(self):
        """Waits until everything handed over is on disk, and raises what failed."""
        self._check_process()
        self._native.flush()

    def close(self, *, abandon=False):
        """Waits for what was handed over and ends the background thread. With `abandon`, what is
        being written and what waits are given up and leave nothing behind."""
        self._check_process()
        self._native.close(abandon)

    def _check_process(self):
        if os.getpid() != self._pid:
            raise RuntimeError("a checkpointer belongs to the process that made it: make another")
