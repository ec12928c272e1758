"""The pages of the documentation whose programs tests run."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


def text_of(page):
    return (ROOT / page).read_text()


def write_program(page, folder):
    """The one program of the page that is marked as run by tests, as a file in `folder`."""
    (found,) = re.findall(
        r"<!-- tests/python runs this program[^\n]* -->\n```python\n(.*?)```", text_of(page),
        re.DOTALL)
    program = folder / "program.py"
    program.write_text(found)
    return program


def fragment(page, word):
    """The one part of a PyTorch program on the page that has this word in it."""
    fragments = re.findall(r"```py\n(.*?)```", text_of(page), re.DOTALL)
    (found,) = [one for one in fragments if word in one]
    return found
