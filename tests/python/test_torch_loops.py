"""A loop's own decisions: set the learning rate, end after steps, train alone."""

import os
import signal
import subprocess
import sys
import threading
import types

import pytest
from ranks import on_threads
from test_torch_elastic import (
    OPTIMIZERS,
    PATIENT,
    expect_close,
    expect_equal,
    loss_of,
    make_data,
    make_ledger,
    make_model,
    open_trainer,
    state_of,
    train,
)

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def rate_of(step):
    return 0.1 / (1 + step)


def set_rate(trainer, optimizer):
    for group in optimizer.param_groups:
        group["lr"] = rate_of(trainer.step_number)


def train_with_rates(trainer, model, optimizer, set_rate=set_rate):
    x, y = make_data()
    for batch in trainer.batches():
        set_rate(trainer, optimizer)
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
    return state_of(model)


def test_a_rate_that_the_loop_sets_is_that_of_a_scheduler():
    def alone(scheduled):
        model = make_model()
        optimizer = OPTIMIZERS["momentum"](model.parameters())
        if not scheduled:
            return train_with_rates(open_trainer(model, optimizer), model, optimizer)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_of(step) / 0.1)
        train(open_trainer(model, optimizer, scheduler=scheduler), model)
        return state_of(model)

    expect_equal(alone(scheduled=True), alone(scheduled=False))


@pytest.mark.parametrize("micro", [None, 4])
def test_workers_that_set_the_same_rate_stay_equal(micro):
    store = ffdl.open_store("mem://")
    options = {} if micro is None else {"micro_batch_samples": micro}

    def worker(number):
        model = make_model()
        optimizer = OPTIMIZERS["adamw"](model.parameters())
        trainer = open_trainer(
            model, optimizer, store, f"m{number}", make_ledger(**options), min_workers=2, **options)
        state = train_with_rates(trainer, model, optimizer)
        return state, optimizer.param_groups[0]["lr"]

    (first, rate), (second, other) = on_threads(range(2), worker)
    expect_equal(first, second)
    assert rate == other == rate_of(9)


def test_a_worker_without_samples_gets_the_rate():
    """The last step of an epoch has one sample, so only one of the workers runs its loop's body."""
    store = ffdl.open_store("mem://")
    ledger = {"samples": 13, "order": ffdl.SampleOrder.GLOBAL, "batch_samples": 12, "epochs": 1}
    rates = {}

    def worker(number):
        model = make_model()
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        trainer = open_trainer(
            model, optimizer, store, f"m{number}", ffdl.make_session_ledger(**ledger), min_workers=2)
        set_in = rates[number] = []

        def set_and_note(trainer, optimizer):
            set_rate(trainer, optimizer)
            set_in.append(trainer.step_number)

        return train_with_rates(trainer, model, optimizer, set_and_note), optimizer

    (first, one), (second, other) = on_threads(range(2), worker)
    expect_equal(first, second)
    assert one.param_groups[0]["lr"] == other.param_groups[0]["lr"] == rate_of(1)
    assert sorted(rates.values()) == [[0], [0, 1]]


def train_beside_a_newcomer(make):
    """Trains alone until another comes, and then both together; returns what make() gave each.

    make(store, id): a trainer with a ledger without end, its model, and more.
    """
    store = ffdl.open_store("mem://")
    x, y = make_data()

    def train_on(name):
        trainer, model, *_ = made[name] = make(store, name)
        together = 0
        for batch in trainer.batches():
            loss_of(model(x[batch]), y[batch]).backward()
            trainer.step()
            together += trainer.session.world.size == 2
            if trainer.step_number >= 2:
                has_begun.set()
            if together == 5:
                trainer.stop()

    def join():
        assert has_begun.wait(60)
        train_on("b")

    made, has_begun = {}, threading.Event()
    on_threads(range(2), lambda number: join() if number else train_on("a"))
    expect_equal(state_of(made["a"][1]), state_of(made["b"][1]))
    return made["a"], made["b"]


def test_a_newcomer_gets_the_state_of_all_optimizers():
    def make(store, name):
        model = make_model()
        first, *_, last = model
        both = [torch.optim.SGD(first.parameters(), lr=0.1, momentum=0.9),
                torch.optim.AdamW(last.parameters(), lr=0.02)]
        return open_trainer(model, both, store, name, make_ledger(epochs=0)), model, both

    (_, one, mine), (_, other, theirs) = train_beside_a_newcomer(make)
    for ours, others in zip(mine, theirs, strict=True):
        assert len(ours.state) == len(others.state) == 2
        for p, state in ours.state.items():
            (same,) = [q for q in others.state if torch.equal(p, q)]
            expect_equal(
                {key: torch.as_tensor(value) for key, value in state.items()}, others.state[same])


