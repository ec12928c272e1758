"""Hugging Face's Trainer with workers that are killed; its example is the program."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from elastic_jobs import Job, wait_for

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "10_huggingface.py"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}


def why_missing():
    """Imported by another process: this one treats the warnings of others as errors."""
    ran = subprocess.run(
        [sys.executable, "-c", "import torch, transformers, accelerate"], capture_output=True,
        text=True, timeout=120, check=False)
    return "" if ran.returncode == 0 else ran.stderr.strip().splitlines()[-1]


WHY_MISSING = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY_MISSING), reason=WHY_MISSING or "none")


def records(log):
    """Returns the example's records; the Trainer prints dicts of Python beside it."""
    lines = log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith('{"') and line.endswith("\n")]


def train(folder, epochs, workers, kills):
    """Returns the records of all lives, and the number of lives that ended by a kill."""
    folder.mkdir()
    arguments = ("--out", folder / "out", "--epochs", epochs, "--lease", 3)
    with Job(folder, EXAMPLE, *arguments, min_workers=workers, more=OFFLINE) as job:
        logs = {number: job.start(number) for number in range(workers)}
        for kill in range(kills):
            victim = kill % workers
            wait_for(lambda: all(steps_of(log) for log in logs.values()), "all train")
            begun = max(steps_of(log)[-1] for log in logs.values())
            wait_for(lambda: max(steps_of(log)[-1] for log in logs.values()) > begun, "a step")
            job.kill(victim)
            logs[victim] = job.start(victim)
        wait_for(lambda: all("finished" in log.read_text() for log in logs.values()), "it ends",
                 soon_s=600 + epochs // 10)
        for number in range(workers):
            job.wait(number)
    return [one for log in sorted(folder.glob("*.log")) for one in records(log)]


def steps_of(log):
    return [one["step"] for one in records(log) if "step" in one]


@pytest.mark.parametrize("kills", [2, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_workers_train_the_bits_of_an_undisturbed_one(kills, tmp_path):
    epochs = 40 * kills
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
        assert len(expected - set(steps)) <= kills, what  # a worker may die while it does that
    assert (tmp_path / "killed" / "out" / "final" / "model.safetensors").exists()


WRONG = [
    ({"load_best_model_at_end": True, "eval_strategy": "steps"}, {},
     "load_best_model_at_end is set, which ElasticTrainer does not support"),
    ({"eval_on_start": True, "eval_strategy": "steps"}, {}, "eval_on_start is set"),
    ({"train_sampling_strategy": "group_by_length"}, {},
     "train_sampling_strategy is 'group_by_length'"),
    ({}, {"resume_from_checkpoint": "checkpoint"}, "use elastic={'checkpoints'"),
]
REFUSED = """
import json
from ffdl.integrations.huggingface import ElasticTrainer
import torch, transformers
for arguments, train, _ in {wrong!r}:
    args = transformers.TrainingArguments(
        output_dir={out!r}, use_cpu=True, report_to=[], **arguments)
    data = [{{"x": 1}}]
    try:
        ElasticTrainer(model=torch.nn.Linear(1, 1), args=args, train_dataset=data,
                       eval_dataset=data).train(**train)
        print(json.dumps("nothing raised"))
    except Exception as error:
        print(json.dumps(str(error)))
"""


def test_what_is_not_supported_is_said(tmp_path):
    ran = subprocess.run(  # one process: the import takes longest
        [sys.executable, "-c", REFUSED.format(wrong=WRONG, out=str(tmp_path))],
        capture_output=True, text=True, timeout=120, env=os.environ | OFFLINE, check=False)
    assert ran.returncode == 0, ran.stderr
    raised = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('"')]
    for (_, _, message), said in zip(WRONG, raised, strict=True):
        assert message in said, said


PLATEAU = """
from ffdl.integrations.huggingface import ElasticTrainer
import torch, transformers

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def forward(self, x, labels=None):
        out = self.layer(x)
        return {{"loss": (out - labels).square().mean() + 1, "out": out}}

class Printer(transformers.TrainerCallback):
    def on_evaluate(self, args, state, control, **_):
        print("evaluated", state.global_step)
    def on_save(self, args, state, control, **_):
        print("saved", state.global_step)

data = [{{"x": torch.ones(1), "labels": torch.zeros(1), "unused": "text"}}] * 12
args = transformers.TrainingArguments(
    output_dir={out!r}, use_cpu=True, report_to=[], disable_tqdm=True, num_train_epochs=4.5,
    per_device_train_batch_size=3, eval_strategy="epoch", save_strategy="epoch", learning_rate=0.0,
    lr_scheduler_type="reduce_lr_on_plateau", lr_scheduler_kwargs={{"patience": 0}})
trainer = ElasticTrainer(
    model=Model(), args=args, train_dataset=data, eval_dataset=data, callbacks=[Printer()])
trainer.train()
print("scheduler", trainer.lr_scheduler.last_epoch, trainer.lr_scheduler.num_bad_epochs)
try:
    trainer.train()
except Exception as error:
    print(error)
"""


def test_epochs_a_plateau_and_columns_that_the_model_does_not_take(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", PLATEAU.format(out=str(tmp_path))], capture_output=True, text=True,
        timeout=120, env=os.environ | OFFLINE, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if not line.startswith("{")]
    steps = [4, 8, 12, 16, 18]
    assert lines[:-2] == [f"{what} {step}" for step in steps for what in ("evaluated", "saved")]
    assert lines[-2].split()[:2] == ["scheduler", "4"]  # the last metric comes after the last step
    assert "this trainer has trained already" in lines[-1]
