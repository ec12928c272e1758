"""Arrays that say that they lie in a GPU's memory: made up, as there need be no GPU."""

import numpy as np
import pytest
from ranks import SOON_S, local_ranks, new_world, shared_ranks
from test_buffers import FakeTensor

import ffdl

CUDA, MANAGED = 2, 13  # of DLPack
NOWHERE = 0x7000_0000_0000  # a GPU's address, which nobody may touch here


class DeviceTensor(FakeTensor):
    """Of a GPU; notes which stream its producer is told."""

    def __init__(self, values=None, device=0, type=CUDA, **fields):
        values = np.zeros(4, np.float32) if values is None else values
        super().__init__(values, device_type=type, device_id=device, data=NOWHERE, **fields)
        self.told = []

    def __dlpack_device__(self):
        return self.device_type, self.device_id

    def __dlpack__(self, stream=None, max_version=None):
        self.told.append(stream)
        return super().__dlpack__(max_version)


class CudaArray:
    """Speaks the CUDA Array Interface and nothing else."""

    def __init__(self, **fields):
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (4,), "typestr": "<f4", "data": (NOWHERE, False)} | fields


MADE_UP = [DeviceTensor, lambda: DeviceTensor(type=MANAGED), CudaArray,
           lambda: CudaArray(stream=1, strides=None, mask=None), lambda: CudaArray(strides=(4,))]


def save(folder, *tensors):
    return ffdl.save_checkpoint(ffdl.CheckpointOptions(folder), list(tensors))


def open_session(state, gradients, **options):
    return ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=state, gradients=gradients, apply=lambda: None,
        lease_s=15.0, gather_s=0.05, **options)


@pytest.mark.parametrize("make", MADE_UP)
def test_what_works_in_the_hosts_memory_refuses_them(make, tmp_path):
    (alone,) = local_ranks(1)
    for inout in (make(), [np.zeros(3, np.float32), make()]):
        with pytest.raises(ffdl.InvalidArgument, match="connect it with Backend.NCCL or"):
            alone.all_reduce(inout)
    with pytest.raises(ffdl.InvalidArgument, match="connect it with Backend.NCCL or"):
        alone.all_reduce(np.zeros(4, np.float32), make())
    with pytest.raises(ffdl.InvalidArgument, match="connect it with Backend.NCCL or"):
        ffdl.MicroBatchSum(alone, make(), shares=[1])
    total = ffdl.MicroBatchSum(alone, np.zeros(4, np.float32), shares=[1])
    with pytest.raises(ffdl.InvalidArgument, match="connect it with Backend.NCCL or"):
        total.add(make())
    queue = ffdl.OperationQueue(alone)
    with pytest.raises(ffdl.InvalidArgument, match="connect it with Backend.NCCL or"):
        queue.all_reduce(make())
    for state, gradients in ((make(), np.zeros(1)), (np.zeros(1), make())):
        with pytest.raises(ffdl.InvalidArgument, match="give backend=Backend.NCCL or"):
            open_session(state, gradients)


# A GPU that is there would find that the address is none of its own, and the processor touch it.
@pytest.mark.parametrize("make", MADE_UP)
def test_what_can_reach_a_gpu_looks_for_it(no_gpu, make, tmp_path):
    with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
        save(tmp_path, make(), np.zeros(3))
    assert not list(tmp_path.glob("*/*"))
    save(tmp_path, np.zeros(4, np.float32))  # is not asked about GPUs
    with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
        ffdl.load_checkpoint(ffdl.CheckpointOptions(tmp_path), make())
    with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
        ffdl.GradientNoise.create(gradients=make())
    for backend in (ffdl.Backend.NCCL, ffdl.Backend.DEVICE_SHM):
        with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
            open_session(make(), make(), backend=backend)


