"""Measures what plugs into other packages: `python bench_plugs.py [dcp|sync|transformers …]`.

Sizes count every file. What is read back is compared with what was saved. Times are those of the
processor, of all threads together, so that they hold on a busy machine too.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time
import warnings

warnings.simplefilter("ignore")
import numpy as np


def seconds(work):
    """How long it takes the processor, and what it returns."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def size(path):
    """Bytes of all files below a path."""
    return sum(f.stat().st_size for f in pathlib.Path(path).rglob("*") if f.is_file())


def training_state(mib):
    """A state of training as one step leaves it, and as the next one does: AdamW on bfloat16."""
    import torch

    torch.manual_seed(0)
    n = (mib << 20) // 14 // 8
    shapes = {f"layers.{i}.weight": (n // 1024, 1024) for i in range(8)}
    weights = {k: torch.nn.Parameter(torch.randn(s) * 0.02) for k, s in shapes.items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=1e-4)

    def step():
        for w in weights.values():
            w.grad = (torch.randn_like(w) * 1e-3).to(torch.bfloat16).float()
        optimizer.step()

    def state():
        moments = optimizer.state_dict()["state"]
        return {
            "model": {k: w.detach().to(torch.bfloat16) for k, w in weights.items()},
            "master": {k: w.detach().clone() for k, w in weights.items()},
            "optim": {
                "state": {
                    k: {n: t.clone() for n, t in moments[i].items()} for i, k in enumerate(weights)
                }
            },
        }

    for _ in range(20):
        step()
    first = state()
    step()
    return first, state()


def dcp(root, mib):
    """torch.distributed.checkpoint, plain, with its ZStandard, and with what this package has."""
    import torch
    import torch.distributed.checkpoint as dcp
    from lmc_gpu.torch.dcp import LmcExtension, LmcReader, LmcWriter
    from torch.distributed.checkpoint._extension import ZStandard

    first, second = training_state(mib)
    count = sum(t.nbytes for t in flat(first).values())
    print(f"\ntorch.distributed.checkpoint, one process, {count >> 20} MiB: weights of bfloat16,")
    print("float32 masters, moments: ratio, seconds to save, to load")
    writers = {
        "plain": lambda p: dcp.FileSystemWriter(p, sync_files=False),
        "ZStandard": lambda p: dcp.FileSystemWriter(p, sync_files=False, _extensions=[ZStandard()]),
        "LmcExtension": lambda p: dcp.FileSystemWriter(
            p, sync_files=False, _extensions=[LmcExtension()]
        ),
        "LmcWriter": LmcWriter,
        "LmcWriter, base=": lambda p: LmcWriter(p, base=root / "LmcWriter"),
    }
    for name, make in writers.items():
        state = second if "base" in name else first
        path = root / name
        save, _ = seconds(lambda: dcp.save(state, storage_writer=make(path)))
        found = {k: torch.zeros_like(v) for k, v in flat(state).items()}
        reader = dcp.FileSystemReader if name in ("plain", "ZStandard") else LmcReader
        load, _ = seconds(lambda: dcp.load(found, storage_reader=reader(path)))
        assert all(torch.equal(found[k], v) for k, v in flat(state).items()), name
        print(f"  {name:20} {size(path) / count:.4f} {save:7.2f} {load:7.2f}")


def flat(state, prefix=""):
    """Tensors by the names that DCP gives them."""
    found = {}
    for key, value in state.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[prefix + key] = value
    return found


def sync(root, mib):
    """Weights from a trainer to a subscriber, half a percent of the words changed at each step."""
    import torch
    from lmc_gpu.sync import Publisher, Subscriber

    torch.set_num_threads(1)

    rng = np.random.default_rng(0)
    n = (mib << 20) // 2
    part = rng.normal(0, 0.02, 4 << 20).astype(np.float32)
    part = (part.view(np.uint32) >> 16).astype(np.uint16)
    words = np.concatenate(
        [np.roll(part, i * 4099) ^ np.uint16(i & 1) for i in range(n // part.size)]
    )
    tensors = {
        f"layers.{i}": torch.from_numpy(w.view(np.int16)).view(torch.bfloat16).view(-1, 1024)
        for i, w in enumerate(np.split(words, 32))
    }
    out = np.zeros_like(words)
    copy = statistics.median(seconds(lambda: np.copyto(out, words))[0] for _ in range(5))
    rate = words.nbytes / copy / 1e9
    publisher = Publisher(root / "sync", full_every=100, threads=1)
    subscriber = Subscriber(root / "sync", threads=1)
    mine = {k: torch.zeros_like(t) for k, t in tensors.items()}
    print(f"\nsync, {mib} MiB of bfloat16 in {root}, one thread; memcpy {rate:.2f} GB/s")
    print("  step: ratio, seconds to publish, to prefetch, to apply")
    rows = []
    for step in range(6):
        publish, told = seconds(lambda: publisher.publish(step, tensors))
        prefetch, _ = seconds(subscriber.prefetch)
        apply, _ = seconds(lambda: subscriber.apply(mine))
        print(
            f"  {step} {told['kind']:6} {told['ratio']:.5f} {publish:7.3f} {prefetch:7.3f} "
            f"{apply:7.3f}"
        )
        rows.append((publish, prefetch, apply))
        if step < 5:
            at = rng.choice(n, n // 200, replace=False)
            words[at] += np.where(rng.random(at.size) < 0.5, 1, 65535).astype(np.uint16)
    assert all(
        torch.equal(mine[k].view(torch.int16), t.view(torch.int16)) for k, t in tensors.items()
    )
    publish, prefetch, apply = (statistics.median(c) for c in zip(*rows[1:]))
    print(
        f"  median: publish {publish:.3f} s ({copy / publish:.3f} of memcpy), prefetch "
        f"{prefetch:.3f} s ({copy / prefetch:.3f}), apply {apply:.4f} s"
    )
    dense = statistics.median(
        seconds(lambda: [mine[k].copy_(t) for k, t in tensors.items()])[0] for _ in range(3)
    )
    print(f"  copying all weights instead of applying takes {dense:.4f} s")


def transformers(root, mib):
    """A model of Hugging Face."""
    import torch
    import transformers
    from transformers.utils import logging

    logging.disable_progress_bar()
    from lmc_gpu.transformers import from_pretrained, save_pretrained

    torch.manual_seed(0)
    width = 512
    layers = max(1, (mib << 20) // (2 * 12 * width * width))
    config = transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=width,
        intermediate_size=int(2.7 * width),
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=8,
    )
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    raw, packed = root / "raw", root / "packed"
    save, _ = seconds(lambda: model.save_pretrained(raw))
    load, _ = seconds(lambda: transformers.AutoModelForCausalLM.from_pretrained(raw))
    print("\ntransformers, a Llama of bfloat16: MiB, ratio, seconds to save, to load")
    print(f"  save_pretrained              {size(raw) >> 20:5} 1.0000 {save:6.2f} {load:6.2f}")
    save, _ = seconds(lambda: save_pretrained(model, packed))
    load, found = seconds(lambda: from_pretrained(transformers.AutoModelForCausalLM, packed))
    assert all(torch.equal(a, b) for a, b in zip(found.parameters(), model.parameters()))
    ratio = size(packed) / size(raw)
    print(
        f"  lmc_gpu.transformers         {size(packed) >> 20:5} {ratio:.4f} {save:6.2f} {load:6.2f}"
    )


def main():
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["dcp", "sync", "transformers"])
    parser.add_argument("--mib", type=int, default=None)
    parser.add_argument("--dir", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    args = parser.parse_args()
    usual = {"dcp": 448, "sync": 1024, "transformers": 256}
    for what in args.what:
        with tempfile.TemporaryDirectory(dir=args.dir) as root:
            globals()[what](pathlib.Path(root), args.mib or usual[what])


if __name__ == "__main__":
    main()
