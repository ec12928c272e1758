"""ffdl.torch with models on a GPU, where the GPU is made up."""

import sys
import threading
import types

import pytest
import test_torch_parameter_server as servers
from ranks import on_threads

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from fake_gpu import FakeGpu, Stream  # noqa: E402
from test_torch_elastic import (  # noqa: E402
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
from test_torch_grad_scaler import make_scaler, train_scaled  # noqa: E402
from test_torch_parameter_server import backward, weights_of  # noqa: E402

import ffdl.torch  # noqa: E402
from ffdl.torch.device import device_of, seed  # noqa: E402

HOST = {"backend": ffdl.Backend.AUTO, "device": -1}  # where the tensors are


@pytest.fixture
def gpu(monkeypatch):
    return FakeGpu(monkeypatch)


# --- where a model lies ---


def on(device):
    return types.SimpleNamespace(device=torch.device(device))


def test_the_device_of_a_model():
    assert device_of("x", []) == torch.device("cpu")
    assert device_of("x", [("w", on("cpu"))] * 2) == torch.device("cpu")
    assert device_of("x", [("w", on("cuda:1"))] * 2) == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (["cuda:0"], r"'w' is on 'cpu', and 'w1' on 'cuda:0'.*model.to\('cuda:0'\)"),
        (["cpu", "meta"], "'w2' is on 'meta'; move it to the CPU or to an NVIDIA GPU"),
        (["xpu:0"], "'w1' is on 'xpu:0'"),
    ],
)
def test_a_model_on_both_sides_is_refused(others, message):
    tensors = [("w", on("cpu")), *((f"w{i}", on(one)) for i, one in enumerate(others, 1))]
    with pytest.raises(ffdl.InvalidArgument, match="train: " + message):
        device_of("train", tensors)
    if "cpu" in others:
        return
    with pytest.raises(ffdl.InvalidArgument, match="train: 'w1' is on"):
        device_of("train", tensors[1:] + [("w", on("cuda:1"))])


def test_a_batch_norm_elsewhere_is_refused_too(monkeypatch):
    model = make_model(torch.nn.BatchNorm1d(8))
    seen = []
    monkeypatch.setattr(
        ffdl.torch.device, "device_of",
        lambda doing, tensors: seen.append((doing, dict(tensors))) or torch.device("cpu"))
    open_trainer(model)
    ((doing, tensors),) = seen
    assert doing == "make 'Sequential' elastic"
    assert {"0.weight", "1.running_mean", "1.num_batches_tracked"} <= tensors.keys()


def test_without_cuda_the_reason_is_told(no_gpu, gpu):
    for options in ({}, {"backend": ffdl.Backend.DEVICE_SHM}):
        with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
            open_trainer(make_model(), **options)


# --- elastic trainings ---


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"overlap": False},
        {"optimizer": "adamw", "clip_norm": 0.1},
        {"micro_batch_samples": 3},
        {"noise_interval": 2},
    ],
)
def test_a_model_on_a_gpu_trains_as_on_the_cpu(options, monkeypatch):
    def trained():
        ledger = make_ledger(**{k: options[k] for k in ("micro_batch_samples",) if k in options})
        return train_alone(torch.nn.BatchNorm1d(8), ledger=ledger, **HOST, **options)

    plain = trained()
    FakeGpu(monkeypatch)
    expect_equal(plain, trained())


def test_a_loss_that_is_scaled_on_a_gpu_is_that_of_the_cpu(monkeypatch):
    def trained():
        model, scaler = make_model(), make_scaler()
        train_scaled(open_trainer(model, grad_scaler=scaler, **HOST), model, scaler)
        return state_of(model), scaler.state_dict()

    plain, scale = trained()
    FakeGpu(monkeypatch)
    there, scale_there = trained()
    expect_equal(plain, there)
    assert scale == scale_there


