#!/usr/bin/env python3
"""Checks the project's own rules: layers, banned words, sizes, tests and documents that must exist.

usage: tidy.py [--sentences] [ROOT]

Prints one line per violation, `file:line: what; what to do instead`, and ends with 1 if there is
any. A sentence of more than 25 words is a warning: they are counted, and listed with --sentences.
Needs nothing but Python. A rule that must be broken somewhere is broken in a table, with the
reason beside it, not by a mark in the source.
"""

import pathlib
import posixpath
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import layers  # noqa: E402
import markdown  # noqa: E402
import picture  # noqa: E402
import source  # noqa: E402
import tests_quoted  # noqa: E402
import words  # noqa: E402
from source import below  # noqa: E402

ARCHITECTURE = "docs/internals/architecture.md"

PUBLIC_HEADERS_MAX = 40
PUBLIC_TYPES_MAX = 153
LINES_MAX = {"public header": 300, "source": 600, "function": 70}
COLUMNS_MAX = 100

CODE = (".h", ".cc", ".cu")
TEXT = (*CODE, ".py", ".pyi", ".sh", ".md", ".txt", ".cmake", ".toml", ".json", ".in", ".pml")
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
     ("src/comm/network/gloo_links.cc", "src/cluster/plan/job_file.cc", "src/scaling/policy_file.cc",  # gloo and yaml-cpp report by exception
       "src/net/loop.cc", "src/net/resolve.cc",  # asio does, without descriptors for its loop or a thread for its resolver
       "src/base/thread.cc",  # and the standard library, when there is no further thread
       "src/cli/main.cc"),  # and new, when there is no memory
     "return a Status or Result; only adapters to third-party code catch"),
    (r"^(?!.*unique_ptr<\w+>\(new ).*\b(new)\b(?! \()",
     (*LIBRARY, "python", "examples", "benchmarks"), (),
     "use std::make_unique, or std::unique_ptr<T>(new T) where the constructor is private"),
    (r"(?<!= )\bdelete\b", (*LIBRARY, "python", "examples", "benchmarks"), (),
     "let a std::unique_ptr or a member own it"),
    (r"\.detach\(\)", ("",), (), "let one object own and join the thread"),
    (r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\b", (*LIBRARY, "tests", "python"),
     # Names that appear and file locks that the dead lose: the kernel announces neither.
     ("src/ps/learner/learner_impl.cc", "src/ps/segment/open_waiting.cc", "src/ps/server/server_impl.cc",
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
# How a comment of the library does not begin, and words that it does not have.
COMMENT_STARTS = re.compile(r"(?:What|Who|Whoever|Of|Whether|Where|Those|That of|From here on)\b")
COMMENT_WORDS = re.compile(r"\b(?:who|whoever|somebody|nobody)\b", re.IGNORECASE)
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
    "src/cli/run_store.cc": "tests/cli/run_test.cc",  # runs the program
    "src/cli/signals.cc": "tests/cli/run_test.cc",  # sends them
    # Of the classes over it.
    "src/comm/gpu/communicator.cc": "tests/comm/gpu/nccl/communicator_test.cc",
    # One test over the transports between hosts.
    "src/comm/network/gloo_links.cc": "tests/comm/network/links_test.cc",
    "src/comm/network/tcp_links.cc": "tests/comm/network/links_test.cc",
    "src/comm/network/tls_links.cc": "tests/comm/network/links_test.cc",
    # Every operation goes through them.
    "src/comm/network/agreement.cc": "tests/conformance/communicator_conformance_test.cc",
    "src/comm/network/exchange.cc": "tests/conformance/communicator_conformance_test.cc",
    "src/comm/network/pairs.cc": "tests/conformance/pair_conformance_test.cc",
    "src/comm/gpu/nccl/exchange.cc": "tests/conformance/communicator_conformance_test.cc",
    "src/data/ring/batch_consumer.cc": "tests/data/ring/batch_ring_test.cc",  # the other side of it
    "src/data/ledger/sample_ledger.cc": "tests/conformance/sample_ledger_conformance_test.cc",
    "src/data/ledger/ledger_options.cc": "tests/data/ledger/session_ledger_test.cc",  # whose options they are
    # Parts of a session, which its tests end, take over and kill.
    "src/elastic/session/departure.cc": "tests/elastic/session/session_end_test.cc",
    "src/elastic/session/held_state.cc": "tests/elastic/session/world_change_test.cc",
    "src/elastic/session/life.cc": "tests/elastic/session/session_test.cc",
    "src/elastic/session/session_impl.cc": "tests/elastic/session/session_test.cc",
    # The class around the Impl, over every store; the simulator runs it too.
    "src/membership/membership_end.cc": "tests/membership/membership_test.cc",
    "src/membership/membership_impl.cc": "tests/membership/membership_test.cc",
    "src/membership/membership_lease.cc": "tests/membership/membership_test.cc",
    "src/ps/segment/layout.cc": "tests/ps/server/fold_test.cc",  # whose regions it lays out
    "src/ps/learner/learner.cc": "tests/ps/learner/learner_impl_test.cc",  # the class around the Impl
    "src/ps/learner/pending_gradient.cc": "tests/ps/learner/learner_impl_test.cc",  # a late server's learner
    "src/ps/server/server_impl.cc": "tests/ps/server/parameter_server_test.cc",  # the Impl of that class
    "src/ps/server/shard_worker.cc": "tests/ps/server/parameter_server_test.cc",  # the threads of that class
    "src/ps/segment/stats.cc": "tests/ps/server/fold_test.cc",  # what a fold counts
}

# Pages of prose: what programs write, and records of the past, stay as they are.
WRAPPED_PAGES = ("README.md", "CHANGELOG.md", "docs/guide", "docs/reference", "docs/internals",
                 "docs/decisions", "examples", "benchmarks", "tests/models")

DECISION_WORDS_MAX = 400

# The parts of each page of the guide, in order; a page may have others between them.
GUIDE_PARTS = ("The smallest", "Errors", "Limits", "How it works")
LISTS_IN_THE_GUIDE = ("docs/guide/footguns.md", "docs/guide/security.md")

# Named like a page, where a program fills a part of the name in.
PATTERNS_OF_PAGES = ("docs/results/gpu-CHIP.md",)


class Tidy:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.problems = []
        self.warnings = []
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
                if below(name, LIBRARY):
                    self.check_comments(name)
            self.check_reading(name)
            if name.endswith(".py") and below(name, words.PYTHON):
                self.check_width(name)
            if name.endswith(".md") and below(name, WRAPPED_PAGES):
                self.check_page_width(name)
            if below(name, ("docs/guide",)) and name not in LISTS_IN_THE_GUIDE:
                self.check_guide_parts(name)
            if below(name, ("docs/decisions",)):
                self.check_decision(name)
            if name.startswith("include/ffdl/"):
                self.check_public_header(name)
            elif name.endswith(".h") and "#pragma once" not in self.text[name]:
                self.report(name, 1, "a header without '#pragma once'; add it as the first line")
        self.check_public_headers()
        self.check_picture()
        self.check_tests_exist()
        self.check_python_names()
        self.check_names_in_docs()
        self.check_tests_in_docs()
        self.check_links()
        return self.problems

    # --- layers ---

    def check_includes(self, name):
        parts = name.split("/")
        module = parts[1] if parts[0] == "src" and len(parts) > 2 else None
        module = "cuda" if parts[0] == "cuda" else module
        if module and module not in layers.INTERNAL:
            self.report(name, 1, f"module '{module}' is not in tests/tidy/layers.py; add its row "
                                 f"there and in {ARCHITECTURE}")
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
        seen = [*layers.INTERNAL.get(module, ())]
        for place, (modules, _) in layers.USERS_SEE.items():
            seen += modules if below(name, (place,)) else ()
        if below(name, layers.USERS) and other != module and other not in seen:
            self.report(name, line, f"includes '{target}'; only include/ffdl/ is seen from here")
        elif module and other != module and other not in layers.INTERNAL[module]:
            allowed = ", ".join(layers.INTERNAL[module]) or "nothing but itself"
            self.report(name, line, f"{module} includes '{target}' of {other}; {module} may "
                                    f"include {allowed}")
        elif module == other and module in layers.WINGS:
            self.check_wing_include(name, line, layers.WINGS[module], target)

    def check_wing_include(self, name, line, wings, target):
        wing, other = name.split("/")[2], target.split("/")[1]
        if other not in wings or wing == other or (wing not in wings and name.endswith(".cc")):
            return
        if other not in wings.get(wing, ()):
            allowed = ", ".join(wings.get(wing, ())) or "no other wing"
            what = wing if wing in wings else "a header beside the wings"
            self.report(name, line, f"{what} includes '{target}' of {other}; it may include "
                                    f"{allowed}: tests/tidy/layers.py")

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

    def check_comments(self, name):
        is_inside = False
        for number, line in enumerate(self.text[name].split("\n"), 1):
            match = re.search(r"(?:^|\s)// (.*)", line)
            is_first = match and not is_inside
            is_inside = bool(match and line.lstrip().startswith("//"))
            if is_first and is_inside and COMMENT_STARTS.match(match[1]):
                self.report(name, number, f"'{match[1].split()[0]}': begin a comment with a verb "
                                          "or with the standard name of the thing")
            for word in COMMENT_WORDS.findall(match[1] if match else ""):
                self.report(name, number, f"'{word}': name the member, worker, thread or caller")

    # Checks pages, docstrings, help and error texts, and comments of the Python package.
    def check_reading(self, name):
        texts, starts = words.read_by_users(name, self.text[name])
        for line, text in texts:
            for word in COMMENT_WORDS.findall(text):
                self.report(name, line, f"'{word}': name the member, worker, thread or caller")
            for sentence in words.long_sentences(text):
                self.warnings.append(f"{name}:{line}: {len(sentence.split())} words: {sentence}")
        for line, text in starts:
            if COMMENT_STARTS.match(text):
                self.report(name, line, f"'{text.split()[0]}': begin a comment with a verb or with "
                                        "the standard name of the thing")

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
        self.check_width(name)
        self.find(name, bare.split("\n"), "\t", "a tab; indent with spaces")
        for first, last in source.functions(self.text[name]):
            length = last - first + 1
            if length > LINES_MAX["function"]:
                self.report(name, first, f"a function of {length} lines; at most "
                                         f"{LINES_MAX['function']}: give its parts names")

    def check_width(self, name):
        for number, line in enumerate(self.text[name].split("\n"), 1):
            if len(line) > COLUMNS_MAX:
                self.report(name, number, f"{len(line)} columns; wrap at {COLUMNS_MAX}")

    def check_page_width(self, name):
        for number, line in markdown.lines(self.text[name]):
            is_one_word = " " not in line.strip().removeprefix("- ")
            if len(line) > COLUMNS_MAX and not line.startswith("|") and not is_one_word:
                self.report(name, number, f"{len(line)} columns; wrap at {COLUMNS_MAX}")

    def check_guide_parts(self, name):
        headings = [(number, line[3:]) for number, line in markdown.lines(self.text[name])
                    if line.startswith("## ")]
        last = 0
        for part in GUIDE_PARTS:
            last = next((number for number, heading in headings
                         if number > last and heading.startswith(part)), None)
            if last is None:
                self.report(name, 1, f"no '## {part}' in its place; a page of the guide has "
                                     f"{', '.join(GUIDE_PARTS)}, in this order")
                return

    def check_decision(self, name):
        prose = " ".join(line for _, line in markdown.lines(self.text[name])
                         if not re.match(r"#|Date:|Status:|\|", line))
        count = len(re.sub(r"\]\([^)]*\)", "]", prose).split())
        if count > DECISION_WORDS_MAX:
            self.report(name, 1, f"{count} words; a decision has at most {DECISION_WORDS_MAX}: "
                                 "move what explains how it works to docs/internals")

    # --- public headers ---

    def check_public_header(self, name):
        text = self.text[name]
        header = name.removeprefix("include/ffdl/")
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
        if f"`{header}`" not in self.text.get(ARCHITECTURE, ""):
            self.report(name, 1, f"'{header}' is not in {ARCHITECTURE}; say what it is for")

    def check_public_headers(self):
        headers = [name for name in self.files
                   if name.startswith("include/ffdl/") and name.endswith(".h")]
        if len(headers) > PUBLIC_HEADERS_MAX:
            self.report("include/ffdl/ffdl.h", 1, f"{len(headers)} public headers; at most "
                        f"{PUBLIC_HEADERS_MAX}: put it into the one that it is used with")
        types = sum(len(source.public_types(self.text[name])) for name in headers)
        if types > PUBLIC_TYPES_MAX:
            self.report("include/ffdl/ffdl.h", 1, f"{types} public types; at most "
                        f"{PUBLIC_TYPES_MAX}: merge it with one that is the same thing")

    def check_picture(self):
        page = self.text.get(picture.PAGE, "")
        if picture.BEGIN not in page:
            return  # the small trees of this check's own test have none
        if picture.parts(page)[1] != picture.draw(self.text):
            self.report(picture.PAGE, 1, "the picture of layers is not that of the includes; run "
                                         "tests/tidy/picture.py")

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

    # Tests that a page names: what proves a statement, and how a figure is measured again.
    def check_tests_in_docs(self):
        tests = tests_quoted.Tests(self.text)
        for name, text in self.text.items():
            if name.startswith("docs/") and name.endswith(".md"):
                for number, line in enumerate(text.split("\n"), 1):
                    for gone in tests.missing(line):
                        self.report(name, number, f"'{gone}': there is no such test; name the one "
                                                  "that shows this now")

    # Links of pages, with their anchors, and `docs/page.md` wherever it is named.
    def check_links(self):
        for name, text in self.text.items():
            if name.startswith("tests/tidy/"):
                continue  # made-up pages are named here
            if name.endswith(".md"):
                for number, line in markdown.lines(text):
                    for target in markdown.links(line):
                        self.check_link(name, number, target)
            for number, line in enumerate(text.split("\n"), 1):
                for page in re.findall(r"(?<![\w./-])docs/[\w./-]+\.md\b", line):
                    if page not in PATTERNS_OF_PAGES and not (self.root / page).is_file():
                        self.report(name, number, f"'{page}' does not exist; name the page that "
                                                  "replaced it")

    def check_link(self, name, number, target):
        path, _, anchor = target.partition("#")
        full = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        if not (self.root / full).exists():
            self.report(name, number, f"the link '{target}' leads to no file; correct its path")
        elif anchor and full.endswith(".md") and anchor not in markdown.anchors(self.text[full]):
            self.report(name, number, f"the link '{target}' leads to no heading; name one of "
                                      f"{full}")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--sentences"]
    root = arguments[0] if arguments else pathlib.Path(__file__).resolve().parents[2]
    tidy = Tidy(root)
    problems = tidy.run()
    for problem in problems:
        print(problem)
    if "--sentences" in sys.argv:
        print(*tidy.warnings, sep="\n")
    print(f"tidy: {len(tidy.warnings)} sentences of more than {words.WORDS_MAX} words")
    print(f"tidy: {len(problems)} problems in {len(tidy.files)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
