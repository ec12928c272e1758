"""The names of tests that pages quote, and the tests that there are."""

import fnmatch
import re

from source import below

NO_TESTS = (
    "Suite.Test",  # shows what a name looks like
    "fast_and_slow",  # a benchmark of benchmarks/data
)

_CASE = re.compile(r"\b(?:TYPED_)?TEST(_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
_PREFIX = re.compile(r"\bINSTANTIATE_TEST_SUITE_P\(\s*(\w*),\s*(\w+),")
_ENTRY = re.compile(r"\b(?:add_test\(\s*NAME|ffdl_test\(|ffdl_timing_test\()\s*([^\s)]+)")
_CODE = re.compile(r"`[^`]+`")
_ENTRY_LIKE = re.compile(r"(?<![\w./<-])(?:fuzz_\w+|\w+_(?:test|slow|timing))(?![\w.(])")


class Tests:
    """The tests of a tree, given as {file name: text}."""

    def __init__(self, text):
        self.cases = set()    # Suite.Test
        self.full = set()     # the same as --gtest_filter sees them, without a parameter at the end
        self.entries = set()  # of ctest; a part that CMake fills in is '*'
        self.stems = set()    # of sources
        self.python = {}      # file name -> text
        prefixes = {}
        for name, content in text.items():
            if name.endswith(("CMakeLists.txt", ".cmake")):
                self.entries |= {re.sub(r"\$\{\w+\}", "*", one) for one in _ENTRY.findall(content)}
            if not below(name, ("tests",)) or below(name, ("tests/tidy",)):
                continue
            for prefix, suite in _PREFIX.findall(content):
                prefixes.setdefault(suite, set()).add(prefix)
            self.stems.add(re.sub(r".*/|\.\w+$", "", name))
            if name.endswith(".py"):
                self.python[name] = content
        self.entries.discard("*")
        for name, content in text.items():
            for kind, suite, case in _CASE.findall(content) if below(name, ("tests",)) else ():
                self.cases.add(f"{suite}.{case}")
                for prefix in prefixes.get(suite, ("",)) if kind == "_P" else ("",):
                    self.full.add(f"{prefix}/{suite}.{case}".lstrip("/"))
        self.suites = {case.split(".")[0] for case in self.cases}

    def missing(self, line):
        """The names of tests in a line of a page that no test has."""
        for code in _CODE.findall(line):
            for name in re.findall(r"^`([A-Z]\w*\.[A-Z]\w*)`$", code):
                is_enumerator = name.split(".")[1].isupper()
                if name not in (*self.cases, *NO_TESTS) and not is_enumerator:
                    yield name
            yield from (name for name in re.findall(r"^`([A-Z]\w*Test)`$", code)
                        if name not in self.suites)
            yield from (name for name in _ENTRY_LIKE.findall(code)
                        if name not in (*self.stems, *NO_TESTS)
                        and not self._has_entry(f"^{name}$"))
        for patterns in re.findall(r"--gtest_filter=['\"]?([^\s'\"`]+)", line):
            for pattern in patterns.split("-")[0].split(":"):
                bare = re.sub(r"(\.[^/]*)/.*", r"\1", pattern)
                if bare and not any(fnmatch.fnmatchcase(name, bare) for name in self.full):
                    yield pattern
        for pattern in re.findall(r"(?<![\w-])-R ['\"]?([^\s'\"`]+)", line):
            if not self._has_entry(pattern, is_part=True):
                yield pattern
        yield from self._missing_in_python(line)

    # The known parts of a name that CMake completes must match.
    def _has_entry(self, pattern, is_part=False):
        plain = pattern.strip("^$")
        for entry in self.entries:
            known = entry.partition("*")[0] if is_part else ""
            if re.search(pattern, entry) or (known != entry and known and plain.startswith(known)):
                return True
            if "*" in entry and fnmatch.fnmatchcase(plain, entry):
                return True
        return False

    def _missing_in_python(self, line):
        files = re.findall(r"(?<![\w-])((?:[\w/]+/)?test_\w+\.py)((?:::\w+)*)", line)
        texts = []
        for file, names in files:
            text = next((text for name, text in self.python.items()
                         if name == file or name.endswith("/" + file)), None)
            if text is None:
                yield file
                continue
            texts.append(text)
            yield from (f"{file}::{name}" for name in names.split("::")
                        if name and not re.search(rf"\b(?:def|class) {name}\b", text))
        for one, other in re.findall(r"(?<![\w-])-k (?:['\"]([^'\"]+)|([^\s'\"`]+))", line):
            for word in re.findall(r"\w+", one or other):
                is_there = any(word in text for text in texts or self.python.values())
                if word not in ("and", "or", "not") and not is_there:
                    yield f"-k {word}"