def test_a_worker_without_samples_gets_fractions_of_whole_numbers():
    """momentum, weight_decay and this rate begin as ints."""
    store = ffdl.open_store("mem://")
    ledger = {"samples": 13, "order": ffdl.SampleOrder.GLOBAL, "batch_samples": 12, "epochs": 2}

    def worker(number):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1)
        trainer = open_trainer(
            model, optimizer, store, f"m{number}", ffdl.make_session_ledger(**ledger), min_workers=2)

        def set_all(trainer, optimizer):
            group = optimizer.param_groups[0]
            group["lr"] = 1 if trainer.step_number == 2 else 0.5
            group["weight_decay"] = trainer.step_number / 10

        return train_with_rates(trainer, model, optimizer, set_all), optimizer.param_groups[0]

    (first, one), (second, other) = on_threads(range(2), worker)
    expect_equal(first, second)
    assert repr(one["lr"]) == repr(other["lr"]) == "0.5"
    assert one["weight_decay"] == other["weight_decay"] == 0.3


def test_a_momentum_that_comes_later_is_refused():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def set_momentum(trainer, optimizer):
        optimizer.param_groups[0]["momentum"] = 0.9 if trainer.step_number >= 2 else 0

    with pytest.raises(ffdl.InvalidArgument, match="such as momentum, from the start"):
        train_with_rates(open_trainer(model, optimizer), model, optimizer, set_momentum)


def test_rates_travel_also_where_another_type_is_the_default():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        x, y = make_data()
        trainer = open_trainer(model, optimizer)
        for batch in trainer.batches():
            optimizer.param_groups[0]["lr"] = 0.001 / (1 + trainer.step_number)
            loss_of(model(x[batch].bfloat16()), y[batch].bfloat16()).backward()
            trainer.step()
    finally:
        torch.set_default_dtype(before)
    assert trainer.step_number == 10


