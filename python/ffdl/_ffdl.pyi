"""Types of ffdl's compiled module, whose docstrings describe the classes and functions."""

import builtins
import enum
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

_Path = str | os.PathLike[str]
_Floats = npt.NDArray[np.float32]
_Array = Any  # a NumPy array, a tensor (DLPack) or a buffer, in host memory
_Samples = SampleRange | tuple[int, int, int]
_Member = Member | tuple[str, int] | str
_World = World | tuple[int, int, Sequence[_Member]]
_Policy = Any  # an ElasticPolicy, or an object with decide(observation)
_Elements = Any  # an array, a tensor (DLPack) or a buffer, or a list of such objects
_OnDevice = Any  # an array or a tensor in GPU memory
_OnEither = Any  # an array or a tensor in host memory or in GPU memory

__version__: str

class Decay(enum.Enum):
    CONSTANT = ...
    LINEAR = ...
    COSINE = ...
    STEP = ...

class Synchrony(enum.Enum):
    ASYNC = ...
    STALE = ...
    BULK = ...

class NonFinite(enum.Enum):
    REJECT = ...
    SKIP = ...
    ACCEPT = ...

class PullMode(enum.Enum):
    RELAXED = ...
    SNAPSHOT = ...

class PushResult(enum.Enum):
    PUBLISHED = ...
    ACCUMULATED = ...
    SKIPPED = ...

class UpdateRuleOptions:
    kind: str
    learning_rate: float
    momentum: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    def __init__(
        self,
        kind: str = ...,
        *,
        learning_rate: float = ...,
        momentum: float = ...,
        beta1: float = ...,
        beta2: float = ...,
        epsilon: float = ...,
        weight_decay: float = ...,
    ) -> None: ...

class LearningRateSchedule:
    decay: Decay
    warmup_steps: int
    decay_steps: int
    final_factor: float
    def __init__(
        self,
        decay: Decay = ...,
        *,
        warmup_steps: int = ...,
        decay_steps: int = ...,
        final_factor: float = ...,
    ) -> None: ...

def schedule_factor(schedule: LearningRateSchedule, number: int) -> float: ...
def update_on_device(
    options: UpdateRuleOptions,
    *,
    number: int,
    learning_rate: float,
    gradient: _OnDevice,
    weights: _OnDevice,
    state: Sequence[_OnDevice] = ...,
    gradient_scale: float = ...,
    clip_value: float = ...,
    stream: int = ...,
) -> None: ...

class SampleRange:
    partition: int
    begin: int
    end: int
    @overload
    def __init__(self, partition: int, begin: int, end: int) -> None: ...
    @overload
    def __init__(self, range: tuple[int, int, int]) -> None: ...

class LearnerProgress:
    slot: int
    attached: bool
    pid: int
    incarnation: int
    published: int
    folded: int
    mini_batches: int
    skipped: int
    samples: int

class PartitionProgress:
    committed: int
    samples: int
    repeated: int
    missing: int

class MemoryPlacement:
    shard_nodes: list[int]
    bound: bool
    threads_bound: int
    note: str
    huge_page_bytes: int
    huge_page_note: str

class ParameterServerStats:
    version: int
    epoch: int
    server_alive: bool
    server_pid: int
    recoveries: int
    learners_reclaimed: int
    learners: list[LearnerProgress]
    partitions: list[PartitionProgress]
    staleness: list[int]
    memory: MemoryPlacement
    device: int | None

class ParameterServerCut:
    version: int
    updates: int
    rule: str
    weights: _Floats
    state: Sequence[_Floats]
    partitions: list[PartitionProgress]
    def save(self, path: str) -> None: ...
    @staticmethod
    def load(path: str) -> ParameterServerCut: ...

class ParameterServer:
    name: str
    version: int
    @staticmethod
    def create(
        *,
        parameters: int,
        name: str = ...,
        rule: UpdateRuleOptions = ...,
        schedule: LearningRateSchedule = ...,
        clip_value: float = ...,
        clip_norm: float = ...,
        non_finite: NonFinite = ...,
        synchrony: Synchrony = ...,
        staleness: int = ...,
        threads: int = ...,
        learners_max: int = ...,
        partitions: int = ...,
        ranges_max: int = ...,
        gradient_type: str = ...,
        rows_max: int = ...,
        bind_to_nodes: bool = ...,
        device: int | None = None,
        cut: ParameterServerCut | None = None,
    ) -> ParameterServer: ...
    @staticmethod
    def adopt(name: str) -> ParameterServer: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def serve(self, stop: threading.Event | None = None) -> None: ...
    def cut(self, timeout_s: float = ...) -> ParameterServerCut: ...
    def stats(self) -> ParameterServerStats: ...
    def weights(self) -> _Floats: ...

