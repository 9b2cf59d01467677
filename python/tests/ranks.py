"""Programs of several processes, for the tests of distributed checkpoints.

`python ranks.py NAME ARGUMENT…` runs one of the functions below that are listed in `PROGRAMS`. Each
starts processes by forking, after torch is imported, which takes longest.
"""

import os
import signal
import sys
import tempfile
import traceback
import warnings

warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from lmc_gpu.torch.dcp import LmcExtension, LmcReader, LmcWriter, SafeLoadPlanner, registry
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def run(world, body, *args, dies=None):
    """Runs `body(rank, …)` in so many processes, of which `dies` is expected to be killed."""
    file = tempfile.mktemp()
    pids = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
                torch.set_num_threads(1)
                store = f"file://{file}"
                dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
                body(rank, *args)
                dist.destroy_process_group()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        pids.append(pid)
    for rank, pid in enumerate(pids):
        _, status = os.waitpid(pid, 0)
        if dies is None:
            assert status == 0, f"rank {rank} of {world} ended with {status}"
        else:
            assert status != 0, f"rank {rank} did not notice that another one died"


class Net(torch.nn.Module):
    """A small model with parameters that are sharded unevenly, and a buffer."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(101, 48)
        self.up = torch.nn.Linear(48, 130)
        self.down = torch.nn.Linear(130, 48)
        self.register_buffer("scale", torch.full((3,), 0.5))

    def forward(self, ids):
        x = self.embed(ids)
        return (x + self.down(torch.relu(self.up(x)))).square().mean()


def make(seed):
    """A sharded model and its optimizer."""
    torch.manual_seed(seed)
    model = Net()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(model, optimizer, steps, seed=0):
    torch.manual_seed(seed)
    for _ in range(steps):
        model(torch.randint(0, 101, (8, 16))).backward()
        optimizer.step()
        optimizer.zero_grad()


OTHERS = {
    "none": None,
    "text": "a",
    "nested": [{"a": 1.5}, (torch.arange(3), "b"), {"deep": [None, True]}],
    "rng": torch.arange(16, dtype=torch.uint8),
    "complex": torch.complex(torch.arange(4.0), torch.ones(4)).to(torch.complex128),
    "half": torch.arange(7).to(torch.bfloat16),
    "fp8": torch.arange(8).to(torch.float8_e4m3fn),
    "scalar": torch.tensor(3.25, dtype=torch.float64),
    "empty": torch.empty(0, 5),
    "flags": torch.tensor([True, False]),
}


def state_of(model, optimizer):
    own, of_optimizer = get_state_dict(model, optimizer)
    return {"model": own, "optim": of_optimizer, **OTHERS}


def whole(value):
    """A state with every tensor as a whole, on every rank."""
    if isinstance(value, DTensor):
        return value.full_tensor().clone()
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: whole(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(whole(v) for v in value)
    return value


def emptied(value):
    """The same state, with nothing in it that was loaded."""
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            value = value.detach().clone()
            if value.dtype.is_floating_point and value.element_size() == 1:
                return torch.zeros_like(value)
            return value.zero_()
    if isinstance(value, dict):
        return {k: emptied(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(emptied(v) for v in value)
    return value if value is None else type(value)()


def equal(a, b, place=""):
    assert type(a) is type(b), (place, type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape, place
        bits = lambda t: t.contiguous().reshape(-1).view(torch.uint8)
        assert torch.equal(bits(a), bits(b)), place
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), place
        for k in a:
            equal(a[k], b[k], f"{place}.{k}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), place
        for i, (x, y) in enumerate(zip(a, b)):
            equal(x, y, f"{place}.{i}")
    else:
        assert a == b, place


def keep(state, path):
    """Keeps a state as a whole, for whoever loads it later."""
    full = whole(state)
    if dist.get_rank() == 0:
        torch.save(full, path)


def save_series(rank, root):
    """Four ranks save three steps, each a delta to the one before; the last in the background."""
    model, optimizer = make(1)
    for step in (1, 2, 3):
        train(model, optimizer, 2, seed=step)
        state = state_of(model, optimizer)
        base = f"{root}/{step - 1}" if step > 1 else None
        writer = LmcWriter(f"{root}/{step}", base=base)
        if step < 3:
            dcp.save(state, storage_writer=writer)
            keep(state, f"{root}/{step}.pt")
        else:
            keep(state, f"{root}/{step}.pt")
            # Training has collectives of its own meanwhile.
            group = dist.new_group(backend="gloo")
            future = dcp.async_save(state, storage_writer=writer, process_group=group)
            train(model, optimizer, 2)  # changes every tensor while it is being saved
            future.result()


def load(rank, root, steps):
    """Loads, into a model with other weights, on another number of ranks."""
    model, optimizer = make(2)
    train(model, optimizer, 1)
    for step in steps:
        state = emptied(state_of(model, optimizer))
        dcp.load(state, storage_reader=LmcReader(f"{root}/{step}"), planner=SafeLoadPlanner())
        equal(whole(state), torch.load(f"{root}/{step}.pt"))


def go_on(rank, root, step):
    """Loads a step, trains and saves the next one as a delta to it."""
    model, optimizer = make(3)
    state = state_of(model, optimizer)
    dcp.load(state, storage_reader=LmcReader(f"{root}/{step}"))
    equal(whole(state), torch.load(f"{root}/{step}.pt"))
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"]
    )
    train(model, optimizer, 1)
    state = state_of(model, optimizer)
    keep(state, f"{root}/{step + 1}.pt")
    dcp.save(state, storage_writer=LmcWriter(f"{root}/{step + 1}", base=f"{root}/{step}"))


class Dying(dcp.DefaultSavePlanner):
    """Kills its process in the middle of saving."""

    def resolve_data(self, write_item):
        if dist.get_rank() == 1 and "down" in write_item.index.fqn:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().resolve_data(write_item)


def die(rank, root, step):
    model, optimizer = make(4)
    train(model, optimizer, 1)
    writer = LmcWriter(f"{root}/{step}", base=f"{root}/{step - 1}")
    dcp.save(state_of(model, optimizer), storage_writer=writer, planner=Dying())


def fail(rank, root, step):
    """One rank's disk is full: every rank is told, and what there was stays."""
    import lmc_gpu
    from lmc_gpu import _native

    if rank == 1:

        def full(*_):
            error = lmc_gpu.StorageError("no space left on device")
            error.errno = 28
            raise error

        _native.save_files = full
    model, optimizer = make(4)
    try:
        dcp.save(state_of(model, optimizer), storage_writer=LmcWriter(f"{root}/{step}"))
    except dcp.CheckpointException as error:
        assert "no space left" in str(error), error
    else:
        raise AssertionError("nobody noticed")


