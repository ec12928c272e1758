"""Losses that a GradScaler scales, with workers that come and leave."""

import threading

import numpy as np
import pytest
from ranks import on_threads

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import ffdl.torch  # noqa: E402
from test_torch_elastic import (  # noqa: E402
    BATCH,
    OPTIMIZERS,
    SAMPLES,
    expect_equal,
    make_data,
    make_ledger,
    make_model,
    open_trainer,
    state_of,
)

loss_of = torch.nn.functional.mse_loss
HUGE = 3e38  # a gradient of it is not finite
BAD_STEPS = (0, 3)


def make_scaler(**options):
    return torch.amp.GradScaler(
        "cpu", **({"init_scale": 1024.0, "growth_interval": 3, "backoff_factor": 0.25} | options))


def weight_of(step, worker=0):
    """Of the loss: one worker's gradients are not finite in some steps."""
    return HUGE if step in BAD_STEPS and worker == 0 else 1.0


def train_scaled(trainer, model, scaler, worker=0, after_step=lambda: None):
    x, y = make_data()
    for batch in trainer.batches():
        loss = loss_of(model(x[batch]), y[batch]) * weight_of(trainer.session.step, worker)
        scaler.scale(loss).backward()
        trainer.step()
        after_step()


@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_one_worker_is_an_ordinary_scaled_loop(name):
    """The weights, the schedule and the scale, with steps that are skipped and one clipped norm."""
    plain, scaler = make_model(), make_scaler()
    optimizer = OPTIMIZERS[name](plain.parameters())
    taking = make_ledger()
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[np.zeros(1)], gradients=[np.zeros(1)],
        apply=lambda: None, participants=[taking], lease_s=15.0, gather_s=0.05)
    x, y = make_data()
    skipped = []
    while not taking.is_done:
        batch = taking.sample_indices(taking.take())
        optimizer.zero_grad()
        loss = loss_of(plain(x[batch]), y[batch]) * weight_of(session.step)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        before = state_of(plain)
        scaler.step(optimizer)
        scaler.update()
        skipped.append(all(torch.equal(before[key], value) for key, value in state_of(plain).items()))
        session.end_step(taking.taken)
    assert [step for step, was in enumerate(skipped) if was] == list(BAD_STEPS)

    model, ours = make_model(), make_scaler()
    trainer = open_trainer(model, name, grad_scaler=ours, clip_norm=0.5)
    train_scaled(trainer, model, ours)
    expect_equal(state_of(plain), state_of(model))
    assert ours.state_dict() == scaler.state_dict()
    assert trainer.session.step == 10  # all samples are committed, those of skipped steps too


def test_all_skip_a_step_in_which_one_has_no_finite_gradient():
    store = ffdl.open_store("mem://")

    def worker(number):
        model, scaler = make_model(), make_scaler()
        trainer = open_trainer(
            model, store=store, id=f"m{number}", min_workers=2, grad_scaler=scaler)
        scales = []
        rank = trainer.session.world.rank
        train_scaled(trainer, model, scaler, rank, lambda: scales.append(scaler.get_scale()))
        return state_of(model), scales

    (first, scales), (second, others) = on_threads(range(2), worker)
    expect_equal(first, second)
    assert scales == others and len(scales) == 2 * SAMPLES // BATCH
    # Down to a quarter in steps 1 and 4, and twice as large after three good ones.
    assert scales == [256, 256, 256, 64, 64, 64, 128, 128, 128, 256]


def test_micro_batches_have_the_same_bits_at_any_number_of_workers():
    def run(workers):
        store = ffdl.open_store("mem://")

        def worker(number):
            model, scaler = make_model(), make_scaler()
            ledger = make_ledger(micro_batch_samples=3)
            trainer = open_trainer(
                model, store=store, id=f"m{number}", ledger=ledger, min_workers=workers,
                micro_batch_samples=3, grad_scaler=scaler)
            x, y = make_data()
            for batch in trainer.batches():
                scaler.scale(loss_of(model(x[batch]), y[batch])).backward()
                trainer.step()
            return state_of(model) | {"scale": torch.tensor(scaler.get_scale())}

        return on_threads(range(workers), worker)

    (alone,) = run(1)
    for one in run(2):
        expect_equal(alone, one)