class ParameterServerView:
    parameters: int
    @staticmethod
    def open(name: str, timeout_s: float = ...) -> ParameterServerView: ...
    def stats(self) -> ParameterServerStats: ...
    def pull(self, weights: _Array, mode: PullMode = ...) -> int: ...

class LearnerStats:
    mini_batches: int
    published: int
    accumulated: int
    skipped: int
    waits: int

class Gradient:
    @staticmethod
    def slot() -> Gradient: ...
    @staticmethod
    def sparse(
        tables: Sequence[tuple[int, _Array, _OnEither]] = ...,
        parts: Sequence[tuple[int, _OnEither]] = ...,
    ) -> Gradient: ...

class Learner:
    slot: int
    parameters: int
    partitions: int
    gradient_type: str
    not_pinned: str
    @overload
    @staticmethod
    def attach(
        name: str, timeout_s: float = ..., *, slot: int | None = None, device: int | None = None
    ) -> Learner: ...
    @overload
    @staticmethod
    def attach(
        server: ParameterServer,
        timeout_s: float = ...,
        *,
        slot: int | None = None,
        device: int | None = None,
    ) -> Learner: ...
    def committed(self, partition: int) -> int: ...
    def begin_mini_batch(self, timeout_s: float = ...) -> None: ...
    def gradient_slot(self, timeout_s: float = ...) -> _Floats: ...
    def push(
        self, gradient: _Array | Gradient, samples: _Samples | Sequence[_Samples]
    ) -> PushResult: ...
    def pull(self, weights: _Array, mode: PullMode = ...) -> int: ...
    def pull_rows(self, tables: Sequence[tuple[int, _Array, _Array]]) -> int: ...
    def live_weights(self) -> _Floats: ...
    def start_push(
        self,
        gradient: _OnEither | Gradient,
        samples: _Samples | Sequence[_Samples],
        *,
        stream: int = ...,
    ) -> None: ...
    def finish_push(self, timeout_s: float = ...) -> PushResult: ...
    def start_pull(
        self, weights: _OnEither, mode: PullMode = ..., *, stream: int = ...
    ) -> None: ...
    def start_pull_rows(
        self, tables: Sequence[tuple[int, _Array, _OnEither]], *, stream: int = ...
    ) -> None: ...
    def finish_pull(self, timeout_s: float = ...) -> int: ...
    def flush(self, timeout_s: float = ...) -> None: ...
    def detach(self, timeout_s: float = ...) -> None: ...
    def stats(self) -> LearnerStats: ...

class AveragingStats:
    mini_batches: int
    skipped: int
    exchanges: int
    late: int
    restarts: int

class AveragingLearner:
    slot: int
    parameters: int
    @overload
    @staticmethod
    def attach(
        name: str,
        timeout_s: float = ...,
        *,
        rule: UpdateRuleOptions = ...,
        schedule: LearningRateSchedule = ...,
        period: int = ...,
        elasticity: float = ...,
        slot: int | None = None,
    ) -> AveragingLearner: ...
    @overload
    @staticmethod
    def attach(
        server: ParameterServer,
        timeout_s: float = ...,
        *,
        rule: UpdateRuleOptions = ...,
        schedule: LearningRateSchedule = ...,
        period: int = ...,
        elasticity: float = ...,
        slot: int | None = None,
    ) -> AveragingLearner: ...
    def begin_mini_batch(self, timeout_s: float = ...) -> _Floats: ...
    def step(self, gradient: _Array, samples: _Samples) -> None: ...
    def flush(self, timeout_s: float = ...) -> None: ...
    def detach(self, timeout_s: float = ...) -> None: ...
    def committed(self, partition: int) -> int: ...
    def stats(self) -> AveragingStats: ...

