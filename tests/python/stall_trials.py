#!/usr/bin/env python3
"""Random stalls and deaths of real workers, with the default lease and fence.

In each trial one of two to four workers is stopped for 0.4 to 60 s. Meanwhile, or right after,
some or all of the others are killed, and may be started again. Then the job must continue from the
newest step that a living worker held, and end with one state and an audit without findings. In a
trial of --stops-of-all all workers are stopped for 40 s, and no step may be lost.

usage: stall_trials.py [--trials 200] [--stops-of-all 50] [--jobs 4] [--seed 1]
"""

import argparse
import concurrent.futures
import pathlib
import random
import sys
import tempfile
import time

from stall_job import StallJob, last_step, steps

FENCE_AFTER_S = 30.0  # the default
STOP_OF_ALL_S = 40.0


def held_by(job):
    """Returns the newest step of a living worker, and what each has shown: how many and the last."""
    newest = max(map(last_step, job.logs.values()))
    return newest, {number: (len(steps(log)), last_step(log)) for number, log in job.logs.items()}


def check_nothing_is_lost(job, newest, held):
    """No worker trains a step again that one of them held."""
    for number, (many, last) in held.items():
        again = steps(job.logs[number])[many:]
        if again[0] == last + 1:
            del again[0]  # it was made before the worker stood still, and is shown late
        assert min(again) >= newest - 1, f"worker {number}: step {min(again)} after {newest}"


def stall_and_kill(job, random_):
    workers = random_.randint(2, 4)
    job.start_all(workers)
    time.sleep(random_.uniform(0, 1))
    stalled = random_.randrange(workers)
    others = [number for number in range(workers) if number != stalled]
    victims = random_.sample(others, random_.randint(1, len(others)))
    stall_s = random_.choice([random_.uniform(0.4, 3), random_.uniform(3, 60)])
    kill_after_s = stall_s * random_.choice([random_.random(), 1]) + random_.uniform(0, 0.3)
    began = time.monotonic()
    job.job.stand_still(stalled)
    is_stalled = True
    if kill_after_s < stall_s:
        time.sleep(kill_after_s)
    else:
        time.sleep(stall_s)
        job.job.go_on(stalled)
        is_stalled = False
        time.sleep(kill_after_s - stall_s)
    for victim in victims:
        job.kill(victim)
    held = held_by(job)
    for victim in victims:
        if random_.random() < 0.5:
            job.start(victim)
    if is_stalled:
        time.sleep(max(0.0, began + stall_s - time.monotonic()))
        job.job.go_on(stalled)
    job.wait_for_all()
    check_nothing_is_lost(job, *held)
    return job.end().undone > 0


def stop_all(job, random_):
    workers = random_.randint(2, 4)
    job.start_all(workers)
    time.sleep(random_.uniform(0, 1))
    for number in range(workers):
        job.job.stand_still(number)
    held = held_by(job)
    time.sleep(STOP_OF_ALL_S)
    for number in range(workers):
        job.job.go_on(number)
    job.wait_for_all()
    check_nothing_is_lost(job, *held)
    return job.end().undone > 0


def run(kind, seed):
    """Returns (whether steps of the dead were made again, the error)."""
    with tempfile.TemporaryDirectory(prefix="ffdl-stall-") as folder:
        job = StallJob(pathlib.Path(folder), FENCE_AFTER_S)
        with job.job:
            try:
                return kind(job, random.Random(seed)), None
            except AssertionError as error:
                logs = "".join(f"-- {log.name}\n{log.read_text()[-2000:]}"
                               for log in sorted(pathlib.Path(folder).glob("life-*.log")))
                return False, f"{error}\n{logs}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--stops-of-all", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=4, help="trials at a time")
    parser.add_argument("--seed", type=int, default=1, help="of the first trial")
    options = parser.parse_args(arguments)
    trials = [(stall_and_kill, options.seed + i) for i in range(options.trials)]
    trials += [(stop_all, options.seed + i) for i in range(options.stops_of_all)]
    undone, failed = 0, 0
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run, *trial): trial for trial in trials}
        for done, future in enumerate(concurrent.futures.as_completed(running), 1):
            was_undone, error = future.result()
            undone += was_undone
            if error:
                failed += 1
                kind, seed = running[future]
                print(f"{kind.__name__}, seed {seed}: {error}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{done} of {len(trials)} trials, {failed} failed", end="", file=sys.stderr)
    print(f"{len(trials)} trials in {time.monotonic() - began:.0f} s: {failed} failed, in {undone} "
          "steps of the dead were made again")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
