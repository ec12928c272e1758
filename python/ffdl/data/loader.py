"""The samples of each step as batches, read ahead by other processes if requested."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from .._ffdl import (
    Learner,
    SampleOrder,
    SampleRange,
    Session,
    Shuffle,
    StepResult,
    Store,
    make_push_ledger,
    make_session_ledger,
    make_store_ledger,
)
from .._options import call_with
from ..errors import InvalidArgument, WorldChanged
from . import forecast, parts
from .ledger_log import logged
from .loading import Loading
from .reading import size_of
from .samplers import SampledOrder
from .workers import WorkerPool

# Arguments of a DataLoader that this loader does not take.
_OF_DATA_LOADER = {
    "batch_size": "use 'batch_samples', the samples of all workers",
    "drop_last": "each sample of an epoch is used, so leave it out",
    "generator": "use 'seed'",
    "persistent_workers": "processes always live as long as the loader, so leave it out",
}


class ElasticLoader:
    """Batches for elastic training, in place of ``DataLoader`` and ``DistributedSampler``.

    ::

        loader = ffdl.data.ElasticLoader(dataset, batch_samples=64, epochs=3, num_workers=2)
        trainer = ffdl.torch.elastic(model, optimizer, loader)
        for images, labels in trainer.batches():
            loss(model(images), labels).backward()
            trainer.step()

    The ledger commits the samples of a step together with the step's gradients. Each sample is used
    once per epoch, whichever worker joins, leaves or dies. No sample is repeated or dropped to give
    all workers equal shares. Without PyTorch pass ``loader.ledger`` to Session.open() and iterate
    over batches().

    dataset: an object with ``__len__`` and ``__getitem__``, and optionally ``__getitems__``, such
    as data sets of PyTorch and Hugging Face. It may also be a NumPy array, a tuple of arrays with
    equal numbers of rows, an ffdl.DataSource of files, or ffdl.data.IterableShards.
    batch_samples: with SampleOrder.GLOBAL (the default): the number of samples in a step, over all
    workers. A step has the same samples for any number of workers. With ON_DEMAND: the number of
    samples that this worker takes at a time. A faster worker may pass a larger number to get more
    samples. The last batch of an epoch may have fewer samples.
    epochs: the number of epochs after which the training ends. None: 1, or no limit if `steps` is
    given.
    steps: the number of the session's steps after which batches() of a trainer or of this loader
    ends the training. Only with a session.
    sampler: an iterable of sample numbers in the order of an epoch. It may be a sampler of PyTorch
    or your own, for example weighted or by length. Every worker creates the same sampler. Once per
    epoch the loader seeds the generators from `seed` and the epoch, calls set_epoch() if it exists,
    and reads all numbers. The ledger commits each position of that order once.
    batch_sampler: a sampler of lists of sample numbers, in place of `sampler`. Each list is a step,
    so each list but the last has batch_samples numbers.
    shuffle, seed, partition_samples, window_partitions, micro_batch_samples, batch_size_controller,
    partitions_wanted, on_stable: options of make_session_ledger(). ON_DEMAND needs
    partition_samples. window_partitions shuffles the samples of that many partitions together.
    Under ``ffdl run --ledger-log FOLDER`` the arguments of on_stable are also logged in FOLDER.
    store, id: for workers without a session. The ledger is in this Store, which the worker joins as
    `id`. loader.ledger.commit() commits each batch. This needs ON_DEMAND.
    job, lineage, from_, lease_s: options of make_store_ledger(). lineage and from_ are for a job
    that continues from a checkpoint.
    learner: for workers of a parameter server. The ledger belongs to this Learner. all_parts()
    returns each batch with its ranges, and a push of these ranges commits the batch. This needs
    ON_DEMAND.
    collate_fn: makes a batch of a list of samples. None: ffdl.data.collate.
    num_workers: the number of processes that load batches. 0: next() loads them. The processes
    start here and end with the loader, so create the loader before the session.
    prefetch_factor: the number of batches that each process loads ahead.
    worker_init_fn: called in each process with the number of the process.
    multiprocessing_context: 'fork', 'spawn' or 'forkserver'.
    pin_memory: tensors are in page-locked memory, if PyTorch has CUDA.

    Before each batch the generators of ``random``, ``numpy.random`` and PyTorch (on the CPU) are
    seeded from `seed` and the batch's first sample. So augmentation does not depend on the process
    that loads the batch. With ``seed_generators=False`` the generators are not seeded. The arrays
    of a batch that a process has loaded are in shared memory. This memory is reused once none of
    the arrays is in use.
    Threads: one thread at a time, the thread of the session. Raises InvalidArgument.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        batch_samples: int,
        epochs: int | None = None,
        steps: int | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Iterable[int]] | None = None,
        shuffle: Shuffle | None = None,
        seed: int = 0,
        order: SampleOrder = SampleOrder.GLOBAL,
        partition_samples: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        prefetch_factor: int = 2,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: str | None = None,
        pin_memory: bool = False,
        seed_generators: bool = True,
        store: Store | None = None,
        learner: Learner | None = None,
        **ledger_options: Any,
    ) -> None:
        if epochs is None:
            epochs = 1 if steps is None else 0
        if steps is not None and (steps < 1 or store is not None or learner is not None):
            raise InvalidArgument(
                f"make a loader: steps is {steps}; give at least 1, and only to workers of a "
                "session"
            )
        if num_workers < 0 or prefetch_factor < 1 or batch_samples < 1 or epochs < 0:
            raise InvalidArgument(
                f"make a loader: num_workers is {num_workers}, prefetch_factor {prefetch_factor}, "
                f"batch_samples {batch_samples}, epochs {epochs}; give at least 0, 1, 1 and 0"
            )
        sampled = sampler if batch_sampler is None else batch_sampler
        if shuffle is None:
            shuffle = Shuffle.SAMPLES if sampled is None else Shuffle.NONE
        if not isinstance(shuffle, Shuffle):
            raise TypeError(
                f"make a loader: shuffle is {shuffle!r}; use ffdl.Shuffle.SAMPLES instead of True, "
                "ffdl.Shuffle.NONE instead of False"
            )
        if order == SampleOrder.ON_DEMAND and partition_samples is None:
            raise InvalidArgument(
                "make a loader: no partition_samples; give the number of samples that a worker "
                "gets at a time, the same at all workers"
            )
        if sampled is not None and (
            shuffle != Shuffle.NONE or (sampler is not None and batch_sampler is not None)
            or (batch_sampler is not None and order != SampleOrder.GLOBAL)
        ):
            raise InvalidArgument(
                "make a loader: a sampler decides on the order of the samples; give either sampler "
                "or batch_sampler, no shuffle, and batch_sampler only with SampleOrder.GLOBAL"
            )
        sampled_order = None
        if sampled is not None:
            sampled_order = SampledOrder(
                sampled, seed, size_of(dataset), None if batch_sampler is None else batch_samples)
            partition_samples = partition_samples or sampled_order.samples
        self._load = Loading(dataset, collate_fn, seed if seed_generators else None, sampled_order,
                             partition_samples or 1)
        samples = self._load.samples
        if sampled_order is not None:
            seed = sampled_order.checksum  # members compare it
        if order == SampleOrder.GLOBAL:
            ledger_options["batch_samples"] = batch_samples
        if order == SampleOrder.GLOBAL and (store is not None or learner is not None):
            raise InvalidArgument(
                f"make a loader over a {'store' if store is not None else 'learner'}: a global "
                "order needs members that step together; use SampleOrder.ON_DEMAND, or a session"
            )
        ledger_options["on_stable"] = logged(
            ledger_options.get("on_stable"), samples=samples, partition_samples=partition_samples,
            epochs=epochs)
        make: Callable[..., Any] = make_session_ledger
        self._over = "session"
        if store is not None:
            self._over = "store"
            make = partial(make_store_ledger, store)
        elif learner is not None:
            self._over = "learner"
            make = partial(make_push_ledger, learner)
        self.ledger: Any = call_with(
            "make a loader", make,
            {"samples": samples, "partition_samples": partition_samples, "epochs": epochs,
             "seed": seed, "shuffle": shuffle, "order": order},
            ledger_options, _OF_DATA_LOADER)
        self._samples = samples
        self._batch_samples = batch_samples
        self._steps = steps
        self._is_global = order == SampleOrder.GLOBAL
        self._skipped = 0
        self._pins = pin_memory
        self._ahead = num_workers * prefetch_factor
        self._pool: WorkerPool | None = None
        if num_workers > 0:
            self._pool = WorkerPool(
                self._load, num_workers, context=multiprocessing_context, init=worker_init_fn)

    @property
    def taken(self) -> int:
        """The number of samples that this step commits for this worker: its weight in the mean."""
        return self.ledger.taken

    @property
    def batch_samples(self) -> int:
        """The `batch_samples` that this loader was created with."""
        return self._batch_samples

    @property
    def steps(self) -> int | None:
        """The number of steps after which the training ends. None: it ends after all epochs."""
        return self._steps

    @property
    def skipped(self) -> int:
        """The number of corrupt samples left out of the batches so far (skip_corrupt=True).

        The steps still commit these samples, and count them in the weight.
        """
        return self._skipped

    @property
    def is_done(self) -> bool:
        """True if all epochs are over."""
        return self.ledger.is_done

    def __len__(self) -> int:
        """The number of steps in an epoch with the present batch size, for SampleOrder.GLOBAL."""
        if not self._is_global:
            raise TypeError("the number of steps in an epoch is unknown with SampleOrder.ON_DEMAND")
        return -(-self._samples // self.ledger.batch_samples)

    def next(self) -> Any:
        """Returns the batch of the present step. None: there is no sample, so call end_step(0).

        If the step must be repeated, call next() again: it returns the samples that are due then.
        Raises the errors of the data set and collate_fn, and PeerLost (a process that loads has
        ended).
        """
        for _, batch in self.next_parts(parts.whole):
            return batch
        return None

    def next_parts(
        self, cut: parts.Cut, samples: int | None = None
    ) -> Iterator[tuple[forecast.Ranges, Any]]:
        """Iterates over the parts of the step's batch, each with the ranges of its samples.

        cut: cuts a step's ranges into parts, as in ffdl.data.parts. Pass the same function in each
        step, because parts are also loaded ahead.
        samples: the number of samples in this step, with ON_DEMAND. None: batch_samples.

        Empty if the step has no samples for this worker. If all samples of a part are corrupt and
        left out, its batch is None. Raises the errors of next().
        """
        if samples is None:
            samples = self._batch_samples
        ranges = self.ledger.take(None if self._is_global else samples)
        step = _tuples(ranges)
        keys = cut(step)
        due = keys
        if self._pool is not None:
            due = [*keys, *(key for one in self._forecast(samples) for key in cut(one))]
            self._pool.keep(set(due))
        for place, key in enumerate(keys):
            if self._pool is not None:
                for soon in due[place : place + self._ahead + 1]:
                    if soon not in self._pool:
                        self._pool.start(soon, self._arguments(soon))
                loaded = self._pool.take(key)
            elif key is step:  # the ledger need not make ranges of them again
                loaded = self._load(self.ledger.sample_indices(ranges), key[0][:2])
            else:
                loaded = self._load(*self._arguments(key))
            self._skipped += loaded.skipped
            yield key, self._pinned(loaded.batch)

    def batches(self, session: Session) -> Iterator[Any]:
        """Iterates over this worker's batches: one for each step in which the worker has samples.

        ::

            for x, y in loader.batches(session):
                compute_gradients(x, y)
                if session.end_step() == ffdl.StepResult.LEFT:
                    break

        In steps without samples it calls end_step(0) itself. If this worker leaves in such a step,
        it ends before ``is_done``. When all epochs or steps are done, it makes the last step stable
        and leaves the job. Raises InvalidArgument if the loop did not call end_step(), and the
        errors of next().
        """
        while True:
            while not self.is_done and (self._steps is None or session.step < self._steps):
                batch = self.next()
                if batch is not None:
                    ended = _steps_ended(session)
                    yield batch
                    if _steps_ended(session) == ended:
                        raise InvalidArgument(
                            f"take the next batch: end_step() was not called for the one of step "
                            f"{session.step + 1}; call session.end_step() after each"
                        )
                elif session.end_step(0) == StepResult.LEFT:  # the samples taken may be corrupt
                    return
            try:
                session.finish()
                return
            except WorldChanged:  # all members returned to a checkpoint, and the ledger with them
                continue

    def all_parts(
        self, cut: parts.Cut = parts.whole, timeout_s: float = 30.0
    ) -> Iterator[tuple[forecast.Ranges, Any]]:
        """Iterates over next_parts(cut), with a store or a learner, until all epochs are done.

        ::

            for ranges, (x, y) in loader.all_parts():
                learner.push(gradient_of(x, y), ranges)

        Commit each part before you take the next part. Waits in ledger.wait() if other workers hold
        the rest of an epoch. Raises Timeout, the errors of ledger.wait(), and those of next().
        """
        while not self.is_done:
            is_given = False
            for part in self.next_parts(cut):
                is_given = True
                yield part
            if not is_given:
                self.ledger.wait(timeout_s)

    def state_dict(self) -> dict[str, Any]:
        """Returns the training's position for a checkpoint. After a step all workers have the same.

        With a store it holds the commits of all workers. No worker may commit while the model's
        part of the checkpoint is taken. Raises InvalidArgument with a learner, because the server
        has the state.
        """
        if self._over == "learner":
            raise InvalidArgument(
                "save a loader over a learner: the parameter server's cut records the samples in "
                "the weights; save that"
            )
        return {"ledger": self.ledger.save()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a position before the session opens, in a loader with the same options.

        With a store, use ElasticLoader(lineage=, from_=state["ledger"]) at all workers instead,
        with a larger lineage than before. Raises Corrupt, InvalidArgument (no session).
        """
        if self._over != "session":
            instead = "the parameter server's cut, from which it continues by itself"
            if self._over == "store":
                instead = "lineage= and from_= when the loader is made"
            raise InvalidArgument(f"load the state of a loader over a {self._over}: give {instead}")
        self.ledger.restore(state["ledger"])

    def close(self) -> None:
        """Ends the processes. Deleting the last reference to the loader ends them, too."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def __enter__(self) -> ElasticLoader:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None and not sys.is_finalizing():
            self.close()

    def _arguments(self, ranges: forecast.Ranges) -> tuple[Any, ...]:
        return self.ledger.sample_indices(ranges), ranges[0][:2]

    def _forecast(self, samples: int) -> list[forecast.Ranges]:
        if samples == 0:
            return []
        if self._is_global:
            return [_tuples(step) for step in self.ledger.forecast(self._ahead)]
        return forecast.of_leases(_tuples(self.ledger.leases), samples, self._ahead)

    def _pinned(self, batch: Any) -> Any:
        if not self._pins:
            return batch
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return batch
        return torch.utils.data._utils.pin_memory.pin_memory(batch)


def _steps_ended(session: Session) -> int:
    """Counts ended steps, applied or not. Each call of end_step() that returns ends a step."""
    stats = session.stats
    return stats.steps + stats.retried_steps


def _tuples(ranges: Iterable[SampleRange]) -> forecast.Ranges:
    return tuple([(one.partition, one.begin, one.end) for one in ranges])
