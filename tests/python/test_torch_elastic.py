"""Ordinary PyTorch loops whose workers come and leave."""

import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from elastic_jobs import Job, churn, records, run_workers, wait_for
from ranks import on_threads

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import ffdl.torch  # noqa: E402
from ffdl.torch.training.common_state import Settings  # noqa: E402

SAMPLES, BATCH = 60, 12
PATIENT = {"lease_s": 15.0, "gather_s": 0.05, "verify_state": True}
# Each parameter is a bucket.
IN_BUCKETS = {"overlap": True, "bucket_bytes": 1}
NEED_WHOLE_GRADIENTS = {"micro_batch_samples", "batch_rule", "noise_interval"}
loss_of = torch.nn.functional.mse_loss


def make_data():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, 6, generator=generator)
    return x, x.sum(dim=1, keepdim=True).sin()


def make_model(*middle):
    generator = torch.Generator().manual_seed(2)
    first, last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 1)
    model = torch.nn.Sequential(first, *middle, torch.nn.Tanh(), last)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return model


def make_ledger(epochs=2, order=ffdl.SampleOrder.GLOBAL, **options):
    return ffdl.make_session_ledger(
        samples=SAMPLES, order=order, batch_samples=BATCH, epochs=epochs,
        shuffle=ffdl.Shuffle.SAMPLES, **options)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.02),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.05),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.02, weight_decay=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.02),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
}
if hasattr(torch.optim, "Adafactor"):
    OPTIMIZERS["adafactor"] = lambda p: torch.optim.Adafactor(p, lr=0.02)


def open_trainer(model, optimizer="momentum", store=None, id="a", ledger=None, **options):
    if isinstance(optimizer, str):
        optimizer = OPTIMIZERS[optimizer](model.parameters())
    if ledger is None:
        ledger = make_ledger()
    averaged = {} if NEED_WHOLE_GRADIENTS & options.keys() else IN_BUCKETS
    return ffdl.torch.elastic(
        model, optimizer, ledger, store=store or ffdl.open_store("mem://"), id=id,
        **(PATIENT | averaged | options))


def train(trainer, model, after_step=lambda: None):
    x, y = make_data()
    for batch in trainer.batches():
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
        after_step()


def state_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def expect_equal(left, right):
    for name in left:
        assert torch.equal(left[name], right[name]), name


def expect_close(left, right):
    for name in left:
        torch.testing.assert_close(left[name], right[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_worker_is_an_ordinary_loop(name):
    def schedulers(optimizer):
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 6], gamma=0.5)

    plain = make_model()
    optimizer = OPTIMIZERS[name](plain.parameters())
    scheduler = schedulers(optimizer)
    taking = make_ledger()
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[np.zeros(1)], gradients=[np.zeros(1)],
        apply=lambda: None, participants=[taking], lease_s=15.0, gather_s=0.05)
    x, y = make_data()
    while not taking.is_done:
        batch = taking.sample_indices(taking.take())
        optimizer.zero_grad()
        loss_of(plain(x[batch]), y[batch]).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        session.end_step(taking.taken)

    model = make_model()
    optimizer = OPTIMIZERS[name](model.parameters())
    trainer = open_trainer(model, optimizer, scheduler=schedulers(optimizer), clip_norm=0.5)
    train(trainer, model)
    expect_equal(state_of(plain), state_of(model))
    assert not trainer.left and trainer.session.step == 10


def train_alone(*middle, **options):
    model = make_model(*middle)
    train(open_trainer(model, **options), model)
    return state_of(model)


def test_two_workers_train_as_one_does():
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_model()
        train(open_trainer(model, store=store, id=f"m{number}", min_workers=2), model)
        return state_of(model)

    first, second = on_threads(range(2), worker)
    expect_equal(first, second)
    expect_close(first, train_alone())


