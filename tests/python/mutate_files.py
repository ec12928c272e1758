"""Reads files whose bytes were changed, in child processes: what a reader makes of them.

``python mutate_files.py FOLDER FORMAT FIRST END`` is such a child. It prints a line before and after
each file, so that its parent knows which one ended it.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import resource
import select
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np

import ffdl

MEMORY_MAX = 1 << 30  # of address space, beside that of a child that has read nothing
SECONDS_MAX = 60.0  # for one file, on a busy machine
UNPACKED_MAX = 1 << 22
NUMBERS = (b"0", b"-1", b"0.5", b"1e18", b"1e300", b"1e-300", b"1e999", b"nan", b"4294967297",
           b"9223372036854775807", b"18446744073709551615", b"9" * 309)
ENDS = {"ok", "Corrupt", "InvalidArgument", "Unimplemented", "Exhausted", "NotFound"}


def _table():
    import pyarrow

    words = pyarrow.array([f"word {i % 7}" for i in range(60)])
    return pyarrow.table({
        "id": pyarrow.array(range(60), pyarrow.int64()), "text": words,
        "pair": pyarrow.FixedSizeListArray.from_arrays(np.arange(120, dtype="f4"), 2),
        "list": pyarrow.array([[i] * (i % 4) for i in range(60)]),
        "when": pyarrow.array(range(60), pyarrow.time64("us")),
        "where": pyarrow.array([[i] for i in range(60)],
                               pyarrow.list_(pyarrow.timestamp("us", tz="Europe/Vienna"))),
        "kind": words.dictionary_encode(),
    })


def _write_parquet(path):
    from pyarrow import parquet

    parquet.write_table(_table(), path, row_group_size=20)


def _write_arrow(path, make, table=None, **options):
    from pyarrow import ipc

    table = table or _table()
    with make(ipc)(path, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=20)


def _npy():
    out = io.BytesIO()
    np.save(out, np.arange(60, dtype="f4").reshape(20, 3))
    return out.getvalue()


def _tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(4):
            for suffix in ("txt", "cls"):
                info = tarfile.TarInfo(f"{i:04}.{suffix}")
                info.size = 9
                tar.addfile(info, io.BytesIO(b"text %4d" % i))
    return out.getvalue()


def _crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _tf_records():
    records = []
    for i in range(8):
        size, data = struct.pack("<Q", 5 + i), bytes(5 + i)
        records += [size, _crc(size), data, _crc(data)]
    return b"".join(records)


def _shard(sizes, header=b""):
    samples = [sizes + struct.pack("<q", i) + b"text%d" % i for i in range(6)]
    ends = np.cumsum([0, *map(len, samples)]) + 4 + 4 * 7 + len(header)
    return struct.pack("<I", 6) + ends.astype("<u4").tobytes() + header + b"".join(samples)


def _write_mds(folder):
    shard = _shard(struct.pack("<I", 5), b"{}")
    raw = {"basename": "0.mds", "bytes": len(shard), "hashes": {}}
    entry = {"column_names": ["id", "text"], "column_encodings": ["int", "str"],
             "column_sizes": [8, None], "compression": None, "format": "mds", "hashes": [],
             "raw_data": raw, "samples": 6, "size_limit": 1 << 26, "version": 2, "zip_data": None}
    (folder / "0.mds").write_bytes(shard)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [entry]}))


def _write_litdata(folder):
    shard = _shard(struct.pack("<2I", 8, 5))
    chunks = [{"chunk_bytes": len(shard), "chunk_size": 6, "dim": None, "filename": "0.bin"}]
    config = {"chunk_bytes": 1 << 26, "chunk_size": None, "compression": None,
              "data_format": ["int", "str"], "data_spec": None, "encryption": None,
              "item_loader": "PyTreeLoader"}
    (folder / "0.bin").write_bytes(shard)
    (folder / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))


def _write_checkpoint(folder):
    tensors = [np.arange(16, dtype=np.float32)]
    ffdl.save_checkpoint(ffdl.CheckpointOptions(folder=str(folder)), tensors)


_LINES = b"".join(b'{"text": "line %d"}\n' % i for i in range(40))
_COMMITS = b'{"samples":20,"partition_samples":10,"epochs":1}\n' + b"".join(
    b'{"step":%d,"lineage":1,"parts":[["a",1,%d,0,10]]}\n' % (i + 1, i) for i in range(2))
_JOBS = b"""jobs:
  - name: a
    scaling: [1, 1.9, 2.7, 3.4]
    max_workers: 4
  - {name: b, sizes: [{workers: 2, scaling: 1.5, batch: 64}, {workers: 4, scaling: 2.5}]}
