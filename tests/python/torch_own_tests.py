"""Runs PyTorch's own tests of torch.distributed with a back end: a line per case, and totals.

    python tests/python/torch_own_tests.py --backend ffdl --against gloo
    python tests/python/torch_own_tests.py --backend ffdl test_send_recv_any_source

The cases are those of torch.testing._internal.distributed.distributed_test. PyTorch enables many of
them by the name "gloo". They are made under that name here, and run with the back end. PyTorch
starts new processes for each case; here the ranks stay, as the import of torch takes longer than
most cases. After a case that failed there are new ones. Exits with 1 if a case failed that is not
in EXCEPTED, if one of these passed, or if one was skipped that the other back end passed.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import os
import shutil
import sys
import tempfile
import time
import traceback

RANKS = 3
CASE_S = 300.0
OTHERS_S = 5.0  # after the first rank that failed

# Cases that gloo passes and ffdl does not, with the reason.
_OF_GLOO_ALONE = "PyTorch refuses dist.monitored_barrier() by name for all back ends but gloo"
EXCEPTED = {
    "test_monitored_barrier_gloo": _OF_GLOO_ALONE,
    "test_monitored_barrier_gloo_subgroup": _OF_GLOO_ALONE,
}


class _LikeGloo(str):
    """The name of a back end, for the bodies of cases that compare it with "gloo"."""

    def __eq__(self, other):
        return other == "gloo" or str.__eq__(self, other)

    __hash__ = str.__hash__


def _make_class(backend):
    """Returns the module and class of the cases; os.environ has what the module reads."""
    if backend != "gloo":
        import ffdl.torch  # noqa: F401  # also where the entry point is not installed
    from torch.testing._internal.distributed import distributed_test as module

    class TestDist(module.TestDistBackend, module.DistributedTest._DistTestBase):
        pass

    module.BACKEND = _LikeGloo(backend)  # after the decorators have read it
    return module, TestDist


def _skips(test_class):
    """Returns each case's name, and the reason for which PyTorch skips it, or None."""
    found = {}
    for name in sorted(dir(test_class)):
        if name.startswith("test_"):
            method = getattr(test_class, name)
            skipped = getattr(method, "__unittest_skip__", False)
            found[name] = getattr(method, "__unittest_skip_why__", "") if skipped else None
    return found


def _connect(module, case, rank, folder):
    import datetime

    import torch.distributed as dist

    dist.init_process_group(
        module.BACKEND,
        init_method=f"file://{folder}/store",
        world_size=RANKS,
        rank=rank,
        timeout=datetime.timedelta(
            seconds=module.CUSTOM_PG_TIMEOUT.get(case, module.default_pg_timeout)
        ),
    )


def _run_case(module, test_class, case, rank, folder):
    """Does what MultiProcessTestCase does in a process of its own: the outcome, and why."""
    import unittest

    import torch.distributed as dist
    from torch.testing._internal import common_distributed, common_utils

    os.environ["TEMP_DIR"] = folder
    module.INIT_METHOD = f"file://{folder}/again"
    module.Barrier.barrier_id = 0
    reasons = {skip.exit_code: skip.message for skip in common_distributed.TEST_SKIPS.values()}
    try:
        test = test_class(case)
        test.rank, test.file_name = rank, f"{folder}/store"
        _connect(module, case, rank, folder)
        test._barrier()
        common_utils.set_rng_seed()
        outcome = "passed", ""
        try:
            getattr(test, case)()
        except unittest.SkipTest as skip:
            outcome = "skipped", str(skip)
        except SystemExit as end:
            if end.code not in reasons:
                raise
            outcome = "skipped", reasons[end.code]
        test._barrier()
        if dist.is_initialized():
            dist.destroy_process_group()
        return outcome
    except (Exception, SystemExit):
        return "failed", traceback.format_exc()


def _serve(backend, rank, pipe):
    """Runs the cases that arrive on `pipe`, until it is closed."""
    os.environ.update(
        BACKEND="gloo",
        WORLD_SIZE=str(RANKS),
        INIT_METHOD="file:///",
        TEMP_DIR="",
        MASTER_ADDR="127.0.0.1",
        OMP_NUM_THREADS="1",
    )
    log = tempfile.TemporaryFile()
    for descriptor in (1, 2):  # PyTorch's cases print much
        os.dup2(log.fileno(), descriptor)
    import torch.distributed as dist

    module, test_class = _make_class(backend)
    environment = dict(os.environ)
    pipe.send(_skips(test_class))
    while True:
        try:
            case, folder = pipe.recv()
        except EOFError:
            return
        pipe.send(_run_case(module, test_class, case, rank, folder))
        os.environ.clear()  # some cases leave variables behind
        os.environ.update(environment)
        dist.set_debug_level_from_env()