def test_a_newcomer_gets_all_that_the_others_hold():
    """Weights, the optimizer's state, buffers, and what a scheduler has set."""
    store = ffdl.open_store("mem://")
    results = {}
    has_left = threading.Event()

    def make_trainer(id, model):
        optimizer = OPTIMIZERS["adamw"](model.parameters())
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.999**step)
        trainer = open_trainer(
            model, optimizer, store, id, make_ledger(epochs=0), scheduler=scheduler)
        return trainer, optimizer

    def rate(optimizer):
        return optimizer.param_groups[0]["lr"]

    def keep(id, trainer, optimizer, model):
        results.setdefault(trainer.session.step, {})[id] = (rate(optimizer), state_of(model))


    def newcomer():
        model = make_model(torch.nn.BatchNorm1d(8))
        trainer, optimizer = make_trainer("b", model)
        x, y = make_data()
        for batch in trainer.batches():
            loss_of(model(x[batch]), y[batch]).backward()
            trainer.step()
            keep("b", trainer, optimizer, model)
            if trainer.session.step >= joined_at[0] + 20:
                trainer.session.ask_to_leave()
        assert trainer.left
        has_left.set()

    joined_at = [1 << 60]
    model = make_model(torch.nn.BatchNorm1d(8))
    trainer, optimizer = make_trainer("a", model)
    joining = threading.Thread(target=newcomer)
    x, y = make_data()
    for batch in trainer.batches():
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
        keep("a", trainer, optimizer, model)
        step, size = trainer.session.step, trainer.session.world.size
        if step == 30:
            joining.start()
        if size == 2 and joined_at[0] == 1 << 60:
            joined_at[0] = step
        if has_left.is_set():
            break
    joining.join()
    trainer.session.finish()
    shared = [both for both in results.values() if len(both) == 2]
    assert len(shared) >= 10
    for both_of_them in shared:
        (rate_a, state_a), (rate_b, state_b) = both_of_them["a"], both_of_them["b"]
        assert rate_a == rate_b
        expect_equal(state_a, state_b)
    steps = max(results)
    assert results[steps]["a"][0] == pytest.approx(0.02 * 0.999**steps)


def test_running_statistics_move_by_the_mean_of_all():
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_model(torch.nn.BatchNorm1d(8))
        trainer = open_trainer(model, store=store, id=f"m{number}", min_workers=2)
        x, _ = make_data()
        batch = next(iter(trainer.batches()))
        hidden = model[0](x[batch]).detach().mean(dim=0)
        loss_of(model(x[batch]), x[batch][:, :1]).backward()
        trainer.step()
        return hidden, model[1].running_mean.clone(), model[1].num_batches_tracked.item()

    (hidden_a, mean_a, count_a), (hidden_b, mean_b, count_b) = on_threads(range(2), worker)
    assert torch.equal(mean_a, mean_b) and count_a == count_b == 1
    torch.testing.assert_close(mean_a, 0.1 * (hidden_a + hidden_b) / 2)


def test_dropout_is_a_function_of_seed_and_step():
    first = train_alone(torch.nn.Dropout(0.5))
    torch.manual_seed(123)
    expect_equal(first, train_alone(torch.nn.Dropout(0.5)))
    other = train_alone(torch.nn.Dropout(0.5), seed=1)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")  # PyTorch's own