class Entry:
    key: str
    value: bytes
    revision: int
    lease: int

class Store:
    def get(self, key: str) -> Entry: ...
    def list(self, prefix: str) -> builtins.list[Entry]: ...
    def put(self, key: str, value: str | bytes, lease: int = 0) -> int: ...
    def compare_and_put(
        self, key: str, expected: int, value: str | bytes, lease: int = 0
    ) -> int: ...
    def remove(self, key: str) -> None: ...
    def wait_change(self, prefix: str, after: int, timeout_s: float = ...) -> int: ...
    def grant_lease(self, ttl_s: float) -> int: ...
    def keep_alive(self, lease: int) -> None: ...
    def end_lease(self, lease: int) -> None: ...

class StoreServer:
    @staticmethod
    def start(
        *, folder: str, address: str = ..., secret: str = ..., makes_secret: bool = ...
    ) -> StoreServer: ...
    def url(self) -> str: ...
    def secret(self) -> str: ...

def open_store(url: str, *, secret: str = ...) -> Store: ...

class SharedMemory:
    bytes: int
    @staticmethod
    def allocate(bytes: int) -> SharedMemory: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Backend(enum.Enum):
    AUTO = ...
    SHM = ...
    TCP = ...
    GLOO = ...
    HIERARCHICAL = ...
    LOCAL = ...
    NCCL = ...
    DEVICE_SHM = ...

class GpuWorlds(enum.Enum):
    FRESH = ...
    REUSE = ...

class ReduceOp(enum.Enum):
    SUM = ...
    MEAN = ...
    MIN = ...
    MAX = ...
    PRODUCT = ...

class Member:
    id: str
    incarnation: int
    @overload
    def __init__(self, id: str, incarnation: int = 0) -> None: ...
    @overload
    def __init__(self, member: tuple[str, int]) -> None: ...

class World:
    generation: int
    rank: int
    members: list[Member]
    job: str
    size: int
    @overload
    def __init__(
        self, generation: int, rank: int, members: Sequence[_Member], job: str = ""
    ) -> None: ...
    @overload
    def __init__(self, world: tuple[int, int, Sequence[_Member]]) -> None: ...

class Communicator:
    world: World
    backend: Backend
    rank: int
    size: int
    @overload
    def all_reduce(
        self, inout: _Elements, op: ReduceOp = ..., timeout_s: float = ...
    ) -> None: ...
    @overload
    def all_reduce(
        self, in_: _Elements, out: _Elements, op: ReduceOp = ..., timeout_s: float = ...
    ) -> None: ...
    def reduce_scatter(
        self, in_: _Elements, out: _Elements, op: ReduceOp = ..., timeout_s: float = ...
    ) -> None: ...
    def reduce(
        self,
        in_: _Elements,
        out: _Elements | None,
        *,
        root: int,
        op: ReduceOp = ...,
        timeout_s: float = ...,
    ) -> None: ...
    def all_gather(self, in_: _Elements, out: _Elements, timeout_s: float = ...) -> None: ...
    def all_to_all(self, in_: _Elements, out: _Elements, timeout_s: float = ...) -> None: ...
    def barrier(self, timeout_s: float = ...) -> None: ...
    def broadcast(self, inout: _Elements, *, root: int, timeout_s: float = ...) -> None: ...
    def gather(
        self, in_: _Elements, out: _Elements | None, *, root: int, timeout_s: float = ...
    ) -> None: ...
    def scatter(
        self, in_: _Elements | None, out: _Elements, *, root: int, timeout_s: float = ...
    ) -> None: ...
    def send(self, in_: _Elements, *, to: int, timeout_s: float = ...) -> None: ...
    def recv(self, out: _Elements, *, from_: int, timeout_s: float = ...) -> None: ...
    def continue_from(self, before: Communicator | None, timeout_s: float = ...) -> None: ...
    def suspend(self, timeout_s: float = ...) -> None: ...
    def resume(self, timeout_s: float = ...) -> None: ...
    def abort(self, why: str = ...) -> None: ...
    def register_memory(self, memory: SharedMemory | npt.NDArray[Any]) -> None: ...
    def open_to_subscribers(
        self, store: Store, timeout_s: float = ..., *, ring_bytes: int = ...
    ) -> None: ...
    def close_to_subscribers(self) -> None: ...