def test_a_server_that_folds_there_needs_one(no_gpu):
    with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
        ffdl.ParameterServer.create(parameters=4, device=0)
    with pytest.raises(ffdl.InvalidArgument, match="a GPU folds no rounds"):
        ffdl.ParameterServer.create(parameters=4, device=0, synchrony=ffdl.Synchrony.BULK)
    assert ffdl.ParameterServer.create(parameters=4).stats().device is None


def test_a_world_of_gpus_needs_them(no_gpu):
    for backend in (ffdl.Backend.NCCL, ffdl.Backend.DEVICE_SHM):
        for worlds in ffdl.GpuWorlds:
            with pytest.raises(ffdl.Unimplemented):
                ffdl.connect_communicator(
                    new_world(0, 1), ffdl.open_store("mem://"), SOON_S, backend=backend, device=0,
                    gpu_worlds=worlds)
        with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
            open_session(np.zeros(1), np.zeros(1), backend=backend)


def test_a_world_continues_from_another():
    """Which changes nothing where no GPUs are connected."""
    (before,) = local_ranks(1)
    (after,) = local_ranks(1)
    after.continue_from(None)
    after.continue_from(before, timeout_s=5)
    values = np.ones(2)
    after.all_reduce(values)
    with pytest.raises(ffdl.InvalidArgument, match="another thread is inside"):
        after.continue_from(after)


def test_what_has_nothing_to_give_back_goes_on():
    (alone,) = local_ranks(1)
    alone.suspend()
    alone.resume(timeout_s=5)
    values = np.ones(2)
    alone.all_reduce(values)
    session = open_session(values, np.zeros(2))
    session.suspend()
    with pytest.raises(ffdl.InvalidArgument, match="is suspended; call resume"):
        session.end_step(1)
    session.resume()
    with pytest.raises(ffdl.InvalidArgument, match="is not suspended"):
        session.resume()
    session.end_step(1)
    session.finish()


def test_the_producer_is_told_of_the_default_stream():
    tensor = DeviceTensor()
    (alone,) = local_ranks(1)
    with pytest.raises(ffdl.InvalidArgument, match="Backend.NCCL"):
        alone.all_reduce(tensor)
    assert tensor.told == [1]  # CUDA's legacy default stream
    pinned = np.ones(4, np.float32)
    alone.all_reduce(FakeTensor(pinned, device_type=3))  # the host's: there is none


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (CudaArray(typestr="<u4"), "elements of <u4"),
        (CudaArray(typestr=">f4"), "elements of >f4"),
        (CudaArray(typestr="<c16"), "elements of <c16"),
        (CudaArray(typestr=""), "elements of ;"),
        (CudaArray(strides=(8,)), "not C-contiguous"),
        (CudaArray(shape=(2, 2), strides=(4, 8)), "not C-contiguous"),
        (CudaArray(data=(NOWHERE, True)), "read-only"),
        (CudaArray(mask=object()), "has a mask"),
        (CudaArray(stream=0x5000), "a stream other than the default stream"),
        (CudaArray(stream=2), "a stream other than the default stream"),
        (DeviceTensor(type=4), "other than an NVIDIA GPU"),
        (DeviceTensor(flags=1), "read-only"),
        (DeviceTensor(np.zeros(4, np.uint8), type_code=1), "elements of"),
        ([DeviceTensor(), DeviceTensor(device=1)], "GPU 1, and other arrays are in that of GPU 0"),
        ([DeviceTensor(device=2), CudaArray(), DeviceTensor(device=1)], "GPU 1, .* that of GPU 2"),
    ],
)
def test_what_is_wrong_with_them_is_said(wrong, complaint, tmp_path):
    save(tmp_path, np.zeros(4, np.float32))
    with pytest.raises(ffdl.InvalidArgument, match=f"array 'tensors': .*{complaint}"):
        ffdl.load_checkpoint(ffdl.CheckpointOptions(tmp_path), wrong)