@pytest.mark.parametrize(
    "backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_compiled_model_trains_alike(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    plain = train_alone()
    model = make_model()
    compiled = torch.compile(model, backend=backend)
    train(open_trainer(compiled, "momentum"), compiled)
    expect_close(plain, state_of(model))


def test_bfloat16_by_autocast():
    model = make_model()
    trainer = open_trainer(model)
    x, y = make_data()
    before = loss_of(model(x), y).item()
    for batch in trainer.batches():
        with torch.autocast("cpu", torch.bfloat16):
            predicted = model(x[batch])
            assert predicted.dtype == torch.bfloat16
            loss = loss_of(predicted.float(), y[batch])
        loss.backward()
        trainer.step()
    assert loss_of(model(x), y).item() < before


def test_a_loop_may_clear_gradients_itself():
    model = make_model()
    optimizer = OPTIMIZERS["momentum"](model.parameters())
    trainer = open_trainer(model, optimizer)
    x, y = make_data()
    for batch in trainer.batches():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
    expect_equal(train_alone(), state_of(model))


def test_batches_of_a_dataset():
    model = make_model()
    trainer = open_trainer(model)
    for x, y in trainer.batches(torch.utils.data.TensorDataset(*make_data())):
        loss_of(model(x), y).backward()
        trainer.step()
    expect_equal(train_alone(), state_of(model))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_loader(workers):
    def train_from(dropout, **options):
        model = make_model(*dropout)
        loader = ffdl.data.ElasticLoader(
            torch.utils.data.TensorDataset(*make_data()), batch_samples=BATCH, epochs=2, **options)
        with loader:
            trainer = open_trainer(model, ledger=loader)
            for x, y in trainer.batches():
                loss_of(model(x), y).backward()
                trainer.step()
        return state_of(model)

    expect_equal(train_alone(), train_from([], num_workers=workers))
    dropout = [torch.nn.Dropout(0.5)]  # as much of it wherever the batches are loaded
    expect_equal(train_from(dropout), train_from(dropout, num_workers=workers))
    trainer = open_trainer(make_model(), ledger=ffdl.data.ElasticLoader(
        np.arange(SAMPLES), batch_samples=BATCH))
    with pytest.raises(ffdl.InvalidArgument, match="already has the data set"):
        next(trainer.batches(make_data()[0]))


@pytest.mark.parametrize("scale", [None, 1024.0])
def test_a_batch_that_is_corrupt_as_a_whole_gives_nothing(tmp_path, scale):
    path = tmp_path / "numbers.json"
    path.write_text("".join("{\n" if 12 <= i < 24 else f"{i}\n" for i in range(36)))
    loader = ffdl.data.ElasticLoader(
        ffdl.open_json_lines([str(path)], skip_corrupt=True),
        batch_samples=12, shuffle=ffdl.Shuffle.NONE,
        collate_fn=lambda samples: torch.tensor([[float(one)] * 6 for one in samples]) / 36)
    model, alone = make_model(), make_model()
    scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=scale is not None)
    trainer = open_trainer(model, "momentum", ledger=loader, grad_scaler=scaler)
    optimizer = OPTIMIZERS["momentum"](alone.parameters())
    for x in trainer.batches():
        scaler.scale(model(x).square().mean()).backward()
        trainer.step()
        optimizer.zero_grad()
        alone(x).square().mean().backward()
        optimizer.step()
    assert loader.skipped == 12 and loader.is_done
    expect_close(state_of(alone), state_of(model))


class TwoHeads(torch.nn.Module):
    """A model whose second head is used only if `both` is True."""

    def __init__(self):
        super().__init__()
        self.body, self.last = make_model(), torch.nn.Linear(1, 1)
        with torch.no_grad():
            for parameter in self.last.parameters():
                parameter.fill_(0.5)

    def forward(self, x, both):
        out = self.body(x)
        return out + self.last(out) if both else out


UNUSED = {
    "the second head is used late": lambda model, step: step >= 3,
    "the second head is used at times": lambda model, step: step % 2 == 0,
    "the body is frozen, and trained again": lambda model, step: [
        model.body.requires_grad_(step not in (3, 4)), True],
}


@pytest.mark.parametrize("case", UNUSED)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("options", [{}, {"micro_batch_samples": BATCH}], ids=["whole", "in parts"])
def test_a_parameter_without_a_gradient_stays(name, case, options):
    """The same bits as plain PyTorch after each step, also where no gradient is not zero."""
    elastic, alone = TwoHeads(), TwoHeads()
    optimizer = OPTIMIZERS[name](alone.parameters())
    trainer = open_trainer(elastic, name, ledger=make_ledger(**options), **options)
    x, y = make_data()
    for step, batch in enumerate(trainer.batches()):
        for model in (elastic, alone):
            both = UNUSED[case](model, step)
            loss_of(model(x[batch], both), y[batch]).backward()
        trainer.step()
        optimizer.step()
        optimizer.zero_grad()
        expect_equal(state_of(alone), state_of(elastic))


