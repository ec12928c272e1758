#!/usr/bin/env python3
"""Measures the pause of a language model on a GPU when its workers join, leave and are killed.

    python benchmarks/gpt2_stops.py --backend NCCL

trains a model of GPT-2's small size (124 million parameters) on random tokens: one worker, then
two, one, two, and one of them is killed. It writes a table with the cost of each change for the
worker that trains all the time: the longest of the steps around it, less a normal one. With a
single GPU two workers share it. With older versions of NCCL than 2.30.7 they then take each other
for other hosts, which is slow. The commits are audited: the program fails if a sample was lost or
used twice.
Exit codes: 0 it has been measured, 1 a part failed (the table has the results before it), 4 PyTorch
or ffdl has no GPU here.
"""

import argparse
import ctypes
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

AROUND = 3  # steps on each side that a change may prolong
SAMPLES = 1 << 20  # in an epoch that does not end here
NCCL_THAT_SHARES = (2, 30, 7)  # lets ranks share a GPU, with this environment:
SHARING = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "4"}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="NCCL", choices=["NCCL", "DEVICE_SHM", "AUTO"],
                        help="AUTO: of the CPU [%(default)s]")
    parser.add_argument("--gpu-worlds", default="FRESH", choices=["FRESH", "REUSE"],
                        help="REUSE: NCCL grows and shrinks the present world [%(default)s]")
    parser.add_argument("--device", default="cuda", help="cpu tries this program out [%(default)s]")
    parser.add_argument("--layers", type=int, default=12, help="[%(default)s]")
    parser.add_argument("--width", type=int, default=768, help="[%(default)s]")
    parser.add_argument("--heads", type=int, default=12, help="[%(default)s]")
    parser.add_argument("--vocabulary", type=int, default=50257, help="[%(default)s]")
    parser.add_argument("--context", type=int, default=1024, help="tokens of one [%(default)s]")
    parser.add_argument("--batch", type=int, default=8, help="over all workers [%(default)s]")
    parser.add_argument("--steps", type=int, default=40,
                        help="from one change to the next [%(default)s]")
    parser.add_argument("--timeout-s", type=float, default=400, help="of all [%(default)s]")
    parser.add_argument("--worker", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


# --- a worker ---


def make_model(arguments):
    import torch
    from torch.nn import functional

    class Gpt(torch.nn.Module):
        def __init__(self):
            super().__init__()
            width = arguments.width
            self.tokens = torch.nn.Embedding(arguments.vocabulary, width)
            self.places = torch.nn.Embedding(arguments.context, width)
            self.blocks = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(
                    width, arguments.heads, 4 * width, 0.0, functional.gelu, batch_first=True,
                    norm_first=True)
                for _ in range(arguments.layers))
            self.norm = torch.nn.LayerNorm(width)

        def forward(self, tokens):
            length = tokens.shape[1]
            hidden = self.tokens(tokens) + self.places.weight[:length]
            mask = torch.nn.Transformer.generate_square_subsequent_mask(
                length, device=tokens.device)
            for block in self.blocks:
                hidden = block(hidden, mask, is_causal=True)
            return self.norm(hidden) @ self.tokens.weight.T  # GPT-2 shares these weights

        def loss(self, samples):
            device = self.places.weight.device
            tokens = torch.randint(
                arguments.vocabulary, (samples, arguments.context + 1), device=device)
            with torch.autocast(device.type, torch.bfloat16):
                scores = self(tokens[:, :-1])
            return functional.cross_entropy(scores.float().flatten(0, 1), tokens[:, 1:].flatten())

    torch.manual_seed(0)  # every worker begins with the same weights
    return Gpt()