def connect_communicator(
    world: _World,
    store: Store,
    timeout_s: float = ...,
    *,
    backend: Backend = ...,
    address: str = ...,
    tls: bool = ...,
    slot_bytes: int = ...,
    device: int = ...,
    gpu_worlds: GpuWorlds = ...,
) -> Communicator: ...
def own_address(host: str, port: int) -> str: ...
def make_local_communicators(
    generation: int, members: Sequence[_Member]
) -> list[Communicator]: ...

class Ticket:
    def done(self) -> bool: ...
    def wait(self, timeout_s: float = ...) -> None: ...

class OperationQueue:
    def __init__(self, communicator: Communicator, *, operations_max: int = ...) -> None: ...
    @overload
    def all_reduce(
        self, inout: _Elements, op: ReduceOp = ..., timeout_s: float = ...
    ) -> Ticket: ...
    @overload
    def all_reduce(
        self, in_: _Elements, out: _Elements, op: ReduceOp = ..., timeout_s: float = ...
    ) -> Ticket: ...
    def reduce_scatter(
        self, in_: _Elements, out: _Elements, op: ReduceOp = ..., timeout_s: float = ...
    ) -> Ticket: ...
    def reduce(
        self,
        in_: _Elements,
        out: _Elements | None,
        *,
        root: int,
        op: ReduceOp = ...,
        timeout_s: float = ...,
    ) -> Ticket: ...
    def all_gather(self, in_: _Elements, out: _Elements, timeout_s: float = ...) -> Ticket: ...
    def all_to_all(self, in_: _Elements, out: _Elements, timeout_s: float = ...) -> Ticket: ...
    def barrier(self, timeout_s: float = ...) -> Ticket: ...
    def broadcast(self, inout: _Elements, *, root: int, timeout_s: float = ...) -> Ticket: ...
    def gather(
        self, in_: _Elements, out: _Elements | None, *, root: int, timeout_s: float = ...
    ) -> Ticket: ...
    def scatter(
        self, in_: _Elements | None, out: _Elements, *, root: int, timeout_s: float = ...
    ) -> Ticket: ...
    def send(self, in_: _Elements, *, to: int, timeout_s: float = ...) -> Ticket: ...
    def recv(self, out: _Elements, *, from_: int, timeout_s: float = ...) -> Ticket: ...

def even_shares(micro_batches: int, ranks: int) -> list[int]: ...

class MicroBatchSum:
    begin: int
    end: int
    def __init__(
        self,
        communicator: Communicator,
        like: _Elements,
        *,
        shares: Sequence[int],
        op: ReduceOp = ...,
        timeout_s: float = ...,
    ) -> None: ...
    def add(self, gradient: _Elements) -> None: ...
    def clear(self) -> None: ...
    def finish(
        self, out: _Elements, timeout_s: float = ..., *, weight: float | None = None
    ) -> None: ...

class AllReduceSubscriber:
    @staticmethod
    def attach(world: _World, store: Store, timeout_s: float = ...) -> AllReduceSubscriber: ...
    def next(self, out: _Elements, timeout_s: float = ...) -> int: ...

class JobEnvironment:
    store_url: str
    store_secret: str
    job: str
    worker_id: str
    min_workers: int
    max_workers: int
    takes_over_from: str
    ledger_log: str
    on_lost_state: OnLostState

def job_environment() -> JobEnvironment | None: ...

class SampleFormat:
    dtype: str
    shape: list[int]
    bytes: int
    is_fixed: bool

class SkippedData:
    samples: int
    bytes: int
    first: str

class DataSource:
    samples: int
    format: SampleFormat
    skipped: SkippedData
    def __len__(self) -> int: ...
    @overload
    def read(
        self, indices: Sequence[int] | _Array, *, out: None = None
    ) -> npt.NDArray[Any] | list[bytes | None]: ...
    @overload
    def read(
        self, indices: Sequence[int] | _Array, *, out: _Array
    ) -> npt.NDArray[Any] | list[npt.NDArray[np.uint8] | None]: ...

