#!/usr/bin/env python3
"""Checks the project's own rules: layers, banned words, sizes, tests and documents that must exist.

usage: tidy.py [ROOT]

Prints one line per violation, `file:line: what; what to do instead`, and ends with 1 if there is
any. Needs nothing but Python. A rule that must be broken somewhere is broken in a table, with the
reason beside it, not by a mark in the source.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import layers  # noqa: E402
import source  # noqa: E402

LINES_MAX = {"public header": 200, "source": 600, "function": 70}
COLUMNS_MAX = 100

CODE = (".h", ".cc", ".cu")
TEXT = (*CODE, ".py", ".pyi", ".sh", ".md", ".txt", ".cmake", ".toml", ".json", ".in")
SKIPPED = {"build", "dist", "__pycache__", ".git", ".venv", ".pytest_cache"}

LIBRARY = ("src", "include", "cuda")
DATA_PLANE = ("base", "shm", "net", "ps", "comm", "cli")

# (pattern in code without comments and strings, where it is looked for, where it is allowed, advice)
BANNED_IN_CODE = [
    (r"\bstd::(?:jthread|thread|async)\b(?!::)", (*LIBRARY, "python"),
     ("src/base/thread.h", "src/base/system_runtime.cc"),
     "use base::Thread (data plane) or Runtime::spawn (control plane)"),
    (r"\bgetenv\b", (*LIBRARY, "python"), ("src/base/env.cc",),
     "read the variable in src/base/env.cc, the only place that does"),
    (r"\b(?:throw|try|catch)\b", LIBRARY,
     ("src/comm/gloo_links.cc", "src/plan/job_file.cc", "src/steer/policy_file.cc",  # gloo and yaml-cpp report by exception
      "src/net/loop.cc"),  # asio does, when there are no descriptors for its loop
     "return a Status or Result; only adapters to third-party code catch"),
    (r"^(?!.*unique_ptr<\w+>\(new ).*\b(new)\b(?! \()",
     (*LIBRARY, "python", "examples", "benchmarks"), (),
     "use std::make_unique, or std::unique_ptr<T>(new T) where the constructor is private"),
    (r"(?<!= )\bdelete\b", (*LIBRARY, "python", "examples", "benchmarks"), (),
     "let a std::unique_ptr or a member own it"),
    (r"\.detach\(\)", ("",), (), "let one object own and join the thread"),
    (r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\b", (*LIBRARY, "tests", "python"),
     # Names that appear and file locks that the dead lose: the kernel announces neither.
     ("src/ps/learner_impl.cc", "src/ps/open_waiting.cc", "src/ps/server_impl.cc",
      # Kills at random moments, and a sleeper that must be asleep before the bell rings.
      "tests/fault", "tests/shm/futex_test.cc"),
     "wait for an event or a condition with a deadline"),
    (r"\bassert\(", LIBRARY, (), "use FFDL_CHECK for our bugs, kInvalidArgument for the user's"),
    (r"\b(?:std::cout|std::cerr|(?:std::)?f?printf|puts)\b", LIBRARY,
     ("src/cli", "src/base/log.cc", "src/base/check.cc"), "log with base/log.h"),
    (r"\b(?:steady_clock|system_clock)::now\b|\brandom_device\b",
     tuple(f"src/{m}" for m in layers.INTERNAL if m not in DATA_PLANE), (),
     "take the time and randomness from Runtime, or a `now` from the caller"),
]

# (pattern in any text, where it is allowed, advice)
BANNED_IN_TEXT = [
    (r"\b(?:TODO|FIXME|XXX|HACK)\b", (), "finish it, or open an issue and say what holds today"),
    (r"\bfor now\b", (), "say what holds today; an issue says what comes"),
    (r"(?<![\w.~])/(?:home|root|Users|work|workspace)/", (),
     "no path of one machine: make it relative to the project, or an option"),
    (r"[ \t]+$", (), "delete the white space at the end of the line"),
]
BANNED_IN_CMAKE = [
    (r"-march=native", ("benchmarks",), "the library dispatches kernels at run time"),
    (r"\bFetchContent\b", (), "take the dependency from the system in cmake/Dependencies.cmake"),
]

# src/m/x.cc without tests/m/x_test.cc, and where it is tested instead.
TESTED_ELSEWHERE = {
    "src/cli/main.cc": "tests/cli/doctor_test.cc",  # runs the program
    "src/cli/job_store.cc": "tests/cli/status_test.cc",  # finds a job by its name
    "src/cli/migrate.cc": "tests/cli/status_test.cc",  # which shows what came of it
    "src/cli/scale.cc": "tests/cli/status_test.cc",  # which shows what came of it
    "src/cli/signals.cc": "tests/cli/run_test.cc",  # sends them
    # Of the classes over it.
    "src/comm/device_communicator.cc": "tests/comm/nccl_communicator_test.cc",
    # Every operation goes through them.
    "src/comm/link_agreement.cc": "tests/conformance/communicator_conformance_test.cc",
    "src/comm/link_exchange.cc": "tests/conformance/communicator_conformance_test.cc",
    "src/comm/link_pairs.cc": "tests/conformance/pair_conformance_test.cc",
    "src/comm/nccl_exchange.cc": "tests/conformance/communicator_conformance_test.cc",
    "src/data/batch_consumer.cc": "tests/data/batch_ring_test.cc",  # the other side of it
    "src/data/ledger_options.cc": "tests/data/partition_ledger_test.cc",  # whose options they are
    "src/elastic/session_end.cc": "tests/elastic/session_test.cc",  # of the class around it
    "src/elastic/session_impl.cc": "tests/elastic/session_test.cc",  # of the class around it
    # The class around the Impl, over every store; the simulator runs it too.
    "src/membership/membership_impl.cc": "tests/membership/membership_test.cc",
    "src/ps/layout.cc": "tests/ps/fold_test.cc",  # whose regions it lays out
    "src/ps/learner.cc": "tests/ps/learner_impl_test.cc",  # the class around the Impl
    "src/ps/pending_gradient.cc": "tests/ps/learner_impl_test.cc",  # a late server's learner
    "src/ps/server_impl.cc": "tests/ps/parameter_server_test.cc",  # the Impl of that class
    "src/ps/shard_worker.cc": "tests/ps/parameter_server_test.cc",  # the threads of that class
    "src/ps/stats.cc": "tests/ps/fold_test.cc",  # what a fold counts
}


def below(path, folders):
    return any(folder == "" or path == folder or path.startswith(folder + "/") for folder in folders)


class Tidy:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.problems = []
        self.files = sorted(
            path.relative_to(self.root).as_posix() for path in self.root.rglob("*")
            if path.is_file() and (path.suffix in TEXT or path.name == "dev")
            and not SKIPPED & set(path.relative_to(self.root).parts))
        self.text = {name: (self.root / name).read_text() for name in self.files}

    def report(self, name, line, message):
        self.problems.append(f"{name}:{line}: {message}")

    def run(self):
        for name in self.files:
            self.check_words(name)
            if name.endswith(CODE):
                self.check_includes(name)
                self.check_sizes(name)
            if name.startswith("include/ffdl/"):
                self.check_public_header(name)
            elif name.endswith(".h") and "#pragma once" not in self.text[name]:
                self.report(name, 1, "a header without '#pragma once'; add it as the first line")
        self.check_tests_exist()
        self.check_python_names()
        self.check_names_in_docs()
        return self.problems

    # --- layers ---

    def check_includes(self, name):
        parts = name.split("/")
        module = parts[1] if parts[0] == "src" and len(parts) > 2 else None
        module = "cuda" if parts[0] == "cuda" else module
        if module and module not in layers.INTERNAL:
            self.report(name, 1, f"module '{module}' is not in tests/tidy/layers.py; add its row "
                                 "there and in docs/ARCHITECTURE.md")
            return
        for line, quoted, target in source.includes(self.text[name]):
            first = target.split("/")[0]
            if first == "ffdl":
                self.check_public_include(name, line, module, target)
            elif quoted and "/" in target and first in layers.INTERNAL:
                self.check_private_include(name, line, module, target)
            elif not quoted and not name.startswith("include/"):
                self.check_third_party(name, line, first, target)

    def check_private_include(self, name, line, module, target):
        other = target.split("/")[0]
        if below(name, layers.USERS) and other != module:
            self.report(name, line, f"includes '{target}'; only include/ffdl/ is seen from here")
        elif module and other != module and other not in layers.INTERNAL[module]:
            allowed = ", ".join(layers.INTERNAL[module]) or "nothing but itself"
            self.report(name, line, f"{module} includes '{target}' of {other}; {module} may "
                                    f"include {allowed}")

    def check_public_include(self, name, line, module, target):
        header = target.split("/", 1)[1]
        if header == "ffdl.h":
            if module and module != "cli":
                self.report(name, line, "includes 'ffdl/ffdl.h'; name the headers that it needs")
            return
        if header not in layers.HEADERS:
            self.report(name, line, f"'{target}' has no module in tests/tidy/layers.py; add it")
        elif module and module != "cli":
            owner = layers.HEADERS[header]
            seen = (module, *layers.INTERNAL[module], *layers.PUBLIC.get(module, ()))
            if owner not in seen:
                self.report(name, line, f"{module} includes '{target}' of {owner}; {module} may "
                                        f"know {', '.join(seen)}")

    def check_third_party(self, name, line, first, target):
        if first in layers.THIRD_PARTY:
            if not below(name, layers.THIRD_PARTY[first]):
                places = ", ".join(layers.THIRD_PARTY[first])
                self.report(name, line, f"includes <{target}>; that belongs in {places}")
        elif "/" in target and first not in layers.SYSTEM:
            self.report(name, line, f"includes <{target}>, which is not in tests/tidy/layers.py; "
                                    "add it there with the folder that may use it")

    # --- words ---

    def check_words(self, name):
        lines = self.text[name].split("\n")
        if name.endswith(CODE):
            bare = source.without_comments_and_strings(self.text[name]).split("\n")
            for pattern, places, allowed, advice in BANNED_IN_CODE:
                if below(name, places) and not below(name, allowed):
                    self.find(name, bare, pattern, advice)
        if name.startswith("tests/tidy/"):
            return  # the words themselves stand here
        for pattern, allowed, advice in BANNED_IN_TEXT:
            if not below(name, allowed):
                self.find(name, lines, pattern, advice)
        if name.endswith(("CMakeLists.txt", ".cmake")):
            for pattern, allowed, advice in BANNED_IN_CMAKE:
                if not below(name, allowed):
                    self.find(name, lines, pattern, advice)

    def find(self, name, lines, pattern, advice):
        for number, line in enumerate(lines, 1):
            match = re.search(pattern, line)
            if match:
                what = match.group(match.lastindex or 0)
                self.report(name, number, f"'{what}': {advice}")

    # --- sizes ---

    def check_sizes(self, name):
        lines = self.text[name].rstrip("\n").split("\n")
        bare = source.without_comments_and_strings(self.text[name])
        kind = "public header" if name.startswith("include/") else "source"
        if len(lines) > LINES_MAX[kind]:
            self.report(name, len(lines), f"{len(lines)} lines; a {kind} has at most "
                                          f"{LINES_MAX[kind]}: split it by what changes together")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                self.report(name, number, f"{len(line)} columns; wrap at {COLUMNS_MAX}")
        self.find(name, bare.split("\n"), "\t", "a tab; indent with spaces")
        for first, last in source.functions(self.text[name]):
            length = last - first + 1
            if length > LINES_MAX["function"]:
                self.report(name, first, f"a function of {length} lines; at most "
                                         f"{LINES_MAX['function']}: give its parts names")

    # --- public headers ---

    def check_public_header(self, name):
        text = self.text[name]
        header = name.rsplit("/", 1)[1]
        if not text.startswith("#pragma once"):
            self.report(name, 1, "a header without '#pragma once'; add it as the first line")
        for line, quoted, target in source.includes(text):
            if quoted and not target.startswith("ffdl/"):
                self.report(name, line, f"includes '{target}'; a public header sees only ffdl/ and "
                                        "the standard library")
            elif not quoted and ("/" in target or target.endswith(".h")):
                self.report(name, line, f"includes <{target}>; a public header sees only ffdl/ and "
                                        "the standard library")
        for line, class_name, comment in source.public_classes(text):
            if "Threads:" not in comment:
                self.report(name, line, f"class {class_name} does not say 'Threads:' in its "
                                        "comment; say which threads may call it")
        if header == "ffdl.h":
            return
        if f'"ffdl/{header}"' not in self.text.get("include/ffdl/ffdl.h", ""):
            self.report(name, 1, f"'{header}' is not in include/ffdl/ffdl.h; include it there")
        if f"`{header}`" not in self.text.get("docs/ARCHITECTURE.md", ""):
            self.report(name, 1, f"'{header}' is not in docs/ARCHITECTURE.md; say what it is for")

    # --- what must exist ---

    def check_tests_exist(self):
        for name in self.files:
            match = re.fullmatch(r"src/([^/]+)/(.+)\.cc", name)
            if match and name not in TESTED_ELSEWHERE:
                test = f"tests/{match[1]}/{match[2]}_test.cc"
                if test not in self.text:
                    self.report(name, 1, f"has no test; write {test}")
        if "tests/tidy/tidy.py" in self.text:  # not in the small trees of its own test
            for name in (*TESTED_ELSEWHERE, *TESTED_ELSEWHERE.values()):
                if name not in self.text:
                    self.report("tests/tidy/tidy.py", 1, f"TESTED_ELSEWHERE names '{name}', which "
                                                         "is gone; correct the row")

    def check_python_names(self):
        stub = "python/ffdl/_ffdl.pyi"
        headers = "".join(text for name, text in self.text.items() if name.startswith("include/"))
        words = set(re.findall(r"\w+", headers))
        for number, line in enumerate(self.text.get(stub, "").split("\n"), 1):
            match = re.match(r"\s*(?:def|class) (\w+)", line)
            word = match and match.group(1)
            if word and not word.startswith("_") and word not in words:
                self.report(stub, number, f"'{word}' is in no C++ header; say the same word in "
                                          "both languages")

    # `Class::member` in a page, such as the table that ties the protocol's model to its code.
    def check_names_in_docs(self):
        code = "".join(text for name, text in self.text.items()
                       if name.endswith(CODE) and below(name, LIBRARY))
        words = set(re.findall(r"\w+", code))
        for name, text in self.text.items():
            if not (name.startswith("docs/") and name.endswith(".md")):
                continue
            for number, line in enumerate(text.split("\n"), 1):
                for full in re.findall(r"`((?:\w+::)+\w+)`", line):
                    gone = [word for word in full.split("::") if word not in words]
                    if gone:
                        self.report(name, number, f"'{full}': there is no '{gone[0]}' in the code; "
                                                  "name what does this now")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    tidy = Tidy(root)
    problems = tidy.run()
    for problem in problems:
        print(problem)
    print(f"tidy: {len(problems)} problems in {len(tidy.files)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
