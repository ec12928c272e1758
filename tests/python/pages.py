"""The pages of the documentation whose programs tests run, and the code on them."""

import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md"))]
    if page.parent.name not in ("decisions", "internals", "results")
]
RUN = "<!-- tests/python runs this program"


def text_of(page):
    return (ROOT / page).read_text()


def blocks(page, *languages):
    """(line, text) of each block of code in one of these languages."""
    text = text_of(page)
    for match in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
        if match[2] in languages:
            yield text.count("\n", 0, match.start()) + 2, textwrap.dedent(match[3])


def languages(page):
    return set(re.findall(r"^ *```(\w+)$", text_of(page), re.MULTILINE))


def write_program(page, folder):
    """The one program of the page that is marked as run by tests, as a file in `folder`."""
    (found,) = re.findall(
        rf"{RUN}[^\n]* -->\n```python\n(.*?)```", text_of(page), re.DOTALL)
    program = folder / "program.py"
    program.write_text(found)
    return program


def fragment(page, word):
    """The one part of a PyTorch program on the page that has this word in it."""
    (found,) = [text for _, text in blocks(page, "py") if word in text]
    return found
