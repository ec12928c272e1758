import os
import uuid

import pytest


@pytest.fixture
def name():
    """A segment name that no other test uses; nothing may be left of it."""
    name = f"pytest-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    yield name
    assert not os.path.exists(f"/dev/shm/ffdl.{name}")
