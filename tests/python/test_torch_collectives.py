"""The back end ffdl of torch.distributed: every collective, as gloo has it."""

import copy
import datetime

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from torch.distributed.distributed_c10d import AllgatherOptions  # noqa: E402

import ffdl  # noqa: E402

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
OPS = [dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT]


def given_by(rank, shape, dtype=torch.float32, salt=0):
    """Small numbers: their sums, means and products over 2 ranks or 3 are exact in every dtype."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 5 + rank + salt) % 4 + 1).reshape(shape).to(dtype)


def reduced(inputs, op):
    stacked = torch.stack([one.to(torch.float64) for one in inputs])
    found = {
        dist.ReduceOp.SUM: lambda: stacked.sum(0),
        dist.ReduceOp.AVG: lambda: stacked.mean(0),  # the conversion to integers truncates
        dist.ReduceOp.MIN: lambda: stacked.amin(0),
        dist.ReduceOp.MAX: lambda: stacked.amax(0),
        dist.ReduceOp.PRODUCT: lambda: stacked.prod(0),
    }[op]()
    return found.to(inputs[0].dtype)


def same(tensor, expected):
    torch.testing.assert_close(tensor, expected, rtol=0, atol=0)


# --- reductions ---


def reduce_everything(rank):
    ranks = dist.get_world_size()
    for dtype in [*FLOATS, *INTEGERS]:
        inputs = [given_by(one, (ranks * 5, 3), dtype) for one in range(ranks)]
        for op in [*OPS, dist.ReduceOp.AVG]:
            expected = reduced(inputs, op)
            tensor = inputs[rank].clone()
            dist.all_reduce(tensor, op)
            same(tensor, expected)
            tensor = inputs[rank].clone()
            dist.reduce(tensor, dst=1, op=op)
            same(tensor, expected if rank == 1 else inputs[rank])
            blocks = list(expected.chunk(ranks))
            out = torch.zeros(5, 3, dtype=dtype)
            dist.reduce_scatter(out, list(inputs[rank].chunk(ranks)), op)
            same(out, blocks[rank])
            out.zero_()
            dist.reduce_scatter_tensor(out, inputs[rank], op)
            same(out, blocks[rank])


@pytest.mark.parametrize("ranks", [2, 3])
def test_reductions(ranks, torch_processes):
    torch_processes.run(ranks, reduce_everything)


def reduce_booleans_and_complex_numbers(rank):
    mine = torch.tensor([True, True, False, False]) if rank == 0 else torch.tensor([1, 0, 1, 0]) > 0
    for op, expected in [
        (dist.ReduceOp.SUM, [True, True, True, False]),
        (dist.ReduceOp.MAX, [True, True, True, False]),
        (dist.ReduceOp.PRODUCT, [True, False, False, False]),
        (dist.ReduceOp.MIN, [True, False, False, False]),
    ]:
        tensor = mine.clone()
        dist.all_reduce(tensor, op)
        same(tensor.view(torch.int8), torch.tensor(expected).view(torch.int8))
    tensor = torch.tensor([1 + 2j, 3j])
    dist.all_reduce(tensor)
    same(tensor, torch.tensor([2 + 4j, 6j]))
    large = torch.tensor([200, 250] if rank == 0 else [100, 3], dtype=torch.uint8)
    dist.all_reduce(large, dist.ReduceOp.MAX)
    same(large, torch.tensor([200, 250], dtype=torch.uint8))


def test_booleans_and_complex_numbers(torch_processes):
    torch_processes.run(2, reduce_booleans_and_complex_numbers)


def average_integers(rank):
    for dtype in [torch.int8, torch.int16, torch.int32, torch.int64]:
        tensor = torch.tensor([-7, -1, 7, 1, 0] if rank == 0 else [0] * 5, dtype=dtype)[::2].clone()
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, torch.tensor([-3, 3, 0], dtype=dtype))  # towards zero
    for dtype in [torch.uint8, torch.uint16, torch.uint32, torch.uint64]:
        high = torch.iinfo(torch.int8 if dtype == torch.uint8 else torch.int16).max
        tensor = torch.tensor([2 * high, 1, 1] if rank == 0 else [0, 0, 1]).to(dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        assert tensor.tolist() == [high, 0, 1]
    strided = torch.tensor([[4, 0], [7, 0]])[:, 0] * (1 - rank)
    columns = torch.zeros(2, 2, dtype=torch.int64)
    columns[:, 0] = strided
    dist.all_reduce(columns[:, 0], dist.ReduceOp.AVG)
    assert columns.tolist() == [[2, 0], [3, 0]]
    large = torch.tensor([2**62 + 1])
    dist.all_reduce(large, dist.ReduceOp.AVG)  # 2**63 + 2 wraps around before the division
    assert large.item() == -(2**62) + 1
    three = torch.tensor(3 - rank)
    with torch.inference_mode():
        dist.all_reduce(made := torch.tensor(3 - rank), dist.ReduceOp.AVG)
    dist.all_reduce(three, dist.ReduceOp.AVG)
    assert three == 2 and made == 2


def test_an_average_of_integers_is_cut_off(torch_processes):
    torch_processes.run(2, average_integers)


def sum_sparse_gradients(rank):
    ranks = dist.get_world_size()

    def given(one, dtype=torch.float32):
        rows = torch.tensor([[one, 5, 5]]) if one != 1 else torch.zeros(1, 0, dtype=torch.int64)
        values = torch.arange(1, 1 + 2 * rows.shape[1]).reshape(-1, 2).to(dtype)
        return torch.sparse_coo_tensor(rows, values, (9, 2))  # not coalesced, and empty at rank 1

    for dtype in [torch.float32, torch.float64, torch.bfloat16, torch.int64]:
        for op in [dist.ReduceOp.SUM, dist.ReduceOp.AVG]:
            tensor = given(rank, dtype)
            dist.all_reduce(tensor, op)
            dense = torch.stack([given(one, dtype).to_dense().double() for one in range(ranks)])
            expected = dense.sum(0) if op == dist.ReduceOp.SUM else dense.mean(0)
            same(tensor.to_dense(), expected.to(dtype))
    with pytest.raises(dist.DistBackendError, match="another rank has another shape"):
        dist.all_reduce(torch.sparse_coo_tensor(torch.zeros(1, 0), torch.zeros(0), (9 + rank,)))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(20, 4, sparse=True), torch.nn.Linear(4, 1))
    alone = copy.deepcopy(model)
    words = [torch.tensor([one, one + 1, 3]) for one in range(ranks)]
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    parallel(words[rank]).mean().backward()
    (sum(alone(one).mean() for one in words) / ranks).backward()
    for mine, whole in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.to_dense(), whole.grad.to_dense())


@pytest.mark.parametrize("ranks", [2, 3])
def test_sparse_sums(ranks, torch_processes):
    torch_processes.run(ranks, sum_sparse_gradients)


# --- moves ---


def move_everything(rank):
    ranks = dist.get_world_size()
    for dtype in [*FLOATS, *INTEGERS, torch.bool, torch.complex64]:
        inputs = [given_by(one, (ranks * 2, 3), dtype) for one in range(ranks)]
        blocks = [list(one.chunk(ranks)) for one in inputs]
        tensor = inputs[rank].clone()
        dist.broadcast(tensor, src=ranks - 1)
        same(tensor, inputs[-1])
        outputs = [torch.zeros_like(tensor) for _ in range(ranks)]
        dist.all_gather(outputs, inputs[rank])
        same(torch.stack(outputs), torch.stack(inputs))
        whole = torch.zeros(ranks * ranks * 2, 3, dtype=dtype)
        dist.all_gather_into_tensor(whole, inputs[rank])
        same(whole, torch.cat(inputs))
        outputs = [torch.zeros_like(tensor) for _ in range(ranks)] if rank == 1 else None
        dist.gather(inputs[rank], outputs, dst=1)
        if rank == 1:
            same(torch.stack(outputs), torch.stack(inputs))
        out = torch.zeros(2, 3, dtype=dtype)
        dist.scatter(out, blocks[0] if rank == 0 else None, src=0)
        same(out, blocks[0][rank])
        whole = torch.zeros_like(tensor)
        dist.all_to_all_single(whole, inputs[rank])
        same(whole, torch.cat([one[rank] for one in blocks]))
        outputs = [torch.zeros(2, 3, dtype=dtype) for _ in range(ranks)]
        dist.all_to_all(outputs, blocks[rank])
        same(torch.cat(outputs), whole)
    dist.barrier()


@pytest.mark.parametrize("ranks", [2, 3])
def test_moves(ranks, torch_processes):
    torch_processes.run(ranks, move_everything)


def use_uneven_sizes(rank):
    ranks = dist.get_world_size()
    parts = [given_by(one, (one + 1, 2)) for one in range(ranks)]
    outputs = [torch.zeros(one + 1, 2) for one in range(ranks)]
    dist.all_gather(outputs, parts[rank])
    same(torch.cat(outputs), torch.cat(parts))
    out = torch.zeros(rank + 1, 2)
    dist.reduce_scatter(out, [part.clone() for part in parts])
    same(out, ranks * parts[rank])
    # Rank r sends r + s rows to rank s: none from 0 to 0.
    sent = [given_by(rank, (rank + to, 2), salt=to) for to in range(ranks)]
    expected = [given_by(one, (one + rank, 2), salt=rank) for one in range(ranks)]
    outputs = [torch.zeros_like(one) for one in expected]
    dist.all_to_all(outputs, sent)
    same(torch.cat(outputs), torch.cat(expected))
    whole = torch.zeros(sum(len(one) for one in expected), 2)
    dist.all_to_all_single(
        whole, torch.cat(sent), [len(one) for one in expected], [len(one) for one in sent]
    )
    same(whole, torch.cat(expected))
    with pytest.raises(ffdl.InvalidArgument, match="add up to all rows"):
        dist.all_to_all_single(whole, torch.cat(sent), [99] * ranks, [99] * ranks)


@pytest.mark.parametrize("ranks", [2, 3])
def test_uneven_sizes(ranks, torch_processes):
    torch_processes.run(ranks, use_uneven_sizes)


def use_what_is_not_contiguous(rank):
    ranks = dist.get_world_size()
    tensor = given_by(rank, (4, 6)).t()
    dist.all_reduce(tensor)
    same(tensor, reduced([given_by(one, (4, 6)).t() for one in range(ranks)], dist.ReduceOp.SUM))
    tensor = torch.zeros(4, 6)
    dist.broadcast(tensor[:, ::2], src=0)
    tensor[:, ::2] += rank
    dist.broadcast(tensor[:, ::2], src=1)
    same(tensor, torch.tensor([1.0, 0.0] * 3).expand(4, 6))
    outputs = torch.zeros(3, 2 * ranks)
    dist.all_gather(list(outputs.split(2, 1)), given_by(rank, (2, 3)).t())
    same(outputs, torch.cat([given_by(one, (2, 3)).t() for one in range(ranks)], 1))
    single = torch.tensor(1.0 + rank, requires_grad=True)
    dist.all_reduce(single.data)
    assert single.item() == sum(range(1, ranks + 1))
    empty = torch.zeros(0)
    dist.all_reduce(empty)


def test_what_is_not_contiguous(torch_processes):
    torch_processes.run(2, use_what_is_not_contiguous)


def use_parameters_and_inference(rank):
    """Of either nothing is seen in what comes, whichever thread does the operation."""
    ranks = dist.get_world_size()
    for waits in (True, False):
        own = torch.full((rank + 1, 2), float(rank), requires_grad=True)
        gathered = [torch.zeros(one + 1, 2) for one in range(ranks)]
        blocks = [torch.full((2,), float(rank), requires_grad=True) for _ in range(ranks)]
        exchanged = [torch.zeros(2) for _ in range(ranks)]
        for work in (dist.all_gather(gathered, own, async_op=not waits),
                     dist.all_to_all(exchanged, blocks, async_op=not waits)):
            if work is not None:
                work.wait()
        for one, tensor in enumerate(gathered):
            same(tensor, torch.full((one + 1, 2), float(one)))
        same(torch.stack(exchanged)[:, 0], torch.arange(float(ranks)))
        assert not any(tensor.requires_grad for tensor in (*gathered, *exchanged))
        parameter = torch.nn.Parameter(torch.full((3, 2), float(rank)))
        with torch.inference_mode():
            apart = torch.full((2, 3), float(rank)).t()
            for tensor in (parameter, apart):
                work = dist.all_reduce(tensor, async_op=not waits)
                if work is not None:
                    work.wait()
                assert (tensor == sum(range(ranks))).all()
        assert apart.is_inference() and parameter.requires_grad and parameter.is_leaf


def test_parameters_and_tensors_of_inference(torch_processes):
    torch_processes.run(2, use_parameters_and_inference)


def gather_into_own_place(rank):
    """As FSDP does: the input is a part of the output, and the other way round."""
    ranks, count = dist.get_world_size(), 300_000
    whole = torch.zeros(ranks, count)
    whole[rank] = rank + 1
    dist.all_gather_into_tensor(whole, whole[rank])
    same(whole, torch.arange(1.0, ranks + 1).unsqueeze(1).expand(ranks, count))
    dist.reduce_scatter_tensor(whole[rank], whole)
    same(whole[rank], torch.full((count,), ranks * (rank + 1.0)))
    whole = torch.arange(1.0 * ranks * count) + rank
    expected = ranks * torch.arange(1.0 * ranks * count) + sum(range(ranks))
    dist.reduce_scatter_tensor(whole[:count], whole)  # the first block's place, at each rank
    same(whole[:count], expected.chunk(ranks)[rank])
    whole = torch.full((ranks * count,), 1.0 * rank)
    dist.all_gather_into_tensor(whole, whole[:count])
    same(whole, torch.arange(1.0 * ranks).repeat_interleave(count))
    parts = [torch.full((3,), float(rank)) for _ in range(ranks)]
    dist.all_gather(parts, parts[rank])
    same(torch.stack(parts)[:, 0], torch.arange(float(ranks)))


@pytest.mark.parametrize("ranks", [2, 3])
def test_inputs_that_are_part_of_outputs(ranks, torch_processes):
    torch_processes.run(ranks, gather_into_own_place)


# --- coalesced, functional, objects, sub-groups ---


def use_coalesced(rank):
    ranks = dist.get_world_size()
    tensors = [given_by(rank, (3,)), given_by(rank, (2,), torch.int64), given_by(rank, (4,))]
    expected = [
        reduced([given_by(one, t.shape, t.dtype) for one in range(ranks)], dist.ReduceOp.SUM)
        for t in tensors
    ]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in (tensors[0], tensors[2]):
            dist.all_reduce(tensor)
    manager.wait()
    group = dist.group.WORLD
    options = dist.AllreduceCoalescedOptions()
    group.allreduce_coalesced([tensors[1]], options).wait()
    for tensor, right in zip(tensors, expected, strict=True):
        same(tensor, right)
    inputs = [given_by(rank, (2,)), given_by(rank, (3,), torch.int32)]
    outputs = [torch.zeros(ranks * len(one), dtype=one.dtype) for one in inputs]
    group.all_gather_single_coalesced(outputs, inputs, AllgatherOptions()).wait()
    for one, out in zip(inputs, outputs, strict=True):
        same(out, torch.cat([given_by(r, one.shape, one.dtype) for r in range(ranks)]))
    lists = [[torch.zeros_like(one) for one in inputs] for _ in range(ranks)]
    group.allgather_coalesced(lists, inputs, AllgatherOptions()).wait()
    for r in range(ranks):
        for one, out in zip(inputs, lists[r], strict=True):
            same(out, given_by(r, one.shape, one.dtype))
    halves = [torch.zeros(2), torch.zeros(1, dtype=torch.int32)]
    whole = [torch.ones(2 * ranks), torch.ones(ranks, dtype=torch.int32)]
    group.reduce_scatter_single_coalesced(halves, whole, dist.ReduceScatterOptions()).wait()
    same(halves[0], torch.full((2,), float(ranks)))
    same(halves[1], torch.full((1,), ranks, dtype=torch.int32))


def test_coalesced(torch_processes):
    torch_processes.run(2, use_coalesced)


def use_functional_collectives(rank):
    import torch.distributed._functional_collectives as functional

    ranks = dist.get_world_size()
    given = given_by(rank, (ranks * 2,))
    inputs = [given_by(one, (ranks * 2,)) for one in range(ranks)]
    group = dist.group.WORLD
    same(functional.all_reduce(given, "sum", group) + 0, torch.stack(inputs).sum(0))
    same(functional.all_gather_tensor(given, 0, group) + 0, torch.cat(inputs))
    scattered = functional.reduce_scatter_tensor(given, "avg", 0, group)
    same(scattered + 0, torch.stack(inputs).mean(0).chunk(ranks)[rank])
    same(functional.broadcast(given, 1, group) + 0, inputs[1])
    exchanged = functional.all_to_all_single(given, [2] * ranks, [2] * ranks, group)
    same(exchanged + 0, torch.cat([one.chunk(ranks)[rank] for one in inputs]))


def test_functional_collectives(torch_processes):
    torch_processes.run(2, use_functional_collectives)


def use_objects(rank):
    ranks = dist.get_world_size()
    gathered = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * (rank * 1000)})
    assert [(one["rank"], len(one["text"])) for one in gathered] == [
        (r, 1000 * r) for r in range(ranks)
    ]
    objects = ["of 0", 0] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, src=0)
    assert objects == ["of 0", 0]
    gathered = [None] * ranks if rank == 1 else None
    dist.gather_object((rank,), gathered, dst=1)
    assert gathered == ([(r,) for r in range(ranks)] if rank == 1 else None)
    own = [None]
    dist.scatter_object_list(own, [f"for {r}" for r in range(ranks)] if rank == 0 else None, src=0)
    assert own == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list(["one", 2], dst=1)
    if rank == 1:
        received = [None, None]
        dist.recv_object_list(received, src=0)
        assert received == ["one", 2]


@pytest.mark.parametrize("ranks", [2, 3])
def test_objects(ranks, torch_processes):
    torch_processes.run(ranks, use_objects)


def use_sub_groups(rank):
    pair = dist.new_group([0, 2])
    alone = dist.new_group([1], timeout=datetime.timedelta(seconds=30))
    tensor = torch.full((10,), rank + 1.0)
    if rank == 1:
        assert pair is dist.GroupMember.NON_GROUP_MEMBER
        dist.all_reduce(tensor, group=alone)
        same(tensor, torch.full((10,), 2.0))
    else:
        assert dist.get_process_group_ranks(pair) == [0, 2]
        dist.all_reduce(tensor, group=pair)
        same(tensor, torch.full((10,), 4.0))
        dist.broadcast(tensor.fill_(rank), src=2, group=pair)
        same(tensor, torch.full((10,), 2.0))
    if rank != 1:
        dist.destroy_process_group(pair)
        for call in (pair.barrier, lambda: pair.send([tensor], 1 - rank // 2, 0)):
            with pytest.raises(ffdl.Cancelled, match="was destroyed"):
                call()
    tensor.fill_(1.0)
    dist.all_reduce(tensor)
    same(tensor, torch.full((10,), 3.0))
    assert dist.get_backend() == "ffdl" and dist.group.WORLD.name() == "ffdl"


def test_sub_groups(torch_processes):
    torch_processes.run(3, use_sub_groups)
