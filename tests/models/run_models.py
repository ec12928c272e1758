#!/usr/bin/env python3
"""Explores the protocol models with SPIN and says for each configuration what was found.

A configuration of the correct model passes when its whole state space was explored without a failed
assertion and without a deadlock. A mutant passes when the checker finds its mistake. Exit status: 0
when all pass, 1 when one does not, 77 when spin or a C compiler is missing.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MEMORY_MIB = 6000
DEPTH_MAX = 100_000
SKIPPED = 77
MODELS = {
    "slots": HERE / "ps_slots.pml",
    "rounds": HERE / "ps_rounds.pml",
    "worlds": HERE / "worlds.pml",
}


@dataclasses.dataclass(frozen=True)
class Configuration:
    name: str
    defines: dict
    mutant: bool = False
    slow: bool = False
    reduce: bool = True  # partial-order reduction

    @property
    def model(self):
        return MODELS[self.name.split("/")[0]]


def bounds(learners=2, shards=2, blocks=1, batches=1, server_kills=1, learner_kills=1, coarse=None):
    values = dict(LEARNERS=learners, SHARDS=shards, BLOCKS=blocks, BATCHES=batches,
                  SERVER_KILLS=server_kills, LEARNER_KILLS=learner_kills)
    return values if coarse is None else {**values, "COARSE": int(coarse)}


def world_bounds(workers=3, joiners=0, worlds=3, steps=2, buckets=2, crashes=0, returns=0,
                 checkpoints=0, backs=0, fences=0, stalls=0, heal_by_sum=True):
    return dict(WORKERS=workers, JOINERS=joiners, WORLDS=worlds, STEPS=steps, BUCKETS=buckets,
                CRASHES=crashes, RETURNS=returns, CHECKPOINTS=checkpoints, BACKS=backs,
                FENCES=fences, STALLS=stalls, HEAL_BY_SUM=int(heal_by_sum))


# The bounds in which a mistake shows, where they are not those of bounds() or world_bounds().
MUTANT_BOUNDS = {
    ("slots", "M_ADD_PUBLISHED"): dict(batches=2),
    ("rounds", "R_NO_WAIT"): dict(learners=3, server_kills=0),
    ("worlds", "W_LAST_APPLY"): dict(worlds=4, buckets=1),
    ("worlds", "W_LATEST_OVERLAP"): dict(workers=2, worlds=4),
    ("worlds", "W_ACTIVE_EARLY"): dict(workers=2, worlds=4),
    ("worlds", "W_SAME_INCARNATION"): dict(workers=2, crashes=1, returns=1),
    ("worlds", "W_PUBLISH_TENTATIVE"): dict(workers=2, checkpoints=1),
    ("worlds", "W_FOREIGN_CHECKPOINT"): dict(workers=2, crashes=1, returns=1, checkpoints=1),
    ("worlds", "W_HEAL_IN_PLACE"): dict(workers=2, heal_by_sum=False),
    ("worlds", "W_BACK_ALONE"): dict(workers=2, joiners=1, buckets=1, backs=1),
    ("worlds", "W_KEEPS_STATE"): dict(workers=2, buckets=1, backs=1),
    ("worlds", "W_VOIDS_LIVE_STATE"): dict(workers=2, buckets=1, fences=2),
    ("worlds", "W_OLDER_BASE"): dict(workers=2, buckets=1, fences=2),
    ("worlds", "W_TORN_BASE"): dict(workers=2, buckets=1, fences=2, heal_by_sum=False),
    ("worlds", "W_FENCED_BEATS_CARRIER"): dict(workers=2, buckets=1, fences=1),
    ("worlds", "W_BEHIND_CHECKPOINT"): dict(workers=2, buckets=1, crashes=1, checkpoints=1),
    ("worlds", "W_BASE_BY_LABEL"): dict(worlds=4, steps=1, buckets=1, crashes=1),
    ("worlds", "W_FORGETS_BASE"): dict(workers=2, worlds=4, steps=1, buckets=1, fences=2),
    ("worlds", "W_RETURNS_UNASKED"): dict(workers=2, buckets=1, stalls=1),
}

CORRECT = [
    Configuration("slots/fine", bounds(coarse=False)),
    Configuration("slots/committed", {**bounds(coarse=False), "RESUME_AS_COMMITTED": 1}),
    Configuration("slots/2-blocks", bounds(blocks=2, coarse=True)),
    Configuration("slots/2-batches", bounds(batches=2, coarse=True)),
    Configuration("rounds/kills", bounds()),
    Configuration("rounds/2-batches-server", bounds(batches=2, learner_kills=0)),
    Configuration("rounds/2-batches-learner", bounds(batches=2, server_kills=0)),
    Configuration("rounds/own", {**bounds(), "SHARD_ROUNDS": 1}),
    Configuration("rounds/own-2-batches", {**bounds(batches=2, learner_kills=0), "SHARD_ROUNDS": 1}),
    Configuration("worlds/healed-by-sum", world_bounds()),
    Configuration("worlds/crash", world_bounds(crashes=1)),
    Configuration("worlds/joiner", world_bounds(joiners=1)),
    Configuration("worlds/anew", world_bounds(workers=2, worlds=4, crashes=2, returns=2,
                                              checkpoints=2)),
    Configuration("worlds/salvage", world_bounds(buckets=1, crashes=1, returns=1, checkpoints=1)),
    Configuration("worlds/fenced", world_bounds(workers=2, worlds=4, buckets=1, crashes=1,
                                                checkpoints=1, fences=2)),
    Configuration("worlds/stood-still", world_bounds(workers=2, worlds=4, buckets=1, crashes=1,
                                                     checkpoints=1, stalls=2)),
    Configuration("worlds/lost", world_bounds(worlds=4, steps=1, buckets=1, crashes=1)),
    Configuration("worlds/lost-twice", world_bounds(workers=2, worlds=5, steps=1, buckets=1,
                                                    fences=3)),
    Configuration("worlds/back", world_bounds(workers=2, worlds=4, buckets=1, crashes=1, returns=1,
                                              checkpoints=1, backs=1)),
    Configuration("worlds/back-joiner", world_bounds(joiners=1, checkpoints=1, buckets=1,
                                                     backs=1)),
    Configuration("slots/large/2-batches-2-blocks", bounds(batches=2, blocks=2, coarse=True),
                  slow=True),
    Configuration("slots/large/2-batches-2-kills", bounds(batches=2, server_kills=2, coarse=True),
                  slow=True),
    Configuration("slots/large/3-batches", bounds(batches=3, learner_kills=0, coarse=True),
                  slow=True),
    Configuration("slots/large/3-learners", bounds(learners=3, coarse=True), slow=True),
    Configuration("slots/large/3-learners-2-batches",
                  bounds(learners=3, batches=2, server_kills=0, learner_kills=0, coarse=True),
                  slow=True),
    Configuration("slots/large/3-shards", bounds(shards=3, learner_kills=0, coarse=True),
                  slow=True),
    Configuration("slots/large/unreduced", bounds(coarse=False), slow=True, reduce=False),
    Configuration("slots/large/fine-2-batches", bounds(batches=2, coarse=False), slow=True),
    Configuration("rounds/large/2-batches", bounds(batches=2), slow=True),
    Configuration("rounds/large/3-learners", bounds(learners=3, learner_kills=0), slow=True),
    Configuration("worlds/large/3-buckets", world_bounds(buckets=3, crashes=1), slow=True),
    Configuration("worlds/large/3-steps", world_bounds(steps=3, crashes=1), slow=True),
    Configuration("worlds/large/4-worlds", world_bounds(worlds=4), slow=True),
    Configuration("worlds/large/returns", world_bounds(crashes=2, returns=1, checkpoints=1),
                  slow=True),
    Configuration("worlds/large/joiner", world_bounds(joiners=1, crashes=1, checkpoints=1),
                  slow=True),
    Configuration("worlds/large/lost-twice", world_bounds(worlds=4, steps=1, buckets=1, crashes=1,
                                                          fences=1), slow=True),
    Configuration("worlds/large/lost-thrice", world_bounds(workers=2, worlds=6, steps=1, buckets=1,
                                                           fences=4), slow=True),
    Configuration("worlds/large/fenced", world_bounds(buckets=1, crashes=1, fences=2), slow=True),
    Configuration("worlds/large/stood-still", world_bounds(buckets=1, stalls=2), slow=True),
]


# Those that a shard's own rounds can have, too.
OWN_ROUND_MUTANTS = ("R_OWN_CHOICE", "R_NO_RESTORE", "R_ONE_RECORD")


def mutants():
    """One configuration for each '#define M_NAME n', 'R_NAME' or 'W_NAME' of a model."""
    for family, model in MODELS.items():
        correct = world_bounds if family == "worlds" else bounds
        for name, number in re.findall(r"^#define ([MRW]_[A-Z_]+) +(\d+)", model.read_text(),
                                       re.MULTILINE):
            where = correct(**MUTANT_BOUNDS.get((family, name), {}))
            short = name[2:].lower().replace("_", "-")
            yield Configuration(f"{family}/mutant/{short}", {**where, "MUTANT": int(number)},
                                mutant=True)
            if name in OWN_ROUND_MUTANTS:
                yield Configuration(f"{family}/mutant/own-{short}",
                                    {**where, "MUTANT": int(number), "SHARD_ROUNDS": 1},
                                    mutant=True)


@dataclasses.dataclass
class Outcome:
    states: float = 0
    depth: int = 0
    seconds: float = 0
    error: str = ""       # what the checker found wrong in the model
    incomplete: str = ""  # why the search did not end


def parse(output):
    outcome = Outcome()
    if match := re.search(r"depth reached (\d+), errors: (\d+)", output):
        outcome.depth = int(match[1])
        errors = int(match[2])
    else:
        outcome.incomplete = output.strip().splitlines()[-1] if output.strip() else "no output"
        return outcome
    if match := re.search(r"([\d.e+]+) states, stored", output):
        outcome.states = float(match[1])
    if match := re.search(r"elapsed time ([\d.e+]+) seconds", output):
        outcome.seconds = float(match[1])
    if errors:
        deadlock = "pan:1: invalid end state" in output
        outcome.error = "deadlock" if deadlock else "assertion failed"
    elif match := re.search("search depth too small|reached -DMEMLIM bound|out of memory", output):
        outcome.incomplete = match[0]
    elif "Search not completed" in output:
        outcome.incomplete = "search not completed"
    return outcome


def explore(configuration, seconds_max):
    defines = [f"-D{name}={value}" for name, value in configuration.defines.items()]
    # A mutant's search is short: its compiler need not try hard.
    optimise = "-O1" if configuration.mutant else "-O2"
    flags = [optimise, "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}"]
    if not configuration.reduce:
        flags.append("-DNOREDUCE")
    with tempfile.TemporaryDirectory(prefix="ffdl-model-") as folder:
        for command in (["spin", *defines, "-a", str(configuration.model)],
                        ["gcc", *flags, "-o", "pan", "pan.c"]):
            built = subprocess.run(command, cwd=folder, text=True, capture_output=True)
            if built.returncode != 0 or "Error" in built.stdout:
                return Outcome(incomplete=f"{command[0]}: {built.stdout}{built.stderr}".strip())
        try:
            run = subprocess.run(["./pan", f"-m{DEPTH_MAX}", "-w24", "-n"], cwd=folder, text=True,
                                 capture_output=True, timeout=seconds_max)
        except subprocess.TimeoutExpired:
            return Outcome(incomplete=f"stopped after {seconds_max} s; raise --seconds-max")
    return parse(run.stdout + run.stderr)


def verdict(configuration, outcome):
    """Returns (passed, words)."""
    if outcome.incomplete:
        return False, f"NOT EXHAUSTED: {outcome.incomplete}"
    if configuration.mutant:
        return (True, f"found: {outcome.error}") if outcome.error else (False, "MUTANT SURVIVES")
    return (False, f"FAILS: {outcome.error}") if outcome.error else (True, "exhausted, correct")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true", help="the larger configurations as well")
    parser.add_argument("--only", metavar="NAME", default="",
                        help="configurations whose name contains NAME (slow ones need --slow)")
    parser.add_argument("--seconds-max", type=int, default=3600, help="limit of one search")
    arguments = parser.parse_args()
    for tool, package in (("spin", "spin"), ("gcc", "gcc")):
        if not shutil.which(tool):
            print(f"skipped: '{tool}' is not installed; install the package '{package}'")
            return SKIPPED
    chosen = [c for c in [*CORRECT, *mutants()]
              if arguments.only in c.name and (arguments.slow or not c.slow)]
    if not chosen:
        print(f"choose configurations by '{arguments.only}': none has this in its name")
        return 1
    os.nice(10)
    failed = 0
    for configuration in chosen:
        outcome = explore(configuration, arguments.seconds_max)
        passed, words = verdict(configuration, outcome)
        failed += not passed
        print(f"{configuration.name:36} {outcome.states:12,.0f} states  depth {outcome.depth:4}  "
              f"{outcome.seconds:7.1f} s  {words}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} configurations as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