def test_gradients_of_several_streams_are_averaged_when_all_are_there(gpu, monkeypatch):
    """Backward is on the streams that the parameters were used on."""
    model = make_model()
    trainer = open_trainer(model, overlap=True, bucket_bytes=1 << 20, **HOST)
    default = Stream("default", gpu.log)
    batches = trainer.batches()
    streams = (Stream(f"stream {number}", gpu.log) for number in range(4))
    x, y = make_data()
    batch = next(batches)
    loss = loss_of(model(x[batch]), y[batch])
    gpu.log.clear()
    monkeypatch.setattr(ffdl.torch.device, "_streams", lambda device: (next(streams), default))
    loss.backward()
    assert gpu.log == [f"default waits for stream {number}" for number in range(4)]


@pytest.mark.parametrize("overlap", [False, True])
def test_ffdl_comes_after_the_current_stream_and_before_it(overlap, gpu):
    """Each time that ffdl reads, and each time that the program writes again."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = open_trainer(model, optimizer, overlap=overlap, **HOST)
    optimizer.register_step_post_hook(lambda *_: gpu.log.append("weights"))
    gpu.log.clear()
    x, y = make_data()
    batches = trainer.batches()
    for _ in range(2):
        batch = next(batches)
        loss_of(model(x[batch]), y[batch]).backward()
        begun = gpu.log[:]
        assert set(begun) == ({"default waits for current"} if overlap else set())
        assert len(begun) == (4 if overlap else 0)  # parameters, each of them a bucket
        trainer.step()
        assert gpu.log[len(begun):] == [
            "default waits for current",  # gradients are averaged
            "current waits for default", "weights", "default waits for current",  # state is given
            "current waits for default",  # gradients are made again
        ]
        gpu.log.clear()


def test_micro_batches_are_added_before_the_next_is_made(gpu):
    model = make_model()
    trainer = open_trainer(
        model, micro_batch_samples=6, ledger=make_ledger(micro_batch_samples=6), **HOST)
    x, y = make_data()
    gpu.log.clear()
    batch = next(iter(trainer.batches()))
    loss_of(model(x[batch]), y[batch]).backward()
    assert trainer.step() is None
    assert gpu.log == ["default waits for current", "current waits for default"]


def test_gradients_lie_in_few_arrays_of_the_gpu(gpu, monkeypatch):
    opened = []

    def open_session(store, **options):
        opened.append(options)
        return ffdl.Session.open(store, **options | HOST)

    monkeypatch.setattr(
        sys.modules["ffdl.torch.training.elastic"], "Session", types.SimpleNamespace(open=open_session))
    open_trainer(make_model(torch.nn.BatchNorm1d(8)), overlap=True, bucket_bytes=1 << 20)
    (options,) = opened
    assert [one.dtype for one in options["gradients"]] == [torch.float32, torch.float64]
    assert not options["shared_memory"]
    assert (options["backend"], options["device"]) == (ffdl.Backend.NCCL, 0)


def test_two_workers_average_during_a_backward_of_another_thread(gpu):
    """As PyTorch's of a GPU is."""
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_model()
        trainer = open_trainer(
            model, store=store, id=f"m{number}", min_workers=2, overlap=None, **HOST)
        x, y = make_data()
        for batch in trainer.batches():
            loss = loss_of(model(x[batch]), y[batch])
            of_backward = threading.Thread(target=loss.backward)
            of_backward.start()
            of_backward.join()
            trainer.step()
        return state_of(model)

    first, second = on_threads(range(2), worker)
    expect_equal(first, second)
    expect_close(first, train_alone(**HOST))


@pytest.mark.parametrize("options", [{}, {"noise_interval": 2}])
def test_what_pytorch_makes_by_default_may_lie_elsewhere(options):
    """As after torch.set_default_device("cuda"): what the processor reads is made for it."""
    plain = train_alone(**options)
    model, scaler = make_model(), make_scaler(enabled=not options)
    x, y = make_data()
    with torch.device("meta"):
        trainer = open_trainer(model, grad_scaler=scaler, **options)
        for batch in trainer.batches():
            scaler.scale(loss_of(model(x[batch]), y[batch])).backward()
            trainer.step()
    expect_close(plain, state_of(model))


def test_the_generator_of_the_gpu_is_seeded_with_each_batch(gpu):
    model = make_model()
    trainer = open_trainer(model, **HOST)
    seen = []
    x, y = make_data()
    for batch in trainer.batches():
        seen.append(gpu.generator.initial_seed())
        assert seen[-1] == torch.default_generator.initial_seed()
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
    assert len(set(seen)) == len(seen) == 10
    seed(torch.device("cuda", 0), 5)
    assert gpu.generator.initial_seed() == torch.default_generator.initial_seed() == 5


