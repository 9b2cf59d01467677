"""Saving beside training, and stores."""

import gc
import threading

import lmc_gpu
import numpy as np
import pytest
from conftest import package


@pytest.fixture
def root(tmp_path):
    return tmp_path / "run"


def equal(a, b):
    """Whether two states are the same, kinds and bits included."""
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            equal(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            equal(x, y)
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()
    elif hasattr(a, "data_ptr"):
        torch = package("torch")
        assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        x, y = (t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
        assert torch.equal(x, y)
    else:
        assert a == b or a != a and b != b


def plain_state():
    return {
        "model": {"w": np.arange(5000, dtype=np.float32), "scalar": np.float64(3)},
        "odd keys": {0: np.ones(3, np.int8), None: 1, 2.5: 2, (1, "x"): 3, True: 4},
        "a.b": {"c": np.zeros((2, 0, 3))},
        "a": {"b.c": np.ones(2), "b": {"c": np.ones(2) * 2}},
        "text": "é\ud800",
        "bytes": b"\0\xff",
        "numbers": [1, 10**30, -0.0, float("inf"), 1e-320, 2 + 3j, None, True],
        "nested": ({"x": []}, (), [(), {}]),
        "set": {1, 2, 3},
        "complex": np.array([1 + 2j, 3], "c16"),
        "date": np.array(["2020-01-01"], "M8[D]"),
        "__metadata__": {"__metadata__": np.arange(3)},
        "big": np.arange(4, dtype=np.uint64),
    }


def test_a_state_comes_back_as_it_was(root):
    state = plain_state()
    with lmc_gpu.Checkpointer(root) as checkpointer:
        assert checkpointer.save(1, state).wait()["step"] == 1
        equal(checkpointer.restore(1), state)
        assert np.isnan(checkpointer.save(2, {"x": float("nan")}).wait()["ratio"]) is not True
        assert np.isnan(checkpointer.restore(2)["x"])
        for step, lone in enumerate([np.arange(7), 5, [np.ones(2)], {}, {"t": np.ones(2)}], 3):
            checkpointer.save(step, lone).wait()
            equal(checkpointer.restore(step), lone)


def torch_state(step=0):
    torch = package("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 64)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(step + 1):
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def test_model_and_optimizer_come_back(root):
    torch = package("torch")
    model, optimizer = torch_state()
    shared = torch.randn(50)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng": torch.get_rng_state(),
        "kinds": [torch.float8_e5m2, torch.Size([1, 2]), torch.device("cpu")],
        "parameter": torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "strided": torch.arange(12.0).reshape(3, 4).t(),
        "wide": torch.ones(3, dtype=torch.complex128),
        "fours": torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
        "same keys": {1: torch.ones(1), "1": torch.zeros(1)},
        "half": torch.ones(3, dtype=torch.complex32),
        "tied": {"a": shared, "b": shared, "part": shared[:10]},
        "array": np.arange(5),
        "empty": torch.ones(0, 3),
        "epoch": 3,
    }
    with lmc_gpu.Checkpointer(root) as checkpointer:
        checkpointer.save(1, state).wait()
        found = checkpointer.restore(1)
        equal(found, state)
        assert found["tied"]["a"] is found["tied"]["b"]
        again, optimizer2 = torch_state(3)
        again.load_state_dict(found["model"])
        optimizer2.load_state_dict(found["optimizer"])
        equal(optimizer2.state_dict(), optimizer.state_dict())
        paths = {f["path"] for f in checkpointer.store.records()[0]["files"]}
        assert {"model.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors"} <= paths


def test_what_is_saved_is_the_state_when_save_was_called(root):
    w = np.zeros(1 << 20, np.float32)
    with lmc_gpu.Checkpointer(root) as checkpointer:
        tickets = []
        for step in range(1, 7):
            w += 1
            tickets.append(checkpointer.save(step, {"w": w}))
        w[:] = -1
        for ticket in tickets:
            ticket.wait()
            assert ticket.done() and ticket.wait()["step"] == ticket.step
        for step in range(1, 7):
            assert (checkpointer.restore(step)["w"] == step).all()
        assert checkpointer.steps() == [1, 2, 3, 4, 5, 6]
        stats = checkpointer.stats()
        assert stats["background"]["saved"] == 6
        assert [s["kind"] for s in stats["steps"]].count("full") >= 1


def test_copies_are_reused_and_bounded(root):
    w = np.random.default_rng(0).normal(0, 1, 1 << 18).astype(np.float32)
    with lmc_gpu.Checkpointer(root) as checkpointer:
        made = []
        pool = checkpointer._pool
        take = pool.take
        pool.take = lambda length, make: made.append(take(length, make)) or made[-1]
        addresses = set()
        for step in range(1, 13):
            checkpointer.save(step, {"w": w})
            addresses.add(made.pop()[0].ctypes.data)
            w[step::1000] += 1
        checkpointer.flush()
        assert len(addresses) <= 4


def test_restore_into_writes_in_place(root):
    package("torch")
    model, optimizer = torch_state()
    state = {"model": model.state_dict(), "opt": optimizer.state_dict(), "n": 1, "a": np.ones(4)}
    with lmc_gpu.Checkpointer(root) as checkpointer:
        checkpointer.save(1, state).wait()
        other, _ = torch_state(2)
        _, optimizer2 = torch_state(2)
        target = {"model": other.state_dict(), "opt": optimizer2.state_dict(), "n": 2}
        target["a"] = np.zeros(4)
        weights = target["model"]["0.weight"]
        assert checkpointer.restore_into(1, target) is target
        equal(target, state)
        assert target["model"]["0.weight"] is weights
        equal(dict(other.state_dict()), dict(model.state_dict()))
        target["a"] = np.zeros(8)[::2]
        checkpointer.restore_into(1, target)
        equal(np.ascontiguousarray(target["a"]), state["a"])


def test_restore_into_a_state_that_differs_writes_nothing(root):
    with lmc_gpu.Checkpointer(root) as checkpointer:
        checkpointer.save(1, {"a": np.ones(4), "b": {"c": np.ones(3)}, "n": 1}).wait()
        for other, what in [
            ({"a": np.zeros(4), "b": {"c": np.zeros(2)}, "n": 0}, "b.c is float64"),
            ({"a": np.zeros(4), "b": {"c": np.zeros(3, "f4")}, "n": 0}, "b.c is float32"),
            ({"a": np.zeros(4), "b": {}, "n": 0}, "b has"),
            ({"a": np.zeros(4), "b": {"c": 5}, "n": 0}, "b.c is int"),
        ]:
            with pytest.raises(ValueError, match=what):
                checkpointer.restore_into(1, other)
            assert not other["a"].any() and other["n"] == 0


def test_what_is_no_part_of_a_state_is_refused_by_its_place(root):
    with lmc_gpu.Checkpointer(root) as checkpointer:
        with pytest.raises(TypeError, match="model.layer.0 is of type object"):
            checkpointer.save(1, {"model": {"layer": [object()]}})
        with pytest.raises(lmc_gpu.UnsupportedError, match="a.b"):
            checkpointer.save(1, {"a": {"b": np.array([None])}})
        assert checkpointer.steps() == []


def test_refused_kinds_of_tensors_are_named(root):
    torch = package("torch")
    with lmc_gpu.Checkpointer(root) as checkpointer:
        with pytest.raises(ValueError, match="m.s is sparse"):
            checkpointer.save(1, {"m": {"s": torch.eye(3).to_sparse()}})
        with pytest.raises(ValueError, match="m.x is on the device meta"):
            checkpointer.save(1, {"m": {"x": torch.ones(3, device="meta")}})


def test_a_failed_save_is_told_once(root):
    with lmc_gpu.Checkpointer(root) as checkpointer:
        checkpointer.save(1, {"w": np.ones(10)}).wait()
        ticket = checkpointer.save(1, {"w": np.ones(10)})
        with pytest.raises(lmc_gpu.ArgumentError, match="saved already"):
            ticket.wait()
        with pytest.raises(lmc_gpu.ArgumentError):
            ticket.wait()
        with pytest.raises(lmc_gpu.ArgumentError, match="an earlier checkpoint failed"):
            checkpointer.save(2, {"w": np.ones(10)})
        checkpointer.save(2, {"w": np.ones(10)}).wait()
        assert checkpointer.steps() == [1, 2]


def test_replace_and_rules(root):
    with lmc_gpu.Checkpointer(root, full_every=1, replace=True, keep_last=2) as checkpointer:
        for step in (1, 2, 3, 3):
            checkpointer.save(step, {"w": np.full(10, step)}).wait()
        assert checkpointer.gc(dry_run=True)["steps"] == [1]
        assert checkpointer.gc()["steps"] == [1]
        assert checkpointer.gc(drop_after=2)["steps"] == [3]
        assert checkpointer.steps() == [2]
        assert checkpointer.store.verify()["ok"]


def test_a_closed_checkpointer_says_so(root):
    checkpointer = lmc_gpu.Checkpointer(root)
    checkpointer.close()
    checkpointer.close()
    with pytest.raises(RuntimeError, match="closed"):
        checkpointer.save(1, {})


def test_waiting_has_an_end(root):
    with lmc_gpu.Checkpointer(root, method="max", threads=1) as checkpointer:
        ticket = checkpointer.save(1, {"w": np.random.default_rng(0).normal(size=1 << 20)})
        with pytest.raises(TimeoutError):
            ticket.wait(timeout=0)
        ticket.wait(timeout=600)


def test_an_abandoned_save_leaves_nothing(root):
    checkpointer = lmc_gpu.Checkpointer(root, method="max", threads=1)
    ticket = checkpointer.save(1, {"w": np.random.default_rng(0).normal(size=1 << 21)})
    checkpointer.close(abandon=True)
    with pytest.raises(lmc_gpu.StorageError):
        ticket.wait()
    assert lmc_gpu.Store(root).steps() == []
    assert list((root / "steps").iterdir()) == []


def test_several_threads_save_into_one_store(root):
    with lmc_gpu.Checkpointer(root) as checkpointer:

        def save(step):
            checkpointer.save(step, {"w": np.full(1000, step)}).wait()

        threads = [threading.Thread(target=save, args=(s,)) for s in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert checkpointer.steps() == list(range(1, 9))
        for step in range(1, 9):
            assert (checkpointer.restore(step)["w"] == step).all()


def test_dropping_a_checkpointer_waits_for_what_it_was_given(root):
    checkpointer = lmc_gpu.Checkpointer(root)
    checkpointer.save(1, {"w": np.ones(1000)})
    del checkpointer
    gc.collect()
    assert lmc_gpu.Store(root).steps() == [1]


def test_a_store_keeps_files_and_deltas(tmp_path, root, weights):
    source = tmp_path / "w.bin"
    with pytest.raises(lmc_gpu.ArgumentError, match="not a store"):
        lmc_gpu.Store(root)
    store = lmc_gpu.Store(root, create=True, full_every=4)
    for step in range(1, 6):
        weights = weights.copy()
        weights[::100] *= 1.01
        source.write_bytes(weights.tobytes())
        assert store.save(source, step)["step"] == step
    assert store.steps() == [1, 2, 3, 4, 5]
    assert [r["base"] for r in store.records()] == [None, 1, 2, 3, None]
    store.restore(3, tmp_path / "again")
    assert (tmp_path / "again").stat().st_size == weights.nbytes
    with pytest.raises(lmc_gpu.ArgumentError, match="nearest one is 5"):
        store.restore(9, tmp_path / "none")
    assert lmc_gpu.Store(root, keep_last=1).gc()["steps"] == [4, 3, 2, 1]


def test_older_steps_give_up_the_state_of_their_optimizer_and_keep_their_weights(root):
    rng = np.random.default_rng(3)
    states = []
    with lmc_gpu.Checkpointer(root, full_every=1, state_last=1) as checkpointer:
        for step in range(3):
            w, m, v = (rng.normal(size=30000).astype("float32") for _ in range(3))
            optimizer = {"state": {0: {"exp_avg": m, "exp_avg_sq": v * v}}, "param_groups": []}
            states.append({"model": {"w": w}, "optimizer": optimizer})
            checkpointer.save(step, states[-1]).wait()
        assert checkpointer.gc()["without_state"] == [0, 1]
        assert checkpointer.gc(state_last=1)["without_state"] == []
        last = checkpointer.restore(2)["optimizer"]["state"][0]["exp_avg"]
        assert np.array_equal(last, states[2]["optimizer"]["state"][0]["exp_avg"])
        with pytest.raises(lmc_gpu.UnsupportedError, match="given up the state of its optimizer"):
            checkpointer.restore(0)
        w = checkpointer.store.open(0).get_tensor("w")
        assert np.array_equal(w, states[0]["model"]["w"])


def test_a_step_of_a_checkpointer_opens_like_a_file(root):
    with lmc_gpu.Checkpointer(root) as checkpointer:
        checkpointer.save(1, {"model": {"w": np.arange(100.0)}}).wait()
        with checkpointer.store.open(1) as f:
            assert f.keys() == ["w"]
            assert f.get_slice("w")[3:5].tolist() == [3.0, 4.0]


def test_a_step_of_something_else_is_no_state(tmp_path, root):
    (tmp_path / "x").write_bytes(b"abc")
    lmc_gpu.Store(root, create=True).save(tmp_path / "x", 1)
    with lmc_gpu.Checkpointer(root) as checkpointer:
        with pytest.raises(lmc_gpu.UnsupportedError, match="no state"):
            checkpointer.restore(1)
