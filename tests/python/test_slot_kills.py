"""Learners that share a loader's epochs are killed, each wherever it is: every sample counts once."""

import itertools
import json
import random
import signal
import time
from multiprocessing.connection import wait

import numpy as np
import pytest
from elastic_jobs import FORKED, SOON_S

import ffdl

DATA = {"samples": 60, "partition_samples": 8, "epochs": 6}
DEATHS = 6
STEPS_MAX, STEPS_MORE = 4, 6  # so that those who are killed leave something to the others
BATCH = 3
LEFT = 2  # are not killed
assert DEATHS * (STEPS_MAX + STEPS_MORE) * BATCH < DATA["samples"] * DATA["epochs"]


class Life:
    """What a process is told: its number, and in which step it is to be killed; 0: in none."""

    def __init__(self, folder, number, step, told):
        self._folder, self.number, self._step, self._told = folder, number, step, told

    def begin(self):
        """Those that are left begin when both are attached: one that comes later makes a new server."""
        if self._step == 0:
            (self._folder / f"here-{self.number}").touch()
            while len(list(self._folder.glob("here-*"))) < LEFT:
                time.sleep(0.01)

    def loader(self, learner):
        log = ffdl.CommitLog.open(str(self._folder / f"log-{self.number}"), **DATA)
        return ffdl.data.ElasticLoader(
            np.arange(DATA["samples"]), batch_samples=BATCH, order=ffdl.SampleOrder.ON_DEMAND, seed=5,
            partition_samples=DATA["partition_samples"], epochs=DATA["epochs"], learner=learner,
            on_stable=log.write, num_workers=self.number % 2)

    def use(self, batches):
        for count, batch in enumerate(batches, 1):
            if count == self._step:
                self._told.send(count)
            while self._step and count == self._step + STEPS_MORE:
                signal.pause()
            yield batch

    def tell(self, **result):
        (self._folder / f"result-{self.number}").write_text(json.dumps(result))


def play(folder, train, name):
    """The results of those that are left when DEATHS processes were killed, three at a time."""
    chance = random.Random(7)
    numbers = itertools.count()
    alive = {}

    def start(step):
        mine, told = FORKED.Pipe(duplex=False)
        life = Life(folder, next(numbers), step, told)
        process = FORKED.Process(target=train, args=(name, life))
        process.start()
        told.close()
        alive[mine] = process

    try:
        for _ in range(3):
            start(chance.randint(1, STEPS_MAX))
        for death in range(DEATHS):
            told = wait(list(alive), SOON_S)[0]
            assert told.recv() > 0
            time.sleep(chance.uniform(0, 0.004))  # wherever it is then
            process = alive.pop(told)
            process.kill()
            process.join(SOON_S)
            assert process.exitcode == -signal.SIGKILL
            if death < DEATHS - 3:
                start(chance.randint(1, STEPS_MAX))
        for _ in range(LEFT):
            start(0)
        for process in alive.values():
            process.join(SOON_S)
            assert process.exitcode == 0
    finally:
        for process in alive.values():
            process.kill()
    found = ffdl.audit_commit_logs([str(log) for log in folder.glob("log-*")], complete=True)
    assert (found.problems, found.first_problems) == (0, [])
    assert (found.epochs, found.missing, found.repeated) == (DATA["epochs"], 0, 0)
    assert found.samples == DATA["epochs"] * DATA["samples"]
    return [json.loads(result.read_text()) for result in folder.glob("result-*")]


def train_arrays(name, life):
    learner = ffdl.Learner.attach(name, SOON_S)
    life.begin()
    with life.loader(learner) as loader:
        for ranges, numbers in life.use(loader.all_parts(timeout_s=SOON_S)):
            gradient = np.zeros(DATA["samples"], np.float32)
            np.add.at(gradient, numbers, -1)
            learner.push(gradient, ranges)
    learner.detach(SOON_S)
    life.tell()


def test_learners_with_a_loader(name, tmp_path):
    server = ffdl.ParameterServer.create(
        name=name, parameters=DATA["samples"], partitions=8,
        rule=ffdl.UpdateRuleOptions("sgd", learning_rate=1.0))
    server.start()
    assert play(tmp_path, train_arrays, name) == [{}, {}]
    server.stop()
    assert server.weights().tolist() == [DATA["epochs"]] * DATA["samples"]


def train_module(name, life):
    import torch

    import ffdl.torch

    torch.set_num_threads(1)
    table = torch.nn.Embedding(DATA["samples"], 1)
    torch.nn.init.zeros_(table.weight)
    opt = ffdl.torch.ParameterServerOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0), name, partitions=8, timeout_s=SOON_S)
    life.begin()
    with life.loader(opt.learner) as loader:
        for numbers in life.use(opt.batches(loader)):
            opt.zero_grad()
            (-table(torch.from_numpy(numbers))).sum().backward()
            opt.step()
    serves = opt.server is not None
    opt.close()
    life.tell(serves=serves, weights=table.weight.flatten().tolist())


def test_optimizers_and_who_serves(name, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (end,) = (one for one in play(tmp_path, train_module, name) if one["serves"])
    assert end["weights"] == [DATA["epochs"]] * DATA["samples"]
