#!/usr/bin/env python3
"""What ffdl saves is read by the package safetensors, and the other way round.

usage: beside_safetensors.py PROGRAM   (tests/elastic/beside_safetensors.cc)
Exit code 77: skipped, as the package is not there.
"""

import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import safetensors
    import safetensors.numpy
except ImportError as error:
    print(f"skipped: {error}; ./dev setup installs it")
    sys.exit(77)


def run(*arguments):
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        path = run(program, "save", folder).strip()
        tensors = safetensors.numpy.load_file(path)
        expected = {
            "layer.weight": np.arange(1000, dtype=np.float32) / 4,
            "counters": np.array([1, -2, 2**60], np.int64),
            "halves": np.array([1, -2], np.float16),
            "ffdl.note": np.frombuffer(b"a note", np.int8),
        }
        assert tensors.keys() == expected.keys(), tensors.keys()
        for name, values in expected.items():
            assert tensors[name].dtype == values.dtype, name
            np.testing.assert_array_equal(tensors[name], values, err_msg=name)
        with safetensors.safe_open(path, "numpy") as file:
            hashes = file.metadata()
        assert hashes.keys() == {f"xxh3:{name}" for name in expected}, hashes

        mine = {
            "a": np.arange(6, dtype=np.float64).reshape(2, 3),
            "b": np.array([7], np.int16),
            "scalar": np.array(5, np.int64),
            "none": np.zeros((0, 4), np.float32),
        }
        path = str(pathlib.Path(folder) / "mine.safetensors")
        safetensors.numpy.save_file(mine, path, metadata={"by": "the package"})
        seen = {}
        for line in run(program, "check", path).splitlines():
            head, _, data = line.partition(":")
            name, dtype, *shape = head.split()
            seen[name] = np.frombuffer(bytes.fromhex(data), dtype).reshape([int(n) for n in shape])
        assert seen.keys() == mine.keys(), seen.keys()
        for name, values in mine.items():
            np.testing.assert_array_equal(seen[name], values, err_msg=name)
    print("each reads what the other wrote")


if __name__ == "__main__":
    main(sys.argv[1])
