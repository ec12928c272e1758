"""The samples of each step as batches, read ahead by other processes where that is wanted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from .._ffdl import (
    Learner,
    PartitionLedger,
    SampleOrder,
    SampleRange,
    Session,
    Shuffle,
    SlotLedger,
    StepResult,
    Store,
    StoreLedger,
)
from .._options import call_with
from ..errors import InvalidArgument, WorldChanged
from . import forecast, parts
from .ledger_log import logged
from .loading import Loading
from .workers import WorkerPool

# What a DataLoader takes and this one does not.
_OF_DATA_LOADER = {
    "batch_size": "use 'batch_samples', which are those of all workers",
    "drop_last": "each sample of an epoch is used, so leave it out",
    "generator": "use 'seed'",
    "persistent_workers": "processes always stay until the loader goes, so leave it out",
    "sampler": "the loader says itself which samples are whose, so leave it out",
}


class ElasticLoader:
    """Batches for elastic training, in place of ``DataLoader`` and ``DistributedSampler``.

    ::

        loader = ffdl.data.ElasticLoader(dataset, batch_samples=64, epochs=3, num_workers=2)
        trainer = ffdl.torch.elastic(model, optimizer, loader)
        for images, labels in trainer.batches():
            loss(model(images), labels).backward()
            trainer.step()

    Which samples a step uses is committed together with its gradients, by the ledger: each sample
    is used once per epoch, whoever joins, leaves or dies; none is added or left out to make workers
    even. Without PyTorch give ``loader.ledger`` to Session.open() and iterate over batches().

    dataset: has ``__len__`` and ``__getitem__``, or ``__getitems__`` too, as data sets of PyTorch and
    Hugging Face; a NumPy array, or a tuple of arrays of as many rows; files, as an ffdl.DataSource; or
    ffdl.data.IterableShards.
    batch_samples: with SampleOrder.GLOBAL (the default) those of a step over all workers, the same
    samples in the same step however many workers there are; with ON_DEMAND those of this worker,
    so that a faster one that takes more at a time is given more. The last of an epoch may be fewer.
    shuffle, epochs, seed, partition_samples, window_partitions, micro_batch_samples, agreed_batch,
    partitions_wanted, on_stable: of PartitionLedger.create(). ON_DEMAND needs partition_samples;
    window_partitions shuffles the samples of so many partitions together. Under
    ``ffdl run --ledger-log FOLDER`` what is told to on_stable is also logged there.
    store, id: for workers without a session. The ledger is a StoreLedger of that Store, which this
    worker joins as `id`, and loader.ledger.advance() commits each batch; needs ON_DEMAND. job,
    lineage, from_, lease_s: of StoreLedger.join(), the second and third to go on from a checkpoint.
    learner: for those of a parameter server. The ledger is a SlotLedger of that Learner, and a push
    of the ranges that all_parts() gives beside each batch commits it; needs ON_DEMAND.
    collate_fn: makes a batch of a list of samples; None: ffdl.data.collate.
    num_workers: processes that load; 0: next() does. They start here, and end with the loader: make
    it before the session. prefetch_factor: how many batches each loads ahead. worker_init_fn: called
    in each with its number. multiprocessing_context: 'fork', 'spawn' or 'forkserver'.
    pin_memory: tensors come in page-locked memory, where PyTorch has CUDA.

    Before each batch the generators of ``random``, ``numpy.random`` and PyTorch (of the CPU) are
    seeded from seed and first sample, so that augmentation is the same wherever a batch is loaded;
    with ``seed_generators=False`` they are left alone. Arrays of a batch from a process lie in
    shared memory that is used again once none of them is in use.
    Threads: one at a time, that of the session. Raises InvalidArgument.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        batch_samples: int,
        epochs: int = 1,
        shuffle: Shuffle = Shuffle.SAMPLES,
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
        if num_workers < 0 or prefetch_factor < 1 or batch_samples < 1 or epochs < 0:
            raise InvalidArgument(
                f"make a loader: num_workers is {num_workers}, prefetch_factor {prefetch_factor}, "
                f"batch_samples {batch_samples}, epochs {epochs}; give at least 0, 1, 1 and 0"
            )
        if not isinstance(shuffle, Shuffle):
            raise TypeError(
                f"make a loader: shuffle is {shuffle!r}; use ffdl.Shuffle.SAMPLES in place of True, "
                "ffdl.Shuffle.NONE of False"
            )
        if order == SampleOrder.ON_DEMAND and partition_samples is None:
            raise InvalidArgument(
                "make a loader: no partition_samples; say how many samples a worker is given at a "
                "time, the same at all workers"
            )
        self._load = Loading(dataset, collate_fn, seed if seed_generators else None)
        samples = self._load.samples
        if order == SampleOrder.GLOBAL:
            ledger_options["batch_samples"] = batch_samples
        if order == SampleOrder.GLOBAL and (store is not None or learner is not None):
            raise InvalidArgument(
                f"make a loader over a {'store' if store is not None else 'learner'}: one order "
                "for all needs members that step together; use SampleOrder.ON_DEMAND, or a session"
            )
        ledger_options["on_stable"] = logged(
            ledger_options.get("on_stable"), samples=samples, partition_samples=partition_samples,
            epochs=epochs)
        make: Callable[..., Any] = PartitionLedger.create
        if store is not None:
            make = partial(StoreLedger.join, store)
        elif learner is not None:
            make = partial(SlotLedger.create, learner)
        self.ledger: Any = call_with(
            "make a loader", make,
            {"samples": samples, "partition_samples": partition_samples, "epochs": epochs,
             "seed": seed, "shuffle": shuffle, "order": order},
            ledger_options, _OF_DATA_LOADER)
        self._samples = samples
        self._batch_samples = batch_samples
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
        """The samples that this step commits for this worker, its weight in the mean."""
        return self.ledger.taken

    @property
    def skipped(self) -> int:
        """Samples that were corrupt and left out of the batches that were given (OnCorrupt.SKIP).

        Their steps commit them all the same, with the weight of all their samples.
        """
        return self._skipped

    @property
    def is_done(self) -> bool:
        """Whether all epochs are over."""
        return self.ledger.is_done

    def __len__(self) -> int:
        """Steps of an epoch, with SampleOrder.GLOBAL; were the batch to stay as it is."""
        if not self._is_global:
            raise TypeError("how many steps an epoch has is open with SampleOrder.ON_DEMAND")
        return -(-self._samples // self.ledger.batch_samples)

    def next(self) -> Any:
        """The batch of the present step; None: take part in the step with nothing: end_step(0).

        Asked again in the same step, after one that is to be repeated, it gives what is due then.
        Raises what data set and collate_fn do, PeerLost (a process that loads is gone).
        """
        for _, batch in self.next_parts(parts.whole):
            return batch
        return None

    def next_parts(
        self, cut: parts.Cut, samples: int | None = None
    ) -> Iterator[tuple[forecast.Ranges, Any]]:
        """The batch of the present step in parts, each beside the ranges of its samples.

        cut: the parts of a step's ranges, as ffdl.data.parts has them; the same in each step, as
        parts are loaded ahead, too. samples: of this step, with ON_DEMAND; None: batch_samples.
        Nothing where the step has no samples for this worker, and None for a part of which all are
        corrupt and left out. Raises as next() does.
        """
        if samples is None:
            samples = self._batch_samples
        ranges = self.ledger.take(None if self._is_global else samples)
        step = _tuples(ranges)
        keys = cut(step)
        if self._pool is not None:
            ahead = [key for one in self._forecast(samples) for key in cut(one)]
            self._pool.keep({*keys, *ahead})
            for key in (*keys, *ahead):
                if key not in self._pool:
                    self._pool.start(key, self._arguments(key))
        for key in keys:
            if self._pool is not None:
                loaded = self._pool.take(key)
            elif key is step:  # the ledger need not make ranges of them again
                loaded = self._load(self.ledger.sample_indices(ranges), key[0][:2])
            else:
                loaded = self._load(*self._arguments(key))
            self._skipped += loaded.skipped
            yield key, self._pinned(loaded.batch)

    def batches(self, session: Session) -> Iterator[Any]:
        """A batch for each step that has samples for this worker, in a loop over the session.

        ::

            for x, y in loader.batches(session):
                compute_gradients(x, y)
                if session.end_step(loader.taken) == ffdl.StepResult.LEFT:
                    break

        Takes part in the other steps itself, and ends where this worker leaves in one of them: then
        not ``is_done``. When all epochs are done this makes the last step stable and leaves the job.
        Raises InvalidArgument where end_step() was forgotten, and what next() does.
        """
        while True:
            while not self.is_done:
                batch = self.next()
                if batch is not None:
                    ended = _steps_ended(session)
                    yield batch
                    if _steps_ended(session) == ended:
                        raise InvalidArgument(
                            f"take the next batch: end_step() was not called for the one of step "
                            f"{session.step + 1}; call session.end_step(loader.taken) after each"
                        )
                elif session.end_step(0) == StepResult.LEFT:  # what is taken may be corrupt
                    return
            try:
                session.finish()
                return
            except WorldChanged:  # all went back to a checkpoint, and the ledger with them
                continue

    def all_parts(
        self, cut: parts.Cut = parts.whole, timeout_s: float = 30.0
    ) -> Iterator[tuple[forecast.Ranges, Any]]:
        """What next_parts(cut) gives, over a store or a learner, until all epochs are done.

        ::

            for ranges, (x, y) in loader.all_parts():
                learner.push_ranges(gradient_of(x, y), ranges)

        Commit a part before the next one. Waits in ledger.wait() where others hold the rest of an
        epoch. Raises Timeout, what that does, and what next() does.
        """
        while not self.is_done:
            is_given = False
            for part in self.next_parts(cut):
                is_given = True
                yield part
            if not is_given:
                self.ledger.wait(timeout_s)

    def state_dict(self) -> dict[str, Any]:
        """Where the training stands, for a checkpoint; equal at all workers after a step.

        Over a store it is what all workers have committed; let nobody commit while the model's part
        of the checkpoint is taken. Raises InvalidArgument over a learner, whose server has the state.
        """
        if isinstance(self.ledger, SlotLedger):
            raise InvalidArgument(
                "save a loader over a learner: which samples are in the weights is in the parameter "
                "server's cut; save that"
            )
        return {"ledger": self.ledger.save()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Before the session opens, of a loader with the same options.

        Over a store a job goes on from a state by ElasticLoader(lineage=, from_=state["ledger"]) at
        all workers, with a larger lineage than before. Raises Corrupt, InvalidArgument (no session).
        """
        if not isinstance(self.ledger, PartitionLedger):
            what, instead = "learner", "the parameter server's cut, from which it goes on by itself"
            if isinstance(self.ledger, StoreLedger):
                what, instead = "store", "lineage= and from_= when the loader is made"
            raise InvalidArgument(f"load the state of a loader over a {what}: give {instead}")
        self.ledger.restore(state["ledger"])

    def close(self) -> None:
        """Ends the processes; the same happens with the last reference."""
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
    """Applied or not, as each call of end_step() that returns ends one."""
    stats = session.stats
    return stats.steps + stats.retried_steps


def _tuples(ranges: Iterable[SampleRange]) -> forecast.Ranges:
    return tuple([(one.partition, one.begin, one.end) for one in ranges])
