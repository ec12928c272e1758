"""Buffers of a model: the same bits at all workers, and those that the program gave."""

import copy
import threading

import pytest
from ranks import on_threads
from test_torch_elastic import OPTIMIZERS, make_data, make_ledger, open_trainer, state_of

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import ffdl.torch  # noqa: E402

EIGHTS = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]
UNSIGNED = [getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)]
INF = float("inf")


def in_all_dtypes(step):
    """Values that a program may set after `step` steps, by the buffer's name."""
    found = {
        "bool": torch.tensor([step % 2 == 0, True, False]),
        "best": torch.tensor(0.5 if step else INF),
        "large": torch.tensor(1.0 if step else 1e8),
        "third": torch.tensor([1 / 3 + step, -0.0, 1e-45, INF, -INF]),
        "float64": torch.tensor([1 / 3 + step, -0.0, 1.7e308, -INF], dtype=torch.float64),
        "bfloat16": torch.tensor([1 / 3, step, INF], dtype=torch.bfloat16),
        "float16": torch.tensor([1 / 3, 65504 - step], dtype=torch.float16),
        "int8": torch.tensor([-128, 127 - step], dtype=torch.int8),
        "uint8": torch.tensor(255 - step, dtype=torch.uint8),
        "int16": torch.tensor([-7, step], dtype=torch.int16),
        "int64": torch.tensor(2**62 + 2**31 - 2 + step),
        "complex64": torch.tensor([1 / 3 - step * 1j]),
        "complex128": torch.tensor(1 / 3 + step / 7 * 1j, dtype=torch.complex128),
        "empty": torch.zeros(0, 3),
    }
    found |= {f"f{i}": torch.tensor([1.0, 2.0 * step, -0.0]).to(t) for i, t in enumerate(EIGHTS)}
    found |= {f"u{i}": torch.tensor([1, 7 + step]).to(t) for i, t in enumerate(UNSIGNED)}
    return {f"b_{name}": value for name, value in found.items()}


def bits(tensor):
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return tensor.dtype, tensor.shape, bytes(plain.flatten().view(torch.uint8).numpy())


def bits_of(model):
    return {name: bits(value) for name, value in state_of(model).items()}


class Model(torch.nn.Module):
    """`act` is called in each forward pass, with the model, the samples and the step."""

    def __init__(self, buffers, act, *middle):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 4), *middle, torch.nn.Linear(4, 1))
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.fill_(0.1)
        for name, value in buffers.items():
            self.register_buffer(name, value.clone())
        self.act = act
        self.step = 0

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.act(self, x, self.step)
        return self.net(x)


def set_all(model, x, step):
    for name, value in in_all_dtypes(step + 1).items():
        getattr(model, name).copy_(value)


def reassign_all(model, x, step):
    for name, value in in_all_dtypes(step + 1).items():
        setattr(model, name, value)
    model.net[1].running_mean = 0.9 * model.net[1].running_mean + 0.1 * x.mean()


def make(act=set_all, buffers=None, batch_norm=True, momentum=0.1):
    norm = [torch.nn.BatchNorm1d(4, momentum=momentum)] if batch_norm else []
    return Model(in_all_dtypes(0) if buffers is None else buffers, act, *norm)


def loop(model, trainer, after_step=lambda batch: None, steps=None):
    x, y = make_data()
    for batch in trainer.batches(steps=steps):
        model.step = trainer.step_number
        (model(x[batch]) - y[batch]).square().mean().backward()
        trainer.step()
        after_step(batch)


def train_together(workers, make_one, steps=3, ledger=None, **options):
    """The buffers of each worker's model at the end, and their own values before."""
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_one(number)
        taking = make_ledger(epochs=0) if ledger is None else ledger()
        trainer = open_trainer(
            model, "sgd", store, f"m{number}", taking, min_workers=workers, **options)
        loop(model, trainer, steps=steps)
        return bits_of(model)

    return on_threads(range(workers), worker)


def plain_twin(model):
    """A function that trains a copy of the model without ffdl, and expects the same bits."""
    plain = copy.deepcopy(model)
    optimizer = OPTIMIZERS["sgd"](plain.parameters())
    x, y = make_data()

    def step(batch):
        optimizer.zero_grad()
        plain.step = model.step
        (plain(x[batch]) - y[batch]).square().mean().backward()
        optimizer.step()
        assert bits_of(plain) == bits_of(model)

    return step


