#!/usr/bin/env python3
"""World changes without a cause, and the time until a stopped worker is missed, for each lease.

Two workers train a network of PyTorch beside endless compilations. Nothing happens to them, so each
world after the first with both is a false suspicion. Afterwards one worker is stopped by SIGSTOP
some times. The time until the other trains alone is measured.

usage: suspicion_trials.py [--minutes 5] [--leases 0.3,1,2,5] [--compilers 2,4] [--stops 5]
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import elastic_jobs
from elastic_jobs import records, wait_for

WORKER = pathlib.Path(__file__).with_name("suspicion_worker.py")
# A compilation of some seconds, again and again: two templates of the standard library.
SOURCE = """
#include <functional>
#include <map>
#include <regex>
#include <string>
bool matches(const std::string& text) { return std::regex_match(text, std::regex("a(b|c)*d")); }
std::map<std::string, std::function<bool(const std::string&)>> table = {{"matches", matches}};
"""


class Compilers:
    """Endless compilations, which end with the block."""

    def __init__(self, number, folder):
        source = folder / "source.cc"
        source.write_text(SOURCE)
        loop = f"while c++ -std=c++20 -O2 -c {source} -o /dev/null; do :; done"
        self._loops = [subprocess.Popen(["sh", "-c", loop], start_new_session=True)
                       for _ in range(number)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        have_ended = [loop.poll() is not None for loop in self._loops]
        for loop in self._loops:
            os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()
        assert not any(have_ended), "a compilation failed"


def worlds(log):
    return [record for record in records(log) if "generation" in record]


def is_together(logs):
    last = [worlds(log)[-1:] for log in logs]
    return all(one and one[0]["size"] == len(logs) for one in last) and \
        len({one[0]["generation"] for one in last}) == 1


def stop_once(job, logs):
    """Returns the time from the stop of worker 1 until worker 0 trains alone."""
    wait_for(lambda: is_together(logs), "both train together")
    job.stand_still(1)
    began = time.monotonic()
    alone = wait_for(lambda: [world for world in worlds(logs[0])
                              if world["at"] > began and world["size"] == 1],
                     "the other trains alone")
    job.go_on(1)
    return alone[0]["at"] - began


def trial(lease_s, compilers, minutes, stops):
    """Returns the number of worlds without a cause, and the times until a stop was noticed."""
    with tempfile.TemporaryDirectory(prefix="ffdl-suspicion-") as name:
        folder = pathlib.Path(name)
        server = elastic_jobs.serve_store(folder)
        with elastic_jobs.Job(folder, WORKER, lease_s, more={"FFDL_STORE": server.url()}) as job, \
                Compilers(compilers, folder):
            logs = [job.start(0), job.start(1)]
            wait_for(lambda: is_together(logs), "both train together")
            first = worlds(logs[0])[-1]["generation"]
            time.sleep(60 * minutes)
            changes = max(worlds(log)[-1]["generation"] for log in logs) - first
            times = [stop_once(job, logs) for _ in range(stops)]
    return changes, times


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5, help="of each trial [%(default)s]")
    parser.add_argument("--leases", default="0.3,1,2,5", help="in seconds [%(default)s]")
    parser.add_argument("--compilers", default="2,4", help="in each trial [%(default)s]")
    parser.add_argument("--stops", type=int, default=5, help="of a worker, per trial [%(default)s]")
    options = parser.parse_args(arguments)
    print("| lease (s) | compilers | changes without a cause | a stop noticed after (s) |")
    print("|---|---|---|---|", flush=True)
    for compilers in map(int, options.compilers.split(",")):
        for lease_s in map(float, options.leases.split(",")):
            changes, times = trial(lease_s, compilers, options.minutes, options.stops)
            noticed = f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"
            print(f"| {lease_s:g} | {compilers} | {changes} | {noticed} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
