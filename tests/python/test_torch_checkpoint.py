"""PyTorch trainings that go on from a checkpoint, at another size and to the last bit."""

import collections
import re

import numpy as np
import pytest

import ffdl
from elastic_jobs import wait_for

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import ffdl.torch  # noqa: E402
from test_torch_elastic import (  # noqa: E402
    OPTIMIZERS,
    expect_equal,
    loss_of,
    make_data,
    make_ledger,
    make_model,
    open_trainer,
    state_of,
    train,
)


def make_parts(seed=7):
    """With all that a checkpoint must bring back: state of three kinds, and random numbers."""
    model = make_model(torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3))
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return model, optimizer, {
        "scheduler": scheduler, "seed": seed, "micro_batch_samples": 4,
        "ledger": make_ledger(micro_batch_samples=4)}


def undisturbed():
    model, optimizer, options = make_parts()
    train(open_trainer(model, optimizer, **options), model)
    return state_of(model), optimizer.param_groups[0]["lr"]


def stop_in_the_middle(folder, **of_checkpoints):
    """A job that is gone after six of ten steps, and has a checkpoint of the fourth."""
    model, optimizer, options = make_parts()
    trainer = open_trainer(
        model, optimizer, **options,
        checkpoints=ffdl.CheckpointOptions(folder, every_steps=4, **of_checkpoints))
    x, y = make_data()
    for batch in trainer.batches():
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
        if trainer.session.step == 4:
            at_checkpoint = state_of(model)
        if trainer.session.step == 6:
            break
    wait_for(lambda: trainer.session.stats.checkpoints == 1, "there is a checkpoint")
    return at_checkpoint


def go_on(rank, folder, url):
    """A process, as there is one generator of random numbers in each."""
    model, optimizer, options = make_parts(seed=999)  # that of the checkpoint counts
    trainer = open_trainer(
        model, optimizer, ffdl.open_store(url), f"m{rank}", min_workers=2,
        checkpoints=ffdl.CheckpointOptions(folder, resume=True), **options)
    begun = trainer.session.step
    train(trainer, model)
    return begun, trainer.session.step, state_of(model), optimizer.param_groups[0]["lr"]


def test_a_training_goes_on_at_another_size(tmp_path, torch_processes):
    stop_in_the_middle(tmp_path / "folder")
    expected, rate = undisturbed()
    went_on = torch_processes.run(2, go_on, tmp_path / "folder", f"file://{tmp_path}/store")
    for begun, ended, state, rate_then in went_on:
        assert (begun, ended, rate_then) == (4, 10, rate)
        expect_equal(expected, state)


def test_its_tensors_have_the_names_of_the_model(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    state = stop_in_the_middle(tmp_path)
    found = collections.defaultdict(dict)  # of each tensor, its pieces by where they begin
    for file in tmp_path.glob("*.l1.*/*.safetensors"):
        for name, values in numpy.load_file(file).items():
            piece = re.fullmatch(r"(.*?)(?:\[(\d+):\d+\])?", name)
            found[piece[1]][int(piece[2] or 0)] = values
    whole = {name: np.concatenate([pieces[begin] for begin in sorted(pieces)])
             for name, pieces in found.items()}
    for name, value in state.items():
        assert whole.pop(name).tobytes() == value.numpy().tobytes(), name
    assert {"optimizer.0.weight.exp_avg", "optimizer.0.weight.step", "elastic.settings"} < set(whole)


def test_a_compiled_model_takes_the_same_checkpoint(tmp_path):
    state = stop_in_the_middle(tmp_path)
    model, _, options = make_parts()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = OPTIMIZERS["adamw"](compiled.parameters())
    options["scheduler"] = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    open_trainer(compiled, optimizer, **options,
                 checkpoints=ffdl.CheckpointOptions(tmp_path, resume=True))
    expect_equal(state, state_of(model))


def test_another_model_is_refused(tmp_path):
    stop_in_the_middle(tmp_path)
    with pytest.raises(ffdl.InvalidArgument):
        open_trainer(make_model(), checkpoints=ffdl.CheckpointOptions(tmp_path, resume=True))


def test_weights_are_loaded_alone(tmp_path):
    at_checkpoint = stop_in_the_middle(tmp_path)
    model, *_ = make_parts()
    names = [name for name, _ in model.named_parameters()]
    ffdl.load_checkpoint(
        ffdl.CheckpointOptions(tmp_path, names=names), [one.data for one in model.parameters()])
    expect_equal(dict(model.named_parameters()), {name: at_checkpoint[name] for name in names})


def test_names_that_were_given_stay(tmp_path):
    model = torch.nn.Linear(2, 1)
    names = ["w", "b", "settings"]
    trainer = open_trainer(
        model, "sgd", checkpoints=ffdl.CheckpointOptions(tmp_path, names=names, every_steps=1))
    trainer.session.end_step(0)
    trainer.session.finish()
    state = [np.zeros(2, np.float32), np.zeros(1, np.float32), np.zeros(1 << 14, np.int8)]
    ffdl.load_checkpoint(ffdl.CheckpointOptions(tmp_path, names=names), state)
    assert state[0].tolist() == model.weight.flatten().tolist()
