#!/usr/bin/env python3
"""Runs the checks that a change must pass, and ends with a table of them.

usage: gate.py [--only STEP]... [--list] [--steps FILE] [--folder FOLDER]

.ci/run calls it. A step that fails does not end the run, except where nothing after it can pass. The
table names each step with its time, each failed test with the command that repeats it alone and what it
said, each test that needed a second try, and what was not run and why. The exit code is 1 if a step
failed.

The required steps come first. Optional ones begin while fewer than 50 minutes have passed. All ends
after 75 minutes: a required step that runs then has failed, an optional one is named as unfinished.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINES_MAX = 40  # of the table: a reader of the last lines sees all of it
REASONS_MAX = 12  # of skipped tests that the table names
SAID_MAX = 6    # lines of the table about what one failed test said
BUILD_ERROR = re.compile(r"\berror: |undefined reference to ")  # of compilers and linkers
# Runs its argument. If this program dies, by whatever signal, its end of the pipe closes, and a watcher
# kills the group.
STEP_SHELL = """exec 3<&0 </dev/null
{ read -r _ <&3; kill -s KILL 0; } >/dev/null 2>&1 &
exec 3<&-
exec sh -c "$1"
"""


@dataclasses.dataclass(frozen=True)
class Step:
    """A command of the gate. `repeat` is the command for one test of it; {} is the test's name."""

    name: str
    command: str
    repeat: str = ""
    required: bool = True
    ends_all: str = ""  # if the output contains this, no later step can pass
    limit_s: float = 3600


STEPS = [
    Step("rules", "./dev check tidy"),
    Step("tests", "./dev test", "./dev test ctest -R '^{}$'", ends_all="-dev failed; the text above"),
    Step("pythons", "./dev test pythons"),
    Step("full", "./dev test ctest -L '^full$' -LE '^timing$'", "./dev test ctest -R '^{}$'"),
    Step("asan", "./dev check asan", "./dev check asan -R '^{}$'"),
    Step("install", "./dev check install", "./dev check install"),
    Step("tsan", "./dev check tsan", "./dev check tsan -R '^{}$'", required=False),
    Step("kernels", "./dev check kernels", "./dev check kernels", required=False),
]


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds after the start: the last moment for an optional step's begin, and the end of all."""

    begin_optional_s: float = 50 * 60
    end_s: float = 75 * 60


@dataclasses.dataclass
class Program:
    """A test of ctest: how its last try failed, if it did, and which of its own tests did."""

    name: str
    tries: int = 0
    failed: str = ""
    parts: dict = dataclasses.field(default_factory=dict)  # by name: what the test said


class Reader:
    """Reads the output of ctest, GoogleTest and pytest line by line, and keeps what failed."""

    RUN = re.compile(r"Test project /")
    CTEST = re.compile(r"\s*(?:\d+/\d+ )?Test\s+#\d+: (\S+) \.*\s*(.*?)\s+[\d.]+ sec")
    FAILED = re.compile(r"\*\*\*\s*(Failed|Timeout|Not Run|Exception(?:: ?\w+)?)")
    GTEST_RUN = re.compile(r"\[ RUN      \] (\S+)")
    GTEST_END = re.compile(r"\[ {6} OK \]|\[  SKIPPED \]|\[  PASSED  \]")
    GTEST_FAILED = re.compile(r"\[  FAILED  \] (\S+?\.\S+?),? ")
    GTEST_SAYS = re.compile(r":\d+: Failure$")
    PYTEST = re.compile(r"(?:FAILED|ERROR) (tests/\S+\.py(?:::\S+)?)(?: - (.*))?")
    PYTEST_SKIPPED = re.compile(r"SKIPPED \[(\d+)\] ([^\s:]+)(?::\d+)?: (.*)")
    DEV_SKIPPED = re.compile(r"skipped: (.*)")

    def __init__(self):
        self.programs = {}  # the tests of ctest by its run and their name
        self.python = {}    # by the failed test's name: what it said
        self.skipped = collections.Counter()  # how often each was, with the reason if it has one
        self._run = 0
        self._program = None
        self._running = ""
        self._said = []     # by the running test: from its first failure on, or else the last lines

    def line(self, text):
        if self.RUN.match(text):
            self._end_program()
            self._run += 1
        elif found := self.CTEST.match(text):
            self._end_program()
            failed = self.FAILED.search(found[2])
            self._program = self.programs.setdefault((self._run, found[1]), Program(found[1]))
            self._program.tries += 1
            self._program.failed = failed[1].lower() if failed else ""
            self._program.parts.clear()
            if "***Skipped" in found[2]:
                self.skipped[found[1]] += 1
        elif found := self.GTEST_RUN.search(text):
            self._running = found[1]
            self._said = []
        elif found := self.GTEST_FAILED.search(text + " "):
            self._running = ""
            self._part(found[1])
        elif self.GTEST_END.search(text):
            self._running = ""
        elif found := self.PYTEST.match(text):
            self.python[found[1].rstrip(":")] = [found[2]] if found[2] else []
        elif found := self.PYTEST_SKIPPED.match(text):
            self.skipped[f"{found[2]}: {found[3]}"] += int(found[1])
        elif found := self.DEV_SKIPPED.match(text):
            self.skipped[found[1]] += 1
        elif self._running and text.strip():
            self._says(text.rstrip())

    def end(self):
        self._end_program()

    def failed(self):
        return [program for program in self.programs.values() if program.failed]

    def tried_again(self):
        return [program for program in self.programs.values() if program.tries > 1]

    def _says(self, text):
        if self._said and self.GTEST_SAYS.search(self._said[0]):
            self._said = [*self._said, text][:SAID_MAX]
        elif self.GTEST_SAYS.search(text):
            self._said = [text]
        else:
            self._said = [*self._said, text][-SAID_MAX:]

    def _part(self, name):
        """Notes a test that failed. GoogleTest names it once more at its end."""
        if self._program and self._program.failed:
            self._program.parts.setdefault(name, self._said)

    def _end_program(self):
        """A program that ended inside a test hung or crashed there."""
        if self._running:
            self._part(self._running)
        self._running = ""
        self._program = None