def test_a_parameter_that_one_worker_uses_is_used():
    """The second worker's samples never use the second head, and the first worker's do at times."""
    def worker(rank):
        model = TwoHeads()
        trainer = open_trainer(
            model, "adamw", store, id="ab"[rank], min_workers=2)
        last = []
        x, y = make_data()
        for batch in trainer.batches():
            both = rank == 0 and trainer.step_number % 2 == 1
            loss_of(model(x[batch], both), y[batch]).backward()
            trainer.step()
            last.append(model.last.weight.item())
        return state_of(model), last

    store = ffdl.open_store("mem://")
    (first, of_first), (second, of_second) = on_threads(range(2), worker)
    expect_equal(first, second)
    assert of_first == of_second
    moved = [now != before for before, now in zip([0.5, *of_first], of_first)]
    assert moved == [step % 2 == 1 for step in range(len(moved))]


def test_a_scheduler_of_epochs():
    model = make_model()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    trainer = open_trainer(
        model, optimizer, ledger=make_ledger(epochs=3), scheduler_unit="epoch",
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1))
    rates = []
    train(trainer, model, lambda: rates.append(optimizer.param_groups[0]["lr"]))
    assert rates == pytest.approx([0.1] * 5 + [0.01] * 5 + [0.001] * 5)


lr = torch.optim.lr_scheduler
SCHEDULERS = {
    "lambda": lambda o: lr.LambdaLR(o, lambda step: 0.9**step),
    "milestones": lambda o: lr.MultiStepLR(o, [3, 9]),
    "cosine": lambda o: lr.CosineAnnealingLR(o, 20),
    "restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 4, 2),
    "one cycle": lambda o: lr.OneCycleLR(o, 0.5, total_steps=20),
    "cycles": lambda o: lr.CyclicLR(o, 0.01, 0.2, step_size_up=4, cycle_momentum=False),
    "sequence": lambda o: lr.SequentialLR(
        o, [lr.LinearLR(o, 0.1, total_iters=3), lr.MultiStepLR(o, [2, 7])], [3]),
    "chain": lambda o: lr.ChainedScheduler([lr.ExponentialLR(o, 0.9), lr.MultiStepLR(o, [9])], o),
}


# PyTorch 2.6 warns of its own SequentialLR.
@pytest.mark.filterwarnings("ignore:The epoch parameter in:UserWarning")
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_newcomers_scheduler_goes_on_where_the_others_are(name):
    """As with states that are sent: what the one records is what the other has restored."""

    def make():
        optimizer = OPTIMIZERS["adam"](make_model().parameters())
        return optimizer, Settings(optimizer, SCHEDULERS[name](optimizer), 0)

    def step(optimizer, settings):
        optimizer.step()
        settings.step_scheduler(1.0)
        settings.record()

    first, second = make(), make()
    for _ in range(7):
        step(*first)
    second[0].step()  # PyTorch warns where a scheduler comes first
    second[1].bytes.copy_(first[1].bytes)
    second[1].may_differ = True
    second[1].restore()
    for _ in range(8):
        for one in (first, second):
            step(*one)
        (mine,), (theirs,) = ([{key: value for key, value in group.items() if key != "params"}
                               for group in optimizer.param_groups]
                              for optimizer, _ in (first, second))
        assert mine == theirs


def a_group_for_each(layers):
    """A model, its parameters by name in a group for each, and the scheduler of 1,000 rates."""
    model = torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(layers)])
    optimizer = torch.optim.SGD(
        [{"params": [(name, one)], "lr": 0.1 * 0.99**i, "momentum": 0.9}
         for i, (name, one) in enumerate(model.named_parameters())])
    return model, optimizer, lr.ExponentialLR(optimizer, 0.9)