def work(arguments):
    """Trains until it is asked to leave, and prints a line for each step."""
    import torch

    import ffdl
    import ffdl.torch

    device = torch.device(arguments.device)
    if device.type == "cuda":
        number = int(os.environ["FFDL_WORKER_ID"].rpartition("-")[2])
        device = torch.device("cuda", number % torch.cuda.device_count())
        torch.cuda.set_device(device)
    model = make_model(arguments).to(device)
    model.loss(arguments.batch).backward()  # first use loads code, before others wait for it
    model.zero_grad()
    samples = {"samples": SAMPLES, "epochs": 1}
    log = ffdl.CommitLog.open(str(arguments.worker), partition_samples=SAMPLES, **samples)
    ledger = ffdl.make_session_ledger(
        **samples, partition_samples=SAMPLES, order=ffdl.SampleOrder.GLOBAL,
        batch_samples=arguments.batch, on_stable=log.write)
    trainer = ffdl.torch.elastic(
        model, torch.optim.AdamW(model.parameters(), 1e-4), ledger,
        backend=ffdl.Backend[arguments.backend],
        gpu_worlds=ffdl.GpuWorlds[arguments.gpu_worlds])
    for batch in trainer.batches():
        model.loss(len(batch)).backward()
        trainer.step()
        print(json.dumps({"end_s": time.monotonic(), "size": trainer.session.world.size,
                          "step": trainer.session.step}), flush=True)


# --- the launcher ---


def stops(records):
    """Returns a name and milliseconds for each change of the size.

    records: end_s and size of each step of one worker. Two changes are more than 2 * AROUND steps
    apart.
    """
    sizes = [one["size"] for one in records]
    lengths = [1000 * (new["end_s"] - old["end_s"])
               for old, new in zip(records, records[1:], strict=False)]
    lengths.insert(0, lengths[0] if lengths else 0.0)  # the beginning of the first is unknown
    changes = [i for i in range(1, len(sizes)) if sizes[i] != sizes[i - 1]]
    limits = [0, *changes, len(sizes)]
    found = []
    for last, change, following in zip(limits, changes, limits[2:], strict=False):
        if min(change - last, following - change) <= 2 * AROUND:
            continue  # after a run that failed
        before = statistics.median(lengths[last + AROUND:change - AROUND])
        after = statistics.median(lengths[change + AROUND:following - AROUND])
        longest = max(lengths[change - AROUND:change + AROUND])
        found.append({"from": sizes[change - 1], "to": sizes[change], "before": before,
                      "after": after, "longest": longest,
                      "stop": max(0.0, longest - max(before, after))})
    return found


class Workers:
    """The workers of one job. The first one trains all the time."""

    def __init__(self, folder, arguments):
        self._folder = folder
        self._arguments = arguments
        self._deadline = time.monotonic() + arguments.timeout_s
        self._running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._running.values():
            process.kill()
            process.wait()

    def start(self, number):
        told = {
            "FFDL_STORE": f"tcp://{self._folder}/store",
            "FFDL_STORE_SECRET": "of this run",
            "FFDL_JOB": "gpt2",
            "FFDL_WORKER_ID": f"worker-{number}",
            "FFDL_MIN_WORKERS": "1",
        }
        command = [sys.executable, __file__, *sys.argv[1:],
                   "--worker", str(self._folder / f"commits-{number}")]
        with self.log(number).open("a") as out:
            self._running[number] = subprocess.Popen(
                command, env=os.environ | sharing(number, self._arguments) | told, stdout=out,
                stderr=subprocess.STDOUT)

    def log(self, number):
        return self._folder / f"worker-{number}.log"

    def end(self, number, how):
        self._running[number].send_signal(how)
        process = self._running.pop(number)
        code = process.wait(max(1.0, self._deadline - time.monotonic()))
        if code not in (0, -how):
            raise RuntimeError(f"worker {number} ended with {code}:\n{self.log(number).read_text()}")

    def records(self):
        lines = self.log(0).read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def wait_for(self, size):
        """Waits until the first worker has trained its steps among `size` workers."""
        def in_a_row():
            count = 0
            for one in reversed(self.records()):
                if one["size"] != size:
                    break
                count += 1
            return count

        while in_a_row() < self._arguments.steps:
            for number, process in self._running.items():
                if process.poll() is not None:
                    raise RuntimeError(f"worker {number} has ended:\n{self.log(number).read_text()}")
            if time.monotonic() > self._deadline:
                raise RuntimeError(f"{self._arguments.timeout_s} s have passed, and {size} workers "
                                   f"have not trained:\n{self.log(0).read_text()}")
            time.sleep(0.05)


