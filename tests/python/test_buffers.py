"""What counts as an array, and memory that is shared."""

import array
import ctypes
import gc
import weakref

import numpy as np
import pytest
from ranks import SOON_S, new_world, on_threads, shared_ranks

import ffdl


class FakeTensor(ctypes.Structure):
    """What DLPack's capsule points at, versions 1.x, to be had wrong in every way."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]

    def __init__(self, values, **fields):
        self.values = values
        self.lengths = (ctypes.c_int64 * values.ndim)(*values.shape)
        own = {
            "major": 1,
            "data": values.ctypes.data,
            "device_type": 1,
            "dimensions": values.ndim,
            "type_code": 2,
            "type_bits": 8 * values.itemsize,
            "type_lanes": 1,
            "shape": self.lengths,
        }
        super().__init__(**{**own, **fields})

    def __dlpack__(self, max_version):
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new_capsule(ctypes.addressof(self), b"dltensor_versioned", None)


@pytest.fixture
def alone():
    """A world of one: its sums are what it gives."""
    return ffdl.connect_communicator(new_world(0, 1), ffdl.open_store("mem://"), SOON_S)


class Tensor:
    """Speaks DLPack and nothing else, as other libraries do."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)


class OldTensor(Tensor):
    """Of the time before DLPack had versions."""

    def __dlpack__(self, stream=None):
        return self.values.__dlpack__()


class ForeignTensor(Tensor):
    def __dlpack__(self, **options):
        raise BufferError("it requires gradient, detach it")


def test_whatever_has_a_buffer_is_taken_where_it_lies(alone):
    given = np.arange(1, 6)
    for target in (
        array.array("q", [0] * 5),
        (ctypes.c_int64 * 5)(),
        memoryview(bytearray(40)).cast("q"),
        np.zeros((5, 1), np.int64),
        np.zeros(5, np.longlong),
        np.frombuffer(bytearray(41), np.int64, 5, offset=1),  # at an odd address
        Tensor(np.zeros(5, np.int64)),
        OldTensor(np.zeros(5, np.int64)),
        Tensor(np.zeros((1, 5, 1), np.int64)[:, :, :]),
    ):
        alone.all_reduce(given, target)
        values = target.values if isinstance(target, Tensor) else target
        np.testing.assert_array_equal(np.asarray(values).ravel(), given)
        back = np.zeros(5, np.int64)
        alone.all_reduce(target, back)
        np.testing.assert_array_equal(back, given)


def test_a_tensor_begins_after_its_offset_and_may_have_no_strides(alone):
    values = np.arange(6.0)
    out = np.zeros(4)
    tensor = FakeTensor(values[:4], byte_offset=16)
    alone.all_reduce(tensor, out)
    np.testing.assert_array_equal(out, [2, 3, 4, 5])
    alone.all_reduce(out, FakeTensor(values[:4], device_type=3))  # of the CPU as well
    np.testing.assert_array_equal(values, [2, 3, 4, 5, 4, 5])


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"major": 2}, "DLPack of version 2"),
        ({"device_type": 4}, "on a device"),
        ({"device_type": 2}, "is in a GPU's memory"),
        ({"flags": 1}, "read-only"),
        ({"type_lanes": 4}, "elements of"),
        ({"type_code": 5}, "elements of complex"),
    ],
)
def test_a_tensor_that_is_not_understood_is_refused(alone, fields, complaint):
    with pytest.raises(ffdl.InvalidArgument, match=complaint):
        alone.all_reduce(FakeTensor(np.zeros(4), **fields))


def read_only(values):
    values.setflags(write=False)
    return values


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (1.5, "a float; give a NumPy array"),
        ([[1.0, 2.0]], "a list"),
        ("text", "a str"),
        (np.zeros(3, np.uint8), "elements of uint8"),
        (np.zeros(3, bool), "elements of bool"),
        (np.zeros(3, ">f4"), "elements of >f4"),
        (np.zeros(3, complex), "elements of complex128"),
        (np.zeros((3, 3)).T, "not C-contiguous"),
        (np.zeros(6)[::2], "not C-contiguous"),
        (memoryview(np.zeros(6))[::2], "not C-contiguous"),
        (read_only(np.zeros(3)), "read-only"),
        (memoryview(bytes(8)).cast("d"), "read-only"),
        (bytearray(8), "elements of B"),
        (Tensor(np.zeros(3, np.uint16)), "elements of uint16"),
        (Tensor(np.zeros((3, 3)).T), "not C-contiguous"),
        (ForeignTensor(np.zeros(3)), "detach it"),
    ],
)
def test_what_cannot_be_taken_is_refused(alone, wrong, complaint):
    for given in (wrong, [np.zeros(3), wrong]):
        with pytest.raises(ffdl.InvalidArgument, match=f"array 'inout': .*{complaint}"):
            alone.all_reduce(given)
    alone.barrier()


def test_what_is_read_may_be_read_only(alone):
    out = np.zeros(3)
    alone.all_reduce(read_only(np.ones(3)), out)
    np.testing.assert_array_equal(out, 1)
    alone.all_reduce(memoryview(np.full(3, 2.0)).toreadonly(), out)
    np.testing.assert_array_equal(out, 2)


def test_bfloat16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")

    def body(communicator):
        inout = np.full(5, 1.5, ml_dtypes.bfloat16)
        communicator.all_reduce(inout)
        return inout.astype(float)

    for reduced in on_threads(shared_ranks(2), body):
        np.testing.assert_array_equal(reduced, 3)


# --- shared memory ---