# --- the parameter server ---


@pytest.mark.parametrize("rule", ["momentum", "adam"])
def test_a_rule_is_the_optimizer(rule, gpu, name):
    servers.expect_as_pytorch(name, servers.OPTIMIZERS[rule])


def make(name, **options):
    model = servers.make_model()
    template = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, ffdl.torch.ParameterServerOptimizer(template, name, **options)


def test_gradients_leave_beside_the_next_mini_batch(gpu, name):
    """None is lost, and none is what the next mini-batch wrote over it."""
    model, opt = make(name)
    begin = weights_of(model)
    total = torch.zeros_like(begin)
    for step in range(6):
        opt.zero_grad()
        backward(model, step)
        total += torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        opt.step()
        assert opt.learner.stats().mini_batches == step  # this one is on its way
    opt.flush()
    assert opt.committed(opt.learner.slot) == 6
    torch.testing.assert_close(weights_of(model), begin - 0.1 * total, rtol=1e-4, atol=1e-6)
    backward(model, 6)
    opt.step()  # goes on after a flush
    assert opt.committed(opt.learner.slot) == 6
    opt.close()
    assert opt.committed(0) == 7


def test_a_gradient_that_cannot_be_pushed_is_told_by_the_next_step(gpu, name):
    model, opt = make(name)
    begin = weights_of(model)
    for step in range(2):
        backward(model, step)
        model[0].weight.grad[0, 0] = float("nan")
        if step == 0:
            opt.step()
            continue
        with pytest.raises(ffdl.InvalidArgument, match="is nan"):
            opt.step()
    opt.zero_grad()
    backward(model, 1)
    gradient = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    opt.step()
    opt.close()
    torch.testing.assert_close(weights_of(model), begin - 0.1 * gradient)


@pytest.mark.parametrize("options", [{"synchrony": ffdl.Synchrony.BULK}, {"rows_max": 4}])
def test_what_waits_does_not_overlap(options, gpu, name):
    with pytest.raises(ffdl.InvalidArgument, match="leave 'overlap' out"):
        make(name, overlap=True, **options)
    model, opt = make(name, **options)
    backward(model, 0)
    opt.step()
    assert opt.committed(opt.learner.slot) == 1
    opt.close()


def test_overlap_is_of_a_gpu(name):
    with pytest.raises(ffdl.InvalidArgument, match="needs a model on a GPU"):
        make(name, overlap=True)


@pytest.mark.parametrize("options", servers.SHARED)
def test_learners_share_a_loaders_epochs(options, gpu, name):
    servers.test_learners_share_a_loaders_epochs(options, name)
    sent = torch.bfloat16 if "gradient_type" in options else torch.float32
    assert set(gpu.sent) == (set() if "rows_max" in options else {sent})


@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT16"])
def test_gradients_of_16_bits(kind, gpu, name):
    servers.test_gradients_of_16_bits(kind, name)
    assert set(gpu.sent) == {getattr(torch, kind.lower())}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of PyTorch's own optimizers
def test_gradients_of_rows_are_pushed_as_rows(gpu, name):
    make_optimizer, dense = servers.ROWS["adagrad"]
    plain, model = servers.Tables(True, dense), servers.Tables(True, dense)
    optimizer = make_optimizer(plain.parameters())
    opt = ffdl.torch.ParameterServerOptimizer(
        make_optimizer(model.parameters()), name, rows_max=40, **servers.BULK)
    for step in range(4):
        for one, target in ((optimizer, plain), (opt, model)):
            one.zero_grad()
            target.loss(step).backward()
            one.step()
        torch.testing.assert_close(weights_of(model), weights_of(plain), rtol=1e-4, atol=1e-6)
    opt.close()


def test_a_learner_without_a_gpu_leaves_nothing(no_gpu, monkeypatch, name):
    FakeGpu(monkeypatch)
    monkeypatch.setattr(ffdl.torch.ps.parameter_server_optimizer, "Learner", ffdl.Learner)
    with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
        make(name)
