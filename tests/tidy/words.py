"""The texts that a user reads: pages, docstrings, help and errors of the command."""

import ast
import inspect
import re

import markdown
import source
from source import below

WORDS_MAX = 25
PAGES = ("README.md", "docs/guide", "docs/reference")
PYTHON = ("python/ffdl", "examples")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\[*\"'])|(?<=\.\*\*)\s+")


def read_by_users(name, text):
    """Returns (line, text) of what is read, and (line, text) of comments as they begin."""
    if name.endswith(".md") and below(name, PAGES):
        return list(_of_page(text)), []
    if name.endswith(".py") and below(name, PYTHON):
        found, comments = list(_docstrings(text)), list(_python_comments(text))
        begun = [(line, text) for line, text, is_first in comments if is_first]
        read = [(line, part) for line, text in found for part in _parts(text)]
        return read + [(line, text) for line, text, _ in comments], found + begun
    if name.endswith(".cc") and below(name, ("python/bindings",)):
        found = [(line, text.strip()) for line, text, is_raw in source.strings(text) if is_raw]
        return [(line, part) for line, text in found for part in _parts(text)], found
    if name.endswith(".cc") and below(name, ("src/cli",)):
        found = source.strings(text)
        return [(line, part) for line, text, _ in found for part in _parts(text)], []
    return [], []


def long_sentences(text):
    """The sentences of a paragraph that have too many words to be read at once."""
    bare = re.sub(r"\]\([^)]*\)", "]", " ".join(text.split()))
    return [sentence for sentence in _SENTENCE_END.split(bare) if len(sentence.split()) > WORDS_MAX]


def _of_page(text):
    """Paragraphs, items of lists, and the cells of tables."""
    paragraph, first, last = [], 0, 0
    for number, line in [*markdown.lines(text), (-1, "")]:
        stripped = line.strip()
        item = re.match(r"(?:[-*]|\d+\.)\s+", stripped)
        if paragraph and (number != last + 1 or item or not stripped or stripped[0] in "#|<"):
            yield first, " ".join(paragraph)
            paragraph = []
        if stripped.startswith("|"):
            yield from ((number, cell.strip()) for cell in stripped.strip("|").split("|"))
        elif stripped and stripped[0] not in "#<":
            first = first if paragraph else number
            paragraph.append(stripped[item.end():] if item else stripped)
        last = number


def _parts(text):
    """Paragraphs, items of lists, entries of a list of parameters; no examples of code."""
    parts = re.split(r"\n\s*\n|\n\s*- |\n(?=\s*\w+(?:, \w+)*: )|\n {2,}(?=\S+ {2,}|ffdl )",
                     inspect.cleandoc(text))
    return [part for part in parts if part.strip() and not part.startswith("    ")]


def _docstrings(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found = ast.get_docstring(node)
            if found:
                yield node.body[0].lineno, found


def _python_comments(text):
    """(line, text, whether a comment begins with it) of each `#` that is in no string."""
    is_inside = False
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r"([^#\"']*)# (.*)", line)
        if match:
            yield number, match[2], not (is_inside and not match[1].strip())
        is_inside = bool(match) and not match[1].strip()
