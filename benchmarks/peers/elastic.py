"""A worker of ffdl.torch.elastic that trains until it is killed or leaves.

usage: elastic.py FOLDER ID LAYERS MINI_BATCH

FOLDER: of the store of its job. LAYERS: 1000 wide, so 8 MB of state each. StartWorker in
benchmarks/rescale/training.h describes its answers, and its output in FOLDER/audit-ID.
"""

import pathlib
import sys
import threading
import time

import torch

import ffdl
import ffdl.torch

WIDTH = 1000


class History:
    """The steps of the training thread, for the thread that answers questions."""

    def __init__(self):
        self._changed = threading.Condition()
        self._steps = []
        self._in_a_row, self._members = 0, 0

    def add(self, end_ns, inside_s, world):
        with self._changed:
            self._steps.append(f"{end_ns} {inside_s:.9f} {world.generation} {world.size}")
            self._in_a_row = self._in_a_row + 1 if world.size == self._members else 1
            self._members = world.size
            self._changed.notify_all()

    def wait_until(self, members, in_a_row):
        with self._changed:
            self._changed.wait_for(
                lambda: self._members == members and self._in_a_row >= in_a_row)

    def take(self):
        with self._changed:
            steps, self._steps = self._steps, []
        return " ".join(steps)


def answer_questions(history, session):
    for line in sys.stdin:
        word, *numbers = line.split()
        if word == "after":
            history.wait_until(*map(int, numbers))
            print("done", flush=True)
        elif word == "report":
            print(history.take(), flush=True)
        elif word == "leave":
            session.ask_to_leave()
            print("asked", flush=True)


def make_model(layers):
    parts = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)]
    return torch.nn.Sequential(*(part for one in parts for part in (one, torch.nn.ReLU())))


def main():
    folder, id = sys.argv[1:3]
    layers, mini_batch = map(int, sys.argv[3:])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    audit = pathlib.Path(folder, f"audit-{id}").open("w")

    def on_stable(committed):
        parts = (f" {r.partition} {r.begin} {r.end}" for _, r in committed.parts)
        audit.write(f"{committed.step}{''.join(parts)}\n")
        audit.flush()  # flushed: it survives a kill

    ledger = ffdl.make_session_ledger(
        samples=64 * mini_batch, partition_samples=8 * mini_batch, epochs=0, on_stable=on_stable)
    model = make_model(layers)
    inputs, wanted = torch.randn(mini_batch, WIDTH), torch.randn(mini_batch, WIDTH)

    def compute():
        torch.nn.functional.mse_loss(model(inputs), wanted).backward()

    compute()  # code and memory are loaded and touched before the others wait
    model.zero_grad()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    trainer = ffdl.torch.elastic(
        model, optimizer, ledger, store=ffdl.open_store(f"tcp://{folder}"), id=id)
    session = trainer.session
    print("ready", flush=True)
    history = History()
    answers = threading.Thread(target=answer_questions, args=(history, session), daemon=True)
    answers.start()
    began = time.perf_counter()
    for _ in trainer.batches(samples=mini_batch):
        inside = time.perf_counter() - began
        world = session.world
        compute()
        began = time.perf_counter()
        trainer.step()
        ended = time.perf_counter()
        history.add(time.monotonic_ns(), inside + ended - began, world)
        if not answers.is_alive():  # no more questions arrive
            return
        began = time.perf_counter()


if __name__ == "__main__":
    main()
