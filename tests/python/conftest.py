import glob
import os
import uuid

# PyTorch's threads wait in loops: several tests or ranks beside each other wait for each other's.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest  # noqa: E402
import ranks  # noqa: E402


@pytest.fixture
def name():
    """A segment name that no other test uses; nothing may be left of it."""
    name = f"pytest-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    yield name
    assert not os.path.exists(f"/dev/shm/ffdl.{name}")


@pytest.fixture
def url(tmp_path):
    """A store for processes; nothing of what they meet in may be left."""
    yield f"file://{tmp_path}/store"
    assert not glob.glob(f"/dev/shm/ffdl.comm-{ranks.new_world(0, 1).generation}-*")


@pytest.fixture(scope="session")
def processes():
    processes = ranks.Processes()
    yield processes
    processes.end()


@pytest.fixture(scope="session")
def torch_processes():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch_ranks import TorchProcesses

    processes = TorchProcesses()
    yield processes
    processes.end()


@pytest.fixture
def no_gpu():
    """Skips where there is one that ffdl can use."""
    import ffdl

    server = ffdl.ParameterServer.create(parameters=1)
    server.start()
    try:
        ffdl.Learner.attach(server, device=-1)
    except ffdl.Unimplemented:
        server.stop()
    else:
        pytest.skip("there is a GPU")