@pytest.mark.parametrize("micro", [None, 2])
def test_a_batch_that_is_corrupt_as_a_whole_does_not_decide(micro, tmp_path):
    """Its loop's body does not run, so it has the rate of an earlier step."""
    store = ffdl.open_store("mem://")
    path = tmp_path / "numbers.json"
    path.write_text("".join("{\n" if 8 <= number < 12 else f"{number}\n" for number in range(16)))
    options = {} if micro is None else {"micro_batch_samples": micro}

    def worker(number):
        data = ffdl.open_json_lines([str(path)], skip_corrupt=True)
        loader = ffdl.data.ElasticLoader(
            data, batch_samples=4, shuffle=ffdl.Shuffle.NONE, epochs=1,
            collate_fn=lambda read: torch.tensor([float(one) for one in read]),
            **options)
        model = torch.nn.Linear(1, 1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(0.5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = open_trainer(
            model, optimizer, store, f"m{number}", loader, min_workers=2, **options)
        for values in trainer.batches():
            set_rate(trainer, optimizer)
            model(values[:, None] / 16).mean().backward()
            trainer.step()
        return state_of(model), optimizer.param_groups[0]["lr"]

    (first, rate), (second, other) = on_threads(range(2), worker)
    expect_equal(first, second)
    assert rate == other == rate_of(3)


def test_a_newcomer_gets_the_rate_that_was_set():
    def make(store, name):
        model = make_model()
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        trainer = open_trainer(model, optimizer, store, name, make_ledger(epochs=0))
        step = trainer.step

        def set_once(*arguments):
            if trainer.step_number == 0:
                optimizer.param_groups[0]["lr"] = 0.025
            return step(*arguments)

        trainer.step = set_once
        return trainer, model, optimizer

    for _, _, optimizer in train_beside_a_newcomer(make):
        assert optimizer.param_groups[0]["lr"] == 0.025


def test_different_rates_are_refused():
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_model()
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        trainer = open_trainer(model, optimizer, store, f"m{number}", min_workers=2)

        def set_own(_, optimizer):
            optimizer.param_groups[0]["lr"] = 0.1 * (1 + number)

        with pytest.raises(ffdl.InvalidArgument, match="different values of 'lr' of parameter group 0"):
            train_with_rates(trainer, model, optimizer, set_own)

    on_threads(range(2), worker)


def test_a_step_that_is_not_applied_forgets_what_was_set():
    """A loop that multiplies its rate does so once, though the step is repeated."""
    model = make_model()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    trainer = open_trainer(model, optimizer)
    x, y = make_data()
    batches = trainer.batches()
    batch = next(batches)
    loss_of(model(x[batch]), y[batch]).backward()
    optimizer.param_groups[0]["lr"] *= 0.5
    trainer._settle()  # as after StepResult.RETRY_STEP
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_two_optimizers_train_as_they_do_without():
    def parts(model):
        weights = [p for p in model.parameters() if p.dim() == 2]
        others = [p for p in model.parameters() if p.dim() != 2]
        of_weights = getattr(torch.optim, "Muon", torch.optim.SGD)  # since PyTorch 2.9
        return [of_weights(weights, lr=0.1, momentum=0.9, weight_decay=0.1),
                torch.optim.AdamW(others, lr=0.02)]

    def schedulers(both):
        return [torch.optim.lr_scheduler.StepLR(one, 3, gamma=0.5) for one in both]

    plain = make_model()
    both = parts(plain)
    stepped = schedulers(both)
    order = make_ledger()
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[torch.zeros(1)], gradients=[torch.zeros(1)],
        apply=lambda: None, participants=[order])
    x, y = make_data()
    while not order.is_done:
        batch = order.sample_indices(order.take())
        loss_of(plain(x[batch]), y[batch]).backward()
        for one in (*both, *stepped):
            one.step()
        plain.zero_grad()
        session.end_step()

    model = make_model()
    both = parts(model)
    train(open_trainer(model, both, scheduler=schedulers(both)), model)
    expect_equal(state_of(plain), state_of(model))


def test_frozen_parameters_of_an_optimizer_are_left_alone():
    model = make_model()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    train(open_trainer(model, optimizer), model)
    assert torch.equal(model[0].weight, before)
    assert model[0].weight not in optimizer.state


class Lion(torch.optim.Optimizer):
    """An optimizer of a user's, of which the first state is not zero."""

    def __init__(self, parameters, replaces=False):
        super().__init__(parameters, {"lr": 0.01})
        self.replaces = replaces

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["average"] = torch.ones_like(parameter)
                new = state["average"] * 0.9 + parameter.grad * 0.1
                if self.replaces:
                    state["average"] = new
                else:
                    state["average"].copy_(new)
                parameter -= group["lr"] * state["average"].sign()


def test_an_optimizer_of_the_users_own():
    def reset(_, state):
        state["average"].fill_(1)

    plain = make_model()
    optimizer = Lion(plain.parameters())
    x, y = make_data()
    order = make_ledger()
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[torch.zeros(1)], gradients=[torch.zeros(1)],
        apply=lambda: None, participants=[order])
    while not order.is_done:
        batch = order.sample_indices(order.take())
        plain.zero_grad()
        loss_of(plain(x[batch]), y[batch]).backward()
        optimizer.step()
        session.end_step()
    model = make_model()
    trainer = open_trainer(model, Lion(model.parameters()), reset_optimizer_state=reset)
    train(trainer, model)
    expect_equal(state_of(plain), state_of(model))
    model = make_model()
    trainer = open_trainer(
        model, Lion(model.parameters(), replaces=True), reset_optimizer_state=reset)
    with pytest.raises(ffdl.InvalidArgument, match="another tensor for its state 'average'"):
        train(trainer, model)


@pytest.mark.parametrize("steps", [7, 5 * 3])
def test_a_number_of_steps_ends_the_training(steps):
    data = torch.utils.data.TensorDataset(*make_data())
    store = ffdl.open_store("mem://")

    def worker(number):
        loader = ffdl.data.ElasticLoader(data, batch_samples=12, steps=steps)
        model = make_model()
        trainer = open_trainer(model, store=store, id=f"m{number}", ledger=loader, min_workers=2)
        mains = 0
        for x, y in trainer.batches():
            loss_of(model(x), y).backward()
            trainer.step()
            mains += trainer.is_main
            (elsewhere,) = on_threads([trainer], lambda one: one.is_main)  # as of a progress bar
            assert elsewhere == trainer.is_main
        assert not trainer.left and trainer.session.is_finished
        return trainer.step_number, mains, state_of(model)

    (first, one, state), (second, other, same) = on_threads(range(2), worker)
    assert first == second == steps
    assert sorted([one, other]) == [0, steps]
    expect_equal(state, same)
    with pytest.raises(ffdl.JobDone, match=f"step {steps}"):
        open_trainer(make_model(), store=store, id="late", ledger=ffdl.data.ElasticLoader(
            data, batch_samples=12, steps=steps))


