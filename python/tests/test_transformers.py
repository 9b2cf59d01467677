"""Models and trainers of Hugging Face."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import lmc_gpu
import pytest
from conftest import package

torch = package("torch")
transformers = package("transformers")

from lmc_gpu.transformers import (
    INDEX,
    ArchiveCallback,
    from_pretrained,
    restore_checkpoint,
    save_pretrained,
)


def llama(**options):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        **options,
    )
    return transformers.LlamaForCausalLM(config)


def equal(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and torch.equal(a[k], b[k]) for k in a
    )


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sharded_models_come_back_equal(tmp_path, tied, dtype):
    model = llama(tie_word_embeddings=tied).to(dtype)
    model.generation_config.max_new_tokens = 7
    told = save_pretrained(model, tmp_path / "m", max_shard_size="100KB")
    assert len(list((tmp_path / "m").glob("*.safetensors.lmc"))) > 1 and told["ratio"] < 1
    assert not list(tmp_path.glob(".lmc-*")) and not list((tmp_path / "m").glob("*.safetensors"))
    for cls in (transformers.LlamaForCausalLM, transformers.AutoModelForCausalLM):
        found = from_pretrained(cls, tmp_path / "m")
        assert type(found) is type(model) and equal(found, model)
        assert found.generation_config.max_new_tokens == 7
    # What is in no file, such as the frequencies of positions, is made as transformers makes it.
    model.save_pretrained(tmp_path / "raw")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "raw")
    ids = torch.arange(8)[None]
    with torch.no_grad():
        assert torch.equal(found(ids).logits, theirs(ids).logits)
    if tied:
        assert found.lm_head.weight.data_ptr() == found.model.embed_tokens.weight.data_ptr()
    other = from_pretrained(transformers.AutoModelForCausalLM, tmp_path / "m", dtype="float16")
    assert other.dtype == torch.float16


def test_a_fine_tuned_model_is_a_delta_to_what_it_was_made_from(tmp_path):
    model = llama().to(torch.bfloat16)
    save_pretrained(model, tmp_path / "a")
    model.save_pretrained(tmp_path / "raw")
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3] += 1
    for base in ("a", "raw"):
        told = save_pretrained(model, tmp_path / f"of-{base}", base=tmp_path / base)
        assert told["ratio"] < 0.2
        found = from_pretrained(transformers.AutoModelForCausalLM, tmp_path / f"of-{base}")
        assert equal(found, model)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(lmc_gpu.BaseMismatchError, match="pass base="):
        from_pretrained(transformers.AutoModelForCausalLM, tmp_path / "of-a")
    found = from_pretrained(
        transformers.AutoModelForCausalLM, tmp_path / "of-a", base=tmp_path / "b"
    )
    assert equal(found, model)
    with pytest.raises(lmc_gpu.ArgumentError, match="max_shard_size"):
        save_pretrained(model, tmp_path / "c", base=tmp_path / "b", max_shard_size="50KB")


def test_what_was_not_saved_to_its_end_is_not_loaded(tmp_path, monkeypatch):
    model = llama()
    save_pretrained(model, tmp_path / "m", max_shard_size="100KB")
    save_pretrained(model, tmp_path / "m")
    assert len(list((tmp_path / "m").glob("*.lmc"))) == 1
    with pytest.raises(lmc_gpu.ArgumentError, match="delta to itself"):
        save_pretrained(model, tmp_path / "m", base=tmp_path / "m")

    def full(*_, **__):
        raise lmc_gpu.StorageError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("lmc_gpu.transformers.compress_file", full)
        with pytest.raises(lmc_gpu.StorageError):
            save_pretrained(model, tmp_path / "m")
    with pytest.raises(lmc_gpu.MissingFileError, match="to its end"):
        from_pretrained(transformers.AutoModelForCausalLM, tmp_path / "m")
    save_pretrained(model, tmp_path / "m")
    index = tmp_path / "m" / INDEX
    text = index.read_text()
    index.unlink()
    with pytest.raises(lmc_gpu.MissingFileError, match="to its end"):
        from_pretrained(transformers.AutoModelForCausalLM, tmp_path / "m")
    told = json.loads(text)
    told["weight_map"] = {"x": "../elsewhere.lmc"}
    index.write_text(json.dumps(told))
    with pytest.raises(lmc_gpu.ArgumentError, match="elsewhere"):
        from_pretrained(transformers.AutoModelForCausalLM, tmp_path / "m")


def test_a_device_map_places_the_tensors(tmp_path):
    package("accelerate")
    model = llama()
    save_pretrained(model, tmp_path / "m", max_shard_size="100KB")
    found = from_pretrained(
        transformers.AutoModelForCausalLM, tmp_path / "m", device_map={"": "cpu"}
    )
    assert equal(found, model)


PROGRAM = """
    import json, os, signal, sys, warnings
    warnings.simplefilter("ignore")
    import torch, transformers
    from lmc_gpu.transformers import ArchiveCallback, restore_checkpoint
    root, upto, resume = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "resume"
    torch.set_num_threads(1)
    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
        attention_dropout=0.1,
    )
    model = transformers.LlamaForCausalLM(config)
    ids = torch.randint(0, 64, (64, 12), generator=torch.Generator().manual_seed(1))
    data = [{"input_ids": row, "labels": row} for row in ids]

    class Stop(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **others):
            if not resume and state.global_step == upto:
                os.kill(os.getpid(), signal.SIGKILL)

    class Losses(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **others):
            if "loss" in logs:
                print(json.dumps([state.global_step, logs["loss"]]), flush=True)

    args = transformers.TrainingArguments(
        root + "/out", per_device_train_batch_size=4, max_steps=12, save_steps=2, logging_steps=1,
        save_total_limit=1, report_to=[], use_cpu=True, disable_tqdm=True, learning_rate=1e-3,
    )
    archive = ArchiveCallback(root + "/store", full_every=4)
    trainer = transformers.Trainer(
        model, args, train_dataset=data, callbacks=[archive, Losses(), Stop()]
    )
    path = restore_checkpoint(root + "/store", root + "/out") if resume else None
    trainer.train(resume_from_checkpoint=path)