def errors_of(workers, make_one, **options):
    """The exceptions of step() at all of them."""
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_one(number)
        trainer = open_trainer(model, "sgd", store, f"m{number}", make_ledger(epochs=0),
                               min_workers=workers, **options)
        with pytest.raises(ffdl.InvalidArgument) as raised:
            loop(model, trainer, steps=2)
        return str(raised.value)

    return on_threads(range(workers), worker)


@pytest.mark.parametrize("act", [set_all, reassign_all])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_one_worker_has_the_bits_of_plain_pytorch(act, momentum):
    model = make(act, momentum=momentum)
    trainer = open_trainer(model, "sgd")
    loop(model, trainer, plain_twin(model))
    assert trainer.step_number == 10


@pytest.mark.parametrize("act", [set_all, reassign_all])
@pytest.mark.parametrize("workers", [2, 3])
def test_equal_buffers_keep_their_bits(act, workers):
    def same(model, x, step):
        act(model, torch.ones(1), step)

    states = train_together(workers, lambda number: make(same, batch_norm=act is reassign_all))
    assert all(one == states[0] for one in states)
    for name, value in in_all_dtypes(3).items():
        assert states[0][name] == bits(value), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_other_numbers_have_the_mean_weighted_by_samples(dtype):
    def set_mine(model, x, step):
        model.b.copy_(torch.tensor([len(x), -len(x)]))

    (one, other) = train_together(
        2, lambda number: make(set_mine, {"b": torch.zeros(2, dtype=dtype)}, False), steps=1,
        ledger=lambda: make_ledger_of(7))
    assert one == other
    mean = 4 * (4 / 7) + 3 * (3 / 7)
    wide = torch.tensor([mean, -mean], dtype=torch.float64)
    assert one["b"] == bits(wide.to(dtype))


def make_ledger_of(batch, **options):
    return ffdl.make_session_ledger(
        samples=60, order=ffdl.SampleOrder.GLOBAL, batch_samples=batch, epochs=0, **options)


DIFFERENT = {
    "int64": (torch.tensor(0), 3, 4, "3", "4"),
    "uint8": (torch.tensor(0, dtype=torch.uint8), 255, 4, "255", "4"),
    "bool": (torch.tensor(False), True, False, "True", "False"),
    "large": (torch.tensor(0), 2**62, -5, str(2**62), "-5"),
    "many": (torch.zeros(99, dtype=torch.int32), 3, 4, "3 (element 0)", "4 (element 0)"),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_another_dtype_that_differs_is_refused_with_both_values(kind):
    before, first, second, shown, other = DIFFERENT[kind]

    def make_one(number):
        def act(model, x, step):
            model.flag.fill_(second if number else first)
        return make(act, {"flag": before}, False)

    told = errors_of(2, make_one)
    for text, here, elsewhere in zip(told, (shown, other), (other, shown), strict=True):
        assert f"buffer 'flag' differs between workers: it is {here} here and {elsewhere} " in text
        assert "pass buffers={'flag': RULE}" in text


def test_three_values_are_refused_without_the_others():
    def make_one(number):
        return make(lambda model, x, step: model.flag.fill_(number**2), {"flag": torch.tensor(9)},
                    False)

    for number, text in enumerate(errors_of(3, make_one)):
        assert f"it is {number**2} here and several values elsewhere" in text


RULES = {
    # the values before, at two workers, and after the step
    ("sum", torch.int64): (10, 12, 15, 17),
    ("sum", torch.uint8): (250, 254, 252, 0),
    ("sum", torch.float32): (10, 12.5, 15, 17.5),
    ("max", torch.int64): (10, 12, 15, 15),
    ("max", torch.float32): (INF, -1, 2, 2),
    ("max", torch.bool): (False, True, False, True),
    ("first", torch.bool): (False, False, True, False),
    ("first", torch.complex64): (1j, 2j, 3j, 2j),
    ("mean", torch.int64): (0, 3, 8, round((4 * 3 + 3 * 8) / 7)),
}


@pytest.mark.parametrize(("rule", "dtype"), RULES)
def test_a_rule_decides(rule, dtype):
    before, *both, after = RULES[rule, dtype]

    def act(model, x, step):
        model.b.fill_(both[0] if len(x) == 4 else both[1])

    states = train_together(
        2, lambda number: make(act, {"b": torch.tensor(before, dtype=dtype)}, False), steps=1,
        ledger=lambda: make_ledger_of(7), buffers={"*": "first", "b": rule} if rule == "first"
        else {"b": rule})
    for one in states:
        assert one["b"] == bits(torch.tensor(after, dtype=dtype))


def test_a_sum_adds_the_increments_of_each_step():
    def act(model, x, step):
        model.tokens += len(x)

    for workers in (1, 2, 3):
        states = train_together(workers, lambda number: make(
            act, {"tokens": torch.tensor(5)}, False), buffers={"tok*": "sum"})
        assert [one["tokens"] for one in states] == [bits(torch.tensor(5 + 3 * 12))] * workers


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"flag": "mode"}, "the rule of buffers 'flag' is 'mode'; give one of 'mean', 'sum', "),
        ({"flags": "max"}, r"no buffer has a name like 'flags' of buffers=; the model has 'flag'"),
        ({"flag": "sum"}, "buffer 'flag' has torch.bool, for which the rule 'sum' has no meaning"),
        (["flag"], "'buffers' is a list; give a dict"),
    ],
)
def test_rules_without_meaning_are_refused(rules, message):
    model = make(lambda *_: None, {"flag": torch.tensor(True)}, False)
    with pytest.raises(ffdl.InvalidArgument, match="make 'Model' elastic: " + message):
        open_trainer(model, buffers=rules)


