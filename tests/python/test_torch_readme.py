"""Runs the programs for PyTorch of README and guide as they stand there."""

import difflib
import importlib.metadata
import re
import subprocess
import sys

import pytest
from elastic_jobs import Job, run_workers
from pages import ROOT, blocks, fragment, text_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402

AROUND = """
import torch
from torch_digits import make_model, read_digits, right_of

images, labels, *for_test = read_digits()
dataset = torch.utils.data.TensorDataset(images, labels)
model, loss = make_model(), torch.nn.functional.cross_entropy
optimizer = torch.optim.Adam(model.parameters(), 0.005)
{}
print(f"{{right_of(model, *for_test):.2f}} of the digits")
"""


def digits_program(page, word):
    """A program around the fragment with that word, which prints what is right in the end."""
    return AROUND.format(fragment(page, word))


def run_worker(folder, fragment):
    """What is right in the end of a program that has the fragment in it; by chance 0.1."""
    program = folder / "program.py"
    program.write_text(AROUND.format(fragment))
    with Job(folder, program, forks=True) as job:
        log = job.start(0)
        job.wait(0)
    return float(re.search("(.*) of the digits", log.read_text())[1])


def test_elastic_training(tmp_path):
    assert run_worker(tmp_path, fragment("README.md", "ffdl.torch.elastic(")) > 0.6


PORT = ROOT / "examples" / "port_ddp"


def test_the_difference_on_the_page_is_that_of_the_programs():
    before, after = (
        (PORT / name).read_text().splitlines() for name in ("before.py", "after.py"))
    difference = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    (shown,) = [text for _, text in blocks("docs/guide/port-ddp.md", "diff")]
    # The page has no white space at the end of a line.
    assert shown.splitlines() == [line.rstrip() for line in difference]


def final_loss(output):
    return float(re.search("^final loss (.*)", output, re.MULTILINE)[1])


def test_a_script_before_and_after_its_port(tmp_path):
    """It has two ranks, and two workers; the loss of an untrained model is 0.42."""
    small = ["--epochs", "3", "--out", str(tmp_path / "out")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    for _ in range(3):
        before = subprocess.run(
            [*torchrun, "--nproc-per-node", "2", PORT / "before.py", *small], capture_output=True,
            text=True, timeout=300)
        # Now and then a rank of PyTorch 2.13 aborts in its own threads; it does not load ffdl.
        if "terminate called without an active exception" not in before.stderr:
            break
    assert before.returncode == 0, before.stderr
    ported = [line for lines in run_workers(tmp_path, 2, PORT / "after.py", *small)
              for line in lines]  # the first rank prints, which either worker may have
    assert abs(final_loss("\n".join(ported)) - final_loss(before.stdout)) < 0.02
    assert final_loss(before.stdout) < 0.1


def test_local_steps(tmp_path):
    assert run_worker(tmp_path, fragment("docs/guide/slow_links.md", "ffdl.torch.local_sgd(")) > 0.6


def test_a_parameter_server(tmp_path, name):
    shown = fragment("docs/guide/parameter-server.md", "labels in loader:")
    assert '"digits"' in shown
    loader = ("loader = torch.utils.data.DataLoader(\n"
              "    torch.utils.data.ConcatDataset(6 * [dataset]), batch_size=16, shuffle=True)\n")
    assert run_worker(
        tmp_path, "import ffdl.torch\n" + loader + shown.replace('"digits"', repr(name))) > 0.6


@pytest.mark.parametrize("back_ends", ["ffdl", "cpu:ffdl,cuda:nccl"])
def test_a_process_group(back_ends):
    """Where no tensor lies on a GPU nothing is asked of its back end."""
    assert f'"{back_ends}"' in text_of("docs/guide/python.md")
    dist.init_process_group(back_ends, store=dist.HashStore(), rank=0, world_size=1)
    try:
        tensor, objects = torch.ones(3), [None]
        dist.all_reduce(tensor)
        dist.all_gather_object(objects, "of rank 0")
        assert (tensor == 1).all() and objects == ["of rank 0"]
    finally:
        dist.destroy_process_group()


ORDINARY = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 4)
data = TensorDataset(x, x.sum(dim=1, keepdim=True))
dist.init_process_group("BACKEND")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = DistributedSampler(data)
for epoch in range(20):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
weights = [f"{weight:.3f}" for weight in model.module.weight[0].tolist()]
place = f"rank {dist.get_rank()} of {dist.get_world_size()}, back end {dist.get_backend()}"
# In one piece, its end too: under torchrun the ranks share a pipe, and nothing is buffered.
print(f"{place}: {weights}\\n", end="")
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    "launcher",
    [["ffdl", "run", "--workers", "2"],
     pytest.param(["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
                  marks=pytest.mark.slow)],
    ids=["ffdl run", "torchrun"])
def test_a_program_that_changes_one_word(launcher, tmp_path):
    if "ffdl" not in importlib.metadata.entry_points(group="torch.backends").names:
        pytest.skip("ffdl is not installed as a wheel with its entry points")
    program = tmp_path / "program.py"
    program.write_text(ORDINARY.replace("BACKEND", "ffdl"))
    done = subprocess.run(
        [sys.executable, "-m", *launcher, program], capture_output=True, text=True, timeout=240,
        check=False)
    ends = re.findall(r"rank (\d) of 2, back end ffdl: (.*)", done.stdout)
    assert sorted(ends) == [(str(rank), "['1.000', '1.000', '1.000', '1.000']") for rank in (0, 1)], (
        done.stdout + done.stderr)
