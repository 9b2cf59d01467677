"""The examples in docstrings and in the tutorial run, and the stubs say what the code says."""

import ast
import doctest
import importlib
import inspect
import os
import pathlib
import re

import lmc_gpu
import pytest
from conftest import package

MODULES = {
    "lmc_gpu": (),
    "lmc_gpu._codec": (),
    "lmc_gpu._open": (),
    "lmc_gpu._store": (),
    "lmc_gpu.numpy": (),
    "lmc_gpu.numcodecs": ("numcodecs",),
    "lmc_gpu.sync._publish": (),
    "lmc_gpu.sync._transport": (),
    "lmc_gpu.torch": ("torch",),
    "lmc_gpu.torch.dcp._extension": ("torch",),
    "lmc_gpu.torch.dcp._write": ("torch",),
}
BESIDE = pathlib.Path(__file__).parents[2] / "docs" / "PYTHON.md"
TUTORIAL = pathlib.Path(os.environ.get("LMC_TUTORIAL", BESIDE))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    for needed in MODULES[name]:
        package(needed)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0


def test_the_tutorial_runs_from_its_first_block_to_its_last(tmp_path, monkeypatch):
    package("torch")
    text = TUTORIAL.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) > 5
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "tutorial"}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        code = compile("\n" * line + block, str(TUTORIAL), "exec")
        exec(code, names)


RECIPES = TUTORIAL.with_name("INTEGRATIONS.md").read_text(encoding="utf-8").split("\n## ")[1:]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", RECIPES, ids=lambda text: text.splitlines()[0])
def test_the_recipes_run(tmp_path, monkeypatch, text):
    needed = re.search(r"<!-- needs: (.*) -->", text)
    for name in needed[1].split(", ") if needed else ():
        package(name)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    names = {"__name__": "recipe"}
    for block in blocks:
        assert len([line for line in block.splitlines() if line.strip()]) <= 20
        exec(compile(block, text.splitlines()[0], "exec"), names)


@pytest.mark.parametrize("name", ["lmc_gpu", "lmc_gpu.numpy", "lmc_gpu.torch"])
def test_stubs_have_the_signatures_of_the_code(name):
    if name.endswith("torch"):
        package("torch")
    module = importlib.import_module(name)
    stub = ast.parse(pathlib.Path(module.__file__).with_suffix(".pyi").read_text())
    seen = set()

    def compare(node, function):
        own = list(inspect.signature(function).parameters.values())
        arguments = node.args
        stubbed = [a.arg for a in [*arguments.args, *arguments.kwonlyargs]]
        stubbed += [arguments.kwarg.arg] if arguments.kwarg else []
        assert stubbed == [p.name for p in own], node.name
        keyword_only = [p.name for p in own if p.kind is inspect.Parameter.KEYWORD_ONLY]
        assert [a.arg for a in arguments.kwonlyargs] == keyword_only
        assert node.returns is not None

    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            seen.add(node.name)
            compare(node, getattr(module, node.name))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            seen.add(node.name)
            cls = getattr(module, node.name)
            stubbed = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
            for method in stubbed.values():
                compare(method, getattr(cls, method.name))
            own = {n for n, f in vars(cls).items() if inspect.isfunction(f) and n[0] != "_"}
            assert own <= stubbed.keys()
    public = {n for n in module.__all__ if callable(getattr(module, n))}
    assert public <= seen
    assert pathlib.Path(lmc_gpu.__file__).with_name("py.typed").exists()


def test_every_public_function_says_what_it_does():
    for name in lmc_gpu.__all__:
        thing = getattr(lmc_gpu, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__
            for method, function in vars(thing).items() if inspect.isclass(thing) else ():
                if inspect.isfunction(function) and method[0] != "_":
                    assert function.__doc__, f"{name}.{method}"
