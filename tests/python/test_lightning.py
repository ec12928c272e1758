"""PyTorch Lightning's Trainer with workers that come, leave and are killed."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from elastic_jobs import Job, records, wait_for

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "11_lightning.py"
PROGRAM = pathlib.Path(__file__).with_name("lightning_job.py")


def why_missing():
    """Imported by another process: this one treats the warnings of others as errors."""
    ran = subprocess.run(
        [sys.executable, "-c", "import torch, lightning.pytorch"], capture_output=True, text=True,
        timeout=120, check=False)
    return "" if ran.returncode == 0 else ran.stderr.strip().splitlines()[-1]


WHY_MISSING = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY_MISSING), reason=WHY_MISSING or "none")


def all_records(folder, newest=None):
    """newest: of so many lives only, which is quicker to read."""
    logs = sorted(folder.glob("life-*.log"), key=lambda log: int(log.stem.split("-")[1]))
    return [one for log in logs[-newest if newest else None:] for one in records(log)]


def told(folder, what, newest=None):
    return [one[what] for one in all_records(folder, newest) if what in one]


def have_trained(folder, workers, after, records_told=3):
    """True once so many workers have told of steps; the newest may not take part in the first."""
    seen = all_records(folder, 2 * workers + 1)
    return sum(one.get("size") == workers and one["step"] > after for one in seen) >= records_told


def train(folder, epochs, workers, kills):
    """Returns the records of all lives; each worker is killed in turn once all have trained."""
    folder.mkdir()
    arguments = ("--out", folder / "out", "--epochs", epochs, "--lease", 3)
    with Job(folder, EXAMPLE, *arguments, min_workers=workers) as job:
        for number in range(workers):
            job.start(number)
        begun = -1
        for kill in range(kills):
            wait_for(lambda: have_trained(folder, workers, begun, 1), "all train")
            job.kill(kill % workers)
            begun = max(told(folder, "step", 2 * workers + 1))
            job.start(kill % workers)
        wait_for(lambda: len(told(folder, "finished", 2 * workers)) == workers, "it ends",
                 soon_s=120 + 4 * epochs)
        for number in range(workers):
            job.wait(number)
    return all_records(folder)


@pytest.mark.parametrize("kills", [2, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_workers_train_the_bits_of_an_undisturbed_one(kills, tmp_path):
    epochs = 20 + 8 * kills
    (alone,) = [one for one in train(tmp_path / "alone", epochs, 1, 0) if "finished" in one]
    seen = train(tmp_path / "killed", epochs, 2, kills)
    finished = [one for one in seen if "finished" in one]
    assert {(one["finished"], one["weights"]) for one in finished} == {
        (alone["finished"], alone["weights"])}
    assert [one["main"] for one in finished].count(True) == 1
    for what, every in (("evaluated", 20), ("saved", 50)):
        steps = [one[what] for one in seen if what in one]
        expected = {step for step in range(1, alone["finished"] + 1) if step % every == 0}
        assert len(steps) == len(set(steps)), f"{what} twice"
        assert set(steps) <= expected
        assert len(expected - set(steps)) <= kills, what  # a worker may die while it does that
    files = list((tmp_path / "killed" / "out" / "saved").glob("*.ckpt"))
    assert 1 <= len(files) <= 1 + kills  # the next main worker deletes the one before


def run_job(folder, *arguments, workers=1, during=lambda job: None):
    """Returns the records of all lives; workers that `during` ends are not waited for."""
    folder.mkdir(exist_ok=True)
    with Job(folder, PROGRAM, folder, *arguments, min_workers=workers) as job:
        for number in range(workers):
            job.start(number)
        during(job)
        for number in range(10):
            if job.is_running(number):
                job.wait(number)
    return all_records(folder)


def finished_in(seen):
    return [one for one in seen if "finished" in one]


def test_early_stopping_and_saving_go_on_at_the_next_main_worker(tmp_path):
    """The metric is best in epoch 3. The first main worker dies in epoch 6."""
    steps_of_epoch, patience = 5, ("--patience", 4)
    (alone,) = finished_in(run_job(tmp_path / "alone", *patience))
    folder = tmp_path / "killed"

    def kill_the_main_worker(job):
        log = folder / "life-1.log"
        wait_for(lambda: any("step" in one for one in all_records(folder)), "a main worker")
        is_first = any("step" in one for one in records(log))
        wait_for(lambda: 6 * steps_of_epoch in told(folder, "step"), "it waits")
        victim = 0 if is_first else 1
        job.kill(victim)
        (folder / "go").touch()
        job.start(victim)

    seen = run_job(folder, *patience, "--wait-at", 6 * steps_of_epoch, workers=2,
                   during=kill_the_main_worker)
    ends = finished_in(seen)
    (main,) = [one for one in ends if one["main"]]
    # The last improvement, and the patience. Logs are read one after the other.
    assert sorted(told(folder, "validated")) == list(range(8))
    # The stop takes one more step, in which the others learn of it.
    assert alone["finished"] == 8 * steps_of_epoch + 1
    assert len(ends) == 2
    for what in ("finished", "weights", "rate"):
        assert {one[what] for one in ends} == {alone[what]}, what
    assert main["best"] == alone["best"] == "epoch=3-step=20.ckpt"
    names = sorted(one.name for one in folder.glob("lightning_logs/*/checkpoints/*.ckpt"))
    assert names == ["epoch=2-step=15.ckpt", "epoch=3-step=20.ckpt"]


@pytest.mark.slow
def test_workers_join_and_leave(tmp_path):
    def expect_size(size):
        begun = max(told(tmp_path, "step"), default=-1)
        wait_for(lambda: have_trained(tmp_path, size, begun), f"{size} train")

    def scale(job):
        expect_size(1)
        job.start(1)
        expect_size(2)
        job.ask_to_leave(1)
        job.wait(1)
        (left,) = finished_in(records(tmp_path / "life-2.log"))
        assert left["left"] and not left["main"]
        expect_size(1)
        job.start(2)
        expect_size(2)
        job.ask_to_leave(0)  # the main worker
        job.wait(0)
        (tmp_path / "end").touch()

    seen = run_job(tmp_path, "--epochs", 100000, during=scale)
    (end,) = [one for one in finished_in(seen) if not one["left"]]
    assert end["main"]
    assert end["finished"] == max(told(tmp_path, "step")) + 2  # one more ends the training
    validated = told(tmp_path, "validated")
    assert validated == list(range(len(validated)))  # in each epoch, once


@pytest.mark.slow
def test_a_training_resumes_from_its_own_checkpoint(tmp_path):
    (whole,) = finished_in(run_job(tmp_path / "whole"))
    folder = tmp_path / "parts"
    folder.mkdir()
    with Job(folder, PROGRAM, folder, "--resume", "--wait-at", 42) as job:
        job.start(0)
        wait_for(lambda: 42 in told(folder, "step"), "it waits")
        job.kill(0)
    (folder / "store").rename(folder / "lost")
    (resumed,) = finished_in(run_job(folder, "--resume"))
    assert resumed["finished"] == whole["finished"] == 100
    assert (resumed["weights"], resumed["rate"]) == (whole["weights"], whole["rate"])
    again = [one["step"] for one in records(folder / "life-1.log") if "step" in one]
    assert 35 <= again[0] <= 42 and again[-1] == 99


ALONE = """
import lightning, torch, sys
from lightning.pytorch.callbacks import *
from torch.utils.data import DataLoader, IterableDataset
from ffdl.integrations.lightning import ElasticStrategy

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch):
        return (self.layer(batch) - 1).square().mean()
    def validation_step(self, batch, batch_idx):
        self.log("metric", 1.0, sync_dist=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)

