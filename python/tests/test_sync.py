"""Weights from a trainer to subscribers."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import lmc_gpu
import numpy as np
import pytest
from conftest import package
from lmc_gpu.sync import Directory, Publisher, Server, Subscriber, Web


def weights(seed=0, n=200_000):
    rng = np.random.default_rng(seed)
    return {
        "w": rng.normal(0, 0.02, n).astype(np.float32).reshape(-1, 100),
        "b": rng.normal(0, 1, 1000).astype(np.float16),
        "ids": np.arange(50),
        "one": np.array(3, np.float32),
        "none": np.empty((0, 4), np.float32),
        "flags": np.array([True, False]),
    }


def change(state, seed, part=0.005):
    rng = np.random.default_rng(seed)
    flat = state["w"].reshape(-1)
    flat[rng.choice(flat.size, int(flat.size * part), replace=False)] += 1e-3
    state["ids"][seed % 50] += 1


def blank(state):
    return {k: np.zeros_like(v) for k, v in state.items()}


def same(a, b):
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a
    )


def test_steps_follow_one_another_as_deltas(tmp_path):
    state = weights()
    publisher, subscriber = Publisher(tmp_path), Subscriber(tmp_path)
    mine = blank(state)
    assert publisher.publish(10, state)["kind"] == "full"
    update = subscriber.pull(apply_to=mine)
    assert update.kind == "full" and update.step == 10 and same(mine, state)
    for step in range(11, 15):
        change(state, step)
        told = publisher.publish(step, state)
        assert told["kind"] == "delta" and told["ratio"] < 0.02
        update = subscriber.pull(apply_to=mine)
        assert update.kind == "delta" and update.step == step == subscriber.step
        assert update.changed == ["ids", "w"] or set(update.changed) == {"ids", "w"}
        assert update.read == told["bytes"] and same(mine, state)
    assert subscriber.pull(apply_to=mine) is None
    assert same(subscriber.arrays(), state)


def test_a_subscriber_that_was_away_takes_what_is_less(tmp_path):
    state = weights()
    publisher = Publisher(tmp_path, full_every=6)
    early, mine = Subscriber(tmp_path), blank(state)
    publisher.publish(0, state)
    early.pull(apply_to=mine)
    kinds = []
    for step in range(1, 10):
        change(state, step)
        kinds.append(publisher.publish(step, state)["kind"])
    assert kinds == ["delta"] * 5 + ["both"] + ["delta"] * 3
    update = early.pull(apply_to=mine)
    assert update.kind == "delta" and update.step == 9 and same(mine, state)
    late, theirs = Subscriber(tmp_path), blank(state)
    update = late.pull(apply_to=theirs)
    assert update.kind == "full" and same(theirs, state)
    # Deltas as large as fulls are worth nothing: the full is read.
    slow = Subscriber(tmp_path)
    slow.pull()
    for step in range(10, 20):
        change(state, step, 0.5)
        publisher.publish(step, state)
    update = slow.pull(apply_to=theirs)
    assert update.step == 19 and same(theirs, state)


def test_old_versions_are_removed_and_whoever_needs_them_takes_a_full(tmp_path):
    state = weights(n=20_000)
    publisher, subscriber = Publisher(tmp_path, full_every=3), Subscriber(tmp_path)
    publisher.publish(0, state)
    subscriber.pull()
    for step in range(1, 30):
        change(state, step)
        publisher.publish(step, state)
    assert len(os.listdir(tmp_path)) < 20
    assert subscriber.pull().step == 29 and same(subscriber.arrays(), state)


def test_a_publisher_that_starts_anew_is_followed(tmp_path):
    state = weights(n=20_000)
    subscriber = Subscriber(tmp_path)
    for _ in range(3):
        publisher = Publisher(tmp_path, full_every=2)
        for step in range(5):
            change(state, step)
            publisher.publish(step, state)
            if step % 2:
                subscriber.pull()
                assert same(subscriber.arrays(), state)
    old = publisher
    Publisher(tmp_path).publish(0, state)
    with pytest.raises(lmc_gpu.ArgumentError, match="another publisher"):
        old.publish(9, state)


def test_names_shapes_and_types_may_change(tmp_path):
    state = weights(n=20_000)
    publisher, subscriber = Publisher(tmp_path), Subscriber(tmp_path)
    publisher.publish(0, state)
    subscriber.pull()
    for other in (
        {**state, "more": np.ones(3)},
        {k: v for k, v in state.items() if k != "b"},
        {**state, "w": state["w"].astype(np.float64)},
        {**state, "w": state["w"].reshape(100, -1)},
    ):
        assert publisher.publish(1, iter(other.items()))["kind"] == "full"
        assert publisher.publish(1, iter(other.items()))["kind"] == "delta"
        subscriber.pull()
        assert same(subscriber.arrays(), other)
    with pytest.raises(lmc_gpu.ArgumentError, match="stands twice"):
        publisher.publish(2, [("w", state["w"]), ("w", state["w"])])
    with pytest.raises(lmc_gpu.ArgumentError, match="no tensor and no array"):
        publisher.publish(2, {"w": [1, 2]})
    assert publisher.publish(3, state)["version"] == 10


def test_all_is_applied_or_nothing(tmp_path):
    state = weights()
    publisher, subscriber = Publisher(tmp_path), Subscriber(tmp_path)
    publisher.publish(0, state)
    mine = blank(state)
    for wrong in (
        {k: v for k, v in mine.items() if k != "w"},
        {**mine, "w": mine["w"].astype(np.float16)},
        {**mine, "w": mine["w"].reshape(-1)},
    ):
        with pytest.raises(lmc_gpu.ArgumentError, match='"w"|w'):
            subscriber.pull(apply_to=wrong)
        assert same(mine, blank(state)) and subscriber.version is None
    subscriber.pull(apply_to=mine)
    before = {k: v.copy() for k, v in mine.items()}
    change(state, 1)
    publisher.publish(1, state)
    # Writing fails after some tensors were written.
    mine["w"].flags.writeable = False
    with pytest.raises(ValueError):
        subscriber.pull(apply_to=mine)
    mine["w"].flags.writeable = True
    assert same(mine, before) and subscriber.step == 0
    assert subscriber.pull(apply_to=mine).step == 1 and same(mine, state)


def test_patches_say_what_changed(tmp_path):
    state = weights()
    publisher, subscriber = Publisher(tmp_path), Subscriber(tmp_path)
    publisher.publish(0, state)
    got = []
    subscriber.pull(patch=got.extend)
    assert {p.name for p in got} == set(state) and all(p.indices is None for p in got)
    old = {k: v.copy() for k, v in state.items()}
    change(state, 1)
    state["b"][:] += 1
    publisher.publish(1, state)
    got.clear()
    subscriber.pull(patch=got.extend)
    assert sorted(p.name for p in got) == ["b", "ids", "w"]
    for patch in got:
        flat = old[patch.name].reshape(-1).view(patch.values.dtype)
        if patch.indices is None:
            flat[:] = patch.values
        else:
            assert (flat[patch.indices] != patch.values).all()
            assert (np.diff(patch.indices) > 0).all() and patch.shape == list(old[patch.name].shape)
            flat[patch.indices] = patch.values
    assert same(old, state)


def test_a_damaged_or_wrong_file_is_noticed_and_what_is_there_stays(tmp_path):
    state = weights()
    publisher, subscriber = Publisher(tmp_path), Subscriber(tmp_path)
    publisher.publish(0, state)
    subscriber.pull()
    before = {k: v.copy() for k, v in subscriber.arrays().items()}
    change(state, 1)
    publisher.publish(1, state)
    file = tmp_path / "v00000002.delta"
    good = file.read_bytes()
    for bad in (good[:-1], good[:100] + bytes([good[100] ^ 1]) + good[101:], b"", good + b"x"):
        file.write_bytes(bad)
        with pytest.raises(lmc_gpu.LmcError):
            subscriber.pull()
    file.write_bytes(good)
    manifest = tmp_path / "v00000002.json"
    text = manifest.read_text()
    told = json.loads(text)
    for bad in (
        "",
        "[]",
        "{}",
        text[:-3],
        json.dumps({**told, "delta": {**told["delta"], "file": "../../etc/passwd"}}),
        json.dumps({**told, "delta": {**told["delta"], "digest": "00"}}),
        json.dumps({**told, "id": "00"}),
        json.dumps({k: v for k, v in told.items() if k != "delta"}),
    ):
        manifest.write_text(bad)
        with pytest.raises(lmc_gpu.LmcError):
            subscriber.pull()
    manifest.write_text(text)
    for bad in ("", "{}", '{"version": "x"}'):
        (tmp_path / "latest.json").write_text(bad)
        with pytest.raises(lmc_gpu.CorruptError, match="latest"):
            subscriber.pull()
        with pytest.raises(lmc_gpu.CorruptError, match="latest"):
            Publisher(tmp_path)
    assert same(subscriber.arrays(), before) and subscriber.step == 0
    with pytest.raises(lmc_gpu.MissingFileError, match="nothing was published"):
        Subscriber(tmp_path / "nowhere").pull()
    with pytest.raises(lmc_gpu.LimitError):
        small = Subscriber(tmp_path, max_bytes=1000)
        publisher._put("latest.json", {"run": told["run"], "version": 2, "id": told["id"]})
        small.pull()


def test_a_full_disk_leaves_the_last_version_in_place(tmp_path):
    state = weights(n=20_000)

    class Full(Directory):
        left = 99

        def put(self, name, data):
            self.left -= 1
            if self.left < 0:
                raise lmc_gpu.StorageError("no space left on device")
            super().put(name, data)

    place = Full(tmp_path, create=True)
    publisher, subscriber = Publisher(place), Subscriber(tmp_path)
    publisher.publish(0, state)
    subscriber.pull()
    before = {k: v.copy() for k, v in state.items()}
    for left in (0, 1, 2):
        change(state, left)
        place.left = left
        with pytest.raises(lmc_gpu.StorageError):
            publisher.publish(1, state)
        assert subscriber.pull() is None and same(subscriber.arrays(), before)
    place.left = 99
    assert publisher.publish(1, state)["version"] == 2
    assert subscriber.pull().step == 1 and same(subscriber.arrays(), state)


def test_over_http_with_a_token(tmp_path):
    state = weights(n=20_000)
    publisher = Publisher(tmp_path)
    publisher.publish(0, state)
    (tmp_path / "secret").write_text("x")
    with Server(tmp_path, token="open") as server:
        subscriber = Subscriber(Web(server.url, token="open"))
        assert subscriber.pull().step == 0
        change(state, 1)
        publisher.publish(1, state)
        assert subscriber.wait(5) and subscriber.prefetch() and subscriber.prefetch()
        assert subscriber.apply().step == 1 and same(subscriber.arrays(), state)
        assert not subscriber.wait(0.02)
        for token in (None, "other"):
            with pytest.raises(lmc_gpu.StorageError, match="401"):
                Subscriber(Web(server.url, token=token)).pull()
        with pytest.raises(lmc_gpu.ArgumentError):
            Web(server.url, token="open").get("secret")
        import urllib.error
        import urllib.request

        for name in ("secret", "../secret", "", "v00000001.json/.."):
            request = urllib.request.Request(f"{server.url}/{name}")
            request.add_header("Authorization", "Bearer open")
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(request)
    with pytest.raises(lmc_gpu.StorageError):
        subscriber.pull()
    with pytest.raises(lmc_gpu.ArgumentError, match="writes to a directory"):
        Publisher("http://127.0.0.1:1")


def test_a_subscriber_reads_while_versions_are_published(tmp_path):
    state = weights(n=50_000)
    publisher = Publisher(tmp_path, full_every=2)
    publisher.publish(0, state)
    published = {0: {k: v.copy() for k, v in state.items()}}
    seen, errors, end = [], [], threading.Event()

    def follow():
        subscriber = Subscriber(tmp_path)
        mine = blank(state)
        try:
            while not end.is_set() or subscriber.step != 20:
                update = subscriber.pull(apply_to=mine)
                if update is not None:
                    assert same(mine, published[update.step])
                    seen.append(update.step)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=follow) for _ in range(2)]
    for thread in threads:
        thread.start()
    for step in range(1, 21):
        change(state, step)
        published[step] = {k: v.copy() for k, v in state.items()}
        publisher.publish(step, state)
    end.set()
    for thread in threads:
        thread.join(60)
    assert not errors and seen[-1] == 20


def test_a_publisher_that_is_killed_leaves_what_was_published(tmp_path):
    code = """
        import os, sys, signal, threading, time
        import numpy as np
        from lmc_gpu.sync import Publisher
        state = {"w": np.random.default_rng(0).normal(size=500_000).astype("float32")}
        publisher = Publisher(sys.argv[1], full_every=2)
        publisher.publish(0, state)
        print("ready", flush=True)
        for step in range(1, 10_000):
            state["w"][step % 1000 :: 1000] = step
            publisher.publish(step, state)
    """
    program = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    subscriber = Subscriber(tmp_path)
    for delay in (0.05, 0.2):
        running = subprocess.Popen(program, stdout=subprocess.PIPE)
        assert running.stdout.readline() == b"ready\n"
        threading.Event().wait(delay)
        running.kill()
        running.wait()
        running.stdout.close()
        subscriber.pull()
        state = {"w": np.random.default_rng(0).normal(size=500_000).astype("float32")}
        for step in range(1, subscriber.step + 1):
            state["w"][step % 1000 :: 1000] = step
        assert same(subscriber.arrays(), state)


def test_tensors_of_torch_on_both_sides(tmp_path):
    torch = package("torch")
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200))
    model[0].to(torch.bfloat16)
    other = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200))
    other[0].to(torch.bfloat16)
    publisher, subscriber = Publisher(tmp_path), Subscriber(tmp_path)
    for step in range(3):
        with torch.no_grad():
            model[0].weight[step] += 1
            model[1].num_batches_tracked += 1
        publisher.publish(step, model.state_dict())
        kept = [p.data_ptr() for p in other.parameters()]
        loaded = {}
        update = subscriber.pull(
            other, load=lambda pairs: loaded.update({n: t.clone() for n, t in pairs})
        )
        assert kept == [p.data_ptr() for p in other.parameters()]
        assert set(loaded) == set(update.changed)
        for name, tensor in model.state_dict().items():
            assert torch.equal(other.state_dict()[name], tensor)
            assert name not in loaded or torch.equal(loaded[name], tensor)
    assert set(loaded) == {"0.weight", "1.num_batches_tracked"}
    # Strided tensors on both sides, and floats that torch cannot index.
    strided = {"t": torch.randn(40, 30).t(), "f": torch.randn(64, 9).to(torch.float8_e5m2)}
    mine = {"t": torch.zeros(40, 30).t(), "f": torch.zeros(64, 9).to(torch.float8_e5m2)}
    publisher.publish(4, strided)
    subscriber.pull(mine)
    strided["t"][3, 4] = 7
    strided["f"].view(torch.uint8)[3, 4] ^= 1
    publisher.publish(5, strided)
    got = []
    subscriber.pull(mine, patch=got.extend)
    assert torch.equal(mine["t"], strided["t"])
    assert torch.equal(mine["f"].view(torch.uint8), strided["f"].view(torch.uint8))
    assert [p.tensor().dtype for p in got if p.name == "f"] == [torch.float8_e5m2]
    with pytest.raises(ValueError, match="sparse"):
        publisher.publish(6, {"s": torch.eye(3).to_sparse()})


def test_a_policy_learns_from_what_another_process_samples():
    package("torch")
    example = pathlib.Path(__file__).parents[1] / "examples" / "policy_gradient.py"
    if not example.exists():
        pytest.skip("the examples are not here")
    program = [sys.executable, str(example), "--steps", "30"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()[-1].split("first ")[1].split(", at last ")
    assert float(last) > 2 * float(first), done.stdout


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_every_change_is_found_at_every_place(kind):
    from lmc_gpu.sync._patch import changed

    for n in [*range(1, 40), 1000]:
        old = np.arange(n).astype(kind)
        assert changed(old, old.copy()).size == 0
        for at in {0, 1, n // 2, n - 1} - ({1} if n == 1 else set()):
            new = old.copy()
            new[at] ^= 1
            found = changed(new, old)
            assert n < 16 if found is None else found.tolist() == [at]
        assert changed(old ^ kind(1), old) is None