def test_wrong_numbers_of_steps():
    data = torch.utils.data.TensorDataset(*make_data())
    with pytest.raises(ffdl.InvalidArgument, match="steps is 0"):
        ffdl.data.ElasticLoader(data, batch_samples=12, steps=0)
    with pytest.raises(ffdl.InvalidArgument, match="'steps' is -1"):
        next(open_trainer(make_model()).batches(steps=-1))


SCRIPT = f"""
import torch, ffdl.torch
x = torch.arange(12.0).reshape(12, 1)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = ffdl.data.ElasticLoader(torch.utils.data.TensorDataset(x, x), batch_samples=4, steps=5)
trainer = ffdl.torch.elastic(model, optimizer, loader, lease_s={PATIENT["lease_s"]})
for a, b in trainer.batches():
    torch.nn.functional.mse_loss(model(a), b).backward()
    trainer.step()
print("steps", trainer.step_number, trainer.is_main)
"""


def run_script(**environment):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120,
        env=environment, check=False)


def test_a_script_without_launcher_trains_alone():
    ran = run_script()
    assert ran.stdout == "steps 5 True\n", ran.stderr
    assert ran.stderr.count("ffdl: training alone; 'ffdl run --workers 1:4 SCRIPT'") == 1


def test_one_process_of_another_launcher_does_not_train_alone():
    ran = run_script(RANK="0", WORLD_SIZE="2", LOCAL_RANK="0")
    assert ran.returncode == 1 and "training alone" not in ran.stderr
    assert "InvalidArgument" in ran.stderr


def train_in_steps(trainer, model, x, y, each_step=lambda: None):
    for batches in trainer.steps():
        each_step()
        for batch in batches:
            loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
    return state_of(model)


@pytest.mark.parametrize("micro", [None, 4])
def test_steps_and_batches_are_the_same_training(micro):
    options = {} if micro is None else {"micro_batch_samples": micro}
    x, y = make_data()

    def make():
        model = make_model()
        trainer = open_trainer(model, "adamw", ledger=make_ledger(**options), **options)
        return trainer, model

    trainer, model = make()
    train(trainer, model)
    other, same = make()
    steps = []
    expect_equal(
        train_in_steps(other, same, x, y, lambda: steps.append(other.step_number)), state_of(model))
    assert steps == list(range(10))


def test_two_workers_in_steps():
    store = ffdl.open_store("mem://")
    x, y = make_data()

    def worker(number):
        model = make_model()
        optimizer = OPTIMIZERS["adamw"](model.parameters())
        trainer = open_trainer(
            model, optimizer, store, f"m{number}", make_ledger(micro_batch_samples=4),
            min_workers=2, micro_batch_samples=4)
        return train_in_steps(trainer, model, x, y, lambda: set_rate(trainer, optimizer))

    first, second = on_threads(range(2), worker)
    expect_equal(first, second)


def test_wrong_use_of_steps():
    x, y = make_data()
    model = make_model()
    trainer = open_trainer(
        model, ledger=make_ledger(micro_batch_samples=4), micro_batch_samples=4)
    steps = trainer.steps()
    next(next(steps))
    with pytest.raises(ffdl.InvalidArgument, match="not used all batches"):
        trainer.step()
    model = make_model()
    trainer = open_trainer(model)
    steps = trainer.steps()
    batches = next(steps)
    with pytest.raises(ffdl.InvalidArgument, match="not used all batches"):
        trainer.step()
    for batch in batches:
        loss_of(model(x[batch]), y[batch]).backward()
    with pytest.raises(ffdl.InvalidArgument, match=r"step\(\) was not called for step 1"):
        next(steps)

    model = make_model()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    trainer = open_trainer(
        model, optimizer, ledger=make_ledger(micro_batch_samples=4), micro_batch_samples=4)
    for batch in next(trainer.steps()):
        loss_of(model(x[batch]), y[batch]).backward()
    optimizer.param_groups[0]["lr"] = 0.5
    with pytest.raises(ffdl.InvalidArgument, match="after the last batch of the step"):
        trainer.step()


