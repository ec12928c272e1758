"""Process groups between hosts: addresses are found, and a network can be chosen."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")
from hosts import make_hosts  # noqa: E402, F401  # a fixture

from pages import ROOT  # noqa: E402
from test_torch_readme import digits_program  # noqa: E402

import ffdl  # noqa: E402

PROGRAM = """
import datetime, os, sys
import torch, torch.distributed as dist
import ffdl.torch
torch.set_num_threads(1)
dist.init_process_group("ffdl", timeout=datetime.timedelta(seconds=60))
numbers = torch.full((1000,), float(dist.get_rank() + 1))
dist.all_reduce(numbers)
print("sum", numbers[0].item(), ffdl.own_address(os.environ["MASTER_ADDR"], 1))
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("interface", "network"), [("", "10.9.0"), ("spare", "10.8.0"), ("10.8.0.0/24", "10.8.0")])
def test_a_group_between_hosts_finds_its_addresses(make_hosts, interface, network):  # noqa: F811
    hosts = make_hosts(2)
    variables = {"MASTER_ADDR": "10.9.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "2",
                 "FFDL_INTERFACE": interface}
    ranks = []
    for rank in range(2):
        words = [f"{name}={value}" for name, value in {**variables, "RANK": str(rank)}.items()]
        ranks.append(hosts.start(rank, ["env", *words, sys.executable, "-c", PROGRAM]))
    for rank, process in enumerate(ranks):
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        own = f"{network}.{rank + 1}"
        assert f"sum 3.0 {own}\n" in out


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_the_program_of_the_readme_trains_on_hosts(make_hosts, tmp_path, count):  # noqa: F811
    """Started as the guide says; the program gives no address, and its workers find each other."""
    program = tmp_path / "train.py"
    program.write_text(digits_program("README.md", "ffdl.torch.elastic("))
    hosts = make_hosts(count)
    variables = {**os.environ, "FFDL_STORE_SECRET": "of the job on many hosts",
                 "TMPDIR": str(tmp_path),
                 "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "python"),
                                                os.environ.get("PYTHONPATH", "")])}
    launchers = [
        hosts.start(host, [sys.executable, "-m", "ffdl", "run", "--job", "digits", "--nnodes",
                           str(count), "--node-rank", str(host), "--nproc-per-node", "1",
                           "--rdzv-endpoint", "10.9.0.1:29400", str(program)], env=variables)
        for host in range(count)
    ]
    printed = [launcher.communicate(timeout=400)[0] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0] * count, printed
    right = [float(re.search("(.*) of the digits", out)[1].split()[-1]) for out in printed]
    assert len(set(right)) == 1 and right[0] > 0.6, "all have the same weights"


def test_an_interface_that_is_not_there_is_an_error():
    program = "import ffdl; ffdl.own_address('10.9.0.1', 1)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "FFDL_INTERFACE": "none0"})
    assert "find the address of interface 'none0'" in done.stderr


def test_a_server_on_loopback_needs_no_address():
    assert ffdl.own_address("127.0.0.1", 29500) == ""
    assert ffdl.own_address("localhost", 29500) == ""