def test_other_rules_at_another_worker_are_refused():
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make(lambda *_: None, {"flag": torch.tensor(3)}, False)
        trainer = open_trainer(
            model, "sgd", store, f"m{number}", min_workers=2,
            buffers={"flag": "max" if number else "sum"})
        with pytest.raises(ffdl.InvalidArgument, match="buffers= has other rules"):
            loop(model, trainer)

    on_threads(range(2), worker)


def test_micro_batches_have_the_bits_of_any_number_of_workers():
    def act(model, x, step):
        set_all(model, x, step)
        model.mean = 0.5 * model.mean + x.mean(0)
        model.tokens += len(x)
        model.top.fill_(x.max())
        model.head.copy_(x[0])

    buffers = in_all_dtypes(0) | {
        "mean": torch.zeros(6), "tokens": torch.tensor(0), "top": torch.tensor(-INF),
        "head": torch.zeros(6, dtype=torch.float64)}

    def trained(workers):
        states = train_together(
            workers, lambda number: make(act, buffers), 4,
            lambda: make_ledger(epochs=0, micro_batch_samples=3), micro_batch_samples=3,
            buffers={"tokens": "sum", "top": "max", "head": "first"})
        assert all(one == states[0] for one in states)
        return states[0]

    alone = trained(1)
    assert alone["tokens"] == bits(torch.tensor(4 * 12))
    assert alone == trained(2) == trained(3)


def test_more_values_than_a_rule_can_combine_are_refused(monkeypatch):
    monkeypatch.setattr(ffdl.torch.training.buffers, "SLOTS", 3)
    model = make(lambda *_: None, {"flag": torch.tensor(3)}, False)
    trainer = open_trainer(
        model, ledger=make_ledger(micro_batch_samples=3), micro_batch_samples=3,
        buffers={"flag": "max"})
    with pytest.raises(ffdl.InvalidArgument, match="the rule 'max' of buffer 'flag' has the values "
                                                   "of at most 3 workers or micro-batches"):
        loop(model, trainer)


# --- names, shapes and places ---


def grow(model):
    model.b = torch.zeros(3)


def widen(model):
    model.b = model.b.double()


def remove(model):
    del model.b


def hide(model):
    model.b = None


def add(model):
    model.register_buffer("c", torch.zeros(1))


def add_with_a_module(model):
    model.norm = torch.nn.BatchNorm1d(4, affine=False)


def fill(model):
    model.none = torch.zeros(1)


def untie(model):
    model.tied = torch.zeros(2)


