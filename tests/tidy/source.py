"""Just enough C++ to find includes, strings, functions, classes: no parser, no preprocessor."""

import re

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])\'',
    re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def without_comments_and_strings(text):
    """The same text with the same line numbers; '#include "x"' keeps its word but not its file."""
    return _TOKEN.sub(_blank, text)


def below(path, folders):
    return any(folder == "" or path == folder or path.startswith(folder + "/") for folder in folders)


def strings(text):
    """(line, text, whether it is raw) of each literal; neighbouring plain ones are one text."""
    joined, line, end = [], 0, 0
    for match in _TOKEN.finditer(text):
        raw = re.fullmatch(r'R"(\w*)\((.*)\)\1"', match[0], re.DOTALL)
        if raw:
            yield text.count("\n", 0, match.start()) + 1, raw[2], True
        elif match[0].startswith('"'):
            if joined and not text[end:match.start()].isspace():
                yield line, "".join(joined), False
                joined = []
            line = line if joined else text.count("\n", 0, match.start()) + 1
            joined.append(match[0][1:-1].replace("\\n", "\n").replace('\\"', '"'))
            end = match.end()
    if joined:
        yield line, "".join(joined), False


def includes(text):
    """(line, quoted, target) of every #include."""
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match[1] == '"', match[2]


def functions(text):
    """(first line, last line) of every function body that is not inside another function."""
    bare = _DIRECTIVE.sub(_blank, without_comments_and_strings(text))
    kinds = []          # of the braces that are open
    starts = []         # where their headers begin
    head = 0            # where the current declaration begins
    for match in re.finditer(r"[{};]", bare):
        if match.group() == "{":
            header = bare[head:match.start()]
            inside = "function" in kinds
            if re.search(r"\bnamespace\b", header) or 'extern "C"' in text[head:match.start()]:
                kinds.append("namespace")
            elif "(" in header and not inside:
                kinds.append("function")
            else:
                kinds.append("block")
            starts.append(head + len(header) - len(header.lstrip()))
        elif match.group() == "}" and kinds:
            kind, start = kinds.pop(), starts.pop()
            if kind == "function":
                yield bare.count("\n", 0, start) + 1, bare.count("\n", 0, match.start()) + 1
        head = match.end()


def public_classes(text):
    """(line, name, comment above it) of every class that is marked FFDL_API."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = re.match(r"class (?:\[\[\w+\]\] )?FFDL_API (\w+)\b(?!\s*;)", line)
        if match:
            first = number
            while first > 0 and (lines[first - 1].startswith(("//", "template"))):
                first -= 1
            yield number + 1, match[1], "\n".join(lines[first:number])


def public_types(text):
    """The classes, structs and enums that a header defines for users, nested ones included."""
    bare = without_comments_and_strings(text)
    bare = re.sub(r"^ private:.*?(?=^\};|^ public:)", "", bare, flags=re.DOTALL | re.MULTILINE)
    pattern = r"\b(?:enum class|enum|class|struct)\s+(?:\[\[\w+\]\]\s+)?(?:FFDL_API\s+)?(\w+)"
    return [match[1] for match in re.finditer(pattern + r"(?:\s+final)?\s*(?::[^;{]*)?\{", bare)]