def with_extension(rank, root):
    """DCP's own files, with each item compressed."""
    model, optimizer = make(1)
    train(model, optimizer, 2)
    state = state_of(model, optimizer)
    keep(state, f"{root}/e.pt")
    writer = dcp.FileSystemWriter(f"{root}/e", _extensions=[LmcExtension()])
    dcp.save(state, storage_writer=writer)


def load_with_extension(rank, root):
    model, optimizer = make(2)
    train(model, optimizer, 1)
    for reader in (
        dcp.FileSystemReader(f"{root}/e", _extension_registry=registry()),
        LmcReader(f"{root}/e"),
    ):
        state = emptied(state_of(model, optimizer))
        dcp.load(state, storage_reader=reader)
        equal(whole(state), torch.load(f"{root}/e.pt"))


def series(root):
    run(4, save_series, root)
    run(2, load, root, (1, 3))
    # A base that is gathered, of a base that is gathered.
    run(3, go_on, root, 3)
    run(2, go_on, root, 4)
    run(3, load, root, (5,))


def killed(root):
    run(3, go_from_nothing, root)
    run(3, die, root, 2, dies=1)
    assert not os.path.exists(f"{root}/2/.metadata")
    run(2, load, root, (1,))
    run(3, fail, root, 3)
    assert not os.path.exists(f"{root}/3/.metadata")


def go_from_nothing(rank, root):
    model, optimizer = make(1)
    train(model, optimizer, 1)
    state = state_of(model, optimizer)
    keep(state, f"{root}/1.pt")
    dcp.save(state, storage_writer=LmcWriter(f"{root}/1"))


def extension(root):
    run(4, with_extension, root)
    run(3, load_with_extension, root)


PROGRAMS = {"series": series, "killed": killed, "extension": extension}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
    print("done")