def open_records(
    paths: Sequence[_Path], *, record_bytes: int, header_bytes: int = ...
) -> DataSource: ...
def open_npy(paths: Sequence[_Path], *, skip_corrupt: bool = ...) -> DataSource: ...
def open_tokens(
    paths: Sequence[_Path],
    *,
    window: int,
    stride: int = ...,
    token_bytes: int = ...,
    header_bytes: int = ...,
) -> DataSource: ...
def open_lines(
    paths: Sequence[_Path], *, skip_corrupt: bool = ..., unpacked_bytes: int = ...
) -> DataSource: ...
def open_json_lines(
    paths: Sequence[_Path], *, skip_corrupt: bool = ..., unpacked_bytes: int = ...
) -> DataSource: ...
def open_tf_records(
    paths: Sequence[_Path], *, skip_corrupt: bool = ..., unpacked_bytes: int = ...
) -> DataSource: ...
def open_tar_shards(
    paths: Sequence[_Path], *, skip_corrupt: bool = ..., unpacked_bytes: int = ...
) -> DataSource: ...
def join_sources(sources: Sequence[DataSource]) -> DataSource: ...
def mix_sources(sources: Sequence[DataSource], weights: Sequence[float]) -> DataSource: ...
def split_source(
    whole: DataSource, weights: Sequence[float], *, seed: int = ...
) -> list[DataSource]: ...
def _numbers(samples: int, first: int = ...) -> DataSource: ...
def tar_fields(sample: bytes) -> dict[str, bytes]: ...

class ShardColumn:
    name: str
    encoding: str
    bytes: int

def open_mds(
    folders: Sequence[_Path],
    *,
    check_hashes: bool = ...,
    skip_corrupt: bool = ...,
    unpacked_bytes: int = ...,
) -> DataSource: ...
def open_litdata(
    folders: Sequence[_Path],
    *,
    check_hashes: bool = ...,
    skip_corrupt: bool = ...,
    unpacked_bytes: int = ...,
) -> DataSource: ...
def shard_columns(folder: _Path) -> list[ShardColumn]: ...
def shard_fields(sample: bytes, columns: Sequence[ShardColumn]) -> dict[str, bytes]: ...

class BatchRingStats:
    batches: int
    waited: int
    consumers: int
    abandoned: int

class BatchRing:
    place: str
    stats: BatchRingStats
    @staticmethod
    def create(
        format: SampleFormat | None = None,
        *,
        slots: int = ...,
        slot_bytes: int = ...,
        consumers_max: int = ...,
        consumers: int = ...,
    ) -> BatchRing: ...
    def put(
        self,
        samples: _Array | Sequence[_Array | None],
        *,
        ranges: Sequence[_Samples] = ...,
        indices: Sequence[int] | _Array = ...,
        timeout_s: float = ...,
    ) -> None: ...
    def wait_used(self, timeout_s: float = ...) -> None: ...
    def finish(self) -> None: ...

class DataBatch:
    number: int
    ranges: list[SampleRange]
    indices: npt.NDArray[np.int64]
    skipped: int
    samples: npt.NDArray[Any] | list[npt.NDArray[np.uint8]]

class BatchConsumer:
    format: SampleFormat
    @staticmethod
    def attach(place: str) -> BatchConsumer: ...
    def next(self, timeout_s: float = ...) -> DataBatch | None: ...

class Shuffle(enum.Enum):
    NONE = ...
    PARTITIONS = ...
    SAMPLES = ...

class SampleOrder(enum.Enum):
    ON_DEMAND = ...
    GLOBAL = ...

class CommittedStep:
    step: int
    parts: list[tuple[Member, SampleRange]]
    lineage: int
    continues: int

class StepParticipant: ...

class SampleLedger(StepParticipant):
    order: SampleOrder
    micro_batch_samples: int
    batch_size_controller: BatchSizeController | None
    samples: int
    batch_samples: int
    taken: int
    shares: list[int]
    leases: list[SampleRange]
    epoch: int
    committed: int
    is_done: bool
    repeated: int
    def take(self, count: int | None = None) -> list[SampleRange]: ...
    def wait(self, timeout_s: float = ...) -> None: ...
    def forecast(self, steps: int) -> list[list[SampleRange]]: ...
    def want(self, partitions: int) -> None: ...
    def sample_indices(self, ranges: Sequence[_Samples]) -> npt.NDArray[np.int64]: ...
    def commit(self) -> None: ...
    def leave(self) -> None: ...
    def save(self) -> bytes: ...
    def restore(self, bytes: bytes) -> None: ...

