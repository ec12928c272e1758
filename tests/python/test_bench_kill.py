"""benchmarks/bench_kill.py: what it reads from the logs of the processes, and one kill."""

import math
import pathlib
import random
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks")]
import bench_kill  # noqa: E402


@pytest.fixture
def lines(tmp_path):
    """Returns the lines of logs that a test names by process and text."""
    def read(**logs):
        for process, text in logs.items():
            (tmp_path / f"steps-{process[1:]}").write_text(text)
        return bench_kill.lines_of(tmp_path)
    return read


def test_two_workers_do_a_step(lines):
    of_both = lines(p1="10 try 1 0 1\n20 did 1 5 2\n", p2="11 try 1 2 3\n21 did 1 5 2\n")
    assert sorted(bench_kill.in_model(of_both)) == [0, 1, 2, 3]


def test_a_worker_that_died_before_it_said_so_was_part_of_the_step(lines):
    of_both = lines(p1="10 try 1 0 1\n20 did 1 5 2\n", p2="11 try 1 2 3\n12 di")
    assert sorted(bench_kill.in_model(of_both)) == [0, 1, 2, 3]


def test_a_worker_that_died_in_a_step_of_the_others_was_not(lines):
    of_both = lines(p1="10 try 1 0 1\n20 did 1 6 1\n", p2="11 try 1 2 3\n")
    assert sorted(bench_kill.in_model(of_both)) == [0, 1]


def test_a_step_that_is_done_again_replaces_the_first(lines):
    again = lines(p1="10 try 1 0 1\n20 did 1 0 1\n", p2="30 try 1 0 1\n40 did 1 1 1\n")
    assert list(bench_kill.in_model(again)) == [0, 1]
    cost = bench_kill.cost_of(again, 25e-9, samples=3, epochs=1)
    assert (cost["missing"], cost["repeated"], cost["computed_in_vain"]) == (1, 0, 2)
    assert cost["alone_s"] == pytest.approx(15e-9)


def test_only_the_last_try_of_a_step_counts(lines):
    retried = lines(p1="10 try 1 0 1\n20 try 1 2 3\n30 did 1 1 1\n")
    assert list(bench_kill.in_model(retried)) == [2, 3]


def test_the_pause_is_between_new_steps_only(lines):
    def did(generation, *steps):
        return "".join(f"{at}000000000 try {step} 0\n{at}000000000 did {step} {generation} 1\n"
                       for at, step in steps)
    steps = lines(p1=did(0, (1, 1), (2, 2)), p2=did(1, (4, 1), (5, 2), (6, 3)))
    assert bench_kill.cost_of(steps, 2.5, samples=1, epochs=3)["pause_s"] == pytest.approx(4)


def test_a_kill_costs_a_job_of_ffdl_no_sample(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("KILL_WIDTH", "50")
    monkeypatch.setenv("KILL_SLOW_S", "0.02")  # so that the job does not end before the kill
    peer = bench_kill.PEERS[0]
    cost = bench_kill.run(peer, sys.executable, epochs=20, kill_after=50, draw=random.Random(1),
                          kills=True)
    assert (cost["missing"], cost["repeated"]) == (0, 0)
    assert 0 < cost["pause_s"] < math.inf
    rows = bench_kill.rows_of(peer, {False: [cost], True: [cost]}, [], kills=1)
    figures = {row["name"]: row["value"] for row in rows}
    assert figures["kill/ffdl/pause_s"] == cost["pause_s"]
    assert 0 < figures["kill/ffdl/lines_added"] < figures["kill/ffdl/lines_removed"]


def test_a_peer_that_cannot_run_says_why():
    peer = bench_kill.Peer("none", "ffdl_job.py", lambda programs: [programs.start("false")])
    with pytest.raises(RuntimeError, match="none: it ended with .1. before its") as error:
        bench_kill.run(peer, sys.executable, epochs=1, kill_after=20, draw=random.Random(1),
                       kills=True)
    [row] = bench_kill.rows_of(peer, {False: [], True: []}, [str(error.value)], kills=1)
    assert row["value"] is None and "it ended with [1]" in row["note"]
