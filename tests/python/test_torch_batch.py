"""Batches of PyTorch trainings whose workers come and go: micro-batches, rules, noise, stragglers."""

import types

import pytest
from ranks import on_threads

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import ffdl.torch  # noqa: E402
from ffdl.torch.training.step_plan import StepPlan  # noqa: E402
from test_torch_elastic import (  # noqa: E402
    BATCH,
    OPTIMIZERS,
    SAMPLES,
    expect_close,
    expect_equal,
    loss_of,
    make_data,
    make_ledger,
    make_model,
    open_trainer,
    state_of,
    train,
    train_alone,
)

LINEAR = ffdl.LearningRateRule.LINEAR
ADA_SCALE = ffdl.LearningRateRule.ADA_SCALE


def on_demand(epochs=1):
    return ffdl.make_session_ledger(samples=SAMPLES, partition_samples=30, epochs=epochs)


def train_in_micro_batches(rank, workers, url, loads):
    """Processes, as there is one generator of random numbers in each."""
    model = make_model(torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3))
    samples = ffdl.data.ElasticLoader(
        torch.utils.data.TensorDataset(*make_data()), batch_samples=BATCH, epochs=2,
        micro_batch_samples=3, num_workers=1) if loads else make_ledger(micro_batch_samples=3)
    trainer = open_trainer(
        model, "adamw", ffdl.open_store(url), f"m{rank}", samples, min_workers=workers,
        micro_batch_samples=3)
    share = ffdl.even_shares(4, workers)[trainer.session.world.rank]
    x, y = make_data()
    results = []
    for batch in trainer.batches():
        inputs, targets = batch if loads else (x[batch], y[batch])
        assert len(inputs) == 3
        loss_of(model(inputs), targets).backward()
        results.append(trainer.step())
    if loads:
        samples.close()
    ends = [*[None] * (share - 1), ffdl.StepResult.CONTINUE]
    assert results == ends * 10, results
    return state_of(model)


def test_the_same_bits_whatever_the_number_of_workers(tmp_path, torch_processes):
    alone = train_in_micro_batches(0, 1, f"file://{tmp_path}/1", False)
    for workers, loads in ((2, False), (3, True)):
        states = torch_processes.run(
            workers, train_in_micro_batches, workers, f"file://{tmp_path}/{workers}", loads)
        for state in states:
            expect_equal(alone, state)


def test_micro_batches_that_cannot_be():
    model = make_model()
    with pytest.raises(ffdl.InvalidArgument, match="SampleOrder.GLOBAL"):
        open_trainer(model, ledger=on_demand(), micro_batch_samples=3)
    with pytest.raises(ffdl.InvalidArgument, match="was created with 1; use one value for both"):
        open_trainer(make_model(), micro_batch_samples=3)
    with pytest.raises(ffdl.InvalidArgument, match="leave one of them out"):
        open_trainer(make_model(), ledger=make_ledger(micro_batch_samples=3), noise_interval=1,
                     micro_batch_samples=3)
    with pytest.raises(ffdl.InvalidArgument, match="leave one of them out"):
        open_trainer(make_model(), micro_batch_samples=3, batch_rule=ffdl.BatchRule(samples=BATCH))
    with pytest.raises(ffdl.InvalidArgument, match="has several micro-batches; leave 'overlap' out"):
        open_trainer(make_model(), ledger=make_ledger(micro_batch_samples=3), overlap=True,
                     micro_batch_samples=3)


@pytest.mark.parametrize("clears", [False, True])
def test_gradients_of_a_divided_share_are_added_up(clears):
    def train_divided():
        model = make_model()
        optimizer = OPTIMIZERS["momentum"](model.parameters())
        trainer = open_trainer(
            model, optimizer, batch_rule=ffdl.BatchRule(samples=BATCH, micro_batch_max=5))
        x, y = make_data()
        sizes, results = [], []
        for batch in trainer.batches():
            if clears:
                optimizer.zero_grad()
            sizes.append(len(batch))
            loss_of(model(x[batch]), y[batch]).backward()
            results.append(trainer.step())
        assert sizes == [4] * 30  # of 12, in as few parts as can be
        assert results == [None, None, ffdl.StepResult.CONTINUE] * 10
        return state_of(model)

    expect_close(train_alone(), train_divided())


def test_parts_of_unequal_size():
    model = make_model()
    trainer = open_trainer(
        model, "sgd", batch_rule=ffdl.BatchRule(samples=BATCH, micro_batch_max=7),
        ledger=ffdl.make_session_ledger(
            samples=13, order=ffdl.SampleOrder.GLOBAL, batch_samples=13))
    x, y = make_data()
    plain = make_model()
    loss_of(plain(x[:13]), y[:13]).backward()
    OPTIMIZERS["sgd"](plain.parameters()).step()
    train(trainer, model)
    expect_close(state_of(plain), state_of(model))