class Stream(IterableDataset):
    def __iter__(self):
        return iter(data)

data = torch.ones(12, 1)
options = dict(enable_progress_bar=False, logger=False, enable_checkpointing=False, max_epochs=4)

def fit(module, loader=DataLoader(data, 3), strategy=None, ckpt_path=None, **more):
    trainer = lightning.Trainer(strategy=strategy or ElasticStrategy(), **(options | more))
    trainer.fit(module, loader, DataLoader(data, 12), ckpt_path=ckpt_path)
    return trainer
"""


def run_alone(text):
    return subprocess.run(
        [sys.executable, "-c", ALONE + text], capture_output=True, text=True, timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False)


WRONG = [
    ("fit(Manual())", "automatic_optimization = False"),
    ("fit(Module(), fast_dev_run=True)", "set max_steps"),
    ("fit(Module(), limit_train_batches=0.5)", "set max_steps"),
    ("fit(Module(), callbacks=StochasticWeightAveraging(0.1))", "StochasticWeightAveraging"),
    ("fit(Module(), DataLoader(Stream(), 3))", "over a data set with a length"),
    ("fit(Module(), DataLoader(data, 5, drop_last=True))", "12 samples are no multiple of 5"),
    ("fit(Module(), {'a': DataLoader(data, 3)})", "several training loaders"),
    ("fit(Module(), val_check_interval=3, accumulate_grad_batches=2)", "set a multiple"),
    ("fit(Module(), sync_batchnorm=True)", "sync_batchnorm is set"),
    ("fit(Module(), reload_dataloaders_every_n_epochs=1)", "reload_dataloaders_every_n_epochs"),
    ("fit(Module(), strategy=ElasticStrategy(batch_rule=1))", "batch_rule is given"),
    ("fit(Module()).save_checkpoint('saved') or fit(Module(), ckpt_path='saved')",
     "use ElasticStrategy(checkpoints="),
    ("strategy.append(ElasticStrategy()) or [fit(Module(), strategy=strategy[0]) for _ in '12']",
     "has trained already"),
    ("fit(Silent())", "returned no loss"),
    ("fit(Frequent())", "a 'frequency' other than 1"),
    ("fit(Idle())", "returned no optimizer; return one"),
    ("fit(Module(), DataLoader(data[:0], 3))", "the training data set is empty"),
    ("fit(Module(), DataLoader(data, 3, shuffle=True, generator=torch.Generator()))",
     "has a generator; leave the generator out"),
    ("fit(Module(), DataLoader(data, 3, num_workers=1, timeout=5))", "has timeout=5"),
    ("shared.broadcast(print)", "a builtin_function_or_method is broadcast"),
]


def test_wrong_use_is_reported(tmp_path):
    ran = run_alone(f"""
