"""Wrong uses of the public Python API: each ends at once, with an error that says what to do.

The table is wrong_uses.py. Its rows run in processes of their own, many in each; one that takes too
long, or ends its process, fails alone, and the rows behind it run in another process.
"""

import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading

import pytest
import wrong_uses

# Rows whose error need not have the form of the others, and why: two at most.
UNCLEAR = {
    "session_whose_apply_raises": "the exception of the caller's own function is passed on",
    "data_loader_of_a_data_set_that_raises": "the exception of the caller's own data is passed on",
}
# The form of a message: the action, the fact, and the advice.
FORM = re.compile(r"[^;]+?: .+; .+", re.DOTALL)
# Types that no signature of a function has.
SIGNATURES = re.compile(
    r"\w+\(\): incompatible (function|constructor) arguments\. The following argument types are "
    r"supported:\n.*\nInvoked with types: .*; give the types that the signature names", re.DOTALL)

LIMIT_S = 60.0  # of one use, on a machine that is busy
PER_PROCESS = 60


def read_lines(process, lines):
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def alternatives(word):
    return (word,) if isinstance(word, str) else word


def run_some(names, folder):
    """The outcomes of the first of `names`, up to one that hangs or ends the process."""
    environment = os.environ | {"WRONG_USES_FOLDER": str(folder)}
    process = subprocess.Popen(
        [sys.executable, wrong_uses.__file__, *names], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=environment, cwd=folder)
    lines = queue.Queue()
    reader = threading.Thread(target=read_lines, args=(process, lines))
    reader.start()
    outcomes, begun = {}, None
    try:
        while len(outcomes) < len(names):
            try:
                line = lines.get(timeout=LIMIT_S)
            except queue.Empty:
                outcomes[begun or names[0]] = {"types": ["hang"], "text": f"after {LIMIT_S} s"}
                break
            if line is None:
                code = process.wait()
                outcomes[begun or names[0]] = {"types": ["crash"], "text": f"exit code {code}"}
                break
            seen = json.loads(line)
            begun = seen.get("begins", begun)
            if "name" in seen:
                outcomes[seen["name"]] = seen
                begun = None
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
    return outcomes


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = pathlib.Path(tmp_path_factory.mktemp("wrong"))
    left = list(wrong_uses.ROWS)
    all_outcomes = {}
    while left:
        seen = run_some(left[:PER_PROCESS], folder)
        assert seen
        all_outcomes |= seen
        left = [name for name in left if name not in seen]
    return all_outcomes


@pytest.mark.parametrize("name", wrong_uses.ROWS)
def test_it_is_named(name, outcomes):
    exception, words, _ = wrong_uses.ROWS[name]
    seen = outcomes[name]
    text = seen["text"]
    assert seen["types"][:1] == [exception], seen
    words = [next((one for one in alternatives(word) if one in text), word) for word in words]
    for word in words:
        assert word in text, text
    assert wrong_uses.SECRET not in text
    if name in UNCLEAR:
        return
    assert seen["module"] == ("builtins" if exception == "TypeError" else "ffdl.errors"), seen
    if SIGNATURES.fullmatch(text):
        return
    assert FORM.fullmatch(text), text
    advice = text.index("; ")
    assert any(text.rindex(word) + len(word) > advice for word in words), (
        "a row demands words of the advice", words, text)


def test_at_most_two_are_unclear():
    assert len(UNCLEAR) <= 2 and set(UNCLEAR) <= set(wrong_uses.ROWS)
    assert not {"Error", "Exception"} & {exception for exception, _, _ in wrong_uses.ROWS.values()}
    assert len(wrong_uses.ROWS) >= 240