"""
_POLICY = b"policy: queue\nper_worker: 100\nmax_workers: 3\ncooldown_s: 30\n"
_RATES = b"batch,1,2,4\n64,1.0,1.9,3.5\n128,0.6,1.2,2.2\n"
_TRACE = b"job_id,submission_time,duration,num_gpu\na,0,600,1\nb,60.5,1200,2\nc,90,300,4\n"
_PLACEMENTS = b"placement,local_bsz,step_time,sync_time\n1,8,1.0,0\n2,4,1.0,0.1\n2,8,1.0,0.1\n"
_EPOCHS = b"progress,iteration,metric,grad_sqr,grad_var\n100,100,0.5,1,1\n200,200,0.6,1,2\n"
_WORKLOAD = b"name,time,application,num_replicas,batch_size\na,0,net,1,8\nb,30,net,2,8\n"

_FILES = {
    "npy": _npy, "records": lambda: bytes(range(200)), "tokens": lambda: bytes(range(200)),
    "lines": lambda: _LINES, "lines.gz": lambda: gzip.compress(_LINES),
    "lines.bz2": lambda: bz2.compress(_LINES), "lines.xz": lambda: lzma.compress(_LINES),
    "tfrecord": _tf_records, "tfrecord.gz": lambda: gzip.compress(_tf_records()),
    "tar": _tar, "tar.gz": lambda: gzip.compress(_tar()), "commits": lambda: _COMMITS,
    "jobs": lambda: _JOBS, "rates": lambda: _RATES, "trace": lambda: _TRACE,
    "placements": lambda: _PLACEMENTS, "epochs": lambda: _EPOCHS, "workload": lambda: _WORKLOAD,
    "policy": lambda: _POLICY,
}
_FOLDERS = {"mds": _write_mds, "litdata": _write_litdata, "checkpoint": _write_checkpoint}
_TABLES = {
    "parquet": _write_parquet,
    "arrow": lambda path: _write_arrow(path, lambda ipc: ipc.new_file),
    "arrow.zstd": lambda path: _write_arrow(path, lambda ipc: ipc.new_file, compression="zstd"),
    "stream": lambda path: _write_arrow(
        path, lambda ipc: ipc.new_stream, _table().drop_columns(["kind"])),
    "stream.lz4": lambda path: _write_arrow(
        path, lambda ipc: ipc.new_stream, _table().drop_columns(["kind"]), compression="lz4"),
}
DATA = [name for name in (*_FILES, *_FOLDERS) if name not in (
    "jobs", "rates", "trace", "placements", "epochs", "workload", "policy")]
TABLES = list(_TABLES)
COMMANDS = ["jobs", "rates", "trace", "placements", "epochs", "workload"]
PYTHON = ["policy"]


def write_all(folder: Path) -> None:
    """A small valid file or folder of each format."""
    for name, make in _FILES.items():
        (folder / name).mkdir()
        (folder / name / "file").write_bytes(make())
    for name, write in _FOLDERS.items():
        (folder / name).mkdir()
        write(folder / name)


def write_tables(folder: Path) -> None:
    for name, write in _TABLES.items():
        (folder / name).mkdir()
        write(str(folder / name / "file"))


def mutated(original: bytes, chance: random.Random) -> bytes:
    """Some bits flipped, bytes replaced, the end cut off, a part twice or missing, a number huge."""
    data = bytearray(original)
    numbers = list(re.finditer(rb"(?<![\w.])\d+(\.\d+)?", original)) if original.isascii() else []
    if numbers and chance.randrange(3) == 0:
        number = chance.choice(numbers)
        data[slice(*number.span())] = chance.choice(NUMBERS)
        return bytes(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(data) or 1)
        kind = chance.randrange(8)
        if not data:
            break
        if kind <= 2:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 3:
            data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, ord("9"), ord("-")))
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            data[at:at] = data[at:at + chance.randrange(1, 64)]
        elif kind == 6:
            del data[at:at + chance.randrange(1, 64)]
        else:
            huge = chance.choice((b"9" * 309, b"1e18", b"1e999", b"-1", b"\xff" * 8, b"\x00" * 8))
            data[at:at + len(huge) if huge[0] in (0, 0xFF) else at + 1] = huge
    return bytes(data)


def _read_source(source):
    for number in range(min(source.samples, 50)):
        source.read([number])
    source.read(range(min(source.samples, 50)))


def _open(kind, path, skip):
    """Reads all of it."""
    packed = {"skip_corrupt": skip, "unpacked_bytes": UNPACKED_MAX}
    base = kind.split(".")[0]
    if kind in TABLES:
        opened = ffdl.data.open_parquet if kind == "parquet" else ffdl.data.open_arrow
        data = opened([path], skip_corrupt=skip)
        rows = list(range(min(data.samples, 100)))
        data.read(rows)
        data.__getitems__(rows[-3:])
        return
    if base == "commits":
        ffdl.audit_commit_logs([path])
    elif base == "policy":
        ffdl.load_policy(path)
    elif base == "npy":
        _read_source(ffdl.open_npy([path], skip_corrupt=skip))
    elif base == "records":
        _read_source(ffdl.open_records([path], record_bytes=10))
    elif base == "tokens":
        _read_source(ffdl.open_tokens([path], window=8))
    else:
        opened = {"lines": ffdl.open_lines, "tfrecord": ffdl.open_tf_records,
                  "tar": ffdl.open_tar_shards}[base]
        _read_source(opened([path], **packed))


def _read_folder(kind, folder, skip):
    if kind == "checkpoint":
        ffdl.load_checkpoint(ffdl.CheckpointOptions(folder=folder),
                             [np.zeros(16, dtype=np.float32)])
        return
    opened = ffdl.open_mds if kind == "mds" else ffdl.open_litdata
    _read_source(opened([folder], skip_corrupt=skip, unpacked_bytes=UNPACKED_MAX))
    columns = ffdl.shard_columns(folder)
    source = opened([folder])
    for number in range(min(source.samples, 50)):
        ffdl.shard_fields(source.read([number])[0], columns)


def _run_command(kind, path, folder):
    program = Path(ffdl.__file__).parent / "bin" / "ffdl"
    simulate = [program, "simulate", "--nodes", "2", "--json"]
    if kind == "jobs":
        command = [program, "plan", "--workers", "8", "--jobs", path]
    elif kind == "trace":
        command = [*simulate, "--workload", path]
    elif kind == "rates":
        tables = folder / "tables"
        tables.mkdir(exist_ok=True)
        os.replace(path, tables / "net.csv")
        command = [program, "plan", "--workers", "8", "--throughputs", tables]
    else:
        profile = folder / "profiles" / "net"
        profile.mkdir(parents=True, exist_ok=True)
        (profile / "placements.csv").write_bytes(_PLACEMENTS)
        (profile / "validation-8.csv").write_bytes(_EPOCHS)
        (folder / "workload.csv").write_bytes(_WORKLOAD)
        to = {"placements": profile / "placements.csv", "epochs": profile / "validation-8.csv",
              "workload": folder / "workload.csv"}[kind]
        os.replace(path, to)
        command = [*simulate, "--profiles", profile.parent, "--workload", folder / "workload.csv"]
    ended = subprocess.run([str(word) for word in command], capture_output=True, timeout=SECONDS_MAX)
    if ended.returncode < 0 or ended.returncode > 100:
        os.kill(os.getpid(), -ended.returncode if ended.returncode < 0 else 6)
    if ended.returncode != 0:
        is_said = ended.stderr.startswith(b"ffdl: ")
        raise (ffdl.InvalidArgument if is_said else RuntimeError)(ended.stderr)


def _outcome(read):
    try:
        read()
        return "ok"
    except Exception as error:
        kind = type(error).__name__
        return kind if kind in ENDS else f"{kind}: {error}".replace("\n", " ")[:300]


def _one(folder, kind, number, work):
    chance = random.Random(f"{kind}/{number}")
    names = sorted(p.relative_to(folder / kind) for p in (folder / kind).rglob("*") if p.is_file())
    victim = chance.choice(names)
    place = work / kind if kind in _FOLDERS else work
    for name in names if kind in _FOLDERS else [victim]:
        data = (folder / kind / name).read_bytes()
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        is_changed = name == victim and number > 0  # the first file is as it was
        (place / name).write_bytes(mutated(data, chance) if is_changed else data)
    if kind in COMMANDS:
        return [_outcome(lambda: _run_command(kind, place / victim, work))]
    read = _read_folder if kind in _FOLDERS else _open
    path = str(place if kind in _FOLDERS else place / victim)
    return [_outcome(lambda: read(kind, path, skip)) for skip in (False, True)]


def _memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field + ":"))


def _child(folder, kind, first, end):
    import tempfile

    if kind in TABLES:
        _open(kind, str(folder / kind / "file"), False)
    limit = _memory("VmSize") + MEMORY_MAX
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    begin = _memory("VmHWM")
    with tempfile.TemporaryDirectory(prefix="mutated", dir=folder) as work:
        for number in range(first, end):
            print("begin", number, flush=True)
            for outcome in _one(folder, kind, number, Path(work)):
                print("end", outcome, flush=True)
    print("peak", _memory("VmHWM") - begin, flush=True)


class Campaign:
    """How the files of one format were read."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.outcomes: dict[str, int] = {}
        self.wrong: list[str] = []
        self.peak = 0

    def run(self, files: int) -> "Campaign":
        first = 0
        while first < files:
            first = self._run_child(first, files)
        return self

    def _run_child(self, first, end):
        command = [sys.executable, __file__, str(self.folder), self.kind, str(first), str(end)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        last, buffer, is_hung = first - 1, b"", False
        poll = select.poll()
        poll.register(child.stdout, select.POLLIN)
        quiet_until = time.monotonic() + 3 * SECONDS_MAX  # it imports first
        while True:
            if not poll.poll(max(0, quiet_until - time.monotonic()) * 1000):
                is_hung = True
                child.kill()
                break
            if not (more := os.read(child.stdout.fileno(), 1 << 16)):
                break
            *lines, buffer = (buffer + more).split(b"\n")
            for line in lines:
                word, _, rest = line.decode().partition(" ")
                if word == "begin":
                    last = int(rest)
                elif word == "peak":
                    self.peak = max(self.peak, int(rest))
                else:
                    self._count(rest, last)
            quiet_until = time.monotonic() + SECONDS_MAX
        errors = child.communicate()[1].decode(errors="replace")
        if is_hung:
            self._count("hang", last)
        elif child.returncode != 0:
            self._count(f"ended by {child.returncode}: {errors[-600:]}", last)
        else:
            return end
        return last + 1

    def _count(self, outcome, number):
        self.outcomes[outcome.split(":")[0]] = self.outcomes.get(outcome.split(":")[0], 0) + 1
        if outcome not in ENDS or (number == 0 and outcome != "ok"):
            self.wrong.append(f"{self.kind} {number}: {outcome}")


if __name__ == "__main__":
    _child(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