def make_session_ledger(
    *,
    samples: int,
    partition_samples: int | None = None,
    epochs: int = ...,
    seed: int = ...,
    shuffle: Shuffle = ...,
    window_partitions: int = ...,
    order: SampleOrder = ...,
    batch_samples: int = ...,
    micro_batch_samples: int = ...,
    batch_size_controller: BatchSizeController | None = None,
    partitions_wanted: int = ...,
    on_stable: Callable[[CommittedStep], object] | None = None,
) -> SampleLedger: ...
def make_store_ledger(
    store: Store,
    *,
    id: str,
    samples: int,
    partition_samples: int | None = None,
    epochs: int = ...,
    seed: int = ...,
    shuffle: Shuffle = ...,
    window_partitions: int = ...,
    order: SampleOrder = ...,
    partitions_wanted: int = ...,
    job: str = ...,
    lineage: int = ...,
    from_: bytes = ...,
    lease_s: float = ...,
    on_stable: Callable[[CommittedStep], object] | None = None,
) -> SampleLedger: ...
def make_push_ledger(
    learner: Learner,
    *,
    samples: int,
    partition_samples: int | None = None,
    epochs: int = ...,
    seed: int = ...,
    shuffle: Shuffle = ...,
    window_partitions: int = ...,
    order: SampleOrder = ...,
    partitions_wanted: int = ...,
    on_stable: Callable[[CommittedStep], object] | None = None,
) -> SampleLedger: ...

class CommitLog:
    @staticmethod
    def open(
        path: str, *, samples: int, partition_samples: int | None = None, epochs: int = ...
    ) -> CommitLog: ...
    def write(self, step: CommittedStep) -> None: ...

class CommitAudit:
    steps: int
    samples: int
    epochs: int
    under_way: int
    missing: int
    repeated: int
    undone: int
    cut_lines: int
    problems: int
    first_problems: list[str]

def audit_commit_logs(
    paths: Sequence[str], *, complete: bool = ..., then: Sequence[Sequence[str]] = ...
) -> CommitAudit: ...

class NoiseScale:
    variance: float
    squared_norm: float
    measurements: int
    value: float
    def __init__(
        self, variance: float = 0.0, squared_norm: float = 0.0, measurements: int = 0
    ) -> None: ...
    def gain(self, reference: float, samples: float) -> float: ...

class GradientNoise(StepParticipant):
    noise_scale: NoiseScale
    @staticmethod
    def create(
        *,
        gradients: _Elements,
        interval: int = ...,
        smoothing: float = ...,
        block_stride: int = ...,
    ) -> GradientNoise: ...

class LearningRateRule(enum.Enum):
    CONSTANT = ...
    LINEAR = ...
    SQUARE_ROOT = ...
    ADA_SCALE = ...

class BatchRule:
    samples: int
    workers: int
    samples_max: int
    micro_batch_max: int
    learning_rate: LearningRateRule
    def __init__(
        self,
        *,
        samples: int,
        workers: int = 0,
        samples_max: int = 0,
        micro_batch_max: int = 0,
        learning_rate: LearningRateRule = ...,
    ) -> None: ...

class StepBatch:
    samples: int
    share: int
    micro_batches: int
    learning_rate_factor: float
    progress: float

def step_batch(rule: BatchRule, rank: int, workers: int, noise: NoiseScale = ...) -> StepBatch: ...

class Straggler:
    member: Member
    factor: float
    steps: int
    step: int

class StragglerWatch(StepParticipant):
    stragglers: list[Straggler]
    @staticmethod
    def create(
        *,
        factor: float = ...,
        steps: int = ...,
        on_straggler: Callable[[Straggler], object] | None = None,
    ) -> StragglerWatch: ...
    @staticmethod
    def create_replacing(
        store: Store | None = None,
        *,
        job: str | None = None,
        factor: float = ...,
        steps: int = ...,
        on_straggler: Callable[[Straggler], object] | None = None,
    ) -> StragglerWatch: ...

