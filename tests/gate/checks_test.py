#!/usr/bin/env python3
"""The program behind ./dev check all, over steps that are planted in a repository of its own.

usage: checks_test.py CTEST
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKS = ROOT / "tools" / "checks.py"
CTEST = "ctest"
DEADLINE_S = 60


@unittest.skipUnless(shutil.which("git"), "there is no git")
class ChecksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)  # steps write here, beside the tree
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        self.git("init", "--quiet")
        (self.tree / ".gitignore").write_text("/build/\n")
        self.commit()

    def git(self, *arguments):
        surroundings = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
        done = subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@localhost",
                               *arguments], cwd=self.tree, env=surroundings, check=True,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "a change")

    def command(self, steps, *options):
        plan = self.folder / "steps.json"
        plan.write_text(json.dumps({"steps": [dict(name=name, command=command, **more)
                                              for name, command, more in steps]}))
        return [sys.executable, str(CHECKS), "--steps", str(plan), "--root", str(self.tree), *options]

    def run_checks(self, steps, *options):
        """Runs the steps; returns the exit code and the output from the table on."""
        done = subprocess.run(self.command(steps, *options), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=DEADLINE_S)
        before, _, end = done.stdout.partition("=== checks of commit")
        return done.returncode, end or before

    def results_file(self):
        return self.tree / "build" / "checks" / f"{self.git('rev-parse', 'HEAD')}.json"

    def results(self):
        return json.loads(self.results_file().read_text())

    def noted(self, name, then="true"):
        """A command that writes its name down, then does the rest."""
        return f"echo {name} >>{shlex.quote(str(self.folder / 'ran'))}; {then}"

    def ran(self):
        """The steps that ran, in their order."""
        path = self.folder / "ran"
        return path.read_text().split() if path.exists() else []

    def blocked(self, name):
        """A step that ends once `open` exists, and writes the id of its process down."""
        fifo = self.folder / "fifo"
        if not fifo.exists():
            os.mkfifo(fifo)
        return self.noted(name, f"echo $$ >{self.folder}/new && mv {self.folder}/new {self.folder}/pid; "
                                f"test -e {self.folder}/open || read x <{fifo}")

    def wait_for(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)

    def has_ended(self, pid):
        state = pathlib.Path(f"/proc/{pid}/stat")
        try:
            return state.read_text().split(") ")[1][0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    def start_blocked(self, steps):
        """Starts the program, and returns it once its blocked step runs, with the process of that."""
        program = subprocess.Popen(self.command(steps), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.wait_for((self.folder / "pid").exists, "the step has not begun")
        return program, int((self.folder / "pid").read_text())

    # --- what is run ---

    def test_what_has_passed_is_not_run_again_but_named_with_its_time(self):
        steps = [("one", self.noted("one"), {}), ("two", self.noted("two"), {})]
        code, end = self.run_checks(steps)
        self.assertEqual(code, 0, end)
        self.assertNotIn("not run again", end)
        first = self.results()
        code, end = self.run_checks(steps)
        self.assertEqual(code, 0, end)
        self.assertEqual(self.ran(), ["one", "two"])
        self.assertRegex(end, r"one +passed +\d+ s  \d{4}-\d\d-\d\d \d\d:\d\d UTC, not run again")
        self.assertEqual(self.results(), first)

    def test_it_goes_on_after_a_failure_and_runs_only_that_again(self):
        right = self.folder / "right"
        steps = [("one", self.noted("one"), {}), ("two", self.noted("two", f"test -e {right}"), {}),
                 ("three", self.noted("three"), {})]
        code, end = self.run_checks(steps)
        self.assertEqual(code, 1)
        self.assertRegex(end, r"two +FAILED +\d+ s .*, ended with 1")
        self.assertIn("failed: two", end)
        right.touch()
        code, end = self.run_checks(steps)
        self.assertEqual(code, 0, end)
        self.assertEqual(self.ran(), ["one", "two", "three", "two"])
        self.assertIn("earlier failures at this commit: 1", end)
        record = self.results()["steps"]["two"]
        self.assertEqual(record["verdict"], "passed")
        self.assertEqual([one["verdict"] for one in record["earlier_failures"]], ["FAILED"])

    def test_it_resumes_after_a_kill_in_the_middle(self):
        steps = [("one", self.noted("one"), {}), ("two", self.blocked("two"), {}),
                 ("three", self.noted("three"), {})]
        program, step = self.start_blocked(steps)
        verdicts = {name: record["verdict"] for name, record in self.results()["steps"].items()}
        self.assertEqual(verdicts, {"one": "passed", "two": "running"})
        program.kill()
        program.wait()
        self.wait_for(lambda: self.has_ended(step), "the step outlives the program")
        (self.folder / "open").touch()
        code, end = self.run_checks(steps)
        self.assertEqual(code, 0, end)
        self.assertEqual(self.ran(), ["one", "two", "two", "three"])

    def test_it_resumes_after_an_interrupt(self):
        steps = [("one", self.noted("one"), {}), ("two", self.blocked("two"), {}),
                 ("three", self.noted("three"), {})]
        program, step = self.start_blocked(steps)
        program.send_signal(signal.SIGINT)
        end = program.communicate(timeout=DEADLINE_S)[0]
        self.assertEqual(program.returncode, 130)
        self.wait_for(lambda: self.has_ended(step), "the step outlives the program")
        self.assertRegex(end, r"two +interrupted +\d+ s .*, by Ctrl-C")
        self.assertRegex(end, r"three +not run")
        (self.folder / "open").touch()
        code, end = self.run_checks(steps)
        self.assertEqual(code, 0, end)
        self.assertEqual(self.ran(), ["one", "two", "two", "three"])

    def test_a_step_that_its_machine_cannot_run_is_skipped_with_the_reason(self):
        steps = [("gpu", self.noted("gpu", "echo 'no driver'; echo 'no GPU'; exit 4"), {"skip_code": 4})]
        code, end = self.run_checks(steps)
        self.assertEqual(code, 0, end)
        self.assertRegex(end, r"gpu +skipped +\d+ s .*, no driver; no GPU")
        self.run_checks(steps)
        self.assertEqual(self.ran(), ["gpu", "gpu"])

    def test_slow_steps_count_for_the_others_but_not_the_other_way_round(self):
        steps = [("tests", self.noted("short"), {"slow_command": self.noted("slow")}),
                 ("rules", self.noted("rules"), {})]
        self.run_checks(steps)
        self.run_checks(steps, "--slow")
        code, end = self.run_checks(steps)
        self.assertEqual(code, 0, end)
        self.assertEqual(self.ran(), ["short", "rules", "slow"])

    def test_one_step_can_be_run_alone(self):
        steps = [("one", self.noted("one"), {}), ("two", self.noted("two"), {})]
        self.assertEqual(self.run_checks(steps, "--only", "two")[0], 0)
        self.assertEqual(self.ran(), ["two"])
        code, end = self.run_checks(steps, "--only", "three")
        self.assertEqual(code, 2)
        self.assertIn("there is no step 'three'; the steps are: one, two", end)

    # --- of which tree ---

    def test_a_tree_with_changes_is_refused(self):
        steps = [("one", self.noted("one"), {})]
        for name in (".gitignore", "new"):
            (self.tree / name).write_text("/build/\n\n")
            code, end = self.run_checks(steps)
            self.assertEqual(code, 2)
            self.assertIn(f"the tree differs from its commit, as in '{name}'; commit first", end)
            self.commit()
        self.assertEqual(self.ran(), [])

    def test_a_page_of_a_gpu_is_no_change(self):
        (self.tree / "docs" / "results").mkdir(parents=True)
        (self.tree / "docs" / "results" / "ps.md").touch()
        self.commit()
        (self.tree / "docs" / "results" / "gpu-h100.md").touch()
        self.assertEqual(self.run_checks([("one", "true", {})])[0], 0)

    def test_another_commit_begins_anew(self):
        steps = [("one", self.noted("one"), {})]
        self.run_checks(steps)
        first = self.results()
        self.commit()
        self.run_checks(steps)
        self.assertEqual(self.ran(), ["one", "one"])
        self.assertNotEqual(self.results()["commit"], first["commit"])
        self.assertEqual(len(list((self.tree / "build" / "checks").glob("*.json"))), 2)

    def test_a_result_is_not_kept_if_the_tree_changed_meanwhile(self):
        first = self.git("rev-parse", "HEAD")
        code, end = self.run_checks([("one", "touch new", {}), ("two", self.noted("two"), {})])
        self.assertEqual(code, 2)
        self.assertRegex(end, r"one +interrupted +\d+ s .*, the tree differs .* 'new'")
        self.commit()
        path = self.tree / "build" / "checks" / f"{first}.json"
        self.assertEqual(json.loads(path.read_text())["steps"]["one"]["verdict"], "interrupted")
        self.assertEqual(self.ran(), [])

    def test_two_at_once_in_one_tree_are_refused(self):
        program, _ = self.start_blocked([("one", self.blocked("one"), {})])
        code, end = self.run_checks([("two", self.noted("two"), {})])
        self.assertEqual(code, 2)
        self.assertIn("another call of this program runs in this tree", end)
        program.kill()
        self.assertEqual(self.ran(), ["one"])

    # --- what is kept ---

    def test_the_file_has_the_failed_tests_with_their_commands_and_what_was_skipped(self):
        (self.folder / "CTestTestfile.cmake").write_text("""