"""


def train(root, upto, how):
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(root), str(upto), how]
    done = subprocess.run(program, capture_output=True, text=True, timeout=200)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    return done, dict(map(json.loads, lines))


def test_a_run_that_is_killed_resumes_from_the_store_to_the_same_losses(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    done, expected = train(tmp_path / "whole", 99, "fresh")
    assert done.returncode == 0, done.stderr
    done, before = train(tmp_path / "cut", 7, "fresh")
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = lmc_gpu.Store(tmp_path / "cut" / "store")
    assert store.steps() == [2, 4, 6] and store.verify()["ok"]
    assert [r["base"] for r in store.records()] == [None, 2, 4]
    # What the Trainer itself had is gone, or only half there.
    last = tmp_path / "cut" / "out" / "checkpoint-6"
    (last / "optimizer.pt").unlink()
    done, after = train(tmp_path / "cut", 99, "resume")
    assert done.returncode == 0, done.stderr
    assert min(after) == 7 and len(expected) == 12
    assert {**{k: v for k, v in before.items() if k < 7}, **after} == expected
    assert store.steps() == [2, 4, 6, 8, 10, 12] and store.verify()["ok"]
    # From an earlier step the run goes its own way.
    callback = ArchiveCallback(store)
    callback.on_train_begin(None, transformers.TrainerState(global_step=4), None)
    args = transformers.TrainingArguments(str(tmp_path / "cut/out"), report_to=[], use_cpu=True)
    restore_checkpoint(store, args.output_dir, step=6)
    callback.on_save(args, transformers.TrainerState(global_step=6), None)
    assert store.steps() == [2, 4, 6] and store.verify()["ok"]
    with pytest.raises(lmc_gpu.ArgumentError, match="of another run"):
        callback.on_train_begin(None, transformers.TrainerState(global_step=0), None)


def test_half_a_checkpoint_is_not_stored(tmp_path):
    callback = ArchiveCallback(tmp_path / "store", keep_raw=False)
    args = transformers.TrainingArguments(str(tmp_path), report_to=[], use_cpu=True)
    state = transformers.TrainerState(global_step=5)
    path = tmp_path / "checkpoint-5"
    path.mkdir()
    (path / "model.safetensors").write_bytes(bytes(1000))
    with pytest.warns(UserWarning, match="is not stored"):
        callback.on_save(args, state, None)
    assert callback.store.steps() == []
    (path / "trainer_state.json").write_text("{}")
    callback.on_save(args, state, None)
    assert callback.store.steps() == [5] and not path.exists()
    assert restore_checkpoint(tmp_path / "store", tmp_path / "out") == os.fspath(
        tmp_path / "out" / "checkpoint-5"
    )
    assert (tmp_path / "out" / "checkpoint-5" / "model.safetensors").read_bytes() == bytes(1000)
    with pytest.raises(lmc_gpu.LmcError):
        restore_checkpoint(tmp_path / "store", tmp_path / "out", step=6)
    assert pathlib.Path(restore_checkpoint(callback.store, tmp_path / "out")).exists()
    with pytest.raises(lmc_gpu.ArgumentError, match="no checkpoints"):
        restore_checkpoint(lmc_gpu.Store(tmp_path / "empty", create=True), tmp_path / "out")


def test_states_of_accelerate_go_into_a_store(tmp_path):
    accelerate = package("accelerate")
    from lmc_gpu.accelerate import load_state, save_state

    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(100, 100)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    store = lmc_gpu.Store(tmp_path / "store", create=True)
    with pytest.raises(lmc_gpu.ArgumentError, match="no checkpoints"):
        load_state(accelerator, store)
    kept = {}
    for step in (1, 2, 3):
        accelerator.backward(model(torch.randn(4, 100)).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        save_state(accelerator, store, step)
        kept[step] = {k: v.clone() for k, v in model.state_dict().items()}
    for step in (2, None):
        assert load_state(accelerator, store, step) == (step or 3)
        now = model.state_dict()
        assert all(torch.equal(now[k], v) for k, v in kept[step or 3].items())
    assert os.listdir(tmp_path) == ["store"]
