"""Workers that stand still for a moment: nothing is lost that one of them holds."""

import re
import time

import pytest
import stall_trials
import suspicion_trials
from elastic_jobs import wait_for
from stall_job import STEPS, StallJob, last_step, size_of, steps

FENCE_AFTER_S = 4.0
LONG_FENCE_S = 100.0
BEFORE_THE_FENCE_S = 50.0


@pytest.fixture
def trial(tmp_path, request):
    trial = StallJob(tmp_path, getattr(request, "param", FENCE_AFTER_S))
    with trial.job:
        yield trial


@pytest.mark.parametrize("trial", [LONG_FENCE_S], indirect=True)
@pytest.mark.parametrize("comes_back", ["nobody", "a new life of the dead one"])
def test_after_a_stall_and_a_death_the_job_goes_on_where_the_living_one_was(trial, comes_back):
    stalled, other = trial.start_all()
    trial.job.stand_still(0)
    at, many = last_step(stalled), len(steps(stalled))
    wait_for(lambda: size_of(other) == 1 and last_step(other) > at + STEPS, "one goes on alone")
    trial.kill(1)
    if comes_back != "nobody":
        trial.start(1)
    trial.job.go_on(0)
    # There is no launcher: the stalled one itself finds that the process of the other has ended.
    wait_for(lambda: last_step(stalled) > at + STEPS, "the stalled one goes on", BEFORE_THE_FENCE_S)
    after = steps(stalled)[many:]
    assert min(after) >= at and after[0] <= at + 2, "it continues from its own step"
    trial.wait_for_all()
    assert trial.end().undone > 0


@pytest.mark.parametrize("trial", [LONG_FENCE_S], indirect=True)
@pytest.mark.parametrize("successors", [[0, 1], [2, 3]], ids=["the same workers", "other workers"])
def test_a_job_whose_workers_were_all_killed_begins_anew_without_the_fence(trial, successors):
    trial.start_all()
    for number in (0, 1):
        trial.kill(number)
    logs = [trial.start(number) for number in successors]
    wait_for(lambda: all(last_step(log) > STEPS for log in logs), "the successors train",
             BEFORE_THE_FENCE_S)


def test_a_job_that_stood_still_for_longer_than_its_fence_loses_no_step(trial):
    logs = trial.start_all()
    for number in (0, 1):
        trial.job.stand_still(number)
    before = max(last_step(log) for log in logs)
    seen = [len(steps(log)) for log in logs]
    # A machine that is suspended stands still in the same way.
    time.sleep(FENCE_AFTER_S + 1)
    for number in (0, 1):
        trial.job.go_on(number)
    trial.wait_for_all()
    for log, many in zip(logs, seen):
        assert min(steps(log)[many:]) >= before - 1
        # It did not wait for the store: it was the worker itself that stood still.
        assert "this process stood still for " in log.read_text()
        assert "the store did not answer" not in log.read_text()
    trial.end()


@pytest.mark.slow
def test_random_stalls_and_deaths():
    assert stall_trials.main(["--trials", "3", "--stops-of-all", "1"]) == 0


@pytest.mark.slow
def test_suspicions_are_counted_and_stops_timed(capsys):
    pytest.importorskip("torch")
    suspicion_trials.main(
        ["--minutes", "0.05", "--leases", "0.3", "--compilers", "1", "--stops", "1"])
    assert re.search(r"\| 0.3 \| 1 \| \d+ \| [\d.]+ \(", capsys.readouterr().out)
