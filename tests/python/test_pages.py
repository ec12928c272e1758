"""Code of README, guide and reference: each name, argument and option of it exists.

test_readme.py and test_torch_readme.py run the whole programs.
"""

import ast
import functools
import importlib
import inspect
import json
import re
import subprocess
import sys

import pytest
from pages import PAGES, ROOT, RUN, blocks, languages, text_of

import ffdl

CHECKED = {"py", "python", "sh", "cpp", "json", "yaml", "cmake", "diff"}
# The types of variables of the pages. `loss` and `model` are the reader's own.
HOLDS = {
    "batch": "ffdl.BatchSizeController", "checkpoints": "ffdl.CheckpointOptions",
    "communicator": "ffdl.Communicator", "learner": "ffdl.Learner", "ledger": "ffdl.SampleLedger",
    "loader": "ffdl.data.ElasticLoader", "log": "ffdl.report.RunLog", "meter": "ffdl.StepMetrics",
    "opt": "ffdl.torch.ParameterServerOptimizer", "server": "ffdl.ParameterServer",
    "session": "ffdl.Session", "trainer": "ffdl.torch.training.elastic.Elastic",
}
SPECIAL_COMMANDS = {"cmake", "export", "kill", "pip", "python", "python3", "srun", "sudo"}


def found(name):
    """The object of that dotted name; skips the test where a package that it needs is missing."""
    parts = name.split(".")
    here = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        if isinstance(here, property):
            return here  # of a type that only a run knows
        if inspect.isclass(here) and re.search(rf"self\.{part}\b[^=\n]* =", source_of(here)):
            return here
        if inspect.ismodule(here) and not hasattr(here, part):
            try:
                importlib.import_module(".".join(parts[:number]))
            except ModuleNotFoundError as error:
                if error.name.startswith("ffdl"):
                    raise
                pytest.skip(f"{error.name} is not installed")
        here = getattr(here, part)
    return here


def source_of(one):
    return "".join(inspect.getsource(base) for base in one.__mro__
                   if base.__module__.startswith("ffdl.") and base.__module__ != "ffdl._ffdl")


def dotted(node):
    """`a.b.c` of the expression, or None."""
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return base and f"{base}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def full_name(node, known):
    """The name that the expression has in the package, or None where it is the reader's own."""
    first, _, rest = (dotted(node) or "").partition(".")
    base = known.get(first)
    return base and (f"{base}.{rest}" if rest else base)


