"""What the package shows, and that its three descriptions agree."""

import ast
import enum
import importlib
import importlib.util
import inspect
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import ffdl
from ffdl import _ffdl, errors


def stub():
    path = pathlib.Path(ffdl.__file__).with_name("_ffdl.pyi")
    return ast.parse(path.read_text())


def members_of_stub(node):
    names = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
    names |= {m.target.id for m in node.body if isinstance(m, ast.AnnAssign)}
    names |= {m.targets[0].id for m in node.body if isinstance(m, ast.Assign)}
    return {name for name in names if not name.startswith("_")}


def members_of_class(cls):
    if issubclass(cls, enum.Enum):
        return set(cls.__members__)
    return {name for name in vars(cls) if not name.startswith("_")}


def test_the_source_says_that_it_is_to_be_installed():
    source = pathlib.Path(__file__).parents[2] / "python"
    done = subprocess.run([sys.executable, "-c", "import ffdl"], cwd=source, capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "run 'pip install .'" in done.stderr


def test_every_public_name_exists_and_is_listed_once():
    assert len(ffdl.__all__) == len(set(ffdl.__all__))
    for name in ffdl.__all__:
        assert hasattr(ffdl, name)
    compiled = {name for name in vars(_ffdl) if not name.startswith("_")}
    assert compiled <= set(ffdl.__all__)


def test_the_stub_names_what_the_extension_has():
    described = {
        node.name: node for node in stub().body if not getattr(node, "name", "_").startswith("_")}
    compiled = {name for name in vars(_ffdl) if not name.startswith("_")}
    assert set(described) == compiled
    for name, node in described.items():
        if isinstance(node, ast.ClassDef):
            assert members_of_stub(node) == members_of_class(getattr(_ffdl, name)), name


def signatures(doc):
    """The names of the arguments of each overload, as pybind11 writes them."""
    for line in (doc or "").splitlines():
        if found := re.fullmatch(r"(?:\d+\. )?\w+\((.*)\) -> .*", line):
            yield [one.split(":")[0].strip() for one in split_at_commas(found[1])]


def split_at_commas(text):
    """At those that are in no brackets, such as the ones in a type or in what is shown of a default."""
    depth, begin = 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    if text[begin:]:
        yield text[begin:]


def arguments_in_stub(function):
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    return names + (["*", *(one.arg for one in given.kwonlyargs)] if given.kwonlyargs else [])


def functions_of_stub():
    """(name, function, overloads) of all but what Python itself calls."""
    found = {}
    for node in stub().body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = getattr(_ffdl, node.name) if isinstance(node, ast.ClassDef) else _ffdl
        for one in inside:
            if isinstance(one, ast.FunctionDef) and (one.name == "__init__" or one.name[0] != "_"):
                found.setdefault((owner, one.name), []).append(one)
    for (owner, name), overloads in found.items():
        yield f"{owner.__name__}.{name}", getattr(owner, name), overloads


def test_the_stub_has_the_arguments_of_the_extension():
    checked = 0
    for name, function, overloads in functions_of_stub():
        # One function may be described twice, where what it returns depends on what it is given.
        described = {tuple(arguments_in_stub(one)) for one in overloads}
        assert described == set(map(tuple, signatures(function.__doc__))), name
        checked += 1
    assert checked > 150


def words_beside_signatures(doc):
    lines = [line for line in (doc or "").splitlines() if line and line != "Overloaded function."]
    return [line for line in lines if not list(signatures(line))]


def test_every_class_method_and_attribute_is_documented():
    for name in ffdl.__all__:
        thing = getattr(ffdl, name)
        if not inspect.isclass(thing) or issubclass(thing, (enum.Enum, Exception)):
            assert inspect.ismodule(thing) or thing.__doc__, name
            continue
        assert thing.__doc__, name
        for attribute, member in vars(thing).items():
            if attribute.startswith("_"):
                continue
            if isinstance(member, property):  # here or there
                said = member.__doc__ or re.search(rf"\b{attribute}\b", thing.__doc__)
            else:
                said = words_beside_signatures(getattr(thing, attribute).__doc__)
            assert said, f"{name}.{attribute}"


def test_what_is_written_in_python_is_documented():
    modules = [ffdl.data, ffdl.report]
    if importlib.util.find_spec("torch"):
        modules.append(importlib.import_module("ffdl.torch"))
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            assert inspect.getdoc(thing), f"{module.__name__}.{name}"
            for attribute, member in vars(thing).items() if inspect.isclass(thing) else ():
                if inspect.isfunction(member) and not attribute.startswith("_"):
                    assert inspect.getdoc(member), f"{module.__name__}.{name}.{attribute}"


def test_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert ffdl.__version__ == version("ffdl")


def test_every_status_code_has_its_exception():
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), ffdl.Error)
    assert issubclass(ffdl.Timeout, TimeoutError)
    assert issubclass(ffdl.InvalidArgument, ValueError)
    assert issubclass(ffdl.Unimplemented, NotImplementedError)


def test_an_unknown_rule_is_an_invalid_argument():
    with pytest.raises(ValueError, match="sgdd"):
        ffdl.UpdateRuleOptions("sgdd")


def test_options_show_what_they_were_given():
    rule = ffdl.UpdateRuleOptions("adamw", learning_rate=0.5, beta1=0.25, weight_decay=2)
    assert (rule.kind, rule.learning_rate, rule.beta1, rule.weight_decay) == ("adamw", 0.5, 0.25, 2)


def test_schedule_factor_warms_up_linearly():
    schedule = ffdl.LearningRateSchedule(warmup_steps=4)
    factors = [ffdl.schedule_factor(schedule, number) for number in range(1, 7)]
    np.testing.assert_allclose(factors, [0.25, 0.5, 0.75, 1, 1, 1])