@dataclasses.dataclass
class Outcome:
    step: Step
    verdict: str  # passed, FAILED, unfinished, not run
    seconds: float = 0
    why: str = ""
    reader: Reader = dataclasses.field(default_factory=Reader)
    last_lines: list = dataclasses.field(default_factory=list)
    ends_all: bool = False
    code: int | None = None  # None if it was ended


def end_group(process):
    """Ends the process with all that it started and that stayed in its group."""
    for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass


def seed_of(root):
    """The seed of searches for the files of HEAD: if they have passed, they pass again."""
    tree = subprocess.run(["git", "rev-parse", "HEAD^{tree}"], cwd=root, capture_output=True,
                          text=True, check=False)
    return {"FFDL_TEST_SEED": str(int(tree.stdout[:12], 16))} if tree.returncode == 0 else {}


def run(step, seconds, log_file, out, root=ROOT):
    """Runs one step for at most that many seconds; passes its output on, and keeps it in a file."""
    outcome = Outcome(step, "passed")
    began = time.monotonic()
    errors = []
    out.write(f"\n=== {step.name}: {step.command}\n")
    out.flush()
    # Pytest cuts a failure's reason at the width.
    wide = os.environ | seed_of(root) | {"COLUMNS": "240"}
    process = subprocess.Popen(["sh", "-c", STEP_SHELL, "sh", step.command], cwd=root, env=wide,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)

    def read():
        with open(log_file, "w", encoding="utf-8") as log:
            for raw in process.stdout:
                text = raw.decode("utf-8", "replace")
                out.write(text)
                out.flush()
                log.write(text)
                outcome.reader.line(text.rstrip("\n"))
                if text.strip():
                    outcome.last_lines = [*outcome.last_lines[-4:], text.rstrip()]
                if len(errors) < 3 and BUILD_ERROR.search(text):
                    errors.append(text.rstrip())
                if step.ends_all and step.ends_all in text:
                    outcome.ends_all = True

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        outcome.code = process.wait(max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        pass
    finally:
        end_group(process)  # also what a finished step left behind
        process.stdin.close()
    reading.join(10)
    # Other compilations go on beside the one that fails.
    outcome.last_lines = [*(line for line in errors if line not in outcome.last_lines),
                          *outcome.last_lines]
    outcome.reader.end()
    outcome.seconds = time.monotonic() - began
    if outcome.code is None:
        outcome.verdict = "FAILED" if step.required else "unfinished"
        outcome.why = f"ended after {outcome.seconds:.0f} s, for want of time"
        if not step.required and (outcome.reader.failed() or outcome.reader.python):
            outcome.verdict = "FAILED"
    elif outcome.code != 0:
        outcome.verdict = "FAILED"
        outcome.why = f"ended with {outcome.code}"
    return outcome


def run_all(steps, times, folder, out):
    began = time.monotonic()
    outcomes = []
    nothing_passes = ""
    for step in steps:
        passed_s = time.monotonic() - began
        if nothing_passes:
            outcomes.append(Outcome(step, "not run", why=f"step '{nothing_passes}' could not build"))
        elif not step.required and passed_s >= times.begin_optional_s:
            outcomes.append(Outcome(step, "not run", why=f"for want of time: {passed_s / 60:.0f} of "
                                    f"{times.begin_optional_s / 60:.0f} minutes had passed"))
        else:
            outcomes.append(run(step, min(step.limit_s, times.end_s - passed_s),
                                folder / f"gate-{step.name}.log", out))
            if outcomes[-1].ends_all:
                nothing_passes = step.name
    return outcomes


@dataclasses.dataclass(frozen=True)
class Failure:
    """A failed test. `command` repeats it alone."""

    test: str
    how: str
    command: str
    said: list


def failed_tests(outcome):
    """Yields a Failure for each test that failed."""
    repeat = outcome.step.repeat or outcome.step.command
    for program in outcome.reader.failed():
        command = repeat.format(program.name)
        for part, said in (program.parts or {"": []}).items():
            alone = f"GTEST_FILTER={part} {command}" if part and "{}" in repeat else command
            yield Failure(f"{program.name} {part}".strip(), program.failed, alone, said)
    for name, said in outcome.reader.python.items():
        yield Failure(name, "failed", f"./dev test pytest '{name}'", said)


def parts_of_failure(step, failures, last_lines):
    """(Line, lines that explain it) for each failure of a step, or else for the step."""
    if failures:
        return [(f"{one.test} ({one.how}): {one.command}", one.said) for one in failures]
    return [(f"{step.name}: {step.command}; its errors and last lines:", last_lines)]


def failure_lines(parts, said_max=None):
    """The lines of parts_of_failure(), with at most `said_max` that explain each."""
    return [text for line, said in parts
            for text in (f"  {line}", *(f"    {one[:200]}" for one in said[:said_max]))]


def skipped_lines(outcomes):
    """The reasons why tests were skipped, the most frequent first, each with one of its tests."""
    counts = collections.defaultdict(dict)  # by the reason and the test
    for outcome in outcomes:
        for what, count in outcome.reader.skipped.items():
            test, _, reason = what.partition(": ")
            counts[reason].setdefault(test, count)
    lines = []
    for reason, tests in sorted(counts.items(), key=lambda one: -sum(one[1].values())):
        others = sum(tests.values()) - 1
        more = f" and {others} more" if others else ""
        lines.append(f"  {min(tests)}{more}: {reason or 'no reason is known'}"[:160])
    if len(lines) > REASONS_MAX:
        lines[REASONS_MAX:] = [f"  and {len(lines) - REASONS_MAX} more reasons: build/log/gate-STEP.log"]
    return lines


def table(outcomes, seconds):
    """The lines at the end of the run; the failures are cut where there are too many."""
    steps, failures, again = [], [], []
    for outcome in outcomes:
        steps.append(f"{outcome.step.name:10} {outcome.verdict:10} {outcome.seconds:5.0f} s  "
                     f"{outcome.why}".rstrip())
        for program in outcome.reader.tried_again():
            again.append(f"  {program.name}: {program.tries} tries")
        if outcome.verdict == "FAILED":
            failures += parts_of_failure(outcome.step, list(failed_tests(outcome)),
                                         outcome.last_lines)
    failed = [outcome.step.name for outcome in outcomes if outcome.verdict == "FAILED"]
    lines = ["", "=== summary", *steps]
    if again:
        lines += ["tests that were tried again:", *again[:5]]
    if skipped := skipped_lines(outcomes):
        lines += ["skipped, and why:", *skipped]
    room = LINES_MAX - len(lines) - 3
    if failures:
        lines.append("failed tests, and the commands that repeat them:")
        # All failures come before what explains them.
        found = failure_lines(failures, said_max=max(0, room // len(failures) - 1))
        lines += found[:room]
        if len(found) > room:
            lines.append(f"  and {len(found) - room} more lines: build/log/gate-STEP.log")
    lines.append(f"failed: {', '.join(failed)}, after {seconds:.0f} s" if failed
                 else f"all required steps passed in {seconds:.0f} s")
    return lines


def parser_of(description):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="STEP", help="this step; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the steps, run nothing")
    parser.add_argument("--steps", type=pathlib.Path, metavar="FILE",
                        help="JSON with other steps and times, for the test of this program")
    return parser


def chosen(steps, only, parser):
    """The steps of these names, or all where there are no names."""
    names = [step.name for step in steps]
    for name in only or []:
        if name not in names:
            parser.error(f"there is no step '{name}'; the steps are: {', '.join(names)}")
    return [step for step in steps if not only or step.name in only]


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "log",
                        help="for the output of each step (build/log)")
    arguments = parser.parse_args()
    steps, times = STEPS, Times()
    if arguments.steps:
        other = json.loads(arguments.steps.read_text())
        steps = [Step(**step) for step in other["steps"]]
        times = Times(**other["times"])
    steps = chosen(steps, arguments.only, parser)
    if arguments.list:
        for step in steps:
            print(f"{step.name:10} {'' if step.required else 'if there is time: '}{step.command}")
        return 0
    arguments.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    outcomes = run_all(steps, times, arguments.folder, sys.stdout)
    print("\n".join(table(outcomes, time.monotonic() - began)), flush=True)
    return 1 if any(outcome.verdict == "FAILED" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