def nccl_version():
    """Returns the version of the NCCL that ffdl loads, which may be another one than PyTorch's.

    PyTorch must have been imported, whose library ffdl takes if NCCL_ROOT names none.
    """
    root = os.environ.get("NCCL_ROOT")
    places = [f"{root}/lib/libnccl.so.2", f"{root}/libnccl.so.2"] if root else ["libnccl.so.2"]
    for place in places:
        try:
            library = ctypes.CDLL(place)
            break
        except OSError as error:
            last = error
    else:
        raise last
    number = ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(number))
    return number.value // 10_000, number.value % 10_000 // 100, number.value % 100


def sharing(number, arguments):
    """Returns the settings of NCCL that let two workers share a GPU."""
    if arguments.backend != "NCCL":
        return {}
    import torch

    if torch.cuda.device_count() > 1:
        return {}
    if nccl_version() >= NCCL_THAT_SHARES:
        return SHARING
    return {"NCCL_HOSTID": f"worker-{number}"}


def measure(folder, arguments):
    """Returns the first worker's steps, the errors of the samples, and the failure or None."""
    import ffdl

    failure = None
    with Workers(folder, arguments) as workers:
        try:
            workers.start(0)
            workers.wait_for(1)
            for how in (signal.SIGTERM, signal.SIGKILL):
                workers.start(1)
                workers.wait_for(2)
                workers.end(1, how)
                workers.wait_for(1)
            workers.end(0, signal.SIGKILL)  # its commits are in its log
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failure = error
        records = workers.records()
    return records, ffdl.audit_commit_logs([str(one) for one in folder.glob("commits-*")]), failure


def row(what, one):
    numbers = "".join(f" {one[key]:.1f} |" for key in ("before", "after", "longest", "stop"))
    return f"| {what} |{numbers}"


def page(arguments, records, audit):
    import torch

    chip = torch.cuda.get_device_name() if arguments.device == "cuda" else "the CPU"
    nccl = ""
    if arguments.backend == "NCCL":
        nccl = f", NCCL {'.'.join(map(str, nccl_version()))}, gpu_worlds {arguments.gpu_worlds}"
    count = sum(p.numel() for p in make_model(arguments).parameters()) / 1e6
    whats = ["one comes", "one leaves", "one comes", "one is killed"]
    return "\n".join([
        f"### {arguments.backend}",
        "",
        f"{count:.0f} million parameters, {arguments.batch} sequences of {arguments.context} tokens a "
        f"step, AdamW; {chip}, PyTorch {torch.__version__}{nccl}. "
        f"{arguments.steps} steps from one change to the next.",
        "",
        "| change | step before, ms | step after, ms | longest around it, ms | stop, ms |",
        "|---|---|---|---|---|",
        *(row(what, one) for what, one in zip(whats, stops(records), strict=False)),
        "",
        f"{audit.samples} samples were committed in {audit.steps} steps; {audit.missing} were lost, "
        f"{audit.repeated} used twice.",
    ])


def why_not(arguments):
    """Returns the reason why this machine cannot measure it, or None."""
    if arguments.device != "cuda":
        return None
    try:
        import torch

        import ffdl

        if not torch.cuda.is_available():
            return "PyTorch finds no GPU"
        server = ffdl.ParameterServer.create(parameters=1)
        server.start()
        ffdl.Learner.attach(server, device=-1)
    except ImportError as error:
        return str(error)
    except NotImplementedError as error:
        return f"ffdl: {error}"
    return None


def main():
    arguments = parse_arguments()
    if arguments.worker is not None:
        work(arguments)
        return 0
    if (reason := why_not(arguments)) is not None:
        print(f"gpt2_stops: {reason}", file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory() as folder:
        records, audit, failure = measure(pathlib.Path(folder), arguments)
    print(page(arguments, records, audit))
    if failure is not None:  # the page has the results up to then
        print(f"gpt2_stops: {failure}", file=sys.stderr)
        return 1
    return 1 if audit.problems or audit.missing or audit.repeated else 0


if __name__ == "__main__":
    sys.exit(main())