def test_a_newcomer_gets_the_scale():
    """In the middle of the steps after which it grows."""
    store = ffdl.open_store("mem://")
    seen = {}
    has_left = threading.Event()

    def work(id, steps=None):
        model, scaler = make_model(), make_scaler(growth_interval=7)
        trainer = open_trainer(
            model, "adamw", store, id, make_ledger(epochs=0), grad_scaler=scaler)
        x, y = make_data()
        begun = trainer.session.step
        for batch in trainer.batches():
            scaler.scale(loss_of(model(x[batch]), y[batch])).backward()
            trainer.step()
            seen.setdefault(trainer.session.step, {})[id] = (scaler.state_dict(), state_of(model))
            yield trainer
            if steps is not None and trainer.session.step >= begun + steps:
                trainer.session.ask_to_leave()
                steps = None

    def newcomer():
        for _ in work("b", steps=20):
            pass
        has_left.set()

    joining = threading.Thread(target=newcomer)
    for trainer in work("a"):
        if trainer.session.step == 10:
            joining.start()
        if has_left.is_set():
            break
    joining.join()
    trainer.session.finish()
    shared = [both for both in seen.values() if len(both) == 2]
    assert len(shared) >= 10
    for both in shared:
        assert both["a"][0] == both["b"][0]
        expect_equal(both["a"][1], both["b"][1])
    assert any(both["a"][0]["_growth_tracker"] > 0 for both in shared)


def test_a_checkpoint_keeps_the_scale(tmp_path):
    def train(epochs, resume):
        model, scaler = make_model(), make_scaler()
        checkpoints = ffdl.CheckpointOptions(
            str(tmp_path), every_steps=4, resume=resume, at_end=False)
        trainer = open_trainer(
            model, ledger=make_ledger(epochs=epochs), grad_scaler=scaler, checkpoints=checkpoints)
        begun = trainer.session.step, scaler.state_dict()
        scales = {}
        train_scaled(trainer, model, scaler,
                     after_step=lambda: scales.update({trainer.session.step: scaler.state_dict()}))
        return begun, scales, state_of(model)

    _, scales, whole = train(epochs=2, resume=False)
    (step, state), _, again = train(epochs=2, resume=True)
    assert step in (4, 8) and state == scales[step]
    expect_equal(whole, again)


def test_a_scaler_that_is_not_enabled_is_none():
    def run(**options):
        model = make_model()
        trainer = open_trainer(model, **options)
        x, y = make_data()
        scaler = options.get("grad_scaler", make_scaler(enabled=False))
        for batch in trainer.batches():
            scaler.scale(loss_of(model(x[batch]), y[batch])).backward()
            trainer.step()
        return state_of(model)

    expect_equal(run(), run(grad_scaler=make_scaler(enabled=False)))


def test_workers_that_do_not_scale_alike_are_refused():
    store = ffdl.open_store("mem://")
    first, scaler = make_model(), make_scaler()
    trainer = open_trainer(first, store=store, ledger=make_ledger(epochs=0), grad_scaler=scaler)
    refused = []

    def come(**options):
        model = make_model()
        with pytest.raises(ffdl.InvalidArgument, match="pass the same grad_scaler="):
            open_trainer(model, store=store, id="b", ledger=make_ledger(epochs=0), **options)
        refused.append(options)

    x, y = make_data()
    joining = threading.Thread(target=come)
    for batch in trainer.batches():
        scaler.scale(loss_of(first(x[batch]), y[batch])).backward()
        trainer.step()
        if trainer.session.step == 5:
            joining.start()
        if refused:
            break
    joining.join()
    trainer.session.finish()
    assert refused == [{}]


def begin_step(**options):
    """A trainer in its first step, after backward."""
    model, scaler = make_model(), make_scaler()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    trainer = open_trainer(model, optimizer, grad_scaler=scaler, **options)
    x, y = make_data()
    batch = next(iter(trainer.batches()))
    scaler.scale(loss_of(model(x[batch]), y[batch])).backward()
    return trainer, scaler, optimizer


def test_what_the_loop_leaves_to_the_trainer():
    _, scaler, optimizer = begin_step()
    with pytest.raises(ffdl.InvalidArgument, match="pass a GradScaler to elastic"):
        scaler.step(optimizer)

    for overlap in (False, True):
        trainer, scaler, optimizer = begin_step(overlap=overlap)
        scaler.unscale_(optimizer)
        with pytest.raises(ffdl.InvalidArgument, match="only the GradScaler's scale"):
            trainer.step()

    trainer, scaler, _ = begin_step()
    scaler.update(2.0)
    with pytest.raises(ffdl.InvalidArgument, match="or a GradScaler's scale"):
        trainer.step()


def test_noise_of_scaled_gradients_is_refused():
    rule = ffdl.BatchRule(samples=BATCH, learning_rate=ffdl.LearningRateRule.ADA_SCALE)
    for options in ({"noise_interval": 2}, {"batch_rule": rule}):
        with pytest.raises(ffdl.InvalidArgument, match="the GradScaler's scale differs"):
            open_trainer(make_model(), grad_scaler=make_scaler(), **options)
    trainer = open_trainer(
        make_model(), grad_scaler=make_scaler(enabled=False), noise_interval=2)
    trainer.session.finish()
