#!/usr/bin/env python3
"""Runs the simulations behind the tables of planner.md, and prints the tables.

usage: planner_claims.py FFDL PROFILES [WORKLOADS]

FFDL is the program, PROFILES and WORKLOADS are folders of the Pollux artifact (the README says where
they are published). Needs nothing but Python. Two simulations run at a time.
"""

import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys

CLUSTERS = {40: (10, 400, (1, 2)), 400: (100, 4000, (1,))}  # GPUs: nodes, jobs, seeds
ARRIVALS = {"low": ("poisson", 1), "high": ("poisson", 2), "bursty": ("bursty", 1.5)}
BATCHES = ("dynamic", "min", "max", "fixed")


def simulate(ffdl, profiles, *arguments):
    command = [ffdl, "simulate", "--profiles", profiles, "--json", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def claims(ffdl, profiles, pool):
    """Drop mode, the paper's objective, and each batch rule, as ratios of dynamic to the others."""
    runs = {}
    for gpus, (nodes, jobs, seeds) in CLUSTERS.items():
        for name, (arrivals, load) in ARRIVALS.items():
            for alike in (True, False):
                for batch in BATCHES:
                    runs[gpus, name, alike, batch] = [
                        pool.submit(simulate, ffdl, profiles, "--arrivals", arrivals, "--load", load,
                                    "--jobs", jobs, "--nodes", nodes, "--seed", seed, "--policy",
                                    "elastic", "--objective", "throughput", "--batch", batch,
                                    "--when-full", "drop", "--job-workers", 16, *(["--samples-alike"] if alike else []))
                        for seed in seeds]
    for alike in (True, False):
        print("\n" + ("Each sample worth the same, as the paper assumes:" if alike else
                      "Each step worth what the measured gradients say:"))
        print("\n| GPUs | arrivals | jobs done: dynamic / min / max / random | dropped | "
              "mean completion, s | done, against min | dropped, against min |")
        print("|---|---|---|---|---|---|---|")
        for gpus in CLUSTERS:
            for name in ARRIVALS:
                row = {batch: [run.result() for run in runs[gpus, name, alike, batch]]
                       for batch in BATCHES}

                def total(key, batch):
                    return sum(report[key] for report in row[batch])

                def each(text, key, how=total):
                    return " / ".join(text.format(how(key, batch)) for batch in BATCHES)

                def mean(key, batch):
                    return statistics.mean(report[key] for report in row[batch])

                dropped = total("dropped", "min")
                ratio = f"{total('dropped', 'dynamic') / dropped:.2f}" if dropped else "-"
                print(f"| {gpus} | {name} | {each('{}', 'completed')} | {each('{}', 'dropped')} | "
                      f"{each('{:.0f}', 'mean_jct_s', mean)} | "
                      f"{total('completed', 'dynamic') / total('completed', 'min'):.2f} | "
                      f"{ratio} |")


def policies(ffdl, profiles, workloads, pool):
    """All policies on the published workloads."""
    rows = {
        "Tiresias": ["--policy", "tiresias"],
        "Elastic-Tiresias": ["--policy", "elastic-tiresias"],
        "FIFO, fixed size": ["--policy", "fixed"],
        "shortest first, an oracle": ["--policy", "shortest-first"],
        "elastic, throughput, smallest batch": ["--objective", "throughput", "--batch", "min"],
        "elastic, throughput, largest batch": ["--objective", "throughput", "--batch", "max"],
        "elastic, throughput, tuned batch": ["--objective", "throughput", "--batch", "fixed"],
        "elastic, throughput, dynamic batch": ["--objective", "throughput"],
        "elastic, goodput, tuned batch": ["--batch", "fixed"],
        "elastic, goodput, dynamic batch": [],
        "the same, stop-free (0.1 s)": ["--restart-cost", 0.1],
    }
    files = sorted(pathlib.Path(workloads).glob("*.csv"))
    runs = {name: [pool.submit(simulate, ffdl, profiles, "--workload", file, *arguments)
                   for file in files] for name, arguments in rows.items()}
    print("\n| policy | " + " | ".join(f"{file.stem}: mean, median, p99 s; reallocations"
                                       for file in files) + " |")
    print("|---|" + "---|" * len(files))
    for name, results in runs.items():
        cells = [f"{r['mean_jct_s']:.0f}, {r['median_jct_s']:.0f}, {r['p99_jct_s']:.0f}; "
                 f"{r['reallocations']}" for r in (run.result() for run in results)]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        if len(sys.argv) == 4:
            policies(*sys.argv[1:4], pool)
        claims(*sys.argv[1:3], pool)


if __name__ == "__main__":
    main()
