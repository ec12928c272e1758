"""Gradients of PyTorch models that are averaged during backward."""

import copy
import gc
import io
import os
import weakref

import pytest
from ranks import on_threads

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from test_torch_elastic import (  # noqa: E402
    expect_equal,
    loss_of,
    make_data,
    make_ledger,
    make_model,
    open_trainer,
    state_of,
    train,
)

from ffdl.torch.training.common_state import Averaged  # noqa: E402
from ffdl.torch.training.overlap import is_worth_it  # noqa: E402


def train_two(make_loss, middle=(), **options):
    """The model after training by two workers; make_loss(trainer, model, x, y) runs backward."""
    store = ffdl.open_store("mem://")

    def worker(number):
        model = make_model(*(make() for make in middle))
        trainer = open_trainer(
            model, store=store, id=f"m{number}", min_workers=2, **options)
        x, y = make_data()
        for batch in trainer.batches():
            make_loss(trainer, model, x[batch], y[batch])
            trainer.step()
        return state_of(model)

    first, second = on_threads(range(2), worker)
    expect_equal(first, second)
    return first


def plain_loss(trainer, model, x, y):
    loss_of(model(x), y).backward()


def in_two_halves(trainer, model, x, y):
    half = len(x) // 2
    with trainer.no_sync():
        (loss_of(model(x[:half]), y[:half]) * half / len(x)).backward()
    (loss_of(model(x[half:]), y[half:]) * (len(x) - half) / len(x)).backward()


def without_the_last_layer(trainer, model, x, y):
    """In every other step, by which its gradients come first in some and not at all in others."""
    predicted = model(x) if trainer.session.step % 2 == 0 else model[0](x).sum(dim=1, keepdim=True)
    loss_of(predicted, y).backward()


def with_the_gradients_of_gradients(trainer, model, x, y):
    """Backward then makes new tensors, and adds nothing to those that lie in their places."""
    loss = loss_of(model(x), y)
    norm = sum(g.square().sum() for g in torch.autograd.grad(loss, [*model.parameters()],
                                                             create_graph=True))
    (loss + 0.01 * norm).backward(create_graph=True)


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize(
    "make_loss",
    [plain_loss, in_two_halves, without_the_last_layer, with_the_gradients_of_gradients],
)
def test_the_same_bits_as_after_backward(make_loss):
    late = train_two(make_loss, overlap=False)
    expect_equal(late, train_two(make_loss))
    expect_equal(late, train_two(make_loss, bucket_bytes=100))  # two parameters or three
    expect_equal(late, train_two(make_loss, bucket_bytes=0))
    expect_equal(late, train_two(make_loss, overlap=None))


def test_buffers_come_with_the_last_bucket():
    middle = [lambda: torch.nn.BatchNorm1d(8)]
    expect_equal(train_two(plain_loss, middle, overlap=False), train_two(plain_loss, middle))


def test_some_are_averaged_before_the_step_ends():
    model = make_model()
    trainer = open_trainer(model, ledger=make_ledger(epochs=0))
    x, y = make_data()
    for batch in trainer.batches():
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
        if trainer.session.stats.early_buckets > 0:
            break
    trainer.session.finish()


def test_a_second_backward_is_refused():
    model = make_model()
    trainer = open_trainer(model)
    x, y = make_data()
    batch = next(iter(trainer.batches()))
    loss_of(model(x[batch]), y[batch]).backward()
    with pytest.raises(ffdl.InvalidArgument, match=r"within trainer.no_sync\(\)"):
        loss_of(model(x[batch]), y[batch]).backward()
    with pytest.raises(ffdl.InvalidArgument, match=r"within trainer.no_sync\(\)"):
        trainer.step()


@pytest.mark.parametrize(
    ("workers", "of_this_host", "processors", "threads", "expected"),
    [(2, 2, 2, 1, False), (2, 2, 4, 1, True), (2, 2, 4, 2, False), (2, 2, 5, 2, True),
     (4, 2, 2, 1, True), (1, 1, 8, 1, False)],
)
def test_where_it_is_worth_it(workers, of_this_host, processors, threads, expected):
    assert is_worth_it(workers, of_this_host, processors, threads) == expected


def clip(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)


@pytest.mark.parametrize("change", [clip, lambda model: model.zero_grad(set_to_none=True)])
def test_gradients_that_are_changed_after_backward_are_refused(change):
    for overlap in (False, None, True):
        model = make_model()
        trainer = open_trainer(model, overlap=overlap)
        x, y = make_data()
        batch = next(iter(trainer.batches()))
        loss_of(model(x[batch]), y[batch]).backward()
        change(model)
        if overlap is False:
            trainer.step()
            continue
        with pytest.raises(ffdl.InvalidArgument, match="changed after backward"):
            trainer.step()


def test_the_model_is_copied_and_saved_without_the_trainer():
    model = make_model()
    train(open_trainer(model), model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        expect_equal(state_of(model), state_of(other))
        loss_of(other(make_data()[0]), make_data()[1]).backward()
    again = open_trainer(model, id="b")
    train(again, model)
    assert again.session.step > 0


def within(one, array):
    return array.data_ptr() <= one.data_ptr() < array.data_ptr() + array.nbytes


@pytest.mark.parametrize(("bucket_bytes", "buckets"), [(0, 2), (1, 4), (20, 4), (25, 3), (1 << 20, 3)])
def test_what_is_averaged_together_is_the_whole_of_one_memory(bucket_bytes, buckets):
    given = [torch.zeros(3, 2), torch.zeros(5), torch.zeros(4, dtype=torch.float64), torch.zeros(1)]
    averaged = Averaged(given, bucket_bytes, torch.device("cpu"))
    assert [(one.data_ptr(), one.nbytes) for one in averaged.arrays] == [
        (memory.ctypes.data, memory.nbytes) for memory in averaged.memory]
    assert len(averaged.arrays) == buckets
    rest = averaged.like(given)
    if bucket_bytes == 0:
        rest.sort(key=lambda one: str(one.dtype))
    whole = [averaged.whole_arrays(ready) for ready in range(len(given) + 1)]
    assert whole[0] == 0 and whole[-1] == buckets
    for number, array in enumerate(averaged.arrays):
        assert whole.index(number + 1) == whole.index(number) + len(
            tensors := [one for one in rest if within(one, array)])
        assert torch.cat([one.reshape(-1) for one in tensors]).shape == array.shape
    for one, like in zip(given, averaged.like(given), strict=True):
        assert (one.shape, one.dtype) == (like.shape, like.dtype)


def open_segments():
    """The files of this process's memory that ffdl made, as their descriptors name them."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # the one of the list itself
            continue
    return [name for name in names if "ffdl" in name]


def test_a_trainer_that_is_dropped_frees_the_sessions_arrays():
    """The parameters of PyTorch hide their hooks, and what those refer to, from the collector."""
    gc.collect()
    before = len(open_segments())

    def run():  # on another thread: SIGTERM does not refer to the trainer
        model = make_model()
        trainer = open_trainer(model, overlap=True)
        train(trainer, model)
        assert len(open_segments()) > before
        return weakref.ref(trainer), weakref.ref(model)

    (kept,) = on_threads([None], lambda _: run())
    gc.collect()
    assert [one() for one in kept] == [None, None]
    assert len(open_segments()) <= before


def test_a_model_keeps_no_hook_of_a_trainer_that_is_dropped():
    model = make_model()

    def run():
        train(open_trainer(model, overlap=True), model)

    for _ in range(2):
        on_threads([None], lambda _: run())
        gc.collect()
    assert not any(one._post_accumulate_grad_hooks for one in model.parameters())