def test_settings_have_room_for_a_thousand_groups():
    _, optimizer, scheduler = a_group_for_each(500)
    first = Settings(optimizer, scheduler, 0)
    for _ in range(20):  # the rates get longer as text
        optimizer.step()
        scheduler.step()
    first.record()
    _, optimizer, scheduler = a_group_for_each(500)
    second = Settings(optimizer, scheduler, 1 << 62)
    second.bytes.copy_(first.bytes)
    second.may_differ = True
    second.restore()
    assert [group["lr"] for group in optimizer.param_groups] == first._scheduler.get_last_lr()
    assert second.seed == 0


def test_a_thousand_groups_go_on_from_a_checkpoint(tmp_path):
    def train_to(steps, **options):
        torch.manual_seed(3)
        model, optimizer, scheduler = a_group_for_each(500)
        trainer = open_trainer(
            model, optimizer, scheduler=scheduler, bucket_bytes=1 << 20, **options)
        for _ in trainer.batches():
            model(torch.ones(1, 1)).sum().backward()
            trainer.step()
            if trainer.session.step == steps:
                break
        return trainer, model, optimizer

    trainer, *_ = train_to(6, checkpoints=ffdl.CheckpointOptions(tmp_path, every_steps=4))
    wait_for(lambda: trainer.session.stats.checkpoints == 1, "there is a checkpoint")
    _, *undisturbed = train_to(8)
    trainer, *resumed = train_to(8, checkpoints=ffdl.CheckpointOptions(tmp_path, resume=True))
    assert trainer.session.step == 8
    expect_equal(*(state_of(model) for model, _ in (undisturbed, resumed)))
    first, second = ([group["lr"] for group in optimizer.param_groups]
                     for _, optimizer in (undisturbed, resumed))
    assert first == second


def test_a_scheduler_that_grows_is_refused():
    optimizer = OPTIMIZERS["sgd"](make_model().parameters())
    scheduler = lr.ExponentialLR(optimizer, 0.9)
    scheduler.past = []  # state_dict() has it
    settings = Settings(optimizer, scheduler, 0)
    scheduler.past = [0.5] * 20000
    with pytest.raises(ffdl.InvalidArgument, match="grows with the steps"):
        settings.record()


def test_schedulers_that_cannot_be():
    model, other = make_model(), make_model()
    optimizer, another = (OPTIMIZERS["sgd"](one.parameters()) for one in (model, other))
    with pytest.raises(ffdl.InvalidArgument, match="belongs to another optimizer"):
        open_trainer(model, optimizer, scheduler=lr.StepLR(another, 3))


@pytest.mark.parametrize("mine, theirs, message", [
    ({}, {"scheduler"}, "it has a scheduler, and this worker has none"),
    ({"scheduler"}, {}, "it has no scheduler, and this worker has one"),
    ({}, {"grad_scaler"}, "it has a grad_scaler, and this worker has none"),
    ({"grad_scaler"}, {}, "it has no grad_scaler, and this worker has one"),
])
def test_settings_of_a_training_of_another_kind(mine, theirs, message):
    def make(kinds):
        optimizer = OPTIMIZERS["sgd"](make_model().parameters())
        return Settings(
            optimizer, lr.StepLR(optimizer, 3) if "scheduler" in kinds else None, 0,
            torch.amp.GradScaler("cpu", enabled="grad_scaler" in kinds))

    newcomer, other = make(mine), make(theirs)
    newcomer.bytes.copy_(other.bytes)
    newcomer.may_differ = True
    with pytest.raises(ffdl.InvalidArgument, match=message):
        newcomer.restore()


def one_batch(trainer, model):
    x, y = make_data()
    batch = next(iter(trainer.batches()))
    loss_of(model(x[batch]), y[batch]).backward()


