"""Files of which some bytes are others: each is read, or refused with an error of ffdl's."""

import gzip
import os
import subprocess
import sys

import mutate_files
import pytest

MEMORY_MAX = 256 << 20  # of small files, beside what a process has without them
MUTATIONS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("valid")
    mutate_files.write_all(folder)
    return folder


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    folder = tmp_path_factory.mktemp("tables")
    mutate_files.write_tables(folder)
    return folder


def check(folder, kind, files):
    campaign = mutate_files.Campaign(folder, kind).run(files)
    print(kind, campaign.outcomes, f"{campaign.peak >> 20} MiB")
    assert not campaign.wrong
    assert campaign.peak <= MEMORY_MAX
    assert set(campaign.outcomes) != {"ok"} or kind == "lines"  # any bytes are lines


@pytest.mark.parametrize("kind", mutate_files.DATA + mutate_files.PYTHON)
def test_mutated_files_of_samples(folder, kind):
    check(folder, kind, MUTATIONS)


@pytest.mark.parametrize("kind", mutate_files.TABLES)
def test_mutated_tables(tables, kind):
    check(tables, kind, MUTATIONS)


@pytest.mark.parametrize("kind", mutate_files.COMMANDS)
def test_mutated_files_of_plans(folder, kind):
    check(folder, kind, MUTATIONS // 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", mutate_files.DATA + mutate_files.PYTHON)
def test_many_mutated_files_of_samples(folder, kind):
    check(folder, kind, int(os.environ.get("FFDL_MUTATIONS", 2000)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", mutate_files.TABLES)
def test_many_mutated_tables(tables, kind):
    check(tables, kind, int(os.environ.get("FFDL_MUTATIONS", 5000)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", mutate_files.COMMANDS)
def test_many_mutated_files_of_plans(folder, kind):
    check(folder, kind, int(os.environ.get("FFDL_MUTATIONS", 500)))


def test_what_a_compressed_file_holds_is_bounded(tmp_path):
    """A few KB that unpack to 96 MiB use no more memory than unpacked_bytes says."""
    path, limit = tmp_path / "bomb.gz", 48 << 20
    with gzip.open(path, "wb", compresslevel=9) as bomb:
        for _ in range(96):
            bomb.write(bytes(1 << 20))
    program = (
        "import re, sys, ffdl\n"
        "read = lambda: open('/proc/self/status').read()\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s*(\\d+)', read())[1]) << 10\n"
        "before = peak()\n"
        "try:\n"
        f"    ffdl.open_lines([sys.argv[1]], unpacked_bytes={limit})\n"
        "except ffdl.Exhausted as error:\n"
        "    assert 'unpacked_bytes' in str(error)\n"
        "    print(peak() - before)\n"
        "except ffdl.Unimplemented:\n"
        "    print(-1)\n")
    ended = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    if (used := int(ended.stdout)) < 0:
        pytest.skip("built without FFDL_WITH_ARCHIVE")
    assert used < limit * 1.1