def test_a_session_has_one_gpu():
    nccl = {"backend": ffdl.Backend.NCCL}
    with pytest.raises(ffdl.InvalidArgument, match="'state' .* GPU 1, but this member uses GPU 0"):
        open_session(DeviceTensor(device=1), DeviceTensor(), device=0, **nccl)
    with pytest.raises(ffdl.InvalidArgument, match="'gradients' .* GPU 0, .* member uses GPU 1"):
        open_session(DeviceTensor(device=1), DeviceTensor(), **nccl)


def test_calls_of_the_host_alone_say_so():
    store = ffdl.open_store("mem://")
    (alone,) = shared_ranks(1)
    alone.open_to_subscribers(store)
    listener = ffdl.AllReduceSubscriber.attach(alone.world, store)
    with pytest.raises(ffdl.InvalidArgument, match=r"array 'out': .* GPU 0, .* e\.g\. with x\.cpu"):
        listener.next(DeviceTensor())
    server = ffdl.ParameterServer.create(parameters=4)
    server.start()
    learner = ffdl.Learner.attach(server)
    for call in (learner.pull, lambda array: learner.push(array, (0, 0, 1))):
        for made_up in (DeviceTensor(), CudaArray()):
            with pytest.raises(ffdl.InvalidArgument, match=r"memory of .*GPU.*e\.g\. with x\.cpu"):
                call(made_up)
    del learner
    server.stop()


def test_a_learner_of_a_gpu_needs_one(no_gpu, name):
    server = ffdl.ParameterServer.create(parameters=4, name=name)
    server.start()
    for attach in (lambda: ffdl.Learner.attach(name, 5, slot=1, device=0),
                   lambda: ffdl.Learner.attach(server, timeout_s=5, device=-1)):
        with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
            attach()
    assert not server.stats().learners  # no slot was taken
    server.stop()


def update(kind="adam", **changed):
    arrays = {"gradient": DeviceTensor(), "weights": DeviceTensor(),
              "state": [DeviceTensor(), DeviceTensor()]}
    ffdl.update_on_device(
        ffdl.UpdateRuleOptions(kind), **{"number": 1, "learning_rate": 0.1} | arrays | changed)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"gradient": np.zeros(4, np.float32)}, "'gradient': .* the host's memory"),
        ({"weights": np.zeros(4, np.float32)}, "'weights': .* the host's memory"),
        ({"state": [np.zeros(4, np.float32)] * 2}, "'state': .* the host's memory"),
        ({"weights": CudaArray(shape=(5,))}, "'weights': 5 elements, and other arrays have 4"),
        ({"state": [DeviceTensor(), CudaArray(shape=(3,))]}, "'state': 3 elements"),
        ({"weights": DeviceTensor(device=1)}, "'weights': .* GPU 1, .* in that of GPU 0"),
        ({"gradient": [DeviceTensor(), DeviceTensor()]}, "'gradient': 2 arrays; give one"),
        ({"weights": CudaArray(typestr="<f8")}, "'weights': elements of float64; give float32"),
        ({"state": [CudaArray(typestr="<f2")] * 2}, "'state': elements of float16; give float32"),
        ({"weights": CudaArray(data=(NOWHERE, True))}, "'weights': .*read-only"),
        ({"state": [DeviceTensor(), np.zeros(4, np.float32)]}, "'state': .* the host's memory"),
        ({"state": [DeviceTensor()]}, "'state': 1 arrays; rule 'adam' keeps 2"),
        ({"kind": "sgd"}, "'state': 2 arrays; rule 'sgd' keeps 0"),
    ],
)
def test_an_update_names_what_is_wrong_with_its_arrays(changed, complaint):
    with pytest.raises(ffdl.InvalidArgument, match=complaint):
        update(**changed)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize("make", MADE_UP)
def test_an_update_needs_a_gpu(kind, make, no_gpu):
    state = [make() for _ in range({"sgd": 0, "momentum": 1, "adamw": 2}[kind])]
    with pytest.raises(ffdl.Unimplemented, match="CUDA|GPU"):
        update(kind, gradient=make(), weights=make(), state=state)
