"""The side of whoever uses the weights."""

import json
import threading
import time

import numpy

from .. import _native
from .._codec import choices
from .._errors import ArgumentError, BaseMismatchError, CorruptError, LimitError, MissingFileError
from ._image import Layout, as_array, as_tensor, fits, take, words
from ._patch import Patch, changed, put
from ._publish import digest, name_of
from ._transport import transport_of

_MANIFEST = 1 << 20


class Update:
    """What was applied.

    Attributes:
        version, step: which version it is.
        kind: `"full"` or `"delta"`, by what was read first.
        read: bytes that were read.
        prefetch_seconds, apply_seconds: how long both took.
        changed: names of the tensors that changed.
    """

    def __init__(self, manifest, kind, read, seconds):
        self.version = manifest["version"]
        self.step = manifest["step"]
        self.kind = kind
        self.read = read
        self.prefetch_seconds = seconds
        self.apply_seconds = 0.0
        self.changed = []


class _Pending:
    def __init__(self, update, own, layout, image, patches):
        self.update = update
        self.id = own
        self.layout = layout
        self.image = image
        self.patches = patches


class Subscriber:
    """Follows a publisher.

    It holds the weights as they were applied last, and the next once they are prefetched.

    Args:
        place: directory or URL of the publisher, or a transport with `get`.
        threads: how many threads decode; one a core by default.
        max_bytes: most bytes of weights that are accepted.

    Attributes:
        version, step: what was applied last; `None` before.
    """

    def __init__(self, place, *, threads=None, max_bytes=None):
        self._transport = transport_of(place)
        self._threads = threads
        self._most = max_bytes
        self._id = None
        self._layout = None
        self._image = None
        self._spare = None
        self._pending = None
        self._turn = threading.Lock()
        self.version = None
        self.step = None

    def _manifest(self, version):
        text = self._transport.get(name_of(version, "json"), _MANIFEST)
        if text is None:
            return None
        try:
            found = json.loads(text)
            if found["format"] != "lmc-gpu-sync" or found["version"] != version:
                raise ValueError("it is of another version")
            for kind in ("full", "delta"):
                if kind in found:
                    part = found[kind]
                    if part["file"] != name_of(version, kind) or part["bytes"] < 0:
                        raise ValueError(f"its {kind} is elsewhere")
            if "delta" in found:
                found["delta"]["base"] = str(found["delta"]["base"])
            elif "full" not in found:
                raise ValueError("it names no archive")
            found["id"], found["step"] = str(found["id"]), found["step"]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(f"{name_of(version, 'json')} is damaged: {error}") from error
        return found

    def _latest(self):
        """The latest version and its id, `None` where nothing was published yet."""
        text = self._transport.get("latest.json", _MANIFEST)
        if text is None:
            return None
        try:
            latest = json.loads(text)
            return int(latest["version"]), str(latest["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(f"latest.json is damaged: {error}") from error

    def _plan(self, known):
        """The archives that lead from what is known to the latest version: whether they begin with
        a full, and their manifests; `None` where it is the latest."""
        latest = self._latest()
        if latest is None:
            raise MissingFileError("nothing was published there yet")
        version, own = latest
        if own == known:
            return None
        ahead, best, best_cost, cost = [], None, None, 0
        while version > 0:
            manifest = self._manifest(version)
            if manifest is None or (ahead and manifest["id"] != ahead[0]["delta"]["base"]):
                break
            if "full" in manifest:
                whole = cost + manifest["full"]["bytes"]
                if best is None or whole < best_cost:
                    best, best_cost = (True, [manifest, *ahead]), whole
            if "delta" not in manifest:
                break
            cost += manifest["delta"]["bytes"]
            ahead.insert(0, manifest)
            if manifest["delta"]["base"] == known and (best is None or cost < best_cost):
                return False, ahead
            if best is not None and cost >= best_cost:
                break
            version -= 1
        if best is None:
            raise BaseMismatchError(
                "no full and no delta to what is here was found at the publisher's place: its "
                "files were removed, or it removes them faster than they are read"
            )
        return best

    def prefetch(self):
        """Reads and decodes the latest version, and works out what changes. Nothing is applied, so
        this may run in a thread while the weights are in use; `apply` waits for it.

        Returns:
            Whether there is something to apply.

        Raises:
            MissingFileError: where nothing was published yet.
            CorruptError, StorageError: where reading failed; what was there before stays.
        """
        with self._turn:
            return self._prefetch()

    def _prefetch(self):
        started = time.perf_counter()
        pending = self._pending
        known = self._id if pending is None else pending.id
        plan = None
        for attempt in range(3):
            plan = self._plan(known)
            if plan is None:
                return pending is not None
            try:
                image, read = self._decode(*plan, pending)
                break
            except MissingFileError:
                # The publisher went on and removed what was planned with: plan anew.
                if attempt == 2:
                    raise
        is_full, manifests = plan
        last = manifests[-1]
        layout = Layout.read(image)
        patches = self._compare(layout, image)
        self._spare = None
        update = Update(last, "full" if is_full else "delta", read, time.perf_counter() - started)
        self._pending = _Pending(update, last["id"], layout, image, patches)
        return True

    def _decode(self, is_full, manifests, pending):
        """The image at the end of a plan, and how many bytes were read for it."""
        if is_full:
            image, own = None, None
        elif pending is not None:
            image, own = pending.image, pending.id
        else:
            image, own = self._image, self._id
        read = 0
        for i, manifest in enumerate(manifests):
            kind = "full" if is_full and i == 0 else "delta"
            part = manifest[kind]
            data = self._transport.get(part["file"], part["bytes"])
            if data is None:
                raise MissingFileError(f"{part['file']} is no longer there")
            if len(data) != part["bytes"] or digest(data) != part["digest"]:
                raise CorruptError(f"{part['file']} is not what its manifest says: it is damaged")
            base = None
            if kind == "delta":
                if part["base"] != own:
                    raise BaseMismatchError(
                        f"{part['file']} is a delta to {part['base']}, and {own} is what is here"
                    )
                if digest(own.encode(), data) != manifest["id"]:
                    raise CorruptError(f"{name_of(manifest['version'], 'json')} is damaged")
                base = image
            own = manifest["id"]
            native = _native.Checkpoint.from_bytes(data, choices(base=base, threads=self._threads))
            if self._most is not None and native.total > self._most:
                raise LimitError(
                    f"{part['file']} holds {native.total} bytes, and {self._most} are accepted"
                )
            image = self._room(native.total, image)
            native.read_all_into(image)
            read += len(data)
        return image, read

    def _room(self, length, used):
        """Memory for an image that is none of those in use."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.size == length and spare is not used:
            return spare
        return numpy.empty(length, numpy.uint8)

    def _compare(self, layout, image):
        """What differs from the weights that were applied last."""
        if self._layout is None or self._layout.header != layout.header:
            return None
        patches = []
        for name, (code, shape, _, _) in layout.places.items():
            new, old = layout.slot(image, name), self._layout.slot(self._image, name)
            at = changed(words(new, code), words(old, code))
            if at is None:
                patches.append(Patch(name, code, shape, None, words(new, code)))
            elif at.size:
                patches.append(Patch(name, code, shape, at, words(new, code)[at]))
        return patches

    def apply(self, apply_to=None, *, load=None, patch=None):
        """Puts what was prefetched in its place.

        Args:
            apply_to: tensors or arrays by name, or a `torch.nn.Module`, that are written to where
                they are: all or none. Names, shapes and types are those that were published; names
                that are only here stay as they are.
            load: called with an iterator of the names and tensors that changed, such as
                `load_weights` of vLLM's and SGLang's models. The tensors are valid during the call.
            patch: called with a list of `Patch`, of what changed.

        Returns:
            An `Update`, `None` where nothing was prefetched.
        """
        with self._turn:
            return self._apply(apply_to, load, patch)

    def _apply(self, apply_to, load, patch):
        pending = self._pending
        if pending is None:
            return None
        started = time.perf_counter()
        update = pending.update
        places = pending.layout.places
        if pending.patches is None:
            update.changed = list(places)
        else:
            update.changed = [p.name for p in pending.patches]
        if apply_to is not None:
            self._write(pending, _named(apply_to))
        if load is not None:
            load(self._dense(pending))
        if patch is not None:
            patch(self._patches(pending))
        # What is here now is what the next delta is made against.
        self._spare = self._image
        self._id, self._layout, self._image = pending.id, pending.layout, pending.image
        self.version, self.step = update.version, update.step
        self._pending = None
        update.apply_seconds = time.perf_counter() - started
        return update

    def pull(self, apply_to=None, **others):
        """`prefetch` and `apply`."""
        return self.apply(apply_to, **others) if self.prefetch() else None

    def wait(self, timeout=None, period=0.01):
        """Waits until a version was published that was not prefetched yet.

        Returns:
            Whether there is one; `False` after `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        known = self._id if self._pending is None else self._pending.id
        while True:
            latest = self._latest()
            if latest is not None and latest[1] != known:
                return True
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(period)

    def tensors(self):
        """The weights that were applied last, as tensors of torch that may not be written to."""
        return self._all(as_tensor)

    def arrays(self):
        """The same as arrays of numpy."""
        return self._all(as_array)

    def _all(self, make):
        if self._layout is None:
            raise ArgumentError("nothing was applied yet: call pull()")
        places = self._layout.places.items()
        return {n: make(self._layout.slot(self._image, n), c, s) for n, (c, s, _, _) in places}

    def _dense(self, pending):
        for name in pending.update.changed:
            code, shape, _, _ = pending.layout.places[name]
            yield name, as_tensor(pending.layout.slot(pending.image, name), code, shape)

    @staticmethod
    def _patches(pending):
        if pending.patches is not None:
            return pending.patches
        slot = pending.layout.slot
        return [
            Patch(n, c, s, None, words(slot(pending.image, n), c))
            for n, (c, s, _, _) in pending.layout.places.items()
        ]

    def _write(self, pending, targets):
        """Writes into tensors that are there, all or none."""
        missing = [n for n in pending.layout.places if n not in targets]
        if missing:
            raise ArgumentError(
                f"{len(missing)} tensors that were published are not here: {', '.join(missing[:3])}"
            )
        for name, (code, shape, _, _) in pending.layout.places.items():
            fits(name, targets[name], code, shape)
        # Tensors that are the same memory under several names are written once for each, alike.
        done = []
        try:
            for patch in self._patches(pending):
                done.append(patch.name)
                put(targets[patch.name], patch, pending.layout.slot(pending.image, patch.name))
        except BaseException:
            if pending.patches is not None:
                for name in done:
                    code, shape, _, _ = self._layout.places[name]
                    take(targets[name], self._layout.slot(self._image, name), code, shape)
            raise


def _named(targets):
    """Tensors by name."""
    if hasattr(targets, "named_parameters"):
        return dict(targets.state_dict())
    return targets