def test_what_would_be_wrong_is_said():
    model = make_model()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    trainer = open_trainer(model, optimizer, scheduler=lr.StepLR(optimizer, 100))
    one_batch(trainer, model)
    with pytest.raises(ffdl.InvalidArgument, match="call trainer.step"):
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 1.0
    with pytest.raises(ffdl.InvalidArgument, match="pass a scheduler"):
        trainer.step()
    optimizer.param_groups[0]["lr"] = 0.02
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    with pytest.raises(ffdl.InvalidArgument, match="has 2 parameter groups, but had 1"):
        trainer.step()
    del optimizer.param_groups[1]
    trainer.step()
    one_batch(trainer, model)
    model.double()
    with pytest.raises(ffdl.InvalidArgument, match=r"parameter '.*weight' \(torch.float64"):
        trainer.step()

    batches = open_trainer(make_model()).batches()
    next(batches)
    with pytest.raises(ffdl.InvalidArgument, match=r"step\(\) was not called"):
        next(batches)


def test_options_that_there_are_not_are_named():
    """And nothing else: what they were given beside holds all of the model."""
    data = torch.utils.data.TensorDataset(*make_data())
    for options, kind, message in (
            ({"ledger": torch.utils.data.DataLoader(data)}, ffdl.InvalidArgument,
             "the samples are a DataLoader; pass an ffdl.data.ElasticLoader"),
            ({"checkpoint": "here"}, TypeError, "there is no option 'checkpoint'; use 'checkpoints'"),
            ({"checkpoints": "here"}, TypeError, "'checkpoints' is of type str; give ffdl.Checkp"),
            ({"lease_s": "5"}, TypeError, "an option has a wrong type"),
            ({"apply": None}, TypeError, "multiple values for keyword argument 'apply'")):
        with pytest.raises(kind, match=message) as raised:
            open_trainer(make_model(), **options)
        assert "tensor(" not in str(raised.value)
        assert raised.value.__context__ is None


def test_a_model_that_is_given_other_parameters_is_refused():
    model = make_model()
    trainer = open_trainer(model)
    torch.nn.Linear(6, 8)  # of another model
    one_batch(trainer, model)
    trainer.step()
    model[0] = torch.nn.Linear(6, 8)
    one_batch(trainer, model)
    for _ in range(2):  # each time
        with pytest.raises(ffdl.InvalidArgument, match="trainable parameters, such as '0.weight'"):
            trainer.step()


def test_a_parameter_that_is_unfrozen_is_refused():
    model = make_model()
    model[0].bias.requires_grad_(False)
    trainer = open_trainer(
        model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1))
    one_batch(trainer, model)
    trainer.step()
    model[0].bias.requires_grad_(True)
    one_batch(trainer, model)
    with pytest.raises(ffdl.InvalidArgument, match="trainable parameters, such as '0.bias'"):
        trainer.step()
    model[0].bias.requires_grad_(False)
    trainer.step()


def test_a_model_on_another_device_is_refused():
    with pytest.raises(ffdl.InvalidArgument, match="is on 'meta'; move it to the CPU"):
        open_trainer(make_model().to("meta"))


def test_a_worker_with_another_model_is_refused():
    store = ffdl.open_store("mem://")
    became = []

    def join():
        try:
            became.append(open_trainer(make_model(torch.nn.Linear(8, 8)), store=store, id="b"))
        except Exception as error:  # whatever it is, the loop below ends
            became.append(error)

    model = make_model()
    trainer = open_trainer(model, store=store, ledger=make_ledger(epochs=0))
    joining = threading.Thread(target=join)
    joining.start()
    x, y = make_data()
    for batch in trainer.batches():
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
        if became:
            break
    joining.join()
    trainer.session.finish()
    with pytest.raises(ffdl.InvalidArgument, match="run the same program with the same model"):
        raise became[0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_is_no_worker():
    model = make_model()
    trainer = open_trainer(model, overlap=False)
    one_batch(trainer, model)
    child = os.fork()
    if child == 0:
        try:
            trainer.step()
        except ffdl.Cancelled:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    trainer.step()
    trainer.session.finish()


class OwnSgd(torch.optim.SGD):
    pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: OwnSgd(p, lr=1, momentum=0.9), "its first step creates its state"),
        (lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, dampening=0.1), "dampening"),
        (lambda p: torch.optim.SGD(list(p)[:1], lr=1), "lacks 3 parameters .* such as '0.bias'"),
        (lambda p: torch.optim.SGD([*p, torch.nn.Parameter(torch.ones(1))], lr=1), "do not belong"),
        (lambda p: [torch.optim.SGD(p, lr=1), "another"], "the optimizer is a list; give"),
        (lambda p: [], "the optimizer is a list; give"),
        (lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1)), "no JSON form"),
    ],
)
def test_optimizers_that_cannot_be(make, message):
    model = make_model()
    with pytest.raises(ffdl.InvalidArgument, match=message):
        open_trainer(model, make(model.parameters()))


