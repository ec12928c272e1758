"""Data sets that are compressed, in folders of shards, or tables."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import pickle
import struct
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import ffdl
from ffdl.data import ElasticLoader

def first_batch(loader):
    """Of a set that is one batch."""
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[np.zeros(1)], gradients=[np.zeros(1)],
        apply=lambda: None, participants=[loader.ledger], lease_s=15.0, gather_s=0.05)
    for batch in loader.batches(session):
        session.end_step(loader.taken)
    return batch


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.fixture(scope="module")
def needs_archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "lines"
    path.write_bytes(gzip.compress(b"line\n"))
    try:
        ffdl.open_lines([str(path)])
    except ffdl.Unimplemented:
        pytest.skip("built without FFDL_WITH_ARCHIVE")


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_lines_and_archives(needs_archive, tmp_path, kind):
    lines = "".join(f"line {i}\n" for i in range(500)).encode()
    (tmp_path / "lines").write_bytes(PACKERS[kind](lines))
    data = ffdl.open_lines([str(tmp_path / "lines")], unpacked_bytes=len(lines))
    assert data.read([499, 0, 17]) == [b"line 499", b"line 0", b"line 17"]
    with pytest.raises(ffdl.Exhausted, match="unpacked_bytes"):
        ffdl.open_lines([str(tmp_path / "lines")], unpacked_bytes=len(lines) - 1)
    with tarfile.open(tmp_path / "shard.tar", f"w:{kind}") as tar:
        for i in range(3):
            info = tarfile.TarInfo(f"{i:04}.txt")
            info.size = 6
            tar.addfile(info, io.BytesIO(b"text %d" % i))
    shards = ffdl.open_tar_shards([str(tmp_path / "shard.tar")])
    assert ffdl.tar_fields(shards.read([2])[0]) == {"txt": b"text 2"}
    packed = (tmp_path / "shard.tar").read_bytes()
    (tmp_path / "shard.tar").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ffdl.Corrupt, match=r"unpack '.*shard.tar': .* at byte \d+ of"):
        ffdl.open_tar_shards([str(tmp_path / "shard.tar")])


def shard_of(samples, between=b""):
    at = 4 * (len(samples) + 2) + len(between)
    offsets = [at + sum(map(len, samples[:i])) for i in range(len(samples) + 1)]
    head = struct.pack(f"<{len(offsets) + 1}I", len(samples), *offsets)
    return head + between + b"".join(samples)


def write_mds(folder, compression):
    """Two shards of three samples: an int and a text."""
    folder.mkdir()
    shards = []
    for number in range(2):
        texts = [f"text {3 * number + i}".encode() for i in range(3)]
        samples = [struct.pack("<Iq", len(text), 3 * number + i) + text
                   for i, text in enumerate(texts)]
        raw = shard_of(samples, b"{}")
        name = f"shard.{number:05}.mds"
        shard = {
            "version": 2, "format": "mds", "compression": None, "hashes": ["sha1"],
            "size_limit": None, "samples": 3, "column_names": ["label", "text"],
            "column_encodings": ["int", "str"], "column_sizes": [8, None],
            "raw_data": {"basename": name, "bytes": len(raw),
                         "hashes": {"sha1": hashlib.sha1(raw).hexdigest()}},
            "zip_data": None,
        }
        if compression:
            packed = PACKERS[compression](raw)
            shard |= {"compression": f"{compression}:9", "zip_data": {
                "basename": f"{name}.{compression}", "bytes": len(packed), "hashes": {}}}
            (folder / f"{name}.{compression}").write_bytes(packed)
        else:
            (folder / name).write_bytes(raw)
        shards.append(shard)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
    return str(folder)


@pytest.mark.parametrize("compression", [None, "gz", "bz2"])
def test_mds(needs_archive, tmp_path, compression):
    folder = write_mds(tmp_path / "mds", compression)
    data = ffdl.open_mds([folder])
    columns = ffdl.shard_columns(folder)
    assert [(one.name, one.encoding, one.bytes) for one in columns] == [
        ("label", "int", 8), ("text", "str", 0)]
    fields = ffdl.shard_fields(data.read([4])[0], columns)
    assert fields == {"label": struct.pack("<q", 4), "text": b"text 4"}
    with ElasticLoader(data, batch_samples=6, collate_fn=lambda samples: sorted(
            ffdl.shard_fields(one, columns)["text"] for one in samples)) as loader:
        assert first_batch(loader) == [b"text %d" % i for i in range(6)]
    victim = tmp_path / "mds" / ("shard.00001.mds" + (f".{compression}" if compression else ""))
    broken = bytearray(victim.read_bytes())
    broken[-10] ^= 1
    victim.write_bytes(broken)
    again = ffdl.open_mds([folder])
    assert len(again.read([0, 1, 2])) == 3
    with pytest.raises(ffdl.Corrupt, match="shard.00001.mds"):
        again.read([5])


def test_corrupt_lines_are_left_out_where_that_is_asked_for(tmp_path):
    path = tmp_path / "lines.json"
    path.write_text("".join("{\n" if i % 3 == 1 else f"{i}\n" for i in range(12)))
    with pytest.raises(ffdl.Corrupt, match="lines.json"):
        ffdl.open_json_lines([str(path)]).read(range(12))
    data = ffdl.open_json_lines([str(path)], skip_corrupt=True)
    assert data.read([2, 1, 0, 4]) == [b"2", None, b"0", None]
    assert data.skipped.samples == 2
    assert "lines.json" in data.skipped.first
    assert data.skipped.bytes == 0


def epoch_of(loader):
    """The batches of an epoch of one worker."""
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[np.zeros(1)], gradients=[np.zeros(1)],
        apply=lambda: None, participants=[loader.ledger], lease_s=15.0, gather_s=0.05)
    batches = []
    for batch in loader.batches(session):
        batches.append(batch)
        session.end_step(loader.taken)
    return batches


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_loader_gives_what_is_not_corrupt_and_commits_all(tmp_path, num_workers):
    path = tmp_path / "lines.json"
    # The second step of three has nothing that is whole.
    path.write_text("".join("{\n" if i == 1 or 4 <= i < 8 else f"{i}\n" for i in range(12)))
    data = ffdl.open_json_lines([str(path)], skip_corrupt=True)
    committed = []
    with ElasticLoader(
            data, batch_samples=4, shuffle=ffdl.Shuffle.NONE, num_workers=num_workers,
            on_stable=committed.append) as loader:
        assert epoch_of(loader) == [[b"0", b"2", b"3"], [b"8", b"9", b"10", b"11"]]
        assert loader.skipped == 5
    assert sum(used.end - used.begin for one in committed for _, used in one.parts) == 12


def test_a_shard_with_other_bytes_is_left_out_as_a_whole(tmp_path):
    folder = write_mds(tmp_path / "mds", None)
    victim = tmp_path / "mds" / "shard.00001.mds"
    broken = bytearray(victim.read_bytes())
    broken[-10] ^= 1
    victim.write_bytes(broken)
    data = ffdl.open_mds([folder], skip_corrupt=True)
    read = data.read(range(6))
    assert [one is None for one in read] == [False] * 3 + [True] * 3
    assert data.skipped.samples == 3


def test_litdata(tmp_path):
    samples = [struct.pack("<2I", 8, len(text)) + struct.pack("<q", i) + text
               for i, text in enumerate([b"one", b"", b"three"])]
    chunk = shard_of(samples)
    (tmp_path / "chunk-0-0.bin").write_bytes(chunk)
    config = {
        "compression": None, "chunk_size": None, "chunk_bytes": 64, "encryption": None,
        "data_format": ["int", "bytes"], "data_spec": None, "item_loader": "PyTreeLoader",
    }
    chunks = [{"filename": "chunk-0-0.bin", "chunk_size": 3, "chunk_bytes": len(chunk), "dim": None}]
    (tmp_path / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))
    data = ffdl.open_litdata([str(tmp_path)])
    columns = ffdl.shard_columns(str(tmp_path))
    assert ffdl.shard_fields(data.read([2])[0], columns) == {
        "0": struct.pack("<q", 2), "1": b"three"}
    config["item_loader"] = "TokensLoader"
    (tmp_path / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))
    with pytest.raises(ffdl.Unimplemented, match="open_tokens"):
        ffdl.open_litdata([str(tmp_path)])


@pytest.fixture
def arrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def table_of(arrow, first, rows):
    numbers = range(first, first + rows)
    return arrow.table({
        "id": arrow.array(numbers, arrow.int64()),
        "weight": arrow.array([number / 2 for number in numbers], arrow.float32()),
        "text": [f"text {number}" for number in numbers],
        "point": arrow.array([[number, -number] for number in numbers],
                             arrow.list_(arrow.int32(), 2)),
    })


def write_tables(arrow, folder, kind):
    """Rows 0 to 99 in two files, in pieces of 20 rows; and how such files are opened."""
    from pyarrow import ipc, parquet

    paths = []
    for number, (first, rows) in enumerate([(0, 70), (70, 30)]):
        table = table_of(arrow, first, rows)
        paths.append(str(folder / f"{number}.{kind}"))
        if kind == "parquet":
            parquet.write_table(table, paths[-1], row_group_size=20)
            continue
        begin = ipc.new_file if kind == "file" else ipc.new_stream
        with begin(paths[-1], table.schema) as writer:
            writer.write_table(table, max_chunksize=20)
    return paths, ffdl.data.open_parquet if kind == "parquet" else ffdl.data.open_arrow


KINDS = ["parquet", "file", "stream"]


@pytest.mark.parametrize("kind", KINDS)
def test_tables(arrow, tmp_path, kind):
    paths, opened = write_tables(arrow, tmp_path, kind)
    data = opened(paths)
    assert (data.samples, len(data), data.columns) == (100, 100, ["id", "weight", "text", "point"])
    rows = data.read(np.array([99, 0, 71, 0]))
    assert rows["id"].tolist() == [99, 0, 71, 0] and rows["id"].dtype == np.int64
    assert rows["weight"].tolist() == [49.5, 0, 35.5, 0] and rows["weight"].dtype == np.float32
    assert rows["text"] == ["text 99", "text 0", "text 71", "text 0"]
    assert rows["point"].tolist() == [[99, -99], [0, 0], [71, -71], [0, 0]]
    assert data[5]["text"] == "text 5" and data.__getitems__([5, 6])[1]["id"] == 6
    assert opened(paths, ["text"]).read([3]) == {"text": ["text 3"]}
    assert data.read([])["id"].tolist() == []
    again = pickle.loads(pickle.dumps(data))
    assert again.read(range(100))["id"].tolist() == list(range(100))
    with pytest.raises(ffdl.InvalidArgument, match="there are 100"):
        data.read([100])
    with pytest.raises(IndexError):
        data[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_tables_in_a_loader(arrow, tmp_path, kind):
    paths, opened = write_tables(arrow, tmp_path, kind)
    data = opened(paths, cached_bytes=1)  # one piece at a time
    for workers in (0, 1):
        with ElasticLoader(data, batch_samples=100, num_workers=workers) as loader:
            batch = first_batch(loader)
        assert sorted(batch["id"].tolist()) == list(range(100))
        assert batch["text"] == [f"text {number}" for number in batch["id"]]
    with ElasticLoader(data, batch_samples=100, collate_fn=list) as loader:
        assert {"id", "text", "weight", "point"} == set(first_batch(loader)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_tables_on_several_threads(arrow, tmp_path, kind):
    paths, opened = write_tables(arrow, tmp_path, kind)
    data = opened(paths, cached_bytes=2000)
    wanted = [[(7 * i + j) % 100 for j in range(30)] for i in range(40)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda numbers: data.read(numbers)["id"].tolist(), wanted))
    assert found == wanted


def test_tables_keep_the_pieces_that_were_used_last(arrow, tmp_path, monkeypatch):
    paths, opened = write_tables(arrow, tmp_path, "parquet")
    data = opened(paths, ["id"], cached_bytes=400)  # two pieces of 160 bytes
    read = []
    monkeypatch.setattr(type(data._files[0]), "_read", lambda file, piece, columns, was=type(
        data._files[0])._read: (read.append(piece), was(file, piece, columns))[1])
    for number in (0, 25, 5, 45, 10, 30):
        assert data.read([number])["id"].tolist() == [number]
    assert read == [0, 1, 2, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_another_schema(arrow, tmp_path, kind):
    from pyarrow import ipc, parquet

    paths, opened = write_tables(arrow, tmp_path, kind)

    def write(table):
        path = str(tmp_path / "other")
        if kind == "parquet":
            parquet.write_table(table, path)
        else:
            with (ipc.new_file if kind == "file" else ipc.new_stream)(path, table.schema) as writer:
                writer.write_table(table)
        return [*paths, path]

    table = table_of(arrow, 0, 5)
    wrong = table.set_column(1, "weight", table["weight"].cast(arrow.float64()))
    with pytest.raises(ffdl.InvalidArgument,
                       match=r"column 'weight' is double in '.*other' and float in '.*0\."):
        opened(write(wrong))
    assert len(opened(write(wrong), ["id", "text"])) == 105
    with pytest.raises(ffdl.InvalidArgument, match="other' has no column 'text'; choose from id"):
        opened(write(table.drop_columns(["text"])))
    with pytest.raises(ffdl.InvalidArgument, match="other' has a column 'more'"):
        opened(write(table.append_column("more", table["id"])))
    with pytest.raises(ffdl.InvalidArgument, match="has no column 'nothing'"):
        opened(paths, ["nothing"])
    empty = table.set_column(0, "id", arrow.array([1, None, 3, 4, 5], arrow.int64()))
    data = opened(write(empty))
    assert data.read([100])["id"].tolist() == [1]
    with pytest.raises(ffdl.InvalidArgument, match="column 'id' .*: a number is null"):
        data.read([101])


@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_are_broken(arrow, tmp_path, kind):
    paths, opened = write_tables(arrow, tmp_path, kind)
    with pytest.raises(ffdl.NotFound, match="nowhere"):
        opened([str(tmp_path / "nowhere")])
    with pytest.raises(ffdl.InvalidArgument, match="it is a folder; name its files"):
        opened([str(tmp_path)])
    with pytest.raises(ffdl.InvalidArgument, match="list of files"):
        opened([])
    victim = Path(paths[0])
    data = opened(paths)
    os.truncate(victim, victim.stat().st_size // 3)  # shrinks while it is in use
    where = {"parquet": "row group 2", "stream": r"batch 2 at byte \d+", "file": "batch 2"}
    with pytest.raises(ffdl.Corrupt, match=f"{where[kind]} of '{victim}'"):
        data.read([50])
    with pytest.raises(ffdl.Corrupt, match=f"open '{paths[0]}'"):
        opened(paths)
    victim.write_bytes(b"no table at all")
    with pytest.raises(ffdl.Corrupt, match=f"open '{paths[0]}'"):
        opened(paths)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_are_broken_are_left_out_where_that_is_asked_for(arrow, tmp_path, kind):
    paths, opened = write_tables(arrow, tmp_path, kind)
    skip = {"skip_corrupt": True, "cached_bytes": 1}
    data = opened(paths, **skip)
    os.truncate(paths[0], os.path.getsize(paths[0]) // 3)  # of its rows 0 to 69 the first are left
    assert data.read([99, 50, 71])["id"].tolist() == [99, 71]
    assert data[50] is None and data[71]["id"] == 71
    assert data.skipped.samples == 2 and paths[0] in data.skipped.first
    for collate_fn in (None, lambda rows: {"id": np.array([row["id"] for row in rows])}):
        with ElasticLoader(data, batch_samples=100, collate_fn=collate_fn) as loader:
            ids = first_batch(loader)["id"].tolist()
            assert set(range(70, 100)) <= set(ids) and 50 not in ids
            assert loader.skipped == 100 - len(ids)
    part = ffdl.data.split(data, [0.5, 0.5])[0]
    mixed = ffdl.data.mix([part, opened(paths[1:], **skip)], [1, 1])
    with ElasticLoader(mixed, batch_samples=len(mixed)) as loader:
        assert len(first_batch(loader)["id"]) == len(mixed) - loader.skipped < len(mixed)
    assert pickle.loads(pickle.dumps(opened(paths[1:], **skip))).skipped.samples == 0
    again = opened(paths, **skip)  # its schema is gone as well, or rows after the cut
    assert again.samples < 100 and again.read(range(again.samples))["id"][-1] == 99
    with pytest.raises(ffdl.Corrupt, match="none of 1 files can be read"):
        opened(paths[:1], **skip)


def test_pages_of_parquet_are_checked(arrow, tmp_path):
    from pyarrow import parquet

    path = tmp_path / "checked.parquet"
    table = arrow.table({"id": arrow.array(range(1000), arrow.int64())})
    parquet.write_table(table, path, compression="none", use_dictionary=False, row_group_size=500,
                        write_page_checksum=True)
    broken = bytearray(path.read_bytes())
    at = broken.index(struct.pack("<2q", 700, 701))
    broken[at] ^= 1
    path.write_bytes(broken)
    data = ffdl.data.open_parquet([str(path)])
    assert data.read([499])["id"].tolist() == [499]
    with pytest.raises(ffdl.Corrupt, match=r"row group 1 of .*(CRC|checksum)"):
        data.read([500])
    left = ffdl.data.open_parquet([str(path)], skip_corrupt=True)
    assert left.read([500, 0])["id"].tolist() == [0] and left.skipped.samples == 1


def test_values_that_python_lacks_are_corrupt(arrow, tmp_path):
    """pyarrow raises a KeyError, of an unknown time zone, and others of its own."""
    from pyarrow import parquet

    nowhere = arrow.list_(arrow.timestamp("us", tz="Nowhere/Land"))
    broken = {
        "zone": arrow.array([[0], [1]], nowhere),
        "year": arrow.array([[1 << 62], [1 << 61]], arrow.list_(arrow.timestamp("s"))),
        "text": arrow.array([b"\xff", b"\xfe"]).view(arrow.string()),
    }
    for name, column in broken.items():
        path = tmp_path / f"{name}.arrow"
        table = arrow.table({"id": [1, 2], name: column})
        with arrow.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        for call in (lambda data: data.read([1, 0]), lambda data: data[1]):
            with pytest.raises(ffdl.Corrupt, match=rf"{name}.*; .*"):
                call(ffdl.data.open_arrow([path]))
        assert ffdl.data.open_arrow([path], ["id"]).read([1])["id"].tolist() == [2]
    table = arrow.table({"zone": broken["zone"]})
    parquet.write_table(table, tmp_path / "zone.parquet")
    with pytest.raises(ffdl.Corrupt, match="read column 'zone'.*columns="):
        ffdl.data.open_parquet([tmp_path / "zone.parquet"])[0]


def test_rows_that_do_not_fit_into_memory_are_exhausted(arrow, tmp_path):
    path = tmp_path / "wide.arrow"
    table = arrow.table({"id": [1], "bytes": arrow.array([bytes(16 << 20)], arrow.large_binary())})
    with arrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    program = (
        "import re, resource, sys, ffdl\n"
        "data = ffdl.data.open_arrow([sys.argv[1]])\n"
        "assert len(data.read([0])['bytes'][0]) == 16 << 20\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20),) * 2)\n"
        "for call in (data.read, data.__getitems__):\n"
        "    try:\n"
        "        call([0] * 200)\n"
        "    except ffdl.Exhausted as error:\n"
        "        assert 'take 200 rows' in str(error) and 'ulimit -v' in str(error), error\n"
        "    else:\n"
        "        sys.exit('3 GiB fit into 512 MiB')\n")
    ended = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_paths_may_be_objects(arrow, tmp_path):
    from pyarrow import parquet

    np.save(tmp_path / "a.npy", np.arange(3))
    assert ffdl.open_npy([tmp_path / "a.npy", str(tmp_path / "a.npy")]).read([5]).tolist() == [2]
    parquet.write_table(arrow.table({"id": [7]}), tmp_path / "a.parquet")
    assert ffdl.data.open_parquet([tmp_path / "a.parquet"])[0]["id"] == 7
    folder = Path(write_mds(tmp_path / "mds", None))
    assert ffdl.open_mds([folder]).samples == 6 and len(ffdl.shard_columns(folder)) == 2
    for opened in (ffdl.open_npy, ffdl.data.open_parquet):
        with pytest.raises((TypeError, ffdl.InvalidArgument)):
            opened(tmp_path / "a.npy")
