"""The side of the trainer."""

import hashlib
import json
import operator
import time
import uuid

import numpy

from .._codec import compress
from .._errors import ArgumentError, CorruptError
from ._image import Layout, describe, fill
from ._transport import transport_of


def digest(*parts):
    """The digest of some bytes."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(part)
    return made.hexdigest()


def name_of(version, kind):
    """The file of a version."""
    return f"v{version:08d}.{kind}"


class Publisher:
    """Publishes the weights of a trainer.

    It holds two copies of them in host memory: those that were published last, which the next are
    compared with, and room for the next.

    Args:
        place: a directory, or a transport with `get`, `put` and `remove`. One publisher writes to
            it at a time.
        full_every: after how many deltas a full is published as well, for subscribers that were
            away. Versions before the last full but one are removed.
        full_above: a delta that is larger than this fraction of the weights is not worth it: a full
            is published instead.
        method, threads: as for `lmc_gpu.compress`.

    >>> import numpy, tempfile
    >>> from lmc_gpu.sync import Publisher, Subscriber
    >>> path, weights = tempfile.mkdtemp(), {"w": numpy.zeros(100_000, "float32")}
    >>> publisher, subscriber = Publisher(path), Subscriber(path)
    >>> publisher.publish(1, weights)["kind"]
    'full'
    >>> weights["w"][::1000] = 1
    >>> publisher.publish(2, weights)["kind"]
    'delta'
    >>> mine = {"w": numpy.empty(100_000, "float32")}
    >>> subscriber.pull(apply_to=mine).step, bool((mine["w"] == weights["w"]).all())
    (2, True)
    """

    def __init__(self, place, *, full_every=20, full_above=0.5, method="auto", threads=None):
        if full_every < 1:
            raise ArgumentError("full_every is 1 or more: without fulls nobody can begin")
        self._transport = transport_of(place, create=True)
        if not hasattr(self._transport, "put"):
            raise ArgumentError(
                "a publisher writes to a directory; serve it with lmc_gpu.sync.Server"
            )
        self._full_every = full_every
        self._full_above = full_above
        self._method = method
        self._threads = threads
        self._run = uuid.uuid4().hex
        self._layout = None
        self._image = None
        self._spare = None
        self._id = None
        latest = self._latest()
        self._version = 0 if latest is None else latest["version"]
        self._fulls = []
        self._oldest = self._version + 1
        self._strays = self._version

    def _latest(self):
        text = self._transport.get("latest.json", 1 << 20)
        if text is None:
            return None
        try:
            latest = json.loads(text)
            return {"run": str(latest["run"]), "version": int(latest["version"])}
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(f"latest.json is damaged: {error}: remove it") from error

    def publish(self, step, named_tensors):
        """Publishes weights. When this returns, subscribers can have them.

        Args:
            step: a whole number, or a text, that means something to the trainer.
            named_tensors: a dictionary, or pairs of name and tensor, one at a time: a tensor is
                copied before the next one is asked for. Tensors of torch on any device, or arrays.

        Returns:
            A dictionary: `version`, `step`, `kind` (`"full"`, `"delta"` or `"both"`), `bytes` that
            subscribers of the version before read, `input_bytes`, `ratio`, `seconds`.

        Raises:
            ArgumentError: where another publisher writes to the same place.
        """
        started = time.perf_counter()
        if not isinstance(step, str):
            try:
                step = operator.index(step)
            except TypeError:
                raise ArgumentError(f"the step is a number or a text, not {step!r}") from None
        latest = self._latest()
        if self._id is not None and (latest is None or latest["run"] != self._run):
            raise ArgumentError("another publisher writes to the same place: choose one for each")
        layout, image = self._take(named_tensors)
        version = self._version + 1
        manifest = {"format": "lmc-gpu-sync", "run": self._run, "version": version, "step": step}
        same = self._layout is not None and self._layout.header == layout.header
        files, own = {}, None
        if same:
            data = compress(image, base=self._image, method=self._method, threads=self._threads)
            if len(data) <= self._full_above * len(image):
                own = digest(self._id.encode(), data)
                files["delta"] = data
                manifest["delta"] = {"base": self._id, **self._described(version, "delta", data)}
        if own is None or version - self._fulls[-1] >= self._full_every:
            data = compress(image, method=self._method, threads=self._threads)
            own = own or digest(data)
            files["full"] = data
            manifest["full"] = self._described(version, "full", data)
        manifest["id"] = own
        for kind, data in files.items():
            self._transport.put(name_of(version, kind), data)
        self._put(name_of(version, "json"), manifest)
        self._put("latest.json", {"run": self._run, "version": version, "id": own})
        # Only now is it what the next one is compared with.
        self._spare = self._image if same else None
        self._layout, self._image, self._id, self._version = layout, image, own, version
        if "full" in files:
            self._fulls.append(version)
            self._clean()
        size = len(files["delta"] if "delta" in files else files["full"])
        return {
            "version": version,
            "step": step,
            "kind": "both" if len(files) == 2 else next(iter(files)),
            "bytes": size,
            "input_bytes": len(image),
            "ratio": size / max(1, len(image)),
            "seconds": time.perf_counter() - started,
        }

    @staticmethod
    def _described(version, kind, data):
        return {"file": name_of(version, kind), "bytes": len(data), "digest": digest(data)}

    def _put(self, name, value):
        self._transport.put(name, json.dumps(value).encode())

    def _take(self, named_tensors):
        """Copies tensors into an image, and its layout."""
        pairs = named_tensors.items() if hasattr(named_tensors, "items") else named_tensors
        layout, image = self._layout, self._spare
        if layout is None:
            return self._collect(pairs, {})
        if image is None:
            image = numpy.empty(layout.length, numpy.uint8)
            image[: len(layout.header)] = numpy.frombuffer(layout.header, numpy.uint8)
        self._spare = None
        seen = {}
        pairs = iter(pairs)
        for name, tensor in pairs:
            _, code, shape, _ = describe(name, tensor)
            place = layout.places.get(name)
            if place is None or place[0] != code or place[1] != shape or name in seen:
                copied = {n: _copy(layout.slot(image, n)) for n in seen}
                known = {n: (layout.places[n][0], layout.places[n][1], copied[n]) for n in seen}
                return self._collect([(name, tensor), *pairs], known)
            fill(layout.slot(image, name), tensor)
            seen[name] = True
        if len(seen) != len(layout.places):
            known = {n: (*layout.places[n][:2], _copy(layout.slot(image, n))) for n in seen}
            return self._collect((), known)
        return layout, image

    @staticmethod
    def _collect(pairs, known):
        """The same where names, types and shapes are not known before."""
        for name, tensor in pairs:
            _, code, shape, length = describe(name, tensor)
            if name in known:
                raise ArgumentError(f'"{name}" stands twice among the tensors')
            room = numpy.empty(length, numpy.uint8)
            fill(room, tensor)
            known[name] = (code, shape, room)
        layout = Layout.of([(n, c, s, r.size) for n, (c, s, r) in known.items()])
        image = numpy.empty(layout.length, numpy.uint8)
        image[: len(layout.header)] = numpy.frombuffer(layout.header, numpy.uint8)
        for name in list(known):
            layout.slot(image, name)[:] = known.pop(name)[2]
        return layout, image

    def _clean(self):
        """Removes what no subscriber needs: versions before the last full but one."""
        if len(self._fulls) < 2:
            return
        keep = self._fulls[-2]
        for version in range(self._oldest, keep):
            self._drop(version)
        self._oldest = keep
        # What a publisher before this one left goes as well.
        while self._strays > 0 and self._drop(self._strays):
            self._strays -= 1
        self._strays = 0
        del self._fulls[:-2]

    def _drop(self, version):
        known = self._transport.get(name_of(version, "json"), 1 << 20) is not None
        for kind in ("json", "full", "delta"):
            self._transport.remove(name_of(version, kind))
        return known


def _copy(slot):
    return slot.copy()