@pytest.mark.parametrize("clears", [False, True])
def test_sparse_gradients_become_dense(clears):
    def train_table(sparse):
        table = torch.nn.Embedding(SAMPLES, 2, sparse=sparse)
        with torch.no_grad():
            table.weight.copy_(torch.arange(2 * SAMPLES).view(SAMPLES, 2))
        optimizer = OPTIMIZERS["momentum"](table.parameters())
        trainer = open_trainer(table, optimizer)
        for batch in trainer.batches():
            if clears:
                optimizer.zero_grad()
            table(batch // 2).square().sum().backward()
            trainer.step()
        return state_of(table)

    expect_equal(train_table(False), train_table(True))


@pytest.mark.slow
def test_processes_come_leave_and_are_killed(tmp_path):
    lives = churn(tmp_path, pathlib.Path(__file__).with_name("elastic_torch_worker.py"))
    assert len(lives) == 5


EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "05_elastic_torch.py"


def arguments_of_example(folder):
    text = folder / "text"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    return ["--data", text, "--context", 32, "--width", 32, "--layers", 1, "--epochs", 4,
            "--learning-rate", 3e-3]


@pytest.mark.slow
def test_language_model_example(tmp_path):
    small = [*arguments_of_example(tmp_path), "--loaders", 1, "--log", tmp_path / "log"]
    first, second = run_workers(tmp_path, 2, EXAMPLE, *small)
    assert first[-1] == second[-1]
    loss = re.fullmatch(r"step \d+: loss (.*) of text that was not trained on", first[-1])[1]
    assert float(loss) < 2  # a letter by chance: 3.3
    assert len(list((tmp_path / "log").glob("worker-*.jsonl"))) == 2


def losses_in(folder):
    """The loss of each step of which all samples were logged: who is killed does not log its last."""
    whole = {}
    for log in folder.glob("worker-*.jsonl"):
        for one in records(log):
            if one["event"] == "step":
                samples, loss = whole.get(one["step"], (0, 0.0))
                whole[one["step"]] = samples + one["samples"], loss + one["samples"] * one["loss"]
    return {step: loss / 16 for step, (samples, loss) in whole.items() if samples == 16}


@pytest.mark.parametrize("steps_more", [60, pytest.param(900, marks=pytest.mark.slow)])
def test_the_examples_losses_are_those_of_an_undisturbed_run(steps_more, tmp_path):
    """One worker, two, and one again, after the other was killed; until nobody needs more steps."""
    small = [*arguments_of_example(tmp_path), "--epochs", 10_000]
    logs = [tmp_path / name / "log" for name in ("alone", "together")]
    for log in logs:
        log.parent.mkdir()
    alone, together = (
        Job(log.parent, EXAMPLE, *small, "--log", log, forks=True) for log in logs)

    def size_of_last(log):
        sizes = re.findall(r"step \d+, one of (\d+): ", log.read_text())
        return sizes[-1] if sizes else ""

    def reaches(log, step):
        return wait_for(lambda: max(losses_in(log), default=0) >= step, f"step {step} of {log}")

    with alone, together as job:
        alone.start(0)
        first = job.start(0)
        wait_for(lambda: "begins at step" in first.read_text(), "there is one")
        job.start(1)
        wait_for(lambda: size_of_last(first) == "2", "there are two")
        joined = max(losses_in(logs[1]), default=0)
        reaches(logs[1], joined + steps_more // 3)
        job.kill(1)
        wait_for(lambda: size_of_last(first) == "1", "there is one again")
        reaches(logs[1], joined + steps_more)
        reaches(logs[0], joined + steps_more)
        job.ask_to_leave(0)
        job.wait(0)
    expected, losses = (losses_in(log) for log in logs)
    both = sorted(expected.keys() & losses.keys())
    assert len(both) > 0.8 * (joined + steps_more)
    length = min(50, steps_more // 3)
    for begin in range(0, len(both) - length + 1, length):
        steps = both[begin : begin + length]
        assert np.mean([losses[step] for step in steps]) == pytest.approx(
            np.mean([expected[step] for step in steps]), rel=0.02)
    assert losses[both[-1]] < 0.8 * losses[both[0]]


def test_digits_example(tmp_path):
    example = EXAMPLE.with_name("07_elastic_digits_torch.py")
    (lines,) = run_workers(tmp_path, 1, example, "--epochs", 4)
    assert float(re.fullmatch(r"step \d+: (.*)% of the test images", lines[-1])[1]) > 90


@pytest.mark.slow
def test_the_worker_that_a_benchmark_measures(tmp_path):
    """benchmarks/peers/elastic.py, asked as benchmarks/rescale/training.cc does."""
    script = pathlib.Path(__file__).parents[2] / "benchmarks" / "peers" / "elastic.py"
    server = ffdl.StoreServer.start(folder=str(tmp_path))
    workers = []

    def start(id):
        worker = subprocess.Popen([sys.executable, script, tmp_path, id, "1", "4"], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        workers.append(worker)
        assert worker.stdout.readline() == "ready\n"
        return worker

    def ask(worker, question):
        worker.stdin.write(question + "\n")
        worker.stdin.flush()
        return worker.stdout.readline()

    try:
        first = start("a")
        assert ask(first, "after 1 3") == "done\n"
        second = start("b")
        assert ask(first, "after 2 3") == "done\n"
        assert ask(second, "leave") == "asked\n"
        assert ask(first, "after 1 3") == "done\n"
        words = ask(first, "report").split()
        ends, inside, members = words[::4], words[1::4], words[3::4]
        assert sorted(ends, key=int) == ends and all(float(one) > 0 for one in inside)
        assert "".join(members).strip("1").strip("2") == "" and "2" in members
        assert second.wait(60) == 0
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
        del server
    assert (tmp_path / "audit-a").read_text().startswith("1 ")


@pytest.mark.slow
def test_the_example_goes_on_from_a_checkpoint(tmp_path):
    """One worker that is killed, and a new job of two: the loss is that of one that was not."""
    small = arguments_of_example(tmp_path)

    def run_job(folder, workers, *more):
        folder.mkdir()
        lines = run_workers(folder, workers, EXAMPLE, *small, *more)
        return [re.match(r"begins at step (\d+)", one[0])[1] for one in lines], lines[0][-1]

    of_checkpoints = ["--checkpoints", tmp_path / "checkpoints", "--every", 20]
    with Job(tmp_path, EXAMPLE, *small, *of_checkpoints) as job:
        job.start(0)
        wait_for(lambda: list(tmp_path.glob("checkpoints/*/published-*")), "there is a checkpoint")
        job.kill(0)
    begun, last = run_job(tmp_path / "two", 2, *of_checkpoints)
    assert all(int(step) >= 20 for step in begun)
    fresh, expected = run_job(tmp_path / "undisturbed", 1)
    assert fresh == ["0"]
    number = re.compile(r"step (\d+): loss (.*) of text")
    (steps, loss), (steps_expected, loss_expected) = (
        number.match(line).groups() for line in (last, expected))
    assert steps == steps_expected and float(loss) == pytest.approx(float(loss_expected), abs=2e-3)
