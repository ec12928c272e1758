"""An optimizer of PyTorch whose weights are in a parameter server."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from elastic_jobs import Job, records, wait_for
from interrupts import expect_ctrl_c_to_end
from ranks import exit_code, on_threads, start_process

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.optim import lr_scheduler  # noqa: E402
from torch_digits import make_model, read_digits  # noqa: E402

import ffdl.torch  # noqa: E402

BULK = {"synchrony": ffdl.Synchrony.BULK, "timeout_s": 60}  # each step is folded before the next

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99), weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-6),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}


def backward(model, step):
    generator = torch.Generator().manual_seed(step)
    x = torch.rand(8, 64, generator=generator)
    torch.nn.functional.cross_entropy(model(x), torch.arange(8)).backward()


def weights_of(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def expect_as_pytorch(name, make_optimizer, make_scheduler=lambda _: None, steps=12):
    plain = make_model()
    optimizer = make_optimizer(plain.parameters())
    scheduler = make_scheduler(optimizer)
    model = make_model()
    template = make_optimizer(model.parameters())
    opt = ffdl.torch.ParameterServerOptimizer(
        template, name, scheduler=make_scheduler(template), **BULK)
    for step in range(steps):
        for one, target in ((optimizer, plain), (opt, model)):
            one.zero_grad()
            backward(target, step)
            one.step()
        if scheduler is not None:
            scheduler.step()
        torch.testing.assert_close(weights_of(model), weights_of(plain), rtol=1e-4, atol=1e-6)
    assert opt.version == steps
    opt.close()


@pytest.mark.parametrize("rule", OPTIMIZERS)
def test_a_rule_is_the_optimizer(rule, name):
    expect_as_pytorch(name, OPTIMIZERS[rule])


SCHEDULERS = {
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 12, eta_min=0.01),
    "step": lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5),
    "linear": lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=8),
    "warmup": lambda o: lr_scheduler.LinearLR(o, 1 / 5, 1.0, total_iters=4),
}


@pytest.mark.parametrize("schedule", SCHEDULERS)
def test_a_schedule_is_the_scheduler(schedule, name):
    expect_as_pytorch(name, lambda p: torch.optim.SGD(p, lr=0.2), SCHEDULERS[schedule])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: torch.optim.RMSprop(p), "use SGD, Adam, AdamW, SparseAdam"),
        (lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, dampening=0.1), "'dampening'"),
        (lambda p: torch.optim.Adam(p, amsgrad=True), "'amsgrad'"),
        (lambda p: torch.optim.SGD(p, lr=1, maximize=True), "'maximize'"),
        (lambda p: torch.optim.Adagrad(p, lr_decay=0.1), "'lr_decay'"),
        (lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1)), "is a tensor"),
        (lambda p: torch.optim.SGD([{"params": list(p)[:1]}, {"params": []}], lr=1), "2 parameter"),
        (lambda p: [torch.optim.SGD(p, lr=1)], "use 'list' at a parameter server: give one"),
    ],
)
def test_optimizers_that_no_rule_is(make, message, name):
    with pytest.raises(ffdl.InvalidArgument, match=message):
        ffdl.torch.ParameterServerOptimizer(make(make_model().parameters()), name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: lr_scheduler.ExponentialLR(o, 0.9), "use CosineAnnealingLR"),
        (lambda o: lr_scheduler.LinearLR(o, 0.5, 1.0, total_iters=4), "factor 1 / 5"),
    ],
)
def test_schedulers_that_no_schedule_is(make, message):
    optimizer = torch.optim.SGD(make_model().parameters(), lr=0.1)
    with pytest.raises(ffdl.InvalidArgument, match=message):
        ffdl.torch.schedule_of(make(optimizer))
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    optimizer.step()
    scheduler.step()
    with pytest.raises(ffdl.InvalidArgument, match="was stepped"):
        ffdl.torch.schedule_of(scheduler)


def make(name, model=None, **options):
    model = model or make_model()
    template = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, ffdl.torch.ParameterServerOptimizer(template, name, **(BULK | options))


def test_what_would_be_wrong_is_said(name):
    model, opt = make(name)
    with pytest.raises(ffdl.InvalidArgument, match=r"call backward\(\) before"):
        opt.step()
    backward(model, 0)
    opt.param_groups[0]["lr"] = 1.0
    with pytest.raises(ffdl.InvalidArgument, match="create the optimizer with scheduler="):
        opt.step()
    opt.param_groups[0]["lr"] = 0.1
    with pytest.raises(ffdl.InvalidArgument, match="of fixed size"):
        opt.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    with pytest.raises(ffdl.InvalidArgument, match="cut="):
        opt.load_state_dict({"settings": {"lr": 3}})
    opt.load_state_dict(opt.state_dict())
    with pytest.raises(ffdl.InvalidArgument, match="the model has 650"):
        make(name, torch.nn.Linear(64, 10))
    with pytest.raises(TypeError, match="there is no option 'learner_max'; use 'learners_max'"):
        make(name + "-2", learner_max=3)
    opt.step()
    model.double()
    with pytest.raises(ffdl.InvalidArgument, match="moved or converted"):
        opt.step()
    with pytest.raises(ffdl.InvalidArgument, match="make it float32"):
        make(name, model)
    opt.close()


@pytest.mark.parametrize("wrong", ["a/b", "../up", "", "a\0b", "x" * 300], ids=repr)
def test_a_name_that_no_server_can_have_is_refused(wrong):
    with pytest.raises(ffdl.InvalidArgument, match="name a segment.*use "):
        make(wrong)


def test_frozen_parameters_are_refused(name):
    model, opt = make(name)
    backward(model, 0)
    opt.step()
    frozen = next(model.parameters()).requires_grad_(False)
    backward(model, 1)
    with pytest.raises(ffdl.InvalidArgument, match="parameter 0 of shape .* was frozen after"):
        opt.step()
    frozen.requires_grad_(True)
    backward(model, 1)
    opt.step()
    opt.close()
    with pytest.raises(ffdl.InvalidArgument, match="parameter 1 of shape .* requires no gradient"):
        model = make_model()
        list(model.parameters())[1].requires_grad_(False)
        make(name + "-2", model)
    with pytest.raises(ffdl.InvalidArgument, match="was closed"):
        opt.step()


@pytest.mark.parametrize("options", [{}, {"rows_max": 4}], ids=["dense", "rows"])
def test_a_step_over_no_sample_changes_nothing(options, name):
    model, opt = make(name, **options)
    backward(model, 0)
    before = weights_of(model)
    with pytest.raises(ffdl.InvalidArgument, match="no sample is in them"):
        opt.step(samples=(0, 3, 3))
    opt.flush()
    assert torch.equal(weights_of(model), before)
    opt.step(samples=(0, 3, 4))
    opt.flush()
    assert not torch.equal(weights_of(model), before)
    opt.close()


def test_a_closure_and_parameters_without_gradients(name):
    model, opt = make(name)
    unused = model[2].weight.detach().clone()

    def closure():
        opt.zero_grad()
        loss = model[0](torch.ones(1, 64)).square().mean()
        loss.backward()
        return loss

    losses = [opt.step(closure).item() for _ in range(3)]
    assert losses[0] > losses[1] > losses[2]
    assert torch.equal(model[2].weight, unused)
    opt.close()


@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT16"])
def test_gradients_of_16_bits(kind, name):
    """Each is rounded once, as PyTorch rounds it; also of a learner that did not ask for it."""
    model, opt = make(name, gradient_type=kind.lower())
    expected = weights_of(model)
    for step in range(3):
        opt.zero_grad()
        backward(model, step)
        gradient = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        expected -= 0.1 * gradient.to(getattr(torch, kind.lower())).float()
        opt.step()
        torch.testing.assert_close(weights_of(model), expected, rtol=1e-6, atol=1e-7)
    _, other = make(name)
    assert other.learner.gradient_type == kind.lower()
    other.close()
    opt.close()


def test_a_server_goes_on_from_a_cut(name, tmp_path):
    model, opt = make(name)
    for step in range(3):
        opt.zero_grad()
        backward(model, step)
        opt.step()
    opt.server.cut().save(str(tmp_path / "cut"))
    opt.close()
    other, again = make(name, cut=ffdl.ParameterServerCut.load(str(tmp_path / "cut")))
    assert torch.equal(weights_of(model), weights_of(other))
    assert again.committed(0) == 3  # of the partition that has the number of the slot
    again.close()


def test_two_learners_of_a_process_share_weights(name):
    first, a = make(name, synchrony=ffdl.Synchrony.ASYNC)
    second, b = make(name, torch.nn.Sequential(*make_model()))
    assert a.server is not None and b.server is None
    for step in range(5):
        for model, opt in ((first, a), (second, b)):
            opt.zero_grad()
            backward(model, step)
            opt.step()
    b.close()
    a.close()
    assert not torch.equal(weights_of(first), weights_of(make_model()))


def test_ctrl_c_ends_a_wait(name):
    """For the other learner, whose mini-batch a round needs, and at the end for it to close."""
    model, opt = make(name)
    _, other = make(name)
    backward(model, 0)
    expect_ctrl_c_to_end(opt.step)
    learner = other.learner
    del other
    learner.detach()
    opt.flush()
    late = ffdl.Learner.attach(name)
    expect_ctrl_c_to_end(opt.close)
    assert opt.server is not None
    late.detach()
    opt.close()
    assert opt.server is None


def train_in_a_fork(name):
    model, opt = make(name)
    child = os.fork()
    if child == 0:
        backward(model, 0)
        try:
            opt.step()
        except ffdl.Cancelled as error:
            os._exit(42 if "a fork of the one that attached" in str(error) else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    backward(model, 0)
    opt.step()
    opt.close()
    os._exit(os.waitstatus_to_exitcode(status))


def test_a_fork_is_no_learner(name):
    child = start_process(train_in_a_fork, name)
    assert exit_code(child) == 42


SHARED = [{}, {"rows_max": 60}, {"gradient_type": "bfloat16"}]


@pytest.mark.parametrize("options", SHARED)
def test_learners_share_a_loaders_epochs(options, name):
    """Each weight counts how often its sample was used."""

    def make_one():
        table = torch.nn.Embedding(30, 1, sparse="rows_max" in options)
        torch.nn.init.zeros_(table.weight)
        optimizer = torch.optim.SGD(table.parameters(), lr=1.0)
        return table, ffdl.torch.ParameterServerOptimizer(
            optimizer, name, partitions=4, **options)

    def train(table, opt):
        loader = ffdl.data.ElasticLoader(
            np.arange(30), batch_samples=6, epochs=3, partition_samples=8,
            order=ffdl.SampleOrder.ON_DEMAND, learner=opt.learner)
        for numbers in opt.batches(loader):
            opt.zero_grad()
            (-table(torch.from_numpy(numbers))).sum().backward()
            opt.step()
            with pytest.raises(ffdl.InvalidArgument, match="take the next batch"):
                opt.step()
        opt.close()

    made = [make_one(), make_one()]
    on_threads(range(2), lambda rank: train(*made[rank]))
    assert made[0][0].weight.flatten().tolist() == [3] * 30


class Learners:
    """Processes that each train on a share."""

    def __init__(self, folder, name, passes):
        self._folder = folder
        self._arguments = [name, None, "2", str(passes), folder / "end"]
        self._running = {}
        self._lives = 0

    def start(self, share):
        program = pathlib.Path(__file__).with_name("server_torch_worker.py")
        arguments = [str(share) if one is None else one for one in self._arguments]
        self._lives += 1
        log = self._folder / f"life-{self._lives}.log"
        with log.open("w") as out:
            self._running[share] = subprocess.Popen(
                [sys.executable, "-u", program, *arguments], stdout=out, stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1"})
        return log

    def kill(self, share):
        self._running[share].kill()
        assert self._running.pop(share).wait() == -signal.SIGKILL

    def wait(self):
        for process in self._running.values():
            assert process.wait(120) == 0, "".join(
                log.read_text() for log in sorted(self._folder.glob("*.log")))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._running.values():
            process.kill()
            process.wait()


LEARN = """
import sys, torch, ffdl.torch
model = torch.nn.Linear(1, 1)
opt = ffdl.torch.ParameterServerOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), sys.argv[1])
print("learns", flush=True)
model(torch.ones(1, 1)).sum().backward()
opt.step()
opt.close()
"""


def test_a_worker_that_comes_after_the_end_has_nothing_to_learn(name, tmp_path):
    """It ends well, and begins no server; the job can be begun again."""
    program = tmp_path / "learn.py"
    program.write_text(LEARN)
    with Job(tmp_path, program, name) as job:
        lives = []
        for number in (0, 1):
            lives.append(job.start(number))
            job.wait(number)
        assert [log.read_text().count("learns") for log in lives] == [1, 0]
        store = ffdl.open_store(f"tcp://{tmp_path}/store", secret="of this test")
        assert ffdl.ended_servers(store, "test") == {name: 1}
        ffdl.begin_again(store, "test")
        again = job.start(2)
        job.wait(2)
        assert "learns" in again.read_text()


def test_query_example(tmp_path):
    """Alone, and with two learners under `ffdl run`."""
    words = ["red", "green", "blue", "grey", "pink", "white", "brown", "black"]
    queries = [[f"is it {word} or {other} today", word] for word in words for other in words]
    data = tmp_path / "queries.json"
    data.write_text(json.dumps({"train": queries * 3, "test": queries}))
    example = pathlib.Path(__file__).parents[2] / "examples" / "06_parameter_server_torch.py"
    options = ["--data", data, "--epochs", "6", "--name", f"queries-{os.getpid()}"]
    for command in ([], ["-m", "ffdl", "run", "--workers", "2"]):
        printed = subprocess.run(
            [sys.executable, *command, example, *options], capture_output=True, text=True,
            timeout=240, check=True).stdout
        ends = re.findall(r"([\d.]+)% of the test queries", printed)
        # One of two may begin when the other has ended, and has nothing to learn.
        assert 1 <= len(ends) <= (2 if command else 1), printed
        # Red or green: the first one counts, which pairs of words tell. By chance: 12.5 %. How stale
        # the gradients of two learners are is the machine's.
        assert max(map(float, ends)) > (50 if command else 80), printed


def test_learners_are_killed_and_the_digits_are_learned(name, tmp_path):
    passes = 12

    def trains(log):
        wait_for(lambda: "passes" in log.read_text(), f"{log.name} trains")

    with Learners(tmp_path, name, passes) as learners:
        first = learners.start(0)
        trains(first)
        second = learners.start(1)
        trains(second)
        learners.kill(0)  # who serves
        wait_for(lambda: '"serves": true' in second.read_text(), "the other one serves")
        again = learners.start(0)
        trains(again)
        (tmp_path / "end").touch()
        learners.wait()
    end = records(second)[-1]
    images = len(read_digits()[0])
    for size, (committed, samples, repeated, missing) in zip(
            (images // 2, images // 2), end["partitions"], strict=True):
        assert committed == samples and repeated == missing == 0
        assert committed % size == 0 and committed >= passes * size
    assert end["lives"] == 2  # of the server
    assert end["accuracy"] > 0.7  # by chance: 0.1; how stale gradients are is the machine's


class Tables(torch.nn.Module):
    """Two tables of which a batch uses few rows; one comes twice in it."""

    def __init__(self, sparse, dense):
        super().__init__()
        generator = torch.Generator().manual_seed(6)
        self.words = torch.nn.Embedding(50, 4, sparse=sparse)
        self.between = torch.nn.Linear(4, 4) if dense else torch.nn.Identity()
        self.others = torch.nn.EmbeddingBag(30, 4, mode="sum", sparse=sparse)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def loss(self, step):
        words = torch.tensor([step, 7, 7, 40 - step])
        bags = torch.tensor([[3 * step, 2], [2, 1], [0, 29], [5, 5]])
        return (self.between(self.words(words)) * self.others(bags)).square().mean()


ROWS = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), True),
    "adagrad": (lambda p: torch.optim.Adagrad(p, lr=0.1), True),
    "adam": (lambda p: torch.optim.SparseAdam(p, lr=0.02, eps=1e-12), False),
}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of PyTorch's own optimizers
@pytest.mark.parametrize("rule", ROWS)
def test_gradients_of_rows_are_pushed_as_rows(rule, name):
    make_optimizer, dense = ROWS[rule]
    plain, model = Tables(True, dense), Tables(True, dense)
    optimizer = make_optimizer(plain.parameters())
    opt = ffdl.torch.ParameterServerOptimizer(
        make_optimizer(model.parameters()), name, rows_max=40, **BULK)
    pushed = []
    for step in range(8):
        for one, target in ((optimizer, plain), (opt, model)):
            one.zero_grad()
            target.loss(step).backward()
            one.step()
        pushed.append(ffdl.torch.ps.sparse_gradient.SparseGradient.of(
            list(model.parameters()), [p.grad for p in model.parameters()]))
        torch.testing.assert_close(weights_of(model), weights_of(plain), rtol=1e-4, atol=1e-6)
    for gradient in pushed:
        assert [begin for begin, _, _ in gradient.tables] == [0, 220 if dense else 200]
        assert [begin for begin, _ in gradient.parts] == ([200, 216] if dense else [])
        assert all(len(rows) <= 8 for _, rows, _ in gradient.tables)
    opt.close()


def test_rows_that_no_sample_uses_stay(name):
    """With Adam a row that was used once goes on by its momentum, unless rows are pushed."""

    def train(suffix, **options):
        model = Tables(True, dense=False)
        before = model.words.weight.detach().clone()
        opt = ffdl.torch.ParameterServerOptimizer(
            torch.optim.Adam(model.parameters(), lr=0.1), name + suffix, **options, **BULK)
        changed = []
        for step in range(2):
            opt.zero_grad()
            model.loss(step).backward()
            opt.step()
            changed.append((model.words.weight != before).any(dim=1).nonzero().flatten().tolist())
            before = model.words.weight.detach().clone()
        opt.close()
        return changed

    assert train("-rows", rows_max=40) == [[0, 7, 40], [1, 7, 39]]
    assert train("-dense") == [[0, 7, 40], [0, 1, 7, 39, 40]]


def test_more_rows_than_the_server_takes(name):
    model = Tables(True, dense=False)
    opt = ffdl.torch.ParameterServerOptimizer(
        torch.optim.Adam(model.parameters()), name, rows_max=2, **BULK)
    model.loss(0).backward()
    with pytest.raises(ffdl.Exhausted, match="rows_max"):
        opt.step()
    opt.close()