def test_a_shared_array_is_an_array_over_shared_memory():
    shared = ffdl.shared_array((3, 4), np.float16)
    assert shared.shape == (3, 4) and shared.dtype == np.float16
    assert shared.flags.c_contiguous and shared.flags.writeable and not shared.any()
    assert isinstance(shared.base, ffdl.SharedMemory) and shared.base.bytes == 24
    assert ffdl.shared_array(7).shape == (7,) and ffdl.shared_array(7).dtype == np.float32
    with pytest.raises(ffdl.InvalidArgument, match="give at least one element"):
        ffdl.shared_array(0)


def mapped(shared):
    """How often this process has mapped the memory of a shared array."""
    address = shared.__array_interface__["data"][0]
    with open("/proc/self/maps") as lines:
        maps = [line.split() for line in lines]
    spans = {tuple(int(end, 16) for end in fields[0].split("-")): fields[4] for fields in maps}
    (inode,) = {node for (begin, end), node in spans.items() if begin <= address < end}
    return sum(node == inode for node in spans.values())


def test_registered_memory_is_read_and_written_where_it_lies():
    communicators = shared_ranks(2)
    gradients = [ffdl.shared_array(100_000, np.float64) for _ in communicators]
    assert [mapped(gradient) for gradient in gradients] == [1, 1]

    def body(communicator):
        gradient = gradients[communicator.rank]
        communicator.all_reduce(gradient)
        assert mapped(gradient) == 1  # not registered
        communicator.register_memory(gradient if communicator.rank == 0 else gradient.base)
        gradient[:] = communicator.rank + 1
        communicator.all_reduce(gradient.reshape(100, 1000))
        return gradient

    for gradient in on_threads(communicators, body):
        np.testing.assert_array_equal(gradient, 3)
        assert mapped(gradient) > 1  # who adds has let itself in


def test_the_memory_lives_as_long_as_a_view_of_it():
    shared = ffdl.shared_array(1000)
    memory = weakref.ref(shared.base)
    view = shared[10:20]
    view[:] = 5
    del shared
    gc.collect()
    assert memory() is not None
    np.testing.assert_array_equal(view, 5)
    del view
    gc.collect()
    assert memory() is None


def test_only_all_of_a_shared_array_can_be_registered(alone):
    shared = ffdl.shared_array((10, 10))
    for part in (shared[1:], shared[:5], shared.T):
        with pytest.raises(ffdl.InvalidArgument, match="whole"):
            alone.register_memory(part)
    for other in (np.zeros(10), bytearray(10), None):
        with pytest.raises(ffdl.InvalidArgument, match="shared_array"):
            alone.register_memory(other)


# --- PyTorch ---


def test_tensors_are_taken_where_they_lie():
    torch = pytest.importorskip("torch")

    def body(communicator):
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8):
            inout = [torch.ones(3, 4, dtype=dtype), torch.full((5,), 2, dtype=dtype)]
            communicator.all_reduce(inout)
            assert (inout[0] == 2).all() and (inout[1] == 4).all()
        for wrong in (torch.ones(3, requires_grad=True), torch.ones(3, 3).T, torch.ones(3) > 0):
            with pytest.raises(ffdl.InvalidArgument):
                communicator.all_reduce(wrong)
        return True

    assert on_threads(shared_ranks(2), body) == [True, True]


def test_a_dtype_that_no_array_may_have_is_named_as_in_torch(alone):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, "float8_e5m2", None)
    if dtype is None:
        pytest.skip("this PyTorch has no float8")
    # An older PyTorch does not pass it on, and says so itself.
    with pytest.raises(ffdl.InvalidArgument, match="elements of torch.float8_e5m2; give|dlpack"):
        alone.all_reduce(torch.zeros(3, dtype=dtype))


def test_a_tensor_of_a_shared_array_is_the_same_memory():
    torch = pytest.importorskip("torch")
    communicators = shared_ranks(2)

    def body(communicator):
        shared = ffdl.shared_array(50_000)
        communicator.register_memory(shared)
        tensor = torch.from_numpy(shared)
        del shared
        gc.collect()
        tensor.fill_(communicator.rank + 1)
        communicator.all_reduce(tensor)
        return float(tensor.min()), float(tensor.max()), mapped(tensor.numpy()) > 1

    assert on_threads(communicators, body) == [(3, 3, True), (3, 3, True)]


def test_tensors_and_the_memory_of_a_server():
    """A learner takes tensors where they lie, and what it gives becomes tensors where it lies."""
    torch = pytest.importorskip("torch")
    server = ffdl.ParameterServer.create(
        parameters=6, rule=ffdl.UpdateRuleOptions(learning_rate=1.0), rows_max=4,
        gradient_type="bfloat16")
    server.start()
    learner = ffdl.Learner.attach(server, SOON_S)
    learner.push(torch.full((2, 3), -1.0), (0, 0, 1))
    learner.push(torch.full((6,), -2.0, dtype=torch.bfloat16), (0, 1, 2))
    learner.flush(SOON_S)
    weights = torch.empty(2, 3)
    assert learner.pull(weights) == 2 and (weights == 3).all()
    learner.push(ffdl.Gradient.sparse([(0, torch.tensor([2]), torch.full((1, 2), -4.0))]), (0, 2, 3))
    torch.from_dlpack(learner.gradient_slot(SOON_S)).fill_(-1)
    learner.push(ffdl.Gradient.slot(), (0, 3, 4))
    learner.flush(SOON_S)
    shared = torch.from_dlpack(server.weights())
    assert shared.tolist() == [4, 4, 4, 4, 8, 8]
    shared.zero_()
    assert not learner.live_weights().any()
    with pytest.raises(ffdl.InvalidArgument, match="elements of float64; give .* float32"):
        learner.pull(torch.empty(6, dtype=torch.float64))
    with pytest.raises(ffdl.InvalidArgument, match="requires? grad"):
        learner.push(torch.ones(6, requires_grad=True), (0, 4, 5))
    learner.detach(SOON_S)
    server.stop()
