#!/usr/bin/env python3
"""Runs every check there is, one after the other, and keeps the results of each commit.

usage: checks.py [--slow] [--only STEP]... [--list] [--steps FILE] [--root FOLDER]

./dev check all calls it. The results are in build/checks/COMMIT.json, which is written at the begin
and end of each step. A step that has passed at this commit is not run again. One that failed, was
interrupted or skipped is. The output of each step is in build/log/check-STEP.log.

Exit codes: 1 a step failed; 2 the command line or the tree is not in order; 130 interrupted.
"""

import dataclasses
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import time

import gate
import machine

# The check on a GPU writes its page into the tree, so these pages may differ from the commit.
WRITTEN_BY_CHECKS = ":(exclude)docs/results/gpu-*.md"
HOUR_S = 3600
LIMIT_S = {False: 6 * HOUR_S, True: 24 * HOUR_S}  # without --slow and with it; for what hangs


@dataclasses.dataclass(frozen=True)
class Check(gate.Step):
    """A step. With that exit code its machine cannot run it, as the last lines of its output say."""

    slow_command: str = ""  # with --slow
    skip_code: int | None = None


def sanitizer(name):
    return Check(name, f"./dev check --slow {name}", f"./dev check --slow {name} -R '^{{}}$'")


STEPS = [
    Check("tidy", "./dev check tidy"),
    Check("tests", "./dev test --full", "./dev test ctest -R '^{}$'", slow_command="./dev test --slow"),
    Check("pythons", "./dev test pythons"),
    Check("search", "./dev check search", "./dev test ctest -R '^{}$'"),
    sanitizer("asan"),
    sanitizer("tsan"),
    Check("clang", "./dev check clang", "ctest --preset clang -R '^{}$'"),
    Check("kernels", "./dev check kernels"),
    Check("install", "./dev check --slow install"),
    Check("fuzz", "./dev check fuzz", "ctest --preset fuzz -R '^{}$'"),
    Check("portable", "./dev check portable"),
    Check("gpu", "./dev check gpu", skip_code=4),  # the last, as it writes into the tree
]


class WrongTree(Exception):
    """The tree has no commit whose name the results could have."""