CHANGES = {
    grow: r"buffer 'b' was float32 of shape \[2\] on 'cpu', and is float32 of shape \[3\]",
    widen: r"buffer 'b' was float32 of shape \[2\] on 'cpu', and is float64 of",
    remove: "buffer 'b' is gone",
    hide: "buffer 'b' is gone",
    add: "the model has a new buffer 'c'; register buffers before",
    add_with_a_module: "the model has a new buffer 'norm.running_mean'",
    fill: "the model has a new buffer 'none'",
    untie: "buffers 'tied' and 'b' were one tensor, and are two",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_buffer_that_comes_goes_or_changes_is_named(change):
    model = make(lambda model, x, step: step == 1 and change(model), {"b": torch.zeros(2)}, False)
    model.register_buffer("none", None)
    model.register_buffer("tied", model.b)
    trainer = open_trainer(model)
    with pytest.raises(ffdl.InvalidArgument, match="end a step: " + CHANGES[change]):
        loop(model, trainer)
    assert trainer.step_number == 1


def test_a_buffer_that_is_not_saved_is_each_workers_own():
    def make_one(number):
        def act(model, x, step):
            model.cache = torch.full((step + 1,), number)

        model = make(act, {}, False)
        model.register_buffer("cache", torch.zeros(0), persistent=False)
        models[number] = model
        return model

    models = {}
    train_together(2, make_one)
    assert [models[number].cache.tolist() for number in range(2)] == [[0] * 3, [1] * 3]


def test_a_tensor_that_forward_assigns_is_not_written_to():
    given = {}

    def make_one(number):
        def act(model, x, step):
            given[number] = model.last = x.mean(0) * (number + 1)
            given[number, "copy"] = given[number].clone()
        return make(act, {"last": torch.zeros(6)}, False)

    (one, other) = train_together(2, make_one)
    assert one == other
    for number in range(2):
        assert torch.equal(given[number], given[number, "copy"])


@pytest.mark.parametrize("form", ["tied", "expanded", "strided", "channels_last"])
def test_buffers_of_every_form(form):
    def make_one(number):
        def act(model, x, step):
            model.b = model.b + x.sum() if form == "expanded" else model.b.add_(x.sum())

        first = torch.zeros(2, 3, 4, 4)
        if form == "expanded":
            first = torch.zeros(1).expand(5)
        elif form == "strided":
            first = torch.zeros(6, 4).t()
        elif form == "channels_last":
            first = first.to(memory_format=torch.channels_last)
        model = make(act, {}, False)
        model.register_buffer("b", first)
        if form == "tied":
            model.register_buffer("tied", first)
        return model

    (one, other) = train_together(2, make_one)
    assert one == other and (form != "tied" or one["tied"] == one["b"])


def test_buffers_without_a_form_are_refused():
    model = make(lambda *_: None, {}, False)
    model.register_buffer("rows", torch.eye(3).to_sparse())
    with pytest.raises(ffdl.InvalidArgument, match="buffer 'rows' has layout torch.sparse_coo"):
        open_trainer(model)
    model = torch.nn.Sequential(torch.nn.Linear(6, 1), torch.nn.LazyBatchNorm1d(affine=False))
    with pytest.raises(ffdl.InvalidArgument, match="buffer '1.running_mean' has no shape yet"):
        open_trainer(model)


# --- values that are not finite ---


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [INF, -INF, float("nan")])
def test_a_mean_that_is_not_finite(dtype, bad):
    def make_one(number):
        return make(lambda model, x, step: model.b.fill_(bad if number else 1.0),
                    {"b": torch.zeros(2, dtype=dtype)}, False)

    for text in errors_of(2, make_one):
        assert "buffer 'b' has no finite mean, because it is NaN or infinite at some" in text
    (one, other) = train_together(2, make_one, non_finite=ffdl.NonFinite.ACCEPT)
    assert one == other and one["b"] == bits(torch.full((2,), bad, dtype=dtype))


