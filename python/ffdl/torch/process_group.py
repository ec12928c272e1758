"""The back end ``ffdl`` of torch.distributed."""

from __future__ import annotations

import atexit
import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import ffdl

from . import operations
from .lane import Lane, Work
from .rendezvous import ProcessGroupOptions, Rendezvous
from .tensors import Elements, check, copy_to, reduction, refuse, same_dtype

_Tensors = list[torch.Tensor]
_TensorLists = list[list[torch.Tensor]]
_Call = Callable[[ffdl.Communicator, float], None]


def _first_tensor(given: Any) -> torch.Tensor | None:
    if isinstance(given, torch.Tensor):
        return given
    if isinstance(given, (list, tuple)):
        return next((found for one in given if (found := _first_tensor(one)) is not None), None)
    return None


def _of_the_cpu(method: Callable[..., Work]) -> Callable[..., Work]:
    """What is given tensors of another device goes to the back end of that device."""

    @functools.wraps(method)
    def call(self: ProcessGroup, *given: Any, **named: Any) -> Work:
        tensor = _first_tensor(given)
        if tensor is None or tensor.device.type == "cpu":
            return method(self, *given, **named)
        other = self._group_of_device(tensor)
        return getattr(other, method.__name__)(*given, **named)

    return call


class ProcessGroup(dist.ProcessGroup):
    """A group of ranks over an ffdl.Communicator: what ``init_process_group("ffdl")`` makes.

    Use it through torch.distributed. The methods are those of c10d's ProcessGroup: they return a
    Work at once, and run one after another in the order in which they were called, which all ranks
    must share. send and recv run beside them. Tensors are dense, of the CPU, and of any dtype where
    they are only moved; one that is not contiguous is copied. Tensors of another device go to the
    back end that the same init_process_group() names for it. A group that failed stays failed:
    destroy it and make another.

    Threads: all methods from any thread. It starts one for collectives and one for each peer and
    direction of send and recv, when they are first needed; destroy_process_group() ends them.
    Errors: ffdl.InvalidArgument, Unimplemented and Cancelled (destroyed, aborted, or a fork) at the
    call; from Work.wait() DistBackendError, whose cause is what the communicator raised.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        members: Sequence[str],
        timeout: timedelta,
        options: ProcessGroupOptions,
    ) -> None:
        """Connects. members: the names of the ranks, by which errors call them."""
        super().__init__(rank, len(members))
        self._store = store
        self._members = list(members)
        self._timeout = timeout
        self._options = options
        self._name = self._description = ""
        self._lock = threading.Lock()
        self._ways: list[Rendezvous] = []
        self._lanes: dict[tuple[int, int] | None, Lane] = {}
        self._other_devices: dict[str, dist.ProcessGroup] = {}
        self._collectives = self._lane(None)
        self._collectives.connect()
        _groups.add(self)

    # --- what it is called, and how it ends ---

    def getBackendName(self) -> str:
        """``ffdl``."""
        return "ffdl"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    def getGroupName(self) -> str:
        """The name that torch.distributed gave it."""
        return self._name

    def getGroupDesc(self) -> str:
        """What new_group() was told that it is for."""
        return self._description

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(device) for device in self._back_ends()]

    def set_timeout(self, timeout: timedelta) -> None:
        """For the operations that are not given one of their own."""
        self._timeout = timeout

    def shutdown(self) -> None:
        """Waits for what was called, which its time-outs bound, and leaves the others."""
        self._end(lambda lane: lane.close("the process group was destroyed"))

    def abort(self) -> None:
        """Ends what is under way; the others lose a peer."""
        for way in self._ways:
            way.abort()
        self._end(lambda lane: lane.abort("the process group was aborted"))

    def _end(self, end: Callable[[Lane], None]) -> None:
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            end(lane)

    # --- collectives ---

    def register_memory(self, memory: Any) -> Work:
        """Communicator.register_memory(), in the order of the operations."""
        return self._start("register memory", lambda c, _: c.register_memory(memory), [], None)

    @_of_the_cpu
    def allreduce(self, tensors: _Tensors, opts: Any = None) -> Work:
        """The reduction of every rank's tensors becomes everybody's, in place."""
        check("all_reduce", tensors)
        op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        runs = [(run, reduction("all_reduce", run[0].dtype, op)) for run in same_dtype(tensors)]

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            for run, how in runs:
                elements = Elements(run, compared=how in operations.COMPARES)
                communicator.all_reduce(elements.arrays, how, timeout_s)
                elements.put_back()

        return self._start("all_reduce", call, tensors, opts)

    allreduce_coalesced = allreduce

    @_of_the_cpu
    def broadcast(self, tensors: _Tensors, opts: Any) -> Work:
        """The root's tensors become everybody's."""
        check("broadcast", tensors)
        root = opts.rootRank

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            for run in same_dtype(tensors):
                elements = Elements(run)
                communicator.broadcast(elements.arrays, root=root, timeout_s=timeout_s)
                elements.put_back()

        return self._start("broadcast", call, tensors, opts)

    @_of_the_cpu
    def reduce(self, tensors: _Tensors, opts: Any) -> Work:
        """The root's tensors become the reduction of every rank's; the others' stay."""
        check("reduce", tensors)
        root = opts.rootRank
        ops = [reduction("reduce", tensor.dtype, opts.reduceOp) for tensor in tensors]

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            for tensor, how in zip(tensors, ops, strict=True):
                out = tensor if self.rank() == root else None
                operations.reduce(communicator, tensor, out, root, how, timeout_s)

        return self._start("reduce", call, tensors, opts)

    @_of_the_cpu
    def allgather(self, outputs: _TensorLists, inputs: _Tensors, opts: Any = None) -> Work:
        """Everybody's outputs[0] become the inputs[0] of rank 0, 1, ..; sizes may differ."""
        (own,), (gathered,) = inputs, outputs
        check("all_gather", [own, *gathered])
        self._check_count("all_gather", gathered)

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            if operations.even(gathered):
                operations.all_gather(communicator, gathered, own, timeout_s)
                return
            if gathered[self.rank()].data_ptr() != own.data_ptr():
                copy_to(gathered[self.rank()], own)
            for root, tensor in enumerate(gathered):
                elements = Elements([tensor])
                communicator.broadcast(elements.arrays, root=root, timeout_s=timeout_s)
                elements.put_back()

        return self._start("all_gather", call, gathered, opts)

    @_of_the_cpu
    def allgather_coalesced(
        self, outputs: _TensorLists, inputs: _Tensors, opts: Any = None
    ) -> Work:
        """outputs[r][i] becomes the inputs[i] of rank r."""
        self._check_count("all_gather_coalesced", outputs)
        by_input = [list(of_ranks) for of_ranks in zip(*outputs, strict=True)]
        return self._gather_each("all_gather_coalesced", by_input, inputs, opts)

    @_of_the_cpu
    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> Work:
        """`output` becomes the `input` of rank 0, 1, .., one after another."""
        return self._gather_each("all_gather_into_tensor", [[output]], [input], opts)

    @_of_the_cpu
    def all_gather_single_coalesced(
        self, outputs: _Tensors, inputs: _Tensors, opts: Any = None
    ) -> Work:
        """all_gather_single() of each pair."""
        each = [[output] for output in outputs]
        return self._gather_each("all_gather_into_tensor", each, inputs, opts)

    @_of_the_cpu
    def gather(self, outputs: _TensorLists, inputs: _Tensors, opts: Any) -> Work:
        """The root's outputs[0] become the inputs[0] of rank 0, 1, ..."""
        (own,), gathered = inputs, outputs[0] if outputs else []
        check("gather", [own, *gathered])
        if self.rank() == opts.rootRank:
            self._check_count("gather", gathered)
        root = opts.rootRank

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            out = Elements(gathered)
            given = Elements([operations.apart(own, gathered)])
            communicator.gather(given.arrays, out.arrays, root=root, timeout_s=timeout_s)
            out.put_back()

        return self._start("gather", call, gathered, opts)

    @_of_the_cpu
    def scatter(self, outputs: _Tensors, inputs: _TensorLists, opts: Any) -> Work:
        """outputs[0] of rank r becomes the root's inputs[0][r]."""
        (own,), given = outputs, inputs[0] if inputs else []
        check("scatter", [own, *given])
        if self.rank() == opts.rootRank:
            self._check_count("scatter", given)
        root = opts.rootRank

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            out = Elements([own])
            blocks = Elements([operations.apart(tensor, [own]) for tensor in given])
            communicator.scatter(blocks.arrays, out.arrays, root=root, timeout_s=timeout_s)
            out.put_back()

        return self._start("scatter", call, outputs, opts)

    @_of_the_cpu
    def reduce_scatter(self, outputs: _Tensors, inputs: _TensorLists, opts: Any = None) -> Work:
        """outputs[0] of rank r becomes the reduction of every inputs[0][r]; sizes may differ."""
        (own,), (given,) = outputs, inputs
        check("reduce_scatter", [own, *given])
        self._check_count("reduce_scatter", given)
        how = reduction("reduce_scatter", own.dtype, _op(opts))

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            if operations.even(given):
                operations.reduce_scatter(communicator, own, given, how, timeout_s)
                return
            for root, tensor in enumerate(given):
                out = own if root == self.rank() else None
                operations.reduce(communicator, tensor, out, root, how, timeout_s)

        return self._start("reduce_scatter", call, outputs, opts)

    @_of_the_cpu
    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> Work:
        """`output` of rank r becomes block r of the reduction of every `input`."""
        return self._reduce_scatter_each([output], [input], opts)

    @_of_the_cpu
    def reduce_scatter_single_coalesced(
        self, outputs: _Tensors, inputs: _Tensors, opts: Any = None
    ) -> Work:
        """reduce_scatter_single() of each pair."""
        return self._reduce_scatter_each(outputs, inputs, opts)

    @_of_the_cpu
    def alltoall(self, outputs: _Tensors, inputs: _Tensors, opts: Any = None) -> Work:
        """outputs[s] of rank r becomes the inputs[r] of rank s; sizes may differ."""
        check("all_to_all", [*outputs, *inputs])
        self._check_count("all_to_all", outputs)
        self._check_count("all_to_all", inputs)

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            operations.exchange(communicator, outputs, inputs, timeout_s)

        return self._start("all_to_all", call, outputs, opts)

    @_of_the_cpu
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: Any = None,
    ) -> Work:
        """Rows of `input` go to rank 0, 1, .., as many as the split sizes say; none: alike."""
        check("all_to_all_single", [output, input])
        splits = bool(output_split_sizes or input_split_sizes)
        blocks_out = self._split("all_to_all_single", output, output_split_sizes) if splits else []
        blocks_in = self._split("all_to_all_single", input, input_split_sizes) if splits else []

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            if splits:
                operations.exchange(communicator, blocks_out, blocks_in, timeout_s)
                return
            out = Elements([output])
            given = Elements([operations.apart(input, [output])])
            communicator.all_to_all(given.arrays, out.arrays, timeout_s)
            out.put_back()

        return self._start("all_to_all_single", call, [output], opts)

    def barrier(self, opts: Any = None) -> Work:
        """Ends when every rank has called it."""
        device = getattr(opts, "device", None)
        if device is not None and device.type != "cpu":
            return self._group_of_device(torch.empty(0, device=device)).barrier(opts)
        return self._start("barrier", lambda c, timeout_s: c.barrier(timeout_s), [], opts)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """barrier(), which says who did not come; wait_all_ranks changes nothing."""
        limit_s = (timeout or self._timeout).total_seconds()
        work = Work("monitored_barrier", lambda c: c.barrier(limit_s), [])
        self._collectives.give(work, waits=True).wait()

    # Names of older releases.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # --- two ranks alone ---

    @_of_the_cpu
    def send(self, tensors: _Tensors, dst: int, tag: int) -> Work:
        """Ends when rank `dst` has taken all: its recv must name the same tag."""
        check("send", tensors)
        (tensor,) = tensors

        def call(communicator: ffdl.Communicator) -> None:
            elements = operations.as_bytes(tensor.detach().contiguous())
            message = [operations.header(tensor.dtype, tag), elements]
            communicator.send(message, to=1, timeout_s=self._timeout.total_seconds())

        return self._pair("send", self.rank(), dst).give(Work("send", call, []), waits=False)

    @_of_the_cpu
    def recv(self, tensors: _Tensors, src: int, tag: int) -> Work:
        """Messages of one rank come in the order in which it sent them."""
        check("recv", tensors)
        (tensor,) = tensors

        def call(communicator: ffdl.Communicator) -> None:
            head, out = np.zeros(16, np.int8), tensor.detach().contiguous()
            message = [head, operations.as_bytes(out)]
            communicator.recv(message, from_=0, timeout_s=self._timeout.total_seconds())
            if out.data_ptr() != tensor.data_ptr():
                copy_to(tensor, out)
            if head.tobytes() != operations.header(tensor.dtype, tag).tobytes():
                sent_tag = int(head.view(np.int64)[1])
                raise refuse(
                    f"recv {tensor.dtype} with tag {tag} from rank {src}",
                    f"it sent another dtype, or tag {sent_tag}; let both call in one order, with "
                    "the same dtypes and tags",
                )

        return self._pair("recv", src, self.rank()).give(Work("recv", call, tensors), waits=False)

    def recv_anysource(self, tensors: _Tensors, tag: int) -> Work:
        """Raises Unimplemented: a message is taken from a rank that is named."""
        raise ffdl.Unimplemented(
            "recv from any rank: back end ffdl receives from a rank that is named; give `src`"
        )

    # --- how they run ---

    def _start(self, doing: str, call: _Call, written: Sequence[torch.Tensor], opts: Any) -> Work:
        timeout = getattr(opts, "timeout", None)
        if timeout is None or timeout <= timedelta(0):  # c10d's "not set" is negative
            timeout = self._timeout
        timeout_s = timeout.total_seconds()
        work = Work(doing, lambda communicator: call(communicator, timeout_s), list(written))
        waits = not getattr(opts, "asyncOp", True)
        return self._collectives.give(work, waits=waits)

    def _gather_each(
        self, doing: str, outputs: _TensorLists, inputs: _Tensors, opts: Any
    ) -> Work:
        pairs = list(zip(outputs, inputs, strict=True))
        written = [tensor for output in outputs for tensor in output]
        check(doing, [*written, *inputs])

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            for output, own in pairs:
                operations.all_gather(communicator, output, own, timeout_s)

        return self._start(doing, call, written, opts)

    def _reduce_scatter_each(self, outputs: _Tensors, inputs: _Tensors, opts: Any) -> Work:
        doing = "reduce_scatter_tensor"
        check(doing, [*outputs, *inputs])
        each = [
            (output, given, reduction(doing, output.dtype, _op(opts)))
            for output, given in zip(outputs, inputs, strict=True)
        ]

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            for output, given, how in each:
                operations.reduce_scatter(communicator, output, [given], how, timeout_s)

        return self._start(doing, call, outputs, opts)

    def _check_count(self, doing: str, of_ranks: Sequence[Any]) -> None:
        if len(of_ranks) != self.size():
            raise refuse(doing, f"a list of {len(of_ranks)}; give one per rank, {self.size()}")

    def _split(self, doing: str, tensor: torch.Tensor, sizes: list[int]) -> _Tensors:
        rows = tensor.size(0) if tensor.dim() > 0 else 1
        if not sizes:
            sizes = [rows // self.size()] * self.size()
        self._check_count(doing, sizes)
        if sum(sizes) != rows:
            raise refuse(doing, f"split sizes {sizes} of {rows} rows; let them add up to all rows")
        return list(tensor.split(sizes))

    def _lane(self, pair: tuple[int, int] | None) -> Lane:
        """Of the collectives, or of the messages from one rank to another."""
        with self._lock:
            if pair not in self._lanes:
                store, rank, members = self._store, self.rank(), self._members
                if pair is not None:
                    store = dist.PrefixStore(f"pair/{pair[0]}/{pair[1]}", store)
                    members, rank = [members[one] for one in pair], pair.index(rank)
                way = Rendezvous(store, self._options)
                self._ways.append(way)
                self._lanes[pair] = Lane(
                    lambda: way.connect(rank, members, self._timeout.total_seconds())
                )
            return self._lanes[pair]

    def _pair(self, doing: str, src: int, dst: int) -> Lane:
        peer = dst if src == self.rank() else src
        if not 0 <= peer < self.size() or src == dst:
            raise refuse(doing, f"peer {peer} of rank {self.rank()}; name another rank")
        if self._collectives.closed:  # also where these two have not met yet
            raise ffdl.Cancelled(f"{doing}: {self._collectives.closed}")
        return self._lane((src, dst))

    # --- other devices ---

    def _back_ends(self) -> dict[str, str]:
        """The name of the back end for each device that init_process_group() was given."""
        known = dist.distributed_c10d._world.pg_backend_config.get(self, "cpu:ffdl")
        return dict(one.split(":") for one in known.split(","))

    def _group_of_device(self, tensor: torch.Tensor) -> dist.ProcessGroup:
        device = tensor.device.type
        name = self._back_ends().get(device, "ffdl")
        if name == "ffdl":
            check("communicate", [tensor])  # raises
        with self._lock:
            other = self._other_devices.get(device)
        if other is None:
            # All members come here with their first operation on that device.
            other = dist.new_group(
                dist.get_process_group_ranks(self),
                timeout=self._timeout,
                backend=f"{device}:{name}",
                use_local_synchronization=True,
                group_desc=f"{self._description} on {device}",
            )
            with self._lock:
                self._other_devices[device] = other
        return other


def _op(opts: Any) -> Any:
    return opts.reduceOp if opts is not None else dist.ReduceOp.SUM


def create(opts: Any, options: ProcessGroupOptions | None) -> ProcessGroup:
    """For torch.distributed.Backend.register_backend(): makes a group, and connects it."""
    ranks = opts.global_ranks_in_group or range(opts.group_size)
    members = [f"global{rank}" for rank in ranks]
    if options is not None and not isinstance(options, ProcessGroupOptions):
        raise refuse(
            "init_process_group 'ffdl'",
            f"pg_options of type {type(options).__name__}; give ffdl.torch.ProcessGroupOptions",
        )
    return ProcessGroup(
        opts.store, opts.group_rank, members, opts.timeout, options or ProcessGroupOptions()
    )


_groups: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """Whatever is under way must have ended before the interpreter does."""
    for group in list(_groups):
        group.abort()
        group.shutdown()
