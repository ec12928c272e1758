"""The back end ``ffdl`` of torch.distributed."""

from __future__ import annotations

import atexit
import functools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import ffdl

from . import operations
from .inbox import Inbox, Receive
from .lane import Lane, Work
from .rendezvous import ProcessGroupOptions, Rendezvous, has_come
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
    """Wraps a method. If tensors are not on the CPU, the back end of their device runs the call."""

    @functools.wraps(method)
    def call(self: ProcessGroup, *given: Any, **named: Any) -> Work:
        tensor = _first_tensor(given)
        if tensor is None or tensor.device.type == "cpu":
            return method(self, *given, **named)
        other = self._group_of_device(tensor)
        return getattr(other, method.__name__)(*given, **named)

    return call


class ProcessGroup(dist.ProcessGroup):
    """A process group whose ranks communicate through an ffdl.Communicator.

    Create the group with ``init_process_group("ffdl")``, and use the group through
    torch.distributed. The methods are those of c10d's ProcessGroup, and operations return a Work.
    Collectives run one after another in the order of the calls. All ranks must call the collectives
    in the same order. send and recv run concurrently with the collectives. Tensors on the CPU must
    be dense, but allreduce also accepts one sparse tensor. Operations that only copy data accept
    any dtype. A tensor that is not contiguous is copied. For tensors on another device, the group
    calls the back end that init_process_group() names for that device. After a failed operation,
    the group cannot be used again: destroy the group, and create another group.

    Threads: any thread may call any method. The group starts threads when they are first needed:
    one for collectives, two per peer (send, recv), and one for time-outs of recv.
    The threads of the group end in destroy_process_group().
    Errors: creating the group raises the errors of ffdl.connect_communicator(). A call raises
    InvalidArgument, or Cancelled if the group was destroyed or aborted, or if this process is a
    fork. If an operation fails, Work.wait() raises DistBackendError. The cause of the
    DistBackendError is the communicator's exception.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        members: Sequence[str],
        timeout: timedelta,
        options: ProcessGroupOptions,
    ) -> None:
        """Connects the ranks of the group. members: the name of each rank, for error messages."""
        super().__init__(rank, len(members))
        self._store = store
        self._members = list(members)
        self._timeout = timeout
        self._options = options
        self._name = self._description = ""
        self._lock = threading.Lock()
        self._lanes: dict[tuple[int, int] | None, Lane] = {}
        self._other_devices: dict[str, dist.ProcessGroup] = {}
        self._inbox = Inbox(
            self._members,
            rank,
            lambda sender: self._lane((sender, rank)),
            lambda sender: has_come(self._pair_store(sender, rank)),
        )
        self._collectives = self._lane(None)
        self._collectives.connect()
        _groups.add(self)

    # --- names and end ---

    def getBackendName(self) -> str:
        """Returns the name of this back end, ``ffdl``."""
        return "ffdl"

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    def getGroupName(self) -> str:
        """Returns the name that torch.distributed gave to this group."""
        return self._name

    def getGroupDesc(self) -> str:
        """Returns the description that was passed to new_group()."""
        return self._description

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(device) for device in self._back_ends()]

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the time-out of all operations that are called without a time-out of their own."""
        self._timeout = timeout

    def shutdown(self) -> None:
        """Waits until the started operations have ended or timed out, and leaves the group."""
        why = "the process group was destroyed"
        self._inbox.close(why)
        self._end(lambda lane: lane.close(why))

    def abort(self) -> None:
        """Ends this rank's operations in progress. Other ranks' operations fail with PeerLost."""
        why = "the process group was aborted"
        self._inbox.abort(why)
        self._end(lambda lane: lane.abort(why))

    def _end(self, end: Callable[[Lane], None]) -> None:
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            end(lane)

    # --- collectives ---

    def register_memory(self, memory: Any) -> Work:
        """Calls Communicator.register_memory() after all earlier collectives have ended."""
        return self._start("register memory", lambda c, _: c.register_memory(memory), [], None)

    @_of_the_cpu
    def allreduce(self, tensors: _Tensors, opts: Any = None) -> Work:
        """Reduces each tensor over all ranks, in place. A tensor alone may also be sparse."""
        if len(tensors) == 1 and tensors[0].layout == torch.sparse_coo:
            return self._all_reduce_sparse(tensors, opts)
        check("all_reduce", tensors)
        op = _op(opts)
        runs = [(run, reduction("all_reduce", run[0].dtype, op)) for run in same_dtype(tensors)]

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            for run, how in runs:
                operations.all_reduce(communicator, run, how, timeout_s)

        return self._start("all_reduce", call, tensors, opts)

    def _all_reduce_sparse(self, tensors: _Tensors, opts: Any) -> Work:
        (tensor,) = tensors
        how = reduction("all_reduce", tensor.dtype, _op(opts))
        if tensor.dtype == torch.bool or how not in (ffdl.ReduceOp.SUM, ffdl.ReduceOp.MEAN):
            raise refuse(
                "all_reduce",
                f"reduction {_op(opts)} of a sparse tensor of {tensor.dtype}; use SUM or AVG, and "
                "a dtype of numbers",
            )

        def call(communicator: ffdl.Communicator, timeout_s: float) -> None:
            operations.all_reduce_sparse(communicator, tensor, how, timeout_s)

        return self._start("all_reduce", call, tensors, opts)

    allreduce_coalesced = allreduce

    @_of_the_cpu
    def broadcast(self, tensors: _Tensors, opts: Any) -> Work:
        """Copies the tensors of the root to all ranks."""
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
        """Reduces the tensors of all ranks into those of the root, and changes no other tensors."""
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
        """Gathers inputs[0] of rank r into outputs[0][r] on all ranks. Sizes may depend on r."""
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
        """Gathers inputs[i] of rank r into outputs[r][i] on all ranks."""
        self._check_count("all_gather_coalesced", outputs)
        by_input = [list(of_ranks) for of_ranks in zip(*outputs, strict=True)]
        return self._gather_each("all_gather_coalesced", by_input, inputs, opts)

    @_of_the_cpu
    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> Work:
        """Gathers `input` of all ranks into `output`, in rank order."""
        return self._gather_each("all_gather_into_tensor", [[output]], [input], opts)

    @_of_the_cpu
    def all_gather_single_coalesced(
        self, outputs: _Tensors, inputs: _Tensors, opts: Any = None
    ) -> Work:
        """Calls all_gather_single() for each pair of output and input."""
        each = [[output] for output in outputs]
        return self._gather_each("all_gather_into_tensor", each, inputs, opts)

    @_of_the_cpu
    def gather(self, outputs: _TensorLists, inputs: _Tensors, opts: Any) -> Work:
        """Gathers inputs[0] of rank r into outputs[0][r] of the root."""
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
        """Copies inputs[0][r] of the root to outputs[0] of rank r."""
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
        """Reduces inputs[0][r] of all ranks into outputs[0] of rank r. Sizes may depend on r."""
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
        """Reduces `input` of all ranks, and writes block r of the result to `output` of rank r."""
        return self._reduce_scatter_each([output], [input], opts)

    @_of_the_cpu
    def reduce_scatter_single_coalesced(
        self, outputs: _Tensors, inputs: _Tensors, opts: Any = None
    ) -> Work:
        """Calls reduce_scatter_single() for each pair of output and input."""
        return self._reduce_scatter_each(outputs, inputs, opts)

    @_of_the_cpu
    def alltoall(self, outputs: _Tensors, inputs: _Tensors, opts: Any = None) -> Work:
        """Copies inputs[r] of rank s to outputs[s] of rank r. Sizes may depend on r and s."""
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
        """Sends input_split_sizes[r] rows of `input` to each rank r, or equal parts if []."""
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
        """Returns a Work that ends when every rank has called barrier()."""
        device = getattr(opts, "device", None)
        if device is not None and device.type != "cpu":
            return self._group_of_device(torch.empty(0, device=device)).barrier(opts)
        return self._start("barrier", lambda c, timeout_s: c.barrier(timeout_s), [], opts)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Waits for all ranks. The error of a time-out names the missing ranks."""
        limit_s = (self._timeout if timeout is None else timeout).total_seconds()
        work = Work("monitored_barrier", lambda c: c.barrier(limit_s), [])
        try:
            self._collectives.give(work, waits=True).wait()
        except dist.DistBackendError as error:
            if not isinstance(error.__cause__, ffdl.Timeout):
                raise
            told = f"Rank {self.rank()} timed out in monitoredBarrier: {error}"
            raise dist.DistBackendError(told) from error.__cause__

    # Names of older releases.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # --- point to point ---

    @_of_the_cpu
    def send(self, tensors: _Tensors, dst: int, tag: int) -> Work:
        """Sends a tensor. The Work ends when rank `dst` has received all data."""
        check("send", tensors)
        self._check_peer("send", dst)
        (tensor,) = tensors
        timeout_s = self._timeout.total_seconds()

        def call(communicator: ffdl.Communicator) -> None:
            deadline = time.monotonic() + timeout_s
            communicator.send(operations.header(tensor, tag), to=1, timeout_s=timeout_s)
            if tensor.numel() > 0:
                body = operations.as_bytes(tensor.detach().contiguous())
                communicator.send(body, to=1, timeout_s=max(0.0, deadline - time.monotonic()))

        return self._lane((self.rank(), dst)).give(Work("send", call, []), waits=False)

    @_of_the_cpu
    def recv(self, tensors: _Tensors, src: int, tag: int) -> Work:
        """Receives the next message of rank `src`. Dtype, size and tag must match the call."""
        self._check_peer("recv", src)
        return self._receive("recv", tensors, src, tag)

    @_of_the_cpu
    def recv_anysource(self, tensors: _Tensors, tag: int) -> Work:
        """Receives a message from any rank whose next message has the tag `tag`."""
        if self.size() == 1:
            raise refuse("recv from any rank", "the process group has no other rank")
        return self._receive("recv from any rank", tensors, None, tag)

    def _receive(self, doing: str, tensors: _Tensors, source: int | None, tag: int) -> Work:
        check(doing, tensors)
        (tensor,) = tensors
        self._collectives.check(doing)
        return self._inbox.give(Receive(tensor, source, tag, self._timeout.total_seconds()))

    # --- execution ---

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
            raise refuse(doing, f"a list of {len(of_ranks)}; pass one item per rank, {self.size()}")

    def _split(self, doing: str, tensor: torch.Tensor, sizes: list[int]) -> _Tensors:
        rows = tensor.size(0) if tensor.dim() > 0 else 1
        if not sizes:
            sizes = [rows // self.size()] * self.size()
        self._check_count(doing, sizes)
        if sum(sizes) != rows:
            raise refuse(doing, f"split sizes {sizes} of {rows} rows; let them add up to all rows")
        return list(tensor.split(sizes))

    def _lane(self, pair: tuple[int, int] | None) -> Lane:
        """Returns the lane from rank pair[0] to rank pair[1]. None: the lane of the collectives."""
        with self._lock:
            if pair not in self._lanes:
                store, rank, members = self._store, self.rank(), self._members
                if pair is not None:
                    store = self._pair_store(*pair)
                    members, rank = [members[one] for one in pair], pair.index(rank)
                way = Rendezvous(store, self._options)
                self._lanes[pair] = Lane(
                    lambda: way.connect(rank, members, self._timeout.total_seconds()), way.abort
                )
            return self._lanes[pair]

    def _pair_store(self, src: int, dst: int) -> dist.Store:
        return dist.PrefixStore(f"pair/{src}/{dst}", self._store)

    def _check_peer(self, doing: str, peer: int) -> None:
        if not 0 <= peer < self.size() or peer == self.rank():
            raise refuse(doing, f"peer {peer} of rank {self.rank()}; name another rank")
        self._collectives.check(doing)  # also before these two have connected

    # --- other devices ---

    def _back_ends(self) -> dict[str, str]:
        """Maps each device type in init_process_group() to the name of its back end."""
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
            # All members reach this with their first operation on that device.
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
    """Creates and connects a process group, for torch.distributed.Backend.register_backend()."""
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
    """Ends all groups, because their operations must end before the interpreter exits."""
    for group in list(_groups):
        group.abort()
        group.shutdown()