class Ranks:
    """The processes that run cases with one back end, one case after another."""

    def __init__(self, backend):
        self._backend = backend
        self._folder = tempfile.mkdtemp(prefix="torch-own-")
        self._pipes = []
        self._processes = []
        self._number = 0
        self.skips = {}

    def start(self):
        if self._processes:
            return
        spawn = multiprocessing.get_context("spawn")
        for rank in range(RANKS):
            pipe, theirs = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(self._backend, rank, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(pipe)
            self._processes.append(process)
        self.skips = [pipe.recv() for pipe in self._pipes][0]

    def run(self, case):
        """Returns the outcome of a case, and why it was skipped or failed."""
        self.start()
        self._number += 1
        folder = f"{self._folder}/{self._number}"
        for part in ("barrier", "test_dir", "init_dir"):
            os.makedirs(f"{folder}/{part}")
        for pipe in self._pipes:
            pipe.send((case, folder))
        outcomes, limit = {}, time.monotonic() + CASE_S
        while len(outcomes) < RANKS and time.monotonic() < limit:
            waited_for = [pipe for rank, pipe in enumerate(self._pipes) if rank not in outcomes]
            patience = max(0.0, limit - time.monotonic())
            for pipe in multiprocessing.connection.wait(waited_for, patience):
                rank = self._pipes.index(pipe)
                try:
                    outcomes[rank] = pipe.recv()
                except EOFError:
                    outcomes[rank] = "failed", "the process has ended"
                if outcomes[rank][0] == "failed":
                    limit = min(limit, time.monotonic() + OTHERS_S)
        shutil.rmtree(folder, ignore_errors=True)
        for rank in range(RANKS):
            outcomes.setdefault(rank, ("failed", "has not ended"))
        kinds = {kind for kind, _ in outcomes.values()}
        if kinds == {"passed"}:
            return "passed", ""
        if kinds == {"skipped"}:
            return outcomes[0]
        self.end()
        return "failed", "".join(f"\nrank {r}: {outcomes[r][0]} {outcomes[r][1]}" for r in outcomes)

    def end(self):
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.kill()
            process.join()
        self._pipes, self._processes = [], []
        shutil.rmtree(self._folder, ignore_errors=True)


def run_cases(backend, cases=(), show=print):
    """Runs these cases, or all: the outcome of each, by its name."""
    ranks, outcomes = Ranks(backend), {}
    try:
        ranks.start()
        if unknown := set(cases) - set(ranks.skips):
            raise ValueError(f"PyTorch has no case {', '.join(sorted(unknown))}")
        for case in cases or ranks.skips:
            begin = time.monotonic()
            if ranks.skips[case] is not None:
                outcomes[case], why = "skipped", ranks.skips[case]
            else:
                outcomes[case], why = ranks.run(case)
            show(f"{backend}: {outcomes[case]} {case} ({time.monotonic() - begin:.1f} s) {why}")
    finally:
        ranks.end()
    counts = {kind: list(outcomes.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    show(f"{backend}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return outcomes


def faults(backend, outcomes, other=None):
    """Returns what is wrong with them; `other`: the outcomes of another back end."""
    excepted = EXCEPTED if backend == "ffdl" else {}
    wrong = []
    for case, outcome in outcomes.items():
        if outcome == "failed" and case not in excepted:
            wrong.append(f"{case}: failed")
        elif outcome == "passed" and case in excepted:
            wrong.append(f"{case}: passed; take it out of EXCEPTED")
        elif outcome == "skipped" and other and other[case] == "passed":
            wrong.append(f"{case}: skipped, and passed by the other back end")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="names of cases; none: all")
    parser.add_argument("--backend", default="ffdl", help="the back end (ffdl)")
    parser.add_argument("--against", help="another back end, which runs the same cases first")
    arguments = parser.parse_args()

    def show(line):
        print(line, flush=True)

    other = arguments.against and run_cases(arguments.against, arguments.cases, show)
    outcomes = run_cases(arguments.backend, arguments.cases, show)
    wrong = faults(arguments.backend, outcomes, other)
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