@pytest.mark.parametrize("workers", [1, 2])
def test_with_a_grad_scaler_a_bad_step_moves_no_buffer(workers):
    def act(model, x, step):
        model.b.fill_(float("nan") if step == 1 else step + 1.0)
        model.n.fill_(step + 1)
        model.inf.fill_(INF)

    store = ffdl.open_store("mem://")

    def worker(number):
        model = make(act, {"b": torch.tensor(0.0), "n": torch.tensor(0),
                           "inf": torch.tensor(INF)}, False)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        trainer = open_trainer(model, "sgd", store, f"m{number}", min_workers=workers,
                               grad_scaler=scaler)
        seen = []
        x, y = make_data()
        for batch in trainer.batches(steps=3):
            model.step = trainer.step_number
            scaler.scale((model(x[batch]) - y[batch]).square().mean()).backward()
            trainer.step()
            seen.append((model.b.item(), model.n.item(), model.inf.item()))
        return seen

    for seen in on_threads(range(workers), worker):
        assert seen == [(1, 1, INF), (1, 1, INF), (3, 3, INF)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_observers_keep_their_values():
    quantization = pytest.importorskip("torch.ao.quantization")
    moving = quantization.MovingAverageMinMaxObserver

    def make_one(number=0):
        model = make(lambda *_: None, {}, False)
        model.net.extend([quantization.MinMaxObserver(), moving(), quantization.HistogramObserver(),
                          quantization.FakeQuantize(moving)])
        return model

    model = make_one()
    loop(model, open_trainer(model, "sgd"), plain_twin(model))
    one, other = train_together(2, make_one, buffers={"*.zero_point": "mean"})
    assert one == other


# --- checkpoints and newcomers ---


@pytest.mark.parametrize("act", [set_all, reassign_all])
def test_a_checkpoint_and_a_newcomer_have_all_of_them(act, tmp_path):
    folder = ffdl.CheckpointOptions(tmp_path, every_steps=1, resume=True)
    model = make(act)
    trainer = open_trainer(model, "sgd", ledger=make_ledger(epochs=0), checkpoints=folder)
    loop(model, trainer, steps=3)

    store = ffdl.open_store("mem://")
    resumed = make(act)
    trainer = open_trainer(resumed, "sgd", store, ledger=make_ledger(epochs=0), checkpoints=folder)
    assert trainer.step_number == 3 and bits_of(resumed) == bits_of(model)

    states = {}
    has_joined = threading.Event()

    def newcomer():
        model = make(act)
        trainer = open_trainer(model, "sgd", store, "b", make_ledger(epochs=0), checkpoints=folder)
        states["b"] = trainer.step_number, bits_of(model)
        has_joined.set()
        trainer.session.ask_to_leave()
        loop(model, trainer)

    thread = threading.Thread(target=newcomer)
    thread.start()
    x, y = make_data()
    seen = {}
    for batch in trainer.batches():
        resumed.step = trainer.step_number
        (resumed(x[batch]) - y[batch]).square().mean().backward()
        trainer.step()
        seen[trainer.step_number] = bits_of(resumed)
        if has_joined.is_set() and trainer.session.world.size == 1:
            break
    trainer.session.finish()
    thread.join()
    step, state = states["b"]
    assert seen[step] == state


def test_a_checkpoint_without_a_buffer_is_refused_by_name(tmp_path):
    def open_one(is_saved):
        model = make(lambda *_: None, {}, False)
        model.register_buffer("mask", torch.tensor([True, False]), persistent=is_saved)
        trainer = open_trainer(model, "sgd", checkpoints=ffdl.CheckpointOptions(
            tmp_path, every_steps=1, resume=True))
        loop(model, trainer, steps=1)

    open_one(False)
    with pytest.raises(ffdl.InvalidArgument, match="this model has 'mask' of 2 int8"):
        open_one(True)


def test_a_step_that_is_repeated_with_others_sends_its_values():
    """A world of one member codes nothing, until a step goes on in a larger world."""
    model = make(set_all)
    buffers = ffdl.torch.training.buffers.Buffers("train", model)
    buffers.carried = [torch.zeros(buffers.forms[0].shape, dtype=torch.float64)]
    buffers.change_world(ffdl.World(1, 0, ["a"]))
    model(make_data()[0])
    buffers.collect()
    left = bits_of(model)
    assert not buffers.carried[0].any()
    buffers.change_world(ffdl.World(2, 1, ["b", "a"]))
    buffers.carried[0] *= 1 / 3
    buffers.carried[0] += buffers.carried[0] * 2  # of another member with the same values
    buffers.apply()
    buffers.put_in_place()
    assert bits_of(model) == left


@pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")  # PyTorch's own
def test_a_scripted_model_has_its_buffers():
    model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(6, 1), torch.nn.BatchNorm1d(1)))
    x, y = make_data()
    trainer = open_trainer(model)
    for batch in trainer.batches():
        (model(x[batch]) - y[batch]).square().mean().backward()
        trainer.step()
    assert model.state_dict()["1.num_batches_tracked"] == trainer.step_number == 10