def test_a_batch_that_grows_with_the_workers():
    store = ffdl.open_store("mem://")
    rule = ffdl.BatchRule(samples=6, workers=1, learning_rate=LINEAR)
    x, y = make_data()

    def worker(number):
        model = make_model()
        trainer = open_trainer(
            model, "sgd", store, f"m{number}", on_demand(), min_workers=2, batch_rule=rule)
        batch = next(iter(trainer.batches()))
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
        assert trainer._optimizer.param_groups[0]["lr"] == 0.1  # what a scheduler sees
        return batch, state_of(model)

    (batch_a, state_a), (batch_b, state_b) = on_threads(range(2), worker)
    expect_equal(state_a, state_b)
    assert len(batch_a) == len(batch_b) == 6
    plain = make_model()
    both = torch.cat([batch_a, batch_b])
    loss_of(plain(x[both]), y[both]).backward()
    torch.optim.SGD(plain.parameters(), lr=0.2).step()
    expect_close(state_of(plain), state_a)


def test_a_loader_gives_what_the_rule_says():
    loader = ffdl.data.ElasticLoader(
        torch.utils.data.TensorDataset(*make_data()), batch_samples=2, num_workers=1,
        order=ffdl.SampleOrder.ON_DEMAND, partition_samples=30)
    model = make_model()
    with loader:
        trainer = open_trainer(model, ledger=loader, batch_rule=ffdl.BatchRule(
            samples=10, workers=1, micro_batch_max=5))
        sizes = []
        for x, y in trainer.batches():
            sizes.append(len(x))
            loss_of(model(x), y).backward()
            trainer.step()
    assert sizes == [5] * 12 and trainer.session.step == 6


def test_a_batch_of_one_size_cannot_grow():
    trainer = open_trainer(make_model(), batch_rule=ffdl.BatchRule(samples=BATCH))
    with pytest.raises(ffdl.InvalidArgument, match="leave 'samples' out"):
        next(trainer.batches(samples=3))
    with pytest.raises(ffdl.InvalidArgument, match="SampleOrder.ON_DEMAND"):
        open_trainer(make_model(), batch_rule=ffdl.BatchRule(samples=BATCH, workers=1))


def test_a_schedule_goes_on_by_what_steps_are_worth():
    rule = ffdl.BatchRule(samples=32, workers=1, learning_rate=ADA_SCALE)
    noise = ffdl.NoiseScale(variance=32, squared_norm=1, measurements=1)
    plan = StepPlan(rule, None, measures_noise=True)
    plan.noise = types.SimpleNamespace(noise_scale=noise)
    plan.world = ffdl.World(1, 0, ["a", "b", "c", "d"])
    gain = noise.gain(32, 128)
    assert 1 < gain < 2 and plan.progress == gain
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    settings = ffdl.torch.training.common_state.Settings(optimizer, scheduler, 0)
    with plan.learning_rate(optimizer):
        assert optimizer.param_groups[0]["lr"] == 0.5 * gain
    assert optimizer.param_groups[0]["lr"] == 0.5
    done = 0
    parameter.grad = torch.zeros(1)
    optimizer.step()
    for step in range(1, 6):
        settings.step_scheduler(plan.progress)
        done = int(gain * step)
        assert scheduler.last_epoch == done
    settings.record()

    # A newcomer goes on with what is left of a step, too.
    other = torch.optim.SGD([parameter], lr=0.5)
    newcomer = ffdl.torch.training.common_state.Settings(
        other, torch.optim.lr_scheduler.StepLR(other, 1, gamma=0.5), 0)
    newcomer.bytes.copy_(settings.bytes)
    newcomer.may_differ = True
    newcomer.restore()
    assert newcomer._progress == settings._progress == pytest.approx(5 * gain)
    assert newcomer._scheduler.last_epoch == done


def test_noise_is_measured_and_known_to_all():
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_model()
        watch = ffdl.StragglerWatch.create(factor=1e6)
        trainer = open_trainer(
            model, "sgd", store, f"m{number}", min_workers=2, noise_interval=1,
            participants=[watch])
        train(trainer, model)
        assert watch.stragglers == []
        return trainer.noise_scale

    first, second = on_threads(range(2), worker)
    assert first.measurements == 10 and first.variance > 0
    assert repr(first) == repr(second)
    assert open_trainer(make_model()).noise_scale.measurements == 0


def test_ada_scale_measures_by_itself():
    model = make_model()
    trainer = open_trainer(model, "sgd", ledger=on_demand(epochs=4), batch_rule=ffdl.BatchRule(
        samples=6, workers=1, learning_rate=ADA_SCALE))
    train(trainer, model)
    assert trainer.noise_scale.measurements > 0