def commit_of(root):
    """The commit whose content the tree has."""
    def git(*arguments):
        done = subprocess.run(["git", "-C", str(root), *arguments], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise WrongTree(f"git {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout

    commit = git("rev-parse", "HEAD").strip()
    changes = git("status", "--porcelain", "--", ".", WRITTEN_BY_CHECKS).splitlines()
    if changes:
        raise WrongTree(f"the tree differs from its commit, as in '{changes[0][3:]}'; commit first, "
                        "as results have the name of a commit")
    return commit


class Results:
    """The file with the results of a commit: a record for each step."""

    def __init__(self, path, commit):
        self._path = path
        self.all = {"commit": commit, "machine": machine.facts(), "steps": {}}
        if path.exists():
            self.all["steps"] = json.loads(path.read_text())["steps"]
        for record in self.all["steps"].values():
            if record["verdict"] == "running":
                record.update(verdict="interrupted", why="the program was killed")

    def record(self, check):
        return self.all["steps"].get(check.name)

    def has_passed(self, check, command):
        """Succeeds if the step has passed with that command, or with the slow one."""
        record = self.record(check)
        return bool(record and record["verdict"] == "passed"
                    and record["command"] in (command, check.slow_command))

    def begin(self, check, command):
        """Begins the record of a step anew; what failed in it before is kept."""
        record = {"verdict": "running", "seconds": 0, "date": machine.date(), "command": command,
                  "why": "", "failed": [], "tried_again": [], "skipped": [], "last_lines": [],
                  "earlier_failures": []}
        before = self.record(check)
        if before:
            record["earlier_failures"] = before.pop("earlier_failures")
            if before["verdict"] == "FAILED":
                record["earlier_failures"].append(before)
        self.all["steps"][check.name] = record
        self._write()

    def end(self, check, **fields):
        self.record(check).update(fields)
        self._write()

    def _write(self):
        new = self._path.with_suffix(".new")
        with open(new, "w", encoding="utf-8") as out:
            out.write(json.dumps(self.all, indent=2) + "\n")
            out.flush()
            os.fsync(out.fileno())
        new.replace(self._path)


def fields_of(outcome, check):
    """The result of a step, as its record has it."""
    verdict, why = outcome.verdict, outcome.why
    if outcome.code is not None and outcome.code == check.skip_code:
        verdict, why = "skipped", "; ".join(outcome.last_lines[-2:])
    failed = gate.failed_tests(outcome) if verdict == "FAILED" else []
    failed = [dataclasses.asdict(one) for one in failed]
    return {
        "verdict": verdict, "seconds": round(outcome.seconds, 3), "why": why,
        "failed": failed,
        "tried_again": [f"{one.name}: {one.tries} tries" for one in outcome.reader.tried_again()],
        "skipped": [f"{what} ({count})" if count > 1 else what
                    for what, count in outcome.reader.skipped.items()],
        "last_lines": outcome.last_lines if verdict == "FAILED" and not failed else [],
    }


def run_step(check, results, slow, root, commit):
    """Runs a step, and keeps its result if the tree was the same all the time."""
    results.begin(check, check.command)
    log = root / "build" / "log" / f"check-{check.name}.log"
    began = time.monotonic()
    try:
        outcome = gate.run(check, LIMIT_S[slow], log, sys.stdout, root)
        if commit_of(root) != commit:
            raise WrongTree("the tree has another commit now; call this again for that one")
    except (KeyboardInterrupt, WrongTree) as reason:
        results.end(check, verdict="interrupted", why=str(reason) or "by Ctrl-C",
                    seconds=round(time.monotonic() - began, 3))
        raise
    results.end(check, **fields_of(outcome, check))


def table(checks, results, before):
    """The lines at the end of the run about these steps; those in `before` were not run again."""
    steps, failures, again, skipped = [], [], [], []
    for check in checks:
        record = results.record(check)
        if not record:
            steps.append(f"{check.name:10} not run")
            continue
        notes = [record["date"], *(["not run again"] if check.name in before else []), record["why"]]
        if record["earlier_failures"]:
            notes.append(f"earlier failures at this commit: {len(record['earlier_failures'])}")
        steps.append(f"{check.name:10} {record['verdict']:11} {record['seconds']:7.0f} s  "
                     f"{', '.join(note for note in notes if note)}")
        if record["verdict"] == "FAILED":
            failed = [gate.Failure(**one) for one in record["failed"]]
            failures += gate.failure_lines(
                gate.parts_of_failure(check, failed, record["last_lines"]))
        again += [f"  {check.name}: {test}" for test in record["tried_again"]]
        skipped += [f"  {check.name}: {what}" for what in record["skipped"]]
    lines = ["", f"=== checks of commit {results.all['commit']}", *steps]
    for title, part in (("tests that were tried again:", again),
                        ("skipped, and why:", skipped),
                        ("failed tests, and the commands that repeat them:", failures)):
        lines += [title, *part] if part else []
    return lines


def run_all(checks, results, slow, root):
    """Runs what has not passed yet; returns the exit code."""
    before, code = [], 0
    try:
        for check in checks:
            if results.has_passed(check, check.command):
                before.append(check.name)
            else:
                run_step(check, results, slow, root, results.all["commit"])
    except KeyboardInterrupt:
        code = 130
    except WrongTree as problem:
        print(f"checks: {problem}", file=sys.stderr)
        code = 2
    print("\n".join(table(checks, results, before)))
    failed = [check.name for check in checks
              if (results.record(check) or {}).get("verdict") == "FAILED"]
    print(f"failed: {', '.join(failed)}" if failed else "no step failed", flush=True)
    return code or (1 if failed else 0)


def locked(folder):
    """The lock that one call of this program has in a tree, or None."""
    lock = open(folder / "lock", "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return lock


def main():
    parser = gate.parser_of(__doc__)
    parser.add_argument("--slow", action="store_true", help="with the tests that take hours")
    parser.add_argument("--root", type=pathlib.Path, default=gate.ROOT, metavar="FOLDER",
                        help="another tree, for the test of this program")
    arguments = parser.parse_args()
    checks = STEPS
    if arguments.steps:
        checks = [Check(**step) for step in json.loads(arguments.steps.read_text())["steps"]]
    checks = gate.chosen(checks, arguments.only, parser)
    if arguments.slow:
        checks = [dataclasses.replace(check, command=check.slow_command or check.command)
                  for check in checks]
    if arguments.list:
        for check in checks:
            print(f"{check.name:10} {check.command}")
        return 0
    try:
        commit = commit_of(arguments.root)
    except WrongTree as problem:
        parser.exit(2, f"checks: {problem}\n")
    folder = arguments.root / "build" / "checks"
    folder.mkdir(parents=True, exist_ok=True)
    (arguments.root / "build" / "log").mkdir(parents=True, exist_ok=True)
    lock = locked(folder)
    if not lock:
        parser.exit(2, "checks: another call of this program runs in this tree; wait for its end\n")
    with lock:
        results = Results(folder / f"{commit}.json", commit)
        return run_all(checks, results, arguments.slow, arguments.root)


if __name__ == "__main__":
    sys.exit(main())
