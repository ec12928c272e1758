"""Loads the batch of each step. Separate processes can load batches ahead."""

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
from .loading import Loading, enter_process
from .reading import by_rows, size_of
from .samplers import SampledOrder
from .workers import WorkerPool

# Arguments of a DataLoader that this loader does not take.
_OF_DATA_LOADER = {
    "batch_size": "use 'batch_samples', which counts the samples of all workers",
    "drop_last": "leave it out, because each sample of an epoch is used",
    "generator": "use 'seed'",
    "persistent_workers": "leave it out, because processes live as long as the loader",
}


class ElasticLoader:
    """Loads batches for elastic training, like ``DataLoader`` with ``DistributedSampler``.

    ::

        loader = ffdl.data.ElasticLoader(dataset, batch_samples=64, epochs=3, num_workers=2)
        trainer = ffdl.torch.elastic(model, optimizer, loader)
        for images, labels in trainer.batches():
            loss(model(images), labels).backward()
            trainer.step()

    The ledger commits the samples of a step together with the step's gradients. Each sample is used
    once per epoch, even if workers join, leave or die. The workers' shares of a step may differ in
    size, so no sample must be repeated or left out to make shares equal. If you do not use PyTorch,
    pass ``loader.ledger`` to Session.open(), and iterate over batches().

    dataset: an object with ``__len__`` and ``__getitem__``, such as a data set of PyTorch or
    Hugging Face. If the data set has ``__getitems__``, one call of it reads all samples of a batch.
    The data set may also be an array, a tuple of arrays with equal numbers of rows, a dict of
    columns, a DataSource or an IterableShards. A sample of a dict of columns is a dict of a row's
    values.
    batch_samples: the number of samples in a step, summed over all workers, if `order` is
    SampleOrder.GLOBAL (the default). With SampleOrder.GLOBAL, the samples of a step do not depend
    on the number of workers. If `order` is ON_DEMAND, batch_samples is the number of samples in a
    batch of this worker. With ON_DEMAND, a faster worker may pass a larger batch_samples, to use
    more samples in each step. The last batch of an epoch may have fewer samples.
    epochs: the number of epochs after which the training ends. By default, `epochs` is 1, or
    unlimited if `steps` is given.
    steps: the session's step after which the training ends. batches() of the trainer or of this
    loader checks the limit. The argument `steps` is only allowed with a session.
    sampler: an iterable of the sample numbers of an epoch, such as a ``WeightedRandomSampler`` of
    PyTorch. Every worker must create a sampler that returns the same numbers. For each epoch the
    loader seeds the random generators from `seed` and the epoch's number, and calls the sampler's
    set_epoch(), if this method exists. Then the loader reads the sampler's list of all sample
    numbers. The ledger commits each position in the sampler's list once.
    batch_sampler: an iterable of lists of sample numbers, in place of `sampler`. Each list of a
    batch_sampler is the batch of a step, so each list except the last must have batch_samples
    numbers.
    shuffle, seed, partition_samples, window_partitions, micro_batch_samples, batch_size_controller,
    partitions_wanted, on_stable: options of make_session_ledger(). SampleOrder.ON_DEMAND requires
    partition_samples, because it assigns whole partitions to workers. window_partitions is the
    number of partitions whose samples are shuffled together. If ``ffdl run --ledger-log FOLDER``
    starts the worker, the commits that on_stable receives are also logged in FOLDER.
    store, id: the Store of the ledger, and the worker's id in the ledger, for workers without a
    session. If `store` is set, loader.ledger.commit() commits a batch, and `order` must be
    ON_DEMAND. If commit() raises WorldChanged, other workers got the samples: drop the batch, and
    call next().
    job, lineage, from_, lease_s: options of make_store_ledger(), only allowed with `store`. Set
    lineage and from_ if the job continues from a checkpoint.
    learner: the worker's Learner, if the worker uses a parameter server. all_parts() returns each
    batch with the ranges of its samples. If the learner pushes a gradient with the ranges of a
    batch, the push commits the batch. If `learner` is set, `order` must be ON_DEMAND.
    collate_fn: makes a batch from a list of samples. By default, collate_fn is ffdl.data.collate.
    num_workers: the number of processes that load batches. If num_workers is 0, next() loads the
    batches in this process. Create the loader before the session. Loading processes that start
    after the session inherit the session's connections, and keep the connections open.
    prefetch_factor: the number of batches that each process loads ahead.
    worker_init_fn: a function that each loading process calls first, with the number of the process
    (from 0). In a loading process, ``torch.utils.data.get_worker_info()`` works as with a
    DataLoader.
    multiprocessing_context: 'fork', 'spawn' or 'forkserver'. By default, the processes start by the
    default method of multiprocessing.
    pin_memory: if True and CUDA is available, the tensors of a batch are copied to page-locked
    memory.

    If seed_generators is True (the default), the random generators are seeded before each batch
    from `seed` and the position of the batch's first sample. The seeded generators are those of
    ``random``, ``numpy.random`` and PyTorch on the CPU. So random augmentation does not depend on
    the process that loads the batch. If num_workers is above 0, large arrays of a batch are in
    shared memory. After the program has deleted all arrays of a batch, the loader uses the batch's
    memory for another batch.
    Threads: one thread may use the loader at a time. With a session, only the session's thread may
    use the loader. Raises InvalidArgument.
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
        dataset = by_rows(dataset)
        if epochs is None:
            epochs = 1 if steps is None else 0
        if steps is not None and (steps < 1 or store is not None or learner is not None):
            raise InvalidArgument(
                f"make a loader: steps is {steps}; give at least 1, and leave 'store' and "
                "'learner' out"
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
                "make a loader: partition_samples is missing; pass the number of samples that a "
                "worker leases at a time, equal at all workers"
            )
        if sampled is not None and (
            shuffle != Shuffle.NONE or (sampler is not None and batch_sampler is not None)
            or (batch_sampler is not None and order != SampleOrder.GLOBAL)
        ):
            raise InvalidArgument(
                "make a loader: a sampler sets the order of the samples; pass only one of sampler "
                "and batch_sampler, no shuffle, and batch_sampler only with SampleOrder.GLOBAL"
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
                self._load, num_workers, context=multiprocessing_context,
                init=partial(enter_process, dataset, num_workers, seed, worker_init_fn))

    @property
    def taken(self) -> int:
        """The number of this worker's samples in this step: the weight of its gradient."""
        return self.ledger.taken

    @property
    def batch_samples(self) -> int:
        """The argument `batch_samples` with which this loader was created."""
        return self._batch_samples

    @property
    def steps(self) -> int | None:
        """The step after which the training ends, or None if only `epochs` ends the training."""
        return self._steps

    @property
    def skipped(self) -> int:
        """The number of corrupt samples that were left out of batches (skip_corrupt=True).

        A step also commits its corrupt samples, and counts them in the weight of the worker's
        gradient.
        """
        return self._skipped

    @property
    def is_done(self) -> bool:
        """True if all epochs are over."""
        return self.ledger.is_done

    def __len__(self) -> int:
        """The number of steps in an epoch with the present batch size (SampleOrder.GLOBAL only)."""
        if not self._is_global:
            raise TypeError("the number of steps in an epoch is unknown with SampleOrder.ON_DEMAND")
        return -(-self._samples // self.ledger.batch_samples)

    def __iter__(self) -> Iterator[Any]:
        """Raises InvalidArgument: use batches(), because samples are committed step by step."""
        raise InvalidArgument(
            "iterate over a loader: it does not know which samples are committed; write 'for batch "
            "in trainer.batches()' with the trainer of ffdl.torch.elastic(model, optimizer, "
            "loader), or 'for batch in loader.batches(session)'"
        )

    def next(self) -> Any:
        """Returns the batch of the present step, or None if this worker has no batch.

        If next() returns None, call session.end_step(0). If a step is repeated, call next() again,
        because the ledger may assign other samples to the repeated step. Raises the errors of the
        data set and collate_fn, and PeerLost (a loading process has ended).
        """
        for _, batch in self.next_parts(parts.whole):
            return batch
        return None

    def next_parts(
        self, cut: parts.Cut, samples: int | None = None
    ) -> Iterator[tuple[forecast.Ranges, Any]]:
        """Yields a pair for each part of the step's batch: the part's sample ranges, and the part.

        cut: a function that divides the ranges of a step into parts. ffdl.data.parts contains such
        functions. Pass the same function `cut` in each step, because the loader already loads the
        parts of later steps.
        samples: the number of samples that this worker takes in this step, if `order` is ON_DEMAND.
        None: batch_samples.

        Yields no pair if this worker has no samples in the step. If all samples of a part are
        corrupt, the part is None. Raises the errors of next().
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

        In a step without samples for this worker, batches() calls end_step(0) itself. If the worker
        leaves the job in a step without samples, the iteration ends, and ``is_done`` may be False.
        When all epochs or steps are done, batches() waits until the last step is stable (cannot be
        undone), and leaves the job.
        Raises InvalidArgument if the loop did not call end_step() after a batch, and the errors of
        next().
        """
        while True:
            while not self.is_done and (self._steps is None or session.step < self._steps):
                batch = self.next()
                if batch is not None:
                    ended = _steps_ended(session)
                    yield batch
                    if _steps_ended(session) == ended:
                        raise InvalidArgument(
                            f"take the next batch: end_step() was not called in step "
                            f"{session.step + 1}; call session.end_step() after each batch"
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
        """Yields the pairs of next_parts(cut) until all epochs are done.

        ::

            for ranges, (x, y) in loader.all_parts():
                learner.push(gradient_of(x, y), ranges)

        Use all_parts() if the loader has a store or a learner. Commit each part before you request
        the next part. If all remaining samples of an epoch are assigned to other workers,
        all_parts() waits for the next epoch or for samples of dead workers (ledger.wait()). Raises
        Timeout, the errors of ledger.wait(), and those of next().
        """
        while not self.is_done:
            is_given = False
            for part in self.next_parts(cut):
                is_given = True
                yield part
            if not is_given:
                self.ledger.wait(timeout_s)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the data, for a checkpoint.

        In a session, the position is equal on all workers after a step. If the loader has a store,
        the position includes the commits of all workers. While the program saves the position and
        the model in a checkpoint, no worker may commit samples. Raises InvalidArgument if the
        loader has a learner. With a learner, save a cut of the parameter server, which contains the
        position.
        """
        if self._over == "learner":
            raise InvalidArgument(
                "save a loader over a learner: the parameter server's cut contains the position in "
                "the data; save the cut"
            )
        return {"ledger": self.ledger.save()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the position that state_dict() returned, before the session opens.

        The loader whose state was saved must have had the same options. If the loader has a store,
        do not call load_state_dict(), but create ElasticLoader(lineage=..., from_=state["ledger"])
        on all workers. The new lineage must be larger than the lineage of the ledger in the store.
        Raises Corrupt, InvalidArgument (the loader has a store or a learner).
        """
        if self._over != "session":
            instead = "create the parameter server with its cut, which has the position"
            if self._over == "store":
                instead = "create the loader with lineage= and from_="
            raise InvalidArgument(
                f"load the state of a loader over a {self._over}: not supported; {instead}")
        self.ledger.restore(state["ledger"])

    def close(self) -> None:
        """Ends the loading processes, as the loader's destructor also does."""
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
    """Returns the number of ended steps, applied or not. An end_step() that returns ends a step."""
    stats = session.stats
    return stats.steps + stats.retried_steps


def _tuples(ranges: Iterable[SampleRange]) -> forecast.Ranges:
    return tuple([(one.partition, one.begin, one.end) for one in ranges])