import json, os
os.chdir({str(tmp_path)!r})

class Manual(Module):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
class Silent(Module):
    def training_step(self, batch):
        pass
class Frequent(Module):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return [optimizer], [{{"scheduler": scheduler, "frequency": 2}}]

class Idle(Module):
    def configure_optimizers(self):
        return None

import ffdl
from ffdl.integrations._lightning import Shared
shared = Shared({{"store": ffdl.open_store("mem://")}})
strategy = []
for text in {[text for text, _ in WRONG]!r}:
    try:
        eval(text)
        print(json.dumps("nothing raised"))
    except Exception as error:
        print(json.dumps(f"{{type(error).__name__}}: {{error}}"))
""")
    assert ran.returncode == 0, ran.stderr
    raised = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('"')]
    for (text, message), one in zip(WRONG, raised, strict=True):
        assert one.startswith("InvalidArgument: train with ElasticStrategy: "), (text, one)
        assert message in one, (text, one)


def test_alone_it_trains_as_lightning_does():
    """An ordinary optimizer hook, a plateau, a metric to stop at, and a test after the training."""
    ran = run_alone("""
class Ordinary(Module):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": scheduler, "monitor": "metric"}
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        optimizer.step(closure=optimizer_closure)
        print("step", epoch, batch_idx, self.trainer.global_step)
    def test_step(self, batch, batch_idx):
        self.log("tested", self.layer.weight.sum())

module = Ordinary()
trainer = fit(module, DataLoader(data, 2), accumulate_grad_batches=2, max_epochs=3)
print("lr", [group["lr"] for group in trainer.optimizers[0].param_groups])
print(trainer.test(module, DataLoader(data, 3), verbose=False))
print(trainer.accumulate_grad_batches, trainer.callbacks != [])

samples = torch.arange(12.0).reshape(12, 1) / 5
weights = []
for strategy in "auto", ElasticStrategy():
    torch.manual_seed(0)
    module = Module()
    fit(module, DataLoader(samples, 2, num_workers=1), strategy=strategy,
        accumulate_grad_batches=2, gradient_clip_val=0.3, max_epochs=40, enable_progress_bar=True)
    weights.append(torch.cat([one.detach().flatten() for one in module.parameters()]))
print("distance", (weights[0] - weights[1]).abs().max() < 1e-6, weights[0].isnan().any())
""")
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr  # of the thread of the progress bar
    lines = ran.stdout.splitlines()
    assert [one for one in lines if one.startswith("step")] == [
        f"step {epoch} {batch} {epoch * 3 + batch}" for epoch in range(3) for batch in range(3)]
    assert any(one.startswith("[{'tested':") for one in lines)
    assert "lr [0.05]" in lines  # the metric of the last epoch comes after the last step
    assert "2 True" in lines
    assert lines[-1] == "distance tensor(True) tensor(False)"
