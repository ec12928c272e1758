"""What the package shows, and that its three descriptions agree."""

import ast
import inspect
import pathlib

import numpy as np
import pytest

import ffdl
from ffdl import _ffdl, errors


def stub():
    path = pathlib.Path(ffdl.__file__).with_name("_ffdl.pyi")
    return ast.parse(path.read_text())


def test_every_public_name_exists_and_is_listed_once():
    assert len(ffdl.__all__) == len(set(ffdl.__all__))
    for name in ffdl.__all__:
        assert hasattr(ffdl, name)
    compiled = {name for name in vars(_ffdl) if not name.startswith("_")}
    assert compiled <= set(ffdl.__all__)


def test_the_stub_names_what_the_extension_has():
    described = {node.name: node for node in stub().body if hasattr(node, "name")}
    compiled = {name for name in vars(_ffdl) if not name.startswith("_")}
    assert set(described) == compiled
    for name, node in described.items():
        if isinstance(node, ast.ClassDef):
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            members |= {m.target.id for m in node.body if isinstance(m, ast.AnnAssign)}
            members |= {m.targets[0].id for m in node.body if isinstance(m, ast.Assign)}
            public = {m for m in members if not m.startswith("_")}
            cls = getattr(_ffdl, name)
            assert public == {m for m in vars(cls) if not m.startswith("_")} - {"name", "value"} | (
                public & {"name"}), name


def test_every_class_and_method_is_documented():
    for name in ffdl.__all__:
        thing = getattr(ffdl, name)
        if inspect.isclass(thing):
            assert thing.__doc__, name


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
