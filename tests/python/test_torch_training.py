"""Programs for torch.distributed that run unchanged over the back end ffdl, with gloo's results."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as checkpoint  # noqa: E402
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset  # noqa: E402

import ffdl  # noqa: E402
import ffdl.torch  # noqa: E402


def new_model(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(20, 300),
        torch.nn.BatchNorm1d(300),
        torch.nn.ReLU(),
        torch.nn.Linear(300, 10),
    )


def data():
    random = torch.Generator().manual_seed(5)
    return TensorDataset(
        torch.randn(120, 20, generator=random), torch.randint(10, (120,), generator=random)
    )


def steps(model, optimizer, epochs=2):
    sampler = DistributedSampler(data(), seed=3)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in DataLoader(data(), batch_size=10, sampler=sampler):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def assert_alike(results, expected):
    """Sums of three are taken along another tree than gloo's, and means are divided later."""
    for result in results:
        assert torch.equal(result, results[0])
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def train_ddp(rank, hook, options):
    torch.set_num_threads(1)
    model = DistributedDataParallel(new_model(seed=rank), bucket_cap_mb=0.01, **options)
    if hook:
        model.register_comm_hook(None, ffdl.torch.ddp_hook)
    steps(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    return weights(model)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ddp(ranks, torch_processes):
    (expected, *_) = torch_processes.run(ranks, train_ddp, False, {}, backend="gloo")
    assert_alike(torch_processes.run(ranks, train_ddp, False, {}), expected)
    for hook, views in [(False, True), (True, True), (True, False)]:
        options = {"gradient_as_bucket_view": views}
        assert_alike(torch_processes.run(ranks, train_ddp, hook, options), expected)


def hold_shared_buckets(rank):
    """Whether the gradients lie in shared memory, also after DDP made its buckets anew."""
    model = DistributedDataParallel(
        new_model(), bucket_cap_mb=0.01, gradient_as_bucket_view=True, find_unused_parameters=False
    )
    model.register_comm_hook(None, ffdl.torch.ddp_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    places = []
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(4, 20)).sum().backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        places.append([gradient.untyped_storage().data_ptr() for gradient in gradients])
    with open("/proc/self/maps") as maps:
        shared = [line.split() for line in maps if "ffdl" in line]
    ranges = [tuple(int(end, 16) for end in line[0].split("-")) for line in shared]
    inside = [any(begin <= place < end for begin, end in ranges) for place in places[-1]]
    return places[-1] == places[-2], all(inside), len(set(places[-1]))


def test_buckets_move_into_shared_memory_once(torch_processes):
    for stay, inside, buckets in torch_processes.run(2, hold_shared_buckets):
        assert stay and inside and buckets > 1


def accumulate(rank, hook):
    """no_sync(), then a backward over the same buckets."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(5, 5), gradient_as_bucket_view=True)
    if hook:
        model.register_comm_hook(None, ffdl.torch.ddp_hook)
    inputs = torch.arange(10.0).reshape(2, 5) + rank
    results = []
    for _ in range(3):
        with model.no_sync():
            model(inputs).sum().backward()
        model(inputs).pow(2).sum().backward()
        results.append(torch.cat([p.grad.flatten().clone() for p in model.parameters()]))
        model.zero_grad(set_to_none=False)
    return torch.stack(results)


def test_accumulated_gradients(torch_processes):
    (expected, *_) = torch_processes.run(2, accumulate, False, backend="gloo")
    for hook in (False, True):
        assert_alike(torch_processes.run(2, accumulate, hook), expected)


def train_on_uneven_inputs(rank):
    """Rank 1 has fewer batches; DDP's join() lets it shadow the others' operations."""
    model = DistributedDataParallel(new_model(), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with model.join():
        for batch in range(3 - rank):
            optimizer.zero_grad()
            inputs, labels = data()[10 * batch : 10 * batch + 10]
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return weights(model)


def train_with_a_divided_optimizer(rank):
    from torch.distributed.optim import ZeroRedundancyOptimizer  # warns where it is imported

    model = DistributedDataParallel(new_model(), bucket_cap_mb=0.01)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    steps(model, optimizer, epochs=1)
    optimizer.consolidate_state_dict(to=0)
    assert rank != 0 or len(optimizer.state_dict()["state"]) == 6
    return weights(model)


@pytest.mark.parametrize("train", [train_on_uneven_inputs, train_with_a_divided_optimizer])
def test_other_ways_to_use_ddp(train, torch_processes):
    (expected, *_) = torch_processes.run(2, train, backend="gloo")
    assert_alike(torch_processes.run(2, train), expected)


def hook_over_gloo(rank):
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    model.register_comm_hook(None, ffdl.torch.ddp_hook)
    with pytest.raises(ffdl.InvalidArgument, match="not of back end 'ffdl'"):
        model(torch.ones(1, 2)).sum().backward()


def test_the_hook_is_for_this_back_end_only(torch_processes):
    torch_processes.run(2, hook_over_gloo, backend="gloo")


WITH_FSDP_ON_THE_CPU = pytest.mark.skipif(
    torch.__version__ < (2, 7), reason="FSDP2 on the CPU fails in PyTorch before 2.7 by itself")


def train_fsdp(rank):
    torch.set_num_threads(1)
    model = new_model()
    for layer in (model[0], model[3]):
        fully_shard(layer)
    fully_shard(model)
    steps(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), epochs=1)
    return torch.cat([p.full_tensor().detach().flatten() for p in model.parameters()])


@WITH_FSDP_ON_THE_CPU
@pytest.mark.parametrize("ranks", [2, 3])
def test_fsdp(ranks, torch_processes):
    (expected, *_) = torch_processes.run(ranks, train_fsdp, backend="gloo")
    assert_alike(torch_processes.run(ranks, train_fsdp), expected)


def new_training(seed):
    model = new_model(seed)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def save_and_load(rank, folder, beside):
    """Model and optimizer, and then the same steps from what was saved and from what was loaded."""
    model, optimizer = new_training(1)
    steps(model, optimizer, epochs=1)
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    if beside:
        checkpoint.async_save(state, checkpoint_id=folder).result()
    else:
        checkpoint.save(state, checkpoint_id=folder)
    other, other_optimizer = new_training(9)
    of_model, of_optimizer = get_state_dict(other, other_optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(
        other, other_optimizer, model_state_dict=state["model"],
        optim_state_dict=state["optimizer"])
    for one in ((model, optimizer), (other, other_optimizer)):
        steps(*one, epochs=1)
    both = zip(model.parameters(), other.parameters(), strict=True)
    return all(torch.equal(one.full_tensor(), two.full_tensor()) for one, two in both)


@WITH_FSDP_ON_THE_CPU
@pytest.mark.parametrize("beside", [False, True])
def test_distributed_checkpoint(beside, torch_processes, tmp_path):
    folder = str(tmp_path / "saved")
    assert torch_processes.run(2, save_and_load, folder, beside) == [True, True]


def sum_over_a_mesh(rank):
    mesh = dist.init_device_mesh("cpu", (2,), mesh_dim_names=("data",))
    tensor = torch.full((4,), rank + 1.0)
    dist.all_reduce(tensor, group=mesh.get_group("data"))
    return tensor


def test_a_device_mesh(torch_processes):
    for tensor in torch_processes.run(2, sum_over_a_mesh):
        assert torch.equal(tensor, torch.full((4,), 3.0))
