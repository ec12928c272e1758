#!/usr/bin/env python3
"""The gate of .ci/run over steps that are planted: what fails is named in its last 40 lines.

usage: gate_test.py CTEST
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

GATE = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gate.py"
CTEST = "ctest"

# Tests as ctest runs them, and the output of GoogleTest. The shell takes the signal itself.
PLANTED = """
add_test(right sh -c "echo '[ RUN      ] Sum.IsRight'; echo '[       OK ] Sum.IsRight (0 ms)'")
add_test(wrong_sum sh -c "echo '[ RUN      ] Sum.IsExact'; echo 'a warning'; \
echo 'sum_test.cc:9: Failure'; echo '3 is not 2'; echo '[  FAILED  ] Sum.IsExact (3 ms)'; \
echo '[  FAILED  ] Sum.IsExact'; exit 1")
add_test(hangs sh -c "echo '[ RUN      ] Barrier.IsLeft'; echo 'rank 1 waits'; exec sleep 100")
set_tests_properties(hangs PROPERTIES TIMEOUT_AFTER_MATCH "1;rank 1 waits")
add_test(crashes sh -c "echo '[ RUN      ] Segment.IsMapped'; kill -SEGV $$")
"""


class GateTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)

    def run_gate(self, steps, begin_optional_s=100, end_s=100):
        """Runs the gate over these steps; returns its exit code and its last 40 lines."""
        plan = self.folder / "steps.json"
        plan.write_text(json.dumps({
            "steps": [dict(name=name, command=command, **more) for name, command, more in steps],
            "times": {"begin_optional_s": begin_optional_s, "end_s": end_s}}))
        done = subprocess.run([sys.executable, str(GATE), "--steps", str(plan), "--folder",
                               str(self.folder / "log")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
        return done.returncode, "\n".join(done.stdout.splitlines()[-40:])

    def test_it_passes_where_all_steps_do(self):
        code, end = self.run_gate([("one", "echo fine", {}), ("two", "true", {"required": False})])
        self.assertEqual(code, 0)
        self.assertRegex(end, r"one +passed +\d+ s")
        self.assertRegex(end, r"two +passed +\d+ s")
        self.assertIn("all required steps passed in", end)

    def test_each_planted_failure_of_ctest_is_named_with_the_command_for_it_alone(self):
        (self.folder / "CTestTestfile.cmake").write_text(PLANTED)
        code, end = self.run_gate([
            ("tests", f"cd {self.folder} && {CTEST} --output-on-failure",
             {"repeat": "./dev test ctest -R '^{}$'"})])
        self.assertEqual(code, 1)
        self.assertRegex(end, r"tests +FAILED +\d+ s  ended with 8")
        self.assertIn("wrong_sum Sum.IsExact (failed): "
                      "GTEST_FILTER=Sum.IsExact ./dev test ctest -R '^wrong_sum$'", end)
        self.assertIn("    sum_test.cc:9: Failure\n    3 is not 2\n", end)
        self.assertEqual(end.count("Sum.IsExact (failed)"), 1)
        self.assertIn("    rank 1 waits\n", end)
        self.assertNotIn("a warning", end)
        self.assertIn("hangs Barrier.IsLeft (timeout): "
                      "GTEST_FILTER=Barrier.IsLeft ./dev test ctest -R '^hangs$'", end)
        self.assertRegex(end, r"crashes Segment.IsMapped \(exception: ?segfault\)")
        self.assertNotIn("right Sum", end)

    def test_a_test_that_passed_when_tried_again_is_named_but_has_not_failed(self):
        (self.folder / "CTestTestfile.cmake").write_text(
            f'add_test(late sh -c "test -e {self.folder}/tried || {{ touch {self.folder}/tried; exit 1; }}")')
        code, end = self.run_gate([
            ("tests", f"cd {self.folder} && {CTEST} --repeat until-pass:3", {})])
        self.assertEqual(code, 0, end)
        self.assertIn("late: 2 tries", end)
        self.assertNotIn("failed tests", end)

    def test_each_reason_of_skipped_tests_is_named_with_a_test(self):
        hosts = "; ".join(f"echo 'skipped: Hosts.Number{number}: no root'" for number in range(9))
        odd = "; ".join(f"echo 'skipped: Odd.Number{number}: reason {number}'" for number in range(12))
        code, end = self.run_gate([
            ("tests", f"echo 'SKIPPED [2] tests/x.py:7: no torch'; {hosts}; {odd}", {}),
            ("asan", hosts, {})])
        self.assertEqual(code, 0)
        self.assertIn("skipped, and why:\n  Hosts.Number0 and 8 more: no root\n"
                      "  tests/x.py and 1 more: no torch\n  Odd.Number0: reason 0\n", end)
        self.assertIn("  Odd.Number9: reason 9\n  and 2 more reasons: build/log/gate-STEP.log\n", end)

    def test_a_failure_is_not_forgotten_when_another_run_of_ctest_passes(self):
        (self.folder / "CTestTestfile.cmake").write_text(
            f'add_test(first sh -c "test -e {self.folder}/tried || {{ touch {self.folder}/tried; exit 1; }}")')
        run = f"{CTEST} --test-dir {self.folder}"
        code, end = self.run_gate([("tests", f"{run} || failed=1; {run} && exit $failed", {})])
        self.assertEqual(code, 1)
        self.assertIn("first (failed)", end)
        self.assertNotIn("tries", end)

    def test_failures_of_pytest_are_named(self):
        code, end = self.run_gate([
            ("python", "echo 'FAILED tests/python/test_x.py::test_y[1] - assert 1 == 2'; exit 1", {})])
        self.assertEqual(code, 1)
        self.assertIn("./dev test pytest 'tests/python/test_x.py::test_y[1]'\n    assert 1 == 2\n", end)

    def test_a_step_without_tests_shows_its_last_lines(self):
        code, end = self.run_gate([("rules", "echo 'a.h:3: a tab'; exit 2", {})])
        self.assertEqual(code, 1)
        self.assertIn("ended with 2", end)
        self.assertIn("a.h:3: a tab", end)

    def test_the_error_of_a_compiler_is_shown_though_others_went_on(self):
        code, end = self.run_gate([
            ("build", "echo \"a.cc:3:1: error: 'x' was not declared\"; seq 20; exit 1", {})])
        self.assertEqual(code, 1)
        self.assertIn("a.cc:3:1: error: 'x' was not declared", end)

    def test_it_goes_on_after_a_failure_but_not_where_nothing_can_be_built(self):
        code, end = self.run_gate([
            ("first", "exit 1", {}), ("second", "echo 'cannot build'; exit 1", {"ends_all": "cannot build"}),
            ("third", "true", {})])
        self.assertEqual(code, 1)
        self.assertRegex(end, r"second +FAILED")
        self.assertRegex(end, r"third +not run +0 s  step 'second' could not build")

    def test_optional_steps_need_time_and_required_ones_end_with_it(self):
        began = time.monotonic()
        code, end = self.run_gate([
            ("long", "sleep 1", {}), ("optional", "true", {"required": False})], begin_optional_s=0.5)
        self.assertEqual(code, 0)
        self.assertRegex(end, r"optional +not run +0 s  for want of time")
        code, end = self.run_gate([("hangs", "sleep 100", {})], end_s=1)
        self.assertEqual(code, 1)
        self.assertRegex(end, r"hangs +FAILED +\d+ s  ended after \d+ s, for want of time")
        code, end = self.run_gate([("hangs", "sleep 100", {"required": False})], end_s=1)
        self.assertEqual(code, 0)
        self.assertRegex(end, r"hangs +unfinished")
        self.assertLess(time.monotonic() - began, 50)

    def test_what_a_step_leaves_behind_ends_with_it(self):
        left = self.folder / "pid"
        code, end = self.run_gate([("leaves", f"sleep 100 & echo $! >{left}", {})])
        self.assertEqual(code, 0, end)
        state = pathlib.Path(f"/proc/{left.read_text().strip()}/stat")
        for _ in range(1000):
            try:
                if state.read_text().split(") ")[1][0] == "Z":
                    return
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.01)
        self.fail("it runs on")

    def test_many_failures_are_cut(self):
        lines = "; ".join(f"echo 'FAILED tests/python/test_x.py::test_{i} - x'" for i in range(99))
        code, end = self.run_gate([("python", f"{lines}; exit 1", {})])
        self.assertEqual(code, 1)
        self.assertIn("=== summary", end)
        self.assertIn("more lines: build/log/gate-STEP.log", end)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        CTEST = sys.argv.pop(1)
    unittest.main()
