"""Workers that sleep until their turn.

The benchmark program writes a count per line. All workers do that many steps at once, and the
answer is the seconds from the start of the first to the end of the last.
"""

import sys
import time

import torch
import torch.multiprocessing


def _stay(make_step, rank, arguments, commands):
    step = _prepare(make_step, rank, arguments)
    commands.send("ready")
    while True:
        try:
            count = commands.recv()
        except EOFError:
            return
        _repeat(step, count)
        commands.send("done")


def _prepare(make_step, rank, arguments):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    return make_step(rank, *arguments)


def _repeat(step, count):
    for _ in range(count):
        step()


def serve(workers, make_step, *arguments):
    """Serves as rank 0. `make_step(rank, *arguments)` returns the function that does one step."""
    context = torch.multiprocessing.get_context("spawn")
    others = []
    for rank in range(1, workers):
        ours, theirs = context.Pipe()
        context.Process(
            target=_stay, args=(make_step, rank, arguments, theirs), daemon=True
        ).start()
        theirs.close()
        others.append(ours)
    step = _prepare(make_step, 0, arguments)
    for other in others:
        other.recv()
    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        begin = time.perf_counter()
        for other in others:
            other.send(count)
        _repeat(step, count)
        for other in others:
            other.recv()
        print(time.perf_counter() - begin, flush=True)