class BatchSizeController(StepParticipant):
    samples: int
    share: int
    @staticmethod
    def create(samples: int) -> BatchSizeController: ...
    def want(self, samples: int, members: int) -> None: ...

class JobAllocation:
    workers: int
    batch: int
    is_dropped: bool
    reason: str

class AutoscalerClient:
    wanted: JobAllocation
    @staticmethod
    def open(store: Store, job: str, *, interval_s: float = ...) -> AutoscalerClient: ...

class CheckpointOptions:
    folder: str
    every_steps: int
    every_s: float
    keep_last: int
    keep_best: int
    metric: Callable[[], float] | None
    note: Callable[[], bytes] | None
    names: list[str]
    resume: bool
    skip_damaged: bool
    at_end: bool
    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every_steps: int = ...,
        every_s: float = ...,
        keep_last: int = ...,
        keep_best: int = ...,
        metric: Callable[[], float] | None = None,
        note: Callable[[], bytes] | None = None,
        names: Sequence[str] = ...,
        resume: bool = ...,
        skip_damaged: bool = ...,
        at_end: bool = ...,
    ) -> None: ...

class Checkpoint:
    folder: str
    job: str
    lineage: int
    generation: int
    step: int
    metric: float | None
    note: bytes
    participants: bytes

def save_checkpoint(
    options: CheckpointOptions, tensors: _Elements, *, step: int = 0, job: str = ...
) -> Checkpoint: ...
def load_checkpoint(options: CheckpointOptions, tensors: _Elements) -> Checkpoint: ...

class MetricValue:
    sum: float
    members: int
    mean: float
    def __init__(self, sum: float, members: int = 1) -> None: ...

class StepMeasurement:
    workers: int
    nodes: int
    batch: int
    steps: int
    step_s: float
    sync_s: float
    age_s: float
    samples_per_s: float
    def __init__(
        self,
        workers: int,
        batch: int,
        step_s: float,
        *,
        nodes: int = ...,
        steps: int = ...,
        sync_s: float = ...,
        age_s: float = 0.0,
    ) -> None: ...

class Observation:
    at_s: float
    workers: int
    step: int
    step_s: float
    samples_per_s: float
    communication_share: float
    speeds: list[StepMeasurement]
    idle_workers: int | None
    metrics: dict[str, MetricValue]
    def __init__(
        self,
        *,
        workers: int,
        at_s: float = 0.0,
        step: int = 0,
        step_s: float = 0.0,
        samples_per_s: float = 0.0,
        communication_share: float = 0.0,
        speeds: Sequence[StepMeasurement] = (),
        idle_workers: int | None = None,
        metrics: dict[str, MetricValue] = {},
    ) -> None: ...

class SizeDecision:
    workers: int
    reason: str
    def __init__(self, workers: int, reason: str = "") -> None: ...

class ElasticPolicy:
    def decide(self, observation: Observation) -> SizeDecision: ...

def efficiency_policy(
    *, grow_above: float = ..., shrink_below: float = ..., trusted_for_s: float = ...
) -> ElasticPolicy: ...
def queue_policy(per_worker: float, metric: str = ...) -> ElasticPolicy: ...
def noise_policy(samples_per_worker: float, metric: str = ...) -> ElasticPolicy: ...
def schedule_policy(
    sizes: Sequence[tuple[float, int]], utc_offset_s: float = 0.0
) -> ElasticPolicy: ...
def idle_policy(keep_idle: int = 0) -> ElasticPolicy: ...

class SteadyOptions:
    min_workers: int
    max_workers: int
    cooldown_s: float
    confirmations: int
    tolerance: float
    step_max: int
    def __init__(
        self,
        *,
        min_workers: int = ...,
        max_workers: int = ...,
        cooldown_s: float = ...,
        confirmations: int = ...,
        tolerance: float = ...,
        step_max: int = ...,
    ) -> None: ...

class LoadedPolicy:
    policy: ElasticPolicy
    steady: SteadyOptions

def load_policy(file: str | os.PathLike[str]) -> LoadedPolicy: ...

class ReplayPoint:
    at_s: float
    workers: int
    proposed: int
    reason: str

class PolicyReplay:
    points: list[ReplayPoint]
    changes: int
    reversals: int
    unmeasured: int
    seconds: float
    worker_seconds: float
    oscillation: float
    mean_workers: float

