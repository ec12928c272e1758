"""As much of Markdown as the rules need: lines outside code, links, and the anchors of headings."""

import re


def lines(text):
    """(number, line) of each line outside fenced code."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r"\s*(```+|~~~+)", line)
        if match and fence is None:
            fence = match[1]
        elif match and fence and line.strip().startswith(fence):
            fence = None
        elif fence is None:
            yield number, line


def links(line):
    """Targets of the links and pictures in a line, but for those to other sites."""
    bare = re.sub(r"`[^`]*`", lambda code: "x" * len(code[0]), line)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", bare)
            for target in target if target and not re.match(r"[a-z]+:", target)]


def anchors(text):
    """Returns what a link may name behind its '#': one for each heading, as GitHub makes them."""
    found = {}
    for _, line in lines(text):
        match = re.match(r"#{1,6}\s+(.*?)\s*$", line)
        if match:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).lower()
            anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            count = found[anchor] = found.get(anchor, -1) + 1
            if count:
                found[f"{anchor}-{count}"] = 0
    return found.keys()