def names_of(tree):
    """The name in the package of each variable: imported, made by a class, or as on all pages."""
    known = {"ffdl": "ffdl"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("ffdl"):
            known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    made = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name = full_name(node.value.func, known)
            if name and inspect.isclass(found(name)):
                made[dotted(node.targets[0])] = name
            elif not name:
                made[dotted(node.targets[0])] = None
    return {**HOLDS, **made, **known}


def takes(function, argument):
    """True if the function has an argument of that name, or takes those of any name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of the bindings: their docstrings begin with the signature
        text = function.__init__.__doc__ if inspect.isclass(function) else function.__doc__
        return re.search(rf"\b{argument}:", text) is not None
    return any(argument == one.name or one.kind == one.VAR_KEYWORD for one in parameters)


def parsed(text):
    # `...` stands for arguments after named ones too, and a page may begin inside a loop.
    text = re.sub(r", \.\.\.\)", ", **rest)", text)
    text = re.sub(r"\(\.\.\., ", "(*rest, ", text)
    first = next(line for line in text.splitlines() if not line.startswith(("...", "log = ")))
    return ast.parse(re.sub(r"^\.\.\.\n", "if True:\n", text, flags=re.MULTILINE)
                     if first.startswith(" ") else text)


PYTHON = [(page, line, text) for page in PAGES for line, text in blocks(page, "py", "python")]


@pytest.mark.parametrize(("page", "line", "text"), PYTHON,
                         ids=[f"{page}:{line}" for page, line, _ in PYTHON])
def test_python(page, line, text):
    tree = parsed(text)
    known = names_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := full_name(node, known)):
            assert found(name) is not None, f"{page}:{line}: {name}"
        if isinstance(node, ast.Call) and (name := full_name(node.func, known)):
            for argument in node.keywords:
                assert argument.arg is None or takes(found(name), argument.arg), (
                    f"{page}:{line}: {name} has no argument {argument.arg}")


@pytest.mark.parametrize("page", PAGES)
def test_every_program_is_run(page):
    """A whole program is ```python and marked, so that a test runs it; ```py is a part of one."""
    assert languages(page) <= CHECKED
    text = text_of(page)
    assert text.count("```python\n") == text.count(RUN), f"{page} has a program that no test runs"


@functools.cache
def help_of(*command):
    done = subprocess.run(
        [sys.executable, "-m", "ffdl", *command, "--help"], capture_output=True, text=True,
        timeout=60, check=True)
    return done.stdout


def commands(text):
    """Words of each command of a block: without comments, variables before it, and launchers."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line)
        words = re.sub(r"^(\w+=(\$\([^)]*\)|\S*)(\s+|$))+", "", bare).split()
        if words[:1] == ["srun"]:
            words = words[words.index("ffdl"):]
        if words:
            yield words


def check_ffdl(words):
    """Raises if the command, or a long option before the worker's program, does not exist."""
    assert re.search(rf"^ +{words[1]}  |'ffdl {words[1]}\b", help_of(), re.MULTILINE), words
    several = words[1] in ("checkpoint", "data", "policy")
    shown = help_of(*words[1:3 if several else 2])
    for word in words[2:]:
        if word.endswith(".py") or word.startswith("./"):
            break  # what follows are the program's own
        if word.startswith("--"):
            option = word.partition("=")[0]
            assert re.search(rf"{option}\b", shown), f"ffdl {words[1]} has no {option}"


SHELL = [(page, line, text) for page in PAGES for line, text in blocks(page, "sh")]


@pytest.mark.parametrize(("page", "line", "text"), SHELL,
                         ids=[f"{page}:{line}" for page, line, _ in SHELL])
def test_commands(page, line, text):
    for words in commands(text):
        if words[0] == "ffdl":
            check_ffdl(words)
        elif words[0] == "./dev":
            shown = subprocess.run([ROOT / "dev", "--help"], capture_output=True, text=True,
                                   timeout=60, check=True).stdout
            assert all(word in shown for word in words[1:]), f"{page}:{line}: {words}"
        else:
            assert words[0] in SPECIAL_COMMANDS, f"{page}:{line}: {words}"


HEADERS = "".join(path.read_text() for path in sorted((ROOT / "include").rglob("*.h")))
WORDS = set(re.findall(r"\w+", HEADERS))
OF_THE_READER = {"model", "std", "batch", "samples", "update", "weights"}


@pytest.mark.parametrize("page", [page for page in PAGES if "cpp" in languages(page)])
def test_cpp(page):
    """Members and macros that are named exist in the public headers."""
    for line, text in blocks(page, "cpp"):
        bare = re.sub(r'//[^\n]*|"[^"\n]*"', "", text)
        named = set(re.findall(r"\bFFDL_\w+", bare))
        for owner, member in re.findall(r"\b(\w+)\)?(?:->|\.|::)(\w+)", bare):
            named |= set() if owner in OF_THE_READER or owner.isdigit() else {member}
        named |= set(re.findall(r"[{,] ?\.(\w+) =", bare))
        gone = named - WORDS - {"c_str", "size", "get", "empty", "to_string"}
        assert not gone, f"{page}:{line}: {gone} are in no public header"


@pytest.mark.parametrize("page", [page for page in PAGES if "json" in languages(page)])
def test_json(page):
    for _, text in blocks(page, "json"):
        try:
            json.loads(text)
        except json.JSONDecodeError:  # one value a line
            for line in text.splitlines():
                json.loads(line)