def load_policy_trace(file: str | os.PathLike[str]) -> list[Observation]: ...
def replay_policy(
    trace: Sequence[Observation],
    policy: _Policy,
    steady: SteadyOptions = ...,
    *,
    first_workers: int | None = None,
    reversal_window_s: float = ...,
) -> PolicyReplay: ...

class PolicyFollower:
    decisions: int
    changes: int
    @staticmethod
    def start(
        policy: _Policy,
        store: Store | None = None,
        *,
        job: str | None = None,
        steady: SteadyOptions = ...,
        interval_s: float = ...,
        log_file: str | os.PathLike[str] | None = None,
    ) -> PolicyFollower: ...
    def stop(self) -> None: ...
    def __enter__(self) -> PolicyFollower: ...
    def __exit__(self, *exception: object) -> None: ...

class StepMetrics(StepParticipant):
    @staticmethod
    def create(
        store: Store | None = None,
        *,
        job: str | None = None,
        steps: int = ...,
        metrics: dict[str, Callable[[], float | None]] = {},
    ) -> StepMetrics: ...

class Recovery(enum.Enum):
    FORWARD = ...
    CONSISTENT = ...

class OnLostState(enum.Enum):
    RESTART = ...
    FAIL = ...

def begin_again(store: Store, job: str) -> None: ...
def ended_servers(store: Store, job: str) -> dict[str, int]: ...
def record_server_end(store: Store, job: str, name: str, version: int) -> None: ...

class StepResult(enum.Enum):
    CONTINUE = ...
    WORLD_CHANGED = ...
    RETRY_STEP = ...
    HEALED = ...
    LEFT = ...

class SessionStats:
    steps: int
    skipped_steps: int
    retried_steps: int
    early_buckets: int
    worlds: int
    healed: int
    bytes_received: int
    bytes_sent: int
    checkpoints: int
    dropped_checkpoints: int

class Session:
    self: Member
    world: World
    step: int
    stats: SessionStats
    is_finished: bool
    @staticmethod
    def open(
        store: Store | None = None,
        *,
        state: _Elements,
        gradients: _Elements,
        apply: Callable[[], object],
        on_world: Callable[[World], object] | None = None,
        begin_anew: Callable[[], object] | None = None,
        participants: Sequence[StepParticipant] = ...,
        micro_batch_shares: SampleLedger | None = None,
        micro_batch_samples: int = ...,
        bucket_bytes: int = ...,
        shared_memory: Sequence[SharedMemory | npt.NDArray[Any]] = ...,
        checkpoints: CheckpointOptions | None = None,
        recovery: Recovery = ...,
        id: str | None = None,
        job: str | None = None,
        min_workers: int | None = None,
        max_workers: int | None = None,
        takes_over_from: str | None = None,
        on_lost_state: OnLostState | None = None,
        on_fence: Literal["rejoin", "end"] = ...,
        backend: Backend = ...,
        address: str = ...,
        tls: bool = ...,
        device: int = ...,
        gpu_worlds: GpuWorlds = ...,
        non_finite: NonFinite = ...,
        name_gradient: Callable[[int, int], str] | None = ...,
        verify_state: bool = ...,
        heartbeat_s: float = ...,
        lease_s: float = ...,
        gather_s: float = ...,
        step_timeout_s: float = ...,
        fence_after_s: float = ...,
        operation_timeout_s: float = ...,
        recovery_timeout_s: float = ...,
    ) -> Session: ...
    def add_micro_batch(self, samples: int) -> None: ...
    def begin_average(self, end: int, samples: int) -> None: ...
    def end_step(self, samples: int | None = None) -> StepResult: ...
    def finish(self) -> None: ...
    def suspend(self) -> None: ...
    def resume(self) -> None: ...
    def request_checkpoint(self) -> None: ...
    def checkpoint_status(self) -> None: ...
    def ask_to_leave(self) -> None: ...
    def life_status(self) -> None: ...

class SegmentInfo:
    name: str
    kind: str
    bytes: int
    age_s: float
    creator_pid: int
    in_use: bool
    is_own: bool
    problem: str

def list_segments() -> list[SegmentInfo]: ...
def remove_segment(name: str) -> None: ...
def printable(text: str | bytes) -> str: ...
