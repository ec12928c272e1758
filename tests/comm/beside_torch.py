"""Our gloo and the one inside PyTorch in one process: both add up, before and after each other.

usage: beside_torch.py LIBRARY    (exit code 77: skipped, there is no PyTorch)
"""

import ctypes
import os
import sys
import tempfile

try:
    import torch
    import torch.distributed as dist
except ImportError as missing:
    print(f"skipped: {missing}; set FFDL_TORCH_PYTHON to a Python that has PyTorch")
    sys.exit(77)

COUNT = 1_000_003


def sum_of_ours(library):
    values = torch.arange(COUNT, dtype=torch.float32) % 7
    address = ctypes.cast(values.data_ptr(), ctypes.POINTER(ctypes.c_float))
    failures = library.ffdl_sum_on_threads(address, ctypes.c_uint64(COUNT))
    wanted = torch.arange(COUNT, dtype=torch.float32) % 7 * 3
    wanted[:10] *= 3  # these were added twice
    assert failures == 0, f"{failures} of our calls failed"
    assert torch.equal(values, wanted), "a wrong sum of ours"


def main(library_path):
    with tempfile.TemporaryDirectory() as folder:
        # The other rank of PyTorch is a fork, made before there is any thread.
        child = os.fork()
        rank = 1 if child == 0 else 0
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                                world_size=2)
        library = ctypes.CDLL(library_path)
        for turn in range(2):
            if rank == 0:
                sum_of_ours(library)
            tensor = torch.full((COUNT,), rank + 1.0)
            dist.all_reduce(tensor)
            assert torch.equal(tensor, torch.full((COUNT,), 3.0)), f"PyTorch's sum {turn} is wrong"
        # With PyTorch's connections open, and closed.
        dist.destroy_process_group()
        if rank == 1:
            os._exit(0)
        sum_of_ours(library)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "PyTorch's other rank failed"
    print("both add up")


if __name__ == "__main__":
    main(sys.argv[1])
