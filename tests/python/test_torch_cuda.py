"""ffdl.torch on a GPU. Without one, or with an ffdl that was built without CUDA, all is skipped."""

import contextlib
import pathlib
import sys

import pytest
import test_torch_parameter_server as servers
from elastic_jobs import churn
from ranks import SOON_S, new_world

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from test_data_loader import run  # noqa: E402
from test_torch_elastic import (  # noqa: E402
    loss_of,
    make_data,
    make_ledger,
    make_model,
    open_trainer,
    state_of,
)
from test_torch_parameter_server import weights_of  # noqa: E402

import ffdl.torch  # noqa: E402

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "benchmarks")]
import gpt2_stops  # noqa: E402


def why_not():
    """None: ffdl has the GPU that PyTorch has."""
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    server = ffdl.ParameterServer.create(parameters=1)
    server.start()
    try:
        ffdl.Learner.attach(server, device=-1)
    except ffdl.Unimplemented as error:
        return f"ffdl: {error}"
    return None


WHY_NOT = why_not()
pytestmark = [
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no GPU for ffdl.torch: {WHY_NOT}"),
    # PyTorch's, of the thread that runs backward, which chooses no GPU where there is one.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]

GPU = torch.device("cuda", 0)
WORKER = pathlib.Path(__file__).with_name("elastic_torch_worker.py")


@pytest.fixture(params=["NCCL", "DEVICE_SHM"])
def backend(request):
    return ffdl.Backend[request.param]


@pytest.fixture
def alone(backend):
    """A world of one, through the GPU."""
    try:
        return ffdl.connect_communicator(
            new_world(0, 1), ffdl.open_store("mem://"), SOON_S, backend=backend, device=0)
    except ffdl.Unimplemented as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def busy_stream():
    """PyTorch's current stream is another than the default one, and is behind."""
    outside, stream = torch.cuda.current_stream(GPU), torch.cuda.Stream(GPU)
    stream.wait_stream(outside)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # cycles: about a hundredth of a second
        yield
    outside.wait_stream(stream)


# --- arrays ---


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64", "int8"])
def test_tensors_are_added_where_they_lie(dtype, alone):
    dtype = getattr(torch, dtype)
    given = [torch.full((3, 4), 2, dtype=dtype, device=GPU), torch.ones(5, dtype=dtype, device=GPU)]
    out = torch.zeros(17, dtype=dtype, device=GPU)
    alone.all_reduce(given, out)
    assert out.tolist() == [2] * 12 + [1] * 5
    alone.all_reduce(given)
    alone.all_gather(given[1], out[:5])
    assert out[:5].tolist() == [1] * 5


def test_what_another_stream_computes_comes_first(alone):
    given, out = torch.zeros(1000, device=GPU), torch.zeros(1000, device=GPU)
    torch.cuda.synchronize()
    with busy_stream():
        given.fill_(3)
        alone.all_reduce(given, out)
        assert (out == 3).all()
        given.fill_(4)
        ffdl.OperationQueue(alone).all_reduce(given, out).wait(SOON_S)
        assert (out == 4).all()


def test_tensors_of_both_sides_are_refused(alone):
    with pytest.raises(ffdl.InvalidArgument):
        alone.all_reduce([torch.zeros(3, device=GPU), torch.zeros(3)])
    values = torch.ones(3)
    alone.all_reduce(values)  # the host's alone may be


def test_memory_is_given_back_in_between(alone):
    given = torch.ones(1000, device=GPU)
    for _ in range(2):
        alone.suspend()
        if alone.backend == ffdl.Backend.NCCL:
            with pytest.raises(ffdl.InvalidArgument, match="is suspended"):
                alone.all_reduce(given)
        alone.resume()
        alone.all_reduce(given)
    assert (given == 1).all()


def test_micro_batches_are_added_on_the_gpu(alone):
    gradient = torch.empty(1000, device=GPU)
    total = ffdl.MicroBatchSum(alone, gradient, shares=[4])
    for number in range(4):
        total.add(gradient.fill_(number))
        torch.cuda.synchronize()
    total.finish(gradient)
    assert (gradient == 1.5).all()


def test_checkpoints_pass_between_the_sides(tmp_path):
    options = ffdl.CheckpointOptions(tmp_path, names=["a", "b"])
    torch.cuda.synchronize()
    with busy_stream():
        a = torch.arange(100_000, dtype=torch.float32, device=GPU)
        ffdl.save_checkpoint(options, [a, torch.ones(3)])
    on_cpu, there = torch.zeros(100_000), torch.zeros(3, device=GPU)
    ffdl.load_checkpoint(options, [on_cpu, there])
    assert torch.equal(on_cpu, a.cpu()) and there.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_update_is_the_optimizers(dtype):
    generator = torch.Generator(GPU).manual_seed(1)
    weights = torch.rand(1001, device=GPU, generator=generator)
    plain = weights.clone().requires_grad_()
    optimizer = torch.optim.Adam([plain], lr=0.01)
    state = [torch.zeros_like(weights) for _ in range(2)]
    for number in range(1, 5):
        gradient = torch.rand(1001, device=GPU, generator=generator).to(dtype)
        plain.grad = gradient.float()
        optimizer.step()
        ffdl.update_on_device(
            ffdl.UpdateRuleOptions("adam"), number=number, learning_rate=0.01, gradient=gradient,
            weights=weights, state=state)
    torch.testing.assert_close(weights, plain.detach(), rtol=1e-5, atol=1e-6)


# --- elastic trainings ---


def train_on(device, streams=contextlib.nullcontext, **options):
    """The state of a model after training there; each step is computed within `streams`.

    With `scaled` a GradScaler comes to other scales on the way.
    """
    if "micro_batch_samples" in options:
        options["ledger"] = make_ledger(micro_batch_samples=options["micro_batch_samples"])
    scaler = torch.amp.GradScaler(
        device.type, init_scale=2.0**100, growth_interval=3, enabled=options.pop("scaled", False))
    # Behind a bias BatchNorm leaves that bias a gradient of rounding alone, which Adam makes large.
    norm = torch.nn.LayerNorm if options.get("optimizer") == "adamw" else torch.nn.BatchNorm1d
    model = make_model(norm(8)).to(device)
    trainer = open_trainer(model, grad_scaler=scaler, **options)
    x, y = (one.to(device) for one in make_data())
    for batch in trainer.batches():
        with streams():
            scaler.scale(loss_of(model(x[batch]), y[batch])).backward()
            trainer.step()
    torch.cuda.synchronize()
    return {name: value.cpu() for name, value in state_of(model).items()}


@pytest.mark.parametrize("streams", [contextlib.nullcontext, busy_stream])
@pytest.mark.parametrize(
    "options",
    [{"overlap": True}, {"overlap": False, "clip_norm": 0.5}, {"micro_batch_samples": 4},
     {"scaled": True}, {"scaled": True, "micro_batch_samples": 4},
     {"noise_interval": 2}, {"optimizer": "adamw", "bucket_bytes": 1 << 20}])
def test_a_model_trains_there_as_on_the_cpu(options, streams, backend):
    try:
        there = train_on(GPU, streams, backend=backend, **options)
    except ffdl.Unimplemented as error:
        pytest.skip(str(error))
    here = train_on(torch.device("cpu"), **options)
    for name in here:
        torch.testing.assert_close(there[name], here[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loaders_batches_lie_in_pinned_memory(workers):
    with ffdl.data.ElasticLoader(
            torch.utils.data.TensorDataset(*make_data()), batch_samples=12, num_workers=workers,
            pin_memory=True) as loader:
        batches = run(loader)
    assert batches and all(x.is_pinned() and y.is_pinned() for x, y in batches)


def test_a_model_on_both_sides_is_refused():
    model = make_model()
    model[0].to(GPU)
    with pytest.raises(ffdl.InvalidArgument, match="move the whole model to one device"):
        open_trainer(model)


def test_dropout_is_that_of_the_step():
    def losses():
        model = make_model(torch.nn.Dropout(0.5)).to(GPU)
        trainer = open_trainer(model, backend=ffdl.Backend.DEVICE_SHM)
        x, y = (one.to(GPU) for one in make_data())
        told = []
        for batch in trainer.batches():
            loss = loss_of(model(x[batch]), y[batch])
            loss.backward()
            told.append(loss.item())
            trainer.step()
        return told

    first = losses()
    torch.rand(7, device=GPU)
    assert losses() == first


def test_checkpoints_of_a_training_there_load_here(tmp_path):
    model = make_model().to(GPU)
    trainer = open_trainer(
        model, backend=ffdl.Backend.DEVICE_SHM,
        checkpoints=ffdl.CheckpointOptions(tmp_path, every_steps=10))  # finish() waits for it
    x, y = (one.to(GPU) for one in make_data())
    for batch in trainer.batches():
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
    other = make_model()
    resumed = open_trainer(
        other, checkpoints=ffdl.CheckpointOptions(tmp_path, resume=True), id="b")
    assert resumed.session.step == 10
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one.cpu(), two)


# --- the parameter server ---


def rule_on_gpu(name, rule, **options):
    plain, model = servers.make_model().to(GPU), servers.make_model().to(GPU)
    optimizer = servers.OPTIMIZERS[rule](plain.parameters())
    opt = ffdl.torch.ParameterServerOptimizer(
        servers.OPTIMIZERS[rule](model.parameters()), name, **options)
    return plain, optimizer, model, opt


def backward(model, step):
    generator = torch.Generator().manual_seed(step)
    x = torch.rand(8, 64, generator=generator).to(GPU)
    torch.nn.functional.cross_entropy(model(x), torch.arange(8, device=GPU)).backward()


@pytest.mark.parametrize("streams", [contextlib.nullcontext, busy_stream])
@pytest.mark.parametrize("rule", ["momentum", "adam"])
def test_a_rule_is_the_optimizer(rule, streams, name):
    plain, optimizer, model, opt = rule_on_gpu(name, rule, **servers.BULK)
    for step in range(6):
        with streams():
            for one, target in ((optimizer, plain), (opt, model)):
                one.zero_grad()
                backward(target, step)
                one.step()
            torch.testing.assert_close(weights_of(model), weights_of(plain), rtol=1e-4, atol=1e-5)
    opt.close()


def test_gradients_leave_beside_the_next_mini_batch(name):
    _, _, model, opt = rule_on_gpu(name, "sgd")
    begin = weights_of(model)
    for step in range(20):
        opt.zero_grad()
        backward(model, step)
        opt.step()
    opt.close()
    assert opt.learner.stats().mini_batches == 20
    assert not torch.equal(weights_of(model), begin)


@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT16"])
def test_gradients_of_16_bits(kind, name):
    plain, optimizer, model, opt = rule_on_gpu(
        name, "sgd", gradient_type=kind.lower(), **servers.BULK)
    for step in range(6):
        for one, target in ((optimizer, plain), (opt, model)):
            one.zero_grad()
            backward(target, step)
            one.step()
    torch.testing.assert_close(weights_of(model), weights_of(plain), rtol=1e-2, atol=1e-3)
    opt.close()


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_gradients_of_rows_are_pushed_as_rows(name):
    make_optimizer, dense = servers.ROWS["adagrad"]
    tables = [servers.Tables(True, dense), servers.Tables(True, dense).to(GPU)]
    optimizer = make_optimizer(tables[0].parameters())
    opt = ffdl.torch.ParameterServerOptimizer(
        make_optimizer(tables[1].parameters()), name, rows_max=40, **servers.BULK)
    for step in range(4):
        for one, target in ((optimizer, tables[0]), (opt, tables[1])):
            one.zero_grad()
            with torch.device(next(target.parameters()).device):
                target.loss(step).backward()
            one.step()
        torch.testing.assert_close(
            weights_of(tables[1]).cpu(), weights_of(tables[0]), rtol=1e-4, atol=1e-5)
    opt.close()


# --- processes, which take longest to begin ---


@pytest.mark.parametrize("backend", ["NCCL", "DEVICE_SHM"])
def test_workers_on_one_gpu_come_leave_and_are_killed(backend, tmp_path, monkeypatch):
    if backend == "NCCL":
        if gpt2_stops.nccl_version() < gpt2_stops.NCCL_THAT_SHARES:
            pytest.skip("this NCCL lets no two ranks share a GPU")
        for name, value in gpt2_stops.SHARING.items():
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("FFDL_TEST_DEVICE", "cuda:0")
    monkeypatch.setenv("FFDL_TEST_BACKEND", backend)
    assert len(churn(tmp_path, WORKER)) == 5