add_test(wrong_sum sh -c "echo '[ RUN      ] Sum.IsExact'; echo '3 is not 2'; \
echo '[  FAILED  ] Sum.IsExact (3 ms)'; exit 1")
add_test(gpu_test sh -c "exit 77")
set_tests_properties(gpu_test PROPERTIES SKIP_RETURN_CODE 77)
""")
        command = (f"echo 'skipped: the tests under Python 3.13'; "
                   f"echo 'SKIPPED [2] tests/python/test_x.py:7: no PyTorch'; "
                   f"echo 'SKIPPED [1] tests/python/test_x.py:9: no PyTorch'; "
                   f"{CTEST} --test-dir {self.folder} --output-on-failure")
        code, end = self.run_checks([("tests", command, {"repeat": "./dev test ctest -R '^{}$'"})])
        self.assertEqual(code, 1)
        repeat = "GTEST_FILTER=Sum.IsExact ./dev test ctest -R '^wrong_sum$'"
        self.assertIn(f"  wrong_sum Sum.IsExact (failed): {repeat}\n    3 is not 2\n", end)
        self.assertIn("  tests: tests/python/test_x.py: no PyTorch (3)", end)
        results = self.results()
        self.assertEqual(results["commit"], self.git("rev-parse", "HEAD"))
        self.assertEqual(results["machine"]["cores"], os.cpu_count())
        self.assertTrue(results["machine"]["cpu"])
        self.assertRegex(results["machine"]["kernel"], "^Linux ")
        record = results["steps"]["tests"]
        self.assertEqual(record["command"], command)
        self.assertRegex(record["date"], r"^\d{4}-\d\d-\d\d \d\d:\d\d UTC$")
        self.assertGreater(record["seconds"], 0)
        self.assertEqual((record["verdict"], record["why"]), ("FAILED", "ended with 8"))
        self.assertEqual(record["failed"], [
            {"test": "wrong_sum Sum.IsExact", "how": "failed", "command": repeat,
             "said": ["3 is not 2"]}])
        self.assertEqual(record["skipped"], ["the tests under Python 3.13",
                                             "tests/python/test_x.py: no PyTorch (3)", "gpu_test"])

    def test_the_page_has_a_row_for_each_step_and_what_did_not_pass(self):
        self.run_checks([("tests", "echo 'skipped: Hosts.Loss: no root'", {}),
                         ("rules", "echo 'a tab'; exit 2", {})])
        page = self.folder / "checks.md"
        subprocess.run([sys.executable, str(CHECKS.with_name("publish_checks.py")),
                        str(self.results_file()), str(page)], check=True)
        text = page.read_text()
        self.assertIn(f"Commit: {self.git('rev-parse', 'HEAD')[:8]}.", text)
        self.assertRegex(text, r"\| tests \| `echo .*` \| passed \| 0 s \| 20\d\d-")
        self.assertRegex(text, r"\| rules \| `.*` \| FAILED, ended with 2 \|")
        self.assertIn("- tests: skipped: Hosts.Loss: no root\n", text)

    def test_a_step_without_tests_has_its_last_lines(self):
        code, end = self.run_checks([("rules", "echo 'a.h:3: a tab'; exit 2", {})])
        self.assertEqual(code, 1)
        self.assertIn("    a.h:3: a tab", end)
        self.assertEqual(self.results()["steps"]["rules"]["last_lines"], ["a.h:3: a tab"])

    # --- the steps themselves ---

    def test_each_check_of_dev_is_a_step(self):
        listed = subprocess.run([sys.executable, str(CHECKS), "--list"], stdout=subprocess.PIPE,
                                text=True, check=True).stdout
        steps = dict(line.split(maxsplit=1) for line in listed.splitlines())
        known = re.search(r"^ +((?:\w+ \| )+)all\) ;;$", (ROOT / "dev").read_text(), re.MULTILINE)
        for name in known[1].split(" | ")[:-1]:
            self.assertRegex(steps.get(name, "none"), rf"^\./dev check (--slow )?{name}$")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        CTEST = sys.argv.pop(1)
    unittest.main()
