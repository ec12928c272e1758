"""The picture of layers in docs/internals/architecture.md, drawn from the includes.

usage: picture.py    writes it anew; tidy.py reports one that is not current.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import layers  # noqa: E402
import source  # noqa: E402

PAGE = "docs/internals/architecture.md"
BEGIN, END = "<!-- layers: written by tests/tidy/picture.py -->\n", "<!-- end of layers -->\n"


def includes_of(text):
    """(parts of the path, what it includes in quotes) of each source in a module, of {file name: text}."""
    for name, content in text.items():
        parts = name.split("/")
        if parts[0] == "src" and len(parts) > 2 and name.endswith((".h", ".cc")):
            yield parts, [target for _, quoted, target in source.includes(content) if quoted]


def uses_of(text):
    """Module -> the modules whose headers its sources include."""
    uses = {}
    for (_, module, *_), targets in includes_of(text):
        mine = uses.setdefault(module, set())
        for target in targets:
            first = target.split("/")[0]
            other = layers.HEADERS.get(target[len("ffdl/"):]) if first == "ffdl" else first
            if other in layers.INTERNAL and other not in (module, "cuda"):
                mine.add(other)
    return uses


def levels_of(uses):
    """Module -> the length of the longest chain of includes below it. Raises on a circle."""
    levels = {}

    def level(module, above=()):
        if module in above:
            raise ValueError("a circle of includes: " + " > ".join((*above, module)))
        if module not in levels:
            below = [level(other, (*above, module)) for other in uses.get(module, ())]
            levels[module] = 1 + max(below, default=-1)
        return levels[module]

    for module in uses:
        level(module)
    return levels


def wings_of(text):
    """Module -> wing -> the wings of that module whose headers its sources include."""
    uses = {}
    for (_, module, wing, *_), targets in includes_of(text):
        wings = layers.WINGS.get(module, {})
        if wing in wings:
            mine = uses.setdefault(module, {}).setdefault(wing, set())
            for first, other, *_ in (target.split("/") for target in targets if "/" in target):
                if first == module and other in wings and other != wing:
                    mine.add(other)
    return uses


def rows_of(uses, column):
    """The lines of a picture, the highest level first; `column` formats a name."""
    levels = levels_of(uses)
    for one in sorted(uses, key=lambda name: (-levels[name], name)):
        below = sorted(uses[one], key=lambda name: (-levels[name], name))
        yield f"{levels[one]:5}  {column(one)}  {' '.join(below)}".rstrip()


def draw(text):
    lines = ["```", "level  module        includes headers of"]
    lines += rows_of(uses_of(text), lambda module: f"{module:12}")
    wings = wings_of(text)
    if wings:
        lines += ["", "level  wing          includes headers of"]
    for module in sorted(wings):
        lines += ["", f"       {module}", *rows_of(wings[module], lambda wing: f"  {wing:12}")]
    return "\n".join([*lines, "```"]) + "\n"


def parts(page):
    """The text before the picture, the picture, and the text behind it."""
    before, _, rest = page.partition(BEGIN)
    picture, _, after = rest.partition(END)
    return before + BEGIN, picture, END + after


def main():
    root = pathlib.Path(__file__).parents[2]
    text = {path.relative_to(root).as_posix(): path.read_text()
            for path in root.glob("src/**/*") if path.suffix in (".h", ".cc")}
    page = root / PAGE
    before, _, after = parts(page.read_text())
    page.write_text(before + draw(text) + after)


if __name__ == "__main__":
    main()