def averaged_model(model):
    return torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))


def test_an_average_of_the_weights_is_part_of_the_state():
    """A newcomer has the average that an undisturbed worker has."""
    def make(store, name):
        model = make_model()
        average = averaged_model(model)
        trainer = open_trainer(
            model, store=store, id=name, ledger=make_ledger(epochs=0),
            extra_state={"ema": average}, after_step=lambda: average.update_parameters(model))
        return trainer, model, average

    (trainer, _, average), (_, _, received) = train_beside_a_newcomer(make)
    expect_equal(average.state_dict(), received.state_dict())
    assert int(average.n_averaged) == trainer.step_number

    alone, model, undisturbed = make(ffdl.open_store("mem://"), "a")
    x, y = make_data()
    for batch in alone.batches(steps=trainer.step_number):
        loss_of(model(x[batch]), y[batch]).backward()
        alone.step()
    expect_close(average.state_dict(), undisturbed.state_dict())


def test_an_average_has_the_common_statistics_of_a_batch_norm():
    """Not those of one worker's samples."""
    averages = {}

    def make(store, name):
        model = make_model(torch.nn.BatchNorm1d(8))
        average = averages[name] = averaged_model(model)
        trainer = open_trainer(
            model, "sgd", store, name, make_ledger(epochs=0), extra_state={"ema": average},
            after_step=lambda: average.update_parameters(model))
        return trainer, model, None

    train_beside_a_newcomer(make)
    expect_equal(averages["a"].state_dict(), averages["b"].state_dict())
    assert averages["a"].module[1].running_mean.abs().sum() > 0


@pytest.mark.parametrize("state, message", [
    ({"best": 1.0}, "'best' of extra_state 'own' is a float; store the value in a tensor"),
    ({"0.weight": torch.zeros(1)}, None),
    (lambda: {"sum": torch.zeros(2)}, "a copy that state_dict"),
    ({"seen": torch.zeros(2, dtype=torch.bool)},
     "'seen' of extra_state 'own' is torch.bool, which .* a view of it as torch.int8"),
    ({"small": torch.zeros(2, dtype=torch.float8_e5m2)}, "'small' of .* is torch.float8_e5m2"),
    ({"wave": torch.zeros(2, dtype=torch.complex64)}, "'wave' .* a view of it as torch.float32"),
])
def test_extra_state_that_cannot_be(state, message):
    class Object:
        def state_dict(self):
            return state() if callable(state) else state

    model = make_model()
    if message is not None:
        with pytest.raises(ffdl.InvalidArgument, match=message):
            open_trainer(model, extra_state={"own": Object()})
        return
    named = torch.nn.ModuleDict({"own": make_model()})
    with pytest.raises(ffdl.InvalidArgument, match="both have 'own.0.weight'"):
        open_trainer(named, extra_state={"own": Object()})


@pytest.mark.parametrize("extra_state, message", [
    ([torch.zeros(2)], "extra_state is a list; give a dict of objects"),
    ({"seen": torch.zeros(2)}, "extra_state 'seen' is a Tensor; give an object with state_dict"),
])
def test_extra_state_has_objects_with_a_state(extra_state, message):
    with pytest.raises(ffdl.InvalidArgument, match=message):
        open_trainer(make_model(), extra_state=extra_state)


def test_what_is_done_once_for_all_workers():
    store = ffdl.open_store("mem://")
    done = []

    def worker(number):
        model = make_model()
        trainer = open_trainer(model, store=store, id=f"m{number}", min_workers=2)

        def after_step():
            if trainer.on_main(every=4):
                done.append(trainer.step_number)

        train(trainer, model, after_step)

    on_threads(range(2), worker)
    assert done == [4, 8]


@pytest.mark.parametrize("scheduled", [False, True])
def test_one_worker_ends_the_training_of_all(scheduled):
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_model()
        optimizer = OPTIMIZERS["momentum"](model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2) if scheduled else None
        trainer = open_trainer(
            model, optimizer, store, f"m{number}", scheduler=scheduler, min_workers=2)

        def after_step():
            if number == 1 and trainer.step_number == 3:
                trainer.stop()

        train(trainer, model, after_step)
        assert trainer.session.is_finished
        return trainer.step_number, state_of(model)

    (first, state), (second, same) = on_threads(range(2), worker)
    assert first == second == 4
    expect_equal(state, same)
    with pytest.raises(ffdl.JobDone):
        open_trainer(make_model(), store=store, id="late")


