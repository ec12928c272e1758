#!/usr/bin/env python3
"""Measures the loss of a training with local steps, and the bytes that its workers exchange.

    benchmarks/training/local_sgd.py --data input.txt [--every 20 100]

The character language model of examples/05_elastic_torch.py, on nine tenths of a text. Two workers
train it under `ffdl run`, once synchronously and once for each --every with ffdl.torch.local_sgd.
All use the same number of samples, the same inner optimizer and the same schedule. The loss is that
of the rest of the text. The bytes are those of what a worker averages: the size of its gradients,
times the steps of the session. Needs PyTorch and ffdl. Exit status: 1 if workers end with different
weights, or if a sample was missing or repeated.
"""

import argparse
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "05_elastic_torch.py"
WARM_UP = 0.05  # of all inner steps
TIMEOUT_S = 3600


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="a file of text")
    parser.add_argument("--every", type=int, nargs="+", default=[20, 100],
                        help="inner steps of a round [%(default)s]")
    parser.add_argument("--workers", type=int, default=2, help="[%(default)s]")
    parser.add_argument("--epochs", type=int, default=3, help="[%(default)s]")
    parser.add_argument("--batch", type=int, default=16,
                        help="samples of an inner step of one worker [%(default)s]")
    parser.add_argument("--context", type=int, default=32, help="[%(default)s]")
    parser.add_argument("--width", type=int, default=64, help="[%(default)s]")
    parser.add_argument("--layers", type=int, default=2, help="[%(default)s]")
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="[%(default)s]")
    parser.add_argument("--outer-learning-rate", type=float, default=0.7, help="[%(default)s]")
    parser.add_argument("--outer-momentum", type=float, default=0.9, help="[%(default)s]")
    # A worker gets the folder of its report, and the largest `every` of all rows.
    parser.add_argument("--worker", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--longest", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def read_example():
    spec = importlib.util.spec_from_file_location("elastic_example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def work(arguments):
    """Trains as one worker, synchronously if `every` is 0, and writes what it found."""
    import torch

    import ffdl
    import ffdl.torch

    example = read_example()
    every = arguments.every[0]
    torch.set_num_threads(1)
    text, characters = example.read_text(arguments.data)
    cut = len(text) * 9 // 10
    pieces = example.Pieces(text[:cut], arguments.context)
    torch.manual_seed(0)
    model = example.LanguageModel(characters, arguments.context, arguments.width, arguments.layers,
                                  dropout=0.0)
    # The same samples in the same partitions for each row.
    partition = arguments.batch * arguments.longest
    loader = ffdl.data.ElasticLoader(
        pieces, batch_samples=arguments.batch, epochs=arguments.epochs, partition_samples=partition,
        order=ffdl.SampleOrder.ON_DEMAND, window_partitions=-(-len(pieces) // partition),
        partitions_wanted=1)
    steps = arguments.epochs * len(pieces) // (arguments.batch * arguments.workers)

    def rate_at(step):
        done = min(step / steps, 1.0)
        return min(done / WARM_UP, 0.1 + 0.45 * (1 + math.cos(math.pi * done)))

    inner = torch.optim.AdamW(model.parameters(), arguments.learning_rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(inner, rate_at)
    common = {"scheduler": scheduler, "clip_norm": 1.0, "min_workers": arguments.workers}
    if every == 0:
        trainer = ffdl.torch.elastic(model, inner, loader, **common)
    else:
        outer = torch.optim.SGD(
            model.parameters(), arguments.outer_learning_rate,
            momentum=arguments.outer_momentum, nesterov=arguments.outer_momentum > 0)
        trainer = ffdl.torch.local_sgd(model, inner, outer, loader, every=every, **common)
    for batch in trainer.batches():
        loss = example.loss_of(model, *batch)
        loss.backward()
        trainer.step()
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    loss = example.validate(model, example.Pieces(text[cut:], arguments.context))
    found = {
        "weights": zlib.crc32(weights), "loss": loss, "steps": trainer.session.step,
        "bytes": len(weights) + (4 if every else 0), "samples": arguments.epochs * len(pieces)}
    worker = os.environ["FFDL_WORKER_ID"]
    (arguments.worker / f"{worker}.json").write_text(json.dumps(found), encoding="utf-8")


def options_of(arguments, every):
    options = {name.replace("_", "-"): getattr(arguments, name) for name in (
        "data", "workers", "epochs", "batch", "context", "width", "layers", "learning_rate",
        "outer_learning_rate", "outer_momentum")}
    return {"every": every, "longest": max(arguments.every), **options}


def train(arguments, every, folder):
    """Returns what the workers found; they agree on the weights."""
    folder.mkdir()
    command = [sys.executable, "-m", "ffdl", "run", "--workers", arguments.workers,
               "--ledger-log", folder / "ledger", "--python", sys.executable, __file__]
    for name, value in {"worker": folder, **options_of(arguments, every)}.items():
        command += [f"--{name}", value]
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True,
                          check=False, timeout=TIMEOUT_S)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    if done.returncode != 0 or len(found) != arguments.workers:
        said = done.stdout + done.stderr
        raise RuntimeError(f"every {every}: exit code {done.returncode}\n{said}")
    if len({one["weights"] for one in found}) != 1:
        raise RuntimeError(f"every {every}: the workers end with different weights")
    audit(folder / "ledger")
    return found[0]


def audit(folder):
    """Raises unless each sample was committed once per epoch."""
    import ffdl

    logs = [str(log) for log in folder.glob("*.commits")]
    found = ffdl.audit_commit_logs(logs, complete=True)
    if found.problems:
        raise RuntimeError(f"{folder}: {found.first_problems}")


def table(found):
    yield "| training | steps of the session | loss | difference | bytes per sample | fewer |"
    yield "|---|---|---|---|---|---|"
    of_sync = found[0]
    sent_by_sync = of_sync["bytes"] * of_sync["steps"] / of_sync["samples"]
    for every, one in found.items():
        sent = one["bytes"] * one["steps"] / one["samples"]
        name = f"`local_sgd`, every {every}" if every else "`elastic`, synchronous"
        difference = 100 * (one["loss"] / of_sync["loss"] - 1)
        yield (f"| {name} | {one['steps']:,} | {one['loss']:.4f} | {difference:+.2f} % | "
               f"{sent:,.0f} | {sent_by_sync / sent:.1f} × |")


def main():
    arguments = parse_arguments()
    if arguments.worker is not None:
        work(arguments)
        return 0
    found = {}
    with tempfile.TemporaryDirectory(prefix="ffdl-local-sgd-") as folder:
        for every in (0, *arguments.every):
            print(f"every {every} ...", file=sys.stderr, flush=True)
            try:
                found[every] = train(arguments, every, pathlib.Path(folder, f"every-{every}"))
            except RuntimeError as error:
                print(error, file=sys.stderr)
                return 1
    print("\n".join(table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