@pytest.mark.parametrize("micro", [None, 4])
@pytest.mark.parametrize("in_steps", [False, True])
def test_the_mean_loss_of_all_workers(micro, in_steps):
    """It is that of the step's twelve samples before the step, at all workers."""
    if micro is not None and in_steps:
        model = make_model()
        trainer = open_trainer(
            model, ledger=make_ledger(micro_batch_samples=4), micro_batch_samples=4)
        x, y = make_data()
        for batch in next(trainer.steps()):
            loss_of(model(x[batch]), y[batch]).backward()
        with pytest.raises(ffdl.InvalidArgument, match="iterate over batches"):
            trainer.step(0.5)
        return
    store = ffdl.open_store("mem://")
    options = {} if micro is None else {"micro_batch_samples": micro}
    x, y = make_data()

    def worker(number):
        model = make_model()
        trainer = open_trainer(
            model, "sgd", store, f"m{number}", make_ledger(**options), min_workers=2, **options)
        assert trainer.mean_loss is None
        means, own = [], []
        rounds = trainer.steps() if in_steps else ([batch] for batch in trainer.batches())
        for batches in rounds:
            for batch in batches:
                loss = loss_of(model(x[batch]), y[batch])
                loss.backward()
            own.append((trainer.step_number, len(batch), loss.item()))
            if trainer.step(loss) is not None:
                means.append(trainer.mean_loss)
        return means, own

    (first, one), (second, other) = on_threads(range(2), worker)
    assert first == second and len(first) == 10
    for step, mean in enumerate(first):
        losses = [(count, loss) for at, count, loss in one + other if at == step]
        assert sum(count for count, _ in losses) == 12
        assert mean == pytest.approx(sum(count * loss for count, loss in losses) / 12, rel=1e-5)


def test_a_metric_of_one_worker_steps_a_scheduler_at_all():
    """A newcomer has the scheduler's counts, too."""
    def make(store, name):
        model = make_model()
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, patience=1, factor=0.5, eps=0)
        trainer = open_trainer(
            model, optimizer, store, name, make_ledger(epochs=0), scheduler=scheduler)
        step = trainer.step

        def step_and_report(*arguments):
            result = step(*arguments)
            if trainer.on_main(every=2):
                trainer.report(1.0)  # it never gets better
            return result

        trainer.step = step_and_report
        return trainer, model, optimizer, scheduler

    (one, _, mine, first), (_, _, theirs, second) = train_beside_a_newcomer(make)
    rate = mine.param_groups[0]["lr"]
    assert rate == theirs.param_groups[0]["lr"] < 0.1
    assert first.state_dict() == second.state_dict()
    reports = (one.step_number - 1) // 2  # each with the step after it
    assert rate == 0.1 * 0.5 ** max(0, (reports - 1) // 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e39])
def test_what_is_not_finite_does_not_travel(value):
    """It would make the mean gradient so."""
    model = make_model()
    trainer = open_trainer(model)
    with pytest.raises(ffdl.InvalidArgument, match="report finite numbers"):
        trainer.report(value)
    x, y = make_data()
    for batch in trainer.batches(steps=2):
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step(torch.tensor(value) if trainer.step_number else value)
        assert trainer.mean_loss is None
    assert trainer.step_number == 2


def test_a_metric_is_reported_once_and_after_steps_that_were_repeated():
    model = make_model()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=100)
    trainer = open_trainer(model, optimizer, scheduler=scheduler)
    trainer.report(3.0)
    train(trainer, model)
    assert scheduler.last_epoch == 1 and scheduler.best == 3.0


@pytest.mark.parametrize("chains", [False, True])
def test_sigterm_asks_to_leave_beside_a_handler_of_the_loop(chains):
    model = make_model()
    before = signal.getsignal(signal.SIGTERM)
    try:
        trainer = open_trainer(model)
        calls = []
        ours = signal.getsignal(signal.SIGTERM)

        def own(number, frame):
            calls.append("own")
            if chains:
                ours(number, frame)

        signal.signal(signal.SIGTERM, own)
        train(trainer, model)
        trainer.session = types.SimpleNamespace(ask_to_leave=lambda: calls.append("leave"))
        os.kill(os.getpid(), signal.SIGTERM)
        assert calls == (["leave", "own", "leave"] if chains else ["leave", "own"])
    finally:
        signal.signal(signal.SIGTERM, before)
