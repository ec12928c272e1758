"""Checkpoints and files of data in object stores: complete or absent, beside training."""

import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
from elastic_jobs import wait_for
from test_checkpoint import Job

import ffdl

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

ALONE = {"interval_s": 0.02}


def save(folder, *steps, keep_last=2, **options):
    given = ffdl.CheckpointOptions(folder, keep_last=keep_last, **options)
    for step in steps:
        ffdl.save_checkpoint(given, np.full(3000, step), step=step)
    return given


def steps_at(place):
    return [one.step for one in ffdl.checkpoints.list_checkpoints(place)]


def load(options):
    state = np.zeros(3000, np.int64)
    loaded = ffdl.load_checkpoint(options, state)
    assert state.tolist() == [loaded.step] * 3000
    return loaded.step


@pytest.fixture(scope="module")
def bucket():
    """A bucket of S3 on loopback: its URL, and the options of fsspec for it."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    pytest.importorskip("moto.server", reason="moto is not installed")
    server = subprocess.Popen(
        [sys.executable, "-u", "-c",
         "from moto.server import ThreadedMotoServer\n"
         "server = ThreadedMotoServer(ip_address='127.0.0.1', port=0)\n"
         "server.start()\n"
         "print('at', *server.get_host_and_port(), flush=True)\n"
         "input()\n"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    told = next(line for line in server.stdout if line.startswith("at "))  # it prints others too
    _, host, port = told.split()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "a", "secret": "b"}
    fsspec.filesystem("s3", **options).mkdir("bucket")
    yield "s3://bucket", options
    server.stdin.close()
    server.wait(60)
    server.stdout.close()


@pytest.fixture(params=["memory", "file", "s3"])
def place(request, tmp_path):
    """A URL, and the options of fsspec for it."""
    if request.param == "s3":
        url, options = request.getfixturevalue("bucket")
        return f"{url}/{tmp_path.name}", options
    if request.param == "file":
        return f"file://{tmp_path}/remote", {}
    return f"memory://{tmp_path}", {}


def test_a_job_continues_on_a_fresh_machine(tmp_path, place):
    url, storage = place
    job = Job(tmp_path)
    options = ffdl.CheckpointOptions(tmp_path / "first", every_steps=1, resume=True)
    with ffdl.CheckpointUpload(options, url, storage_options=storage, **ALONE) as upload:
        job.open(checkpoints=options)
        job.step()
        job.step()
        while job.session.stats.checkpoints == 0:
            job.session.end_step(0)
        wait_for(lambda: upload.uploads > 0, "one is uploaded while the job trains")
        job.session.finish()
        upload.status()
    newest = ffdl.checkpoints.list_checkpoints(tmp_path / "first")[0]
    assert ffdl.checkpoints.list_checkpoints(url, storage)[0] == newest

    other = Job(tmp_path)
    fresh = ffdl.CheckpointOptions(tmp_path / "fresh", resume=True)
    with ffdl.CheckpointUpload(fresh, url, storage_options=storage, **ALONE) as upload:
        session = other.open(checkpoints=fresh)
        assert session.step == newest.step and other.seen.tolist() == job.seen.tolist()
        while not other.ledger.is_done:
            other.step()
        session.finish()
    assert other.seen.tolist() == [1] * 40 and upload.uploads >= 1
    last = ffdl.checkpoints.list_checkpoints(url, storage)[0]
    assert last.step == session.step and last.number > newest.number


def test_a_shard_that_lost_its_name_is_uploaded(tmp_path):
    options = save(tmp_path / "folder", 1)
    (shard,) = (tmp_path / "folder").glob("job.*/shard-*")
    shard.rename(f"{shard}.unfinished")  # as a member leaves it that dies while it discards it
    assert load(options) == 1
    url = f"memory://{tmp_path}"
    ffdl.CheckpointUpload(options, url, **ALONE).close()
    fresh = ffdl.CheckpointOptions(tmp_path / "fresh", resume=True)
    ffdl.CheckpointUpload(fresh, url, **ALONE).close()
    assert load(fresh) == 1


def test_names_of_a_store_stay_in_the_folder(tmp_path):
    options = save(tmp_path / "folder", 1)
    url = f"file://{tmp_path}/remote/deep"
    ffdl.CheckpointUpload(options, url, **ALONE).close()
    (stored,) = (tmp_path / "remote" / "deep").glob("job.*")
    (tmp_path / "remote" / "deep" / "nested").mkdir()
    stored.rename(tmp_path / "remote" / "deep" / "nested" / stored.name)
    fresh = ffdl.CheckpointOptions(tmp_path / "fresh", resume=True)
    ffdl.CheckpointUpload(fresh, url, **ALONE).close()
    assert steps_at(tmp_path / "fresh") == [] and not list((tmp_path / "fresh").glob("nested*"))


def test_retention_counts_at_the_url(tmp_path, place):
    url, storage = place
    losses = {1: 5, 2: 1, 3: 4, 4: 3, 5: 2}
    for step, loss in losses.items():
        options = save(tmp_path / "folder", step, keep_best=1, metric=lambda loss=loss: loss)
        ffdl.CheckpointUpload(options, url, storage_options=storage, **ALONE).close()
    assert [one.step for one in ffdl.checkpoints.list_checkpoints(url, storage)] == [5, 4, 2]
    files, root = fsspec.core.url_to_fs(url, **storage)
    files.invalidate_cache()
    names = {path.rsplit("/", 2)[-2] for path in files.find(root)}
    assert sorted(name.split(".")[1].lstrip("0") for name in names) == ["2", "4", "5"]
    assert steps_at(tmp_path / "folder") == [5, 4, 2]
    assert {path.name for path in (tmp_path / "folder").iterdir()} == names | {".lock"}


def test_many_checkpoints_cost_at_most_one_in_the_staging_folder(tmp_path):
    """The session removes a checkpoint that is being uploaded; the upload is complete."""
    files = fsspec.filesystem("memory")
    begun, may_go_on = threading.Event(), threading.Event()
    put = files.put_file

    def slow(path, *args, **kwargs):
        if path.endswith(".safetensors"):
            begun.set()
            assert may_go_on.wait(60)
        return put(path, *args, **kwargs)

    url, folder = f"memory://{tmp_path}", tmp_path / "folder"
    options = save(folder, 1)
    upload = ffdl.CheckpointUpload(options, url, **ALONE)
    try:
        files.put_file = slow
        assert begun.wait(60)
        save(folder, 2, 3, 4)
        assert steps_at(folder) == [4, 3] and steps_at(url) == []
        [staged] = (folder / "uploading").glob("*.safetensors")
        assert staged.stat().st_nlink == 1  # its checkpoint is gone
        may_go_on.set()
        wait_for(lambda: upload.uploads > 0, "it is uploaded")
    finally:
        may_go_on.set()
        del files.put_file
    upload.close()
    assert steps_at(url) == [4, 1]
    assert not (folder / "uploading").exists()


KILLED = """
import sys, threading
from fsspec.implementations.local import LocalFileSystem
import numpy as np
import ffdl

folder, url, when = sys.argv[1:]
options = ffdl.CheckpointOptions(folder)
ffdl.save_checkpoint(options, np.full(3000, 1), step=1)
ffdl.CheckpointUpload(options, url).close()

def stops_at(method):
    before = getattr(LocalFileSystem, method)
    def stop(self, *args, **kwargs):
        if any("000000000002" in str(one) and when in str(one) for one in args):
            if method == "put_file":
                with open(args[0], "rb") as whole, open(args[1], "wb") as half:
                    half.write(whole.read()[:100])
            print("half", flush=True)
            threading.Event().wait()
        return before(self, *args, **kwargs)
    setattr(LocalFileSystem, method, stop)

for method in ("put_file", "pipe_file"):
    stops_at(method)
ffdl.save_checkpoint(options, np.full(3000, 2), step=2)
ffdl.CheckpointUpload(options, url).close()
"""


@pytest.mark.parametrize("when", ["shard-", "manifest-", "published-"])
def test_a_kill_during_an_upload_leaves_the_one_before(tmp_path, when):
    url = f"file://{tmp_path}/remote"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "folder", url, when], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"half\n"
        child.kill()
    assert steps_at(url) == [1] and steps_at(tmp_path / "folder") == [2, 1]
    torn = list((tmp_path / "remote").glob("*.000000000002.*/*"))
    assert [path.stat().st_size for path in torn if when in path.name] == (
        [] if when == "published-" else [100])

    fresh = ffdl.CheckpointOptions(tmp_path / "fresh")
    upload = ffdl.CheckpointUpload(fresh, url, **ALONE)
    assert load(fresh) == 1
    save(tmp_path / "fresh", 3)
    upload.close()
    assert steps_at(url) == [3, 1]
    assert not any(path.exists() for path in torn)


def test_the_process_after_a_kill_uploads_the_rest(tmp_path):
    url = f"file://{tmp_path}/remote"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "folder", url, "manifest-"],
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout.readline() == b"half\n"
        child.kill()
    with ffdl.CheckpointUpload(ffdl.CheckpointOptions(tmp_path / "folder"), url):
        pass
    assert steps_at(url) == [2, 1]
    assert sorted(os.listdir(tmp_path / "folder"))[0] == ".lock"
    assert not (tmp_path / "folder" / "uploading").exists()


def test_one_process_of_several_uploads(tmp_path):
    url = f"memory://{tmp_path}"
    options = save(tmp_path / "folder", 1, 2)
    uploads = [ffdl.CheckpointUpload(options, url, **ALONE) for _ in range(3)]
    wait_for(lambda: sum(one.uploads for one in uploads) == 1, "one has uploaded it")
    for upload in uploads:
        upload.close()
    assert sum(one.uploads for one in uploads) == 1 and steps_at(url) == [2]


def test_a_store_that_fails_ends_no_training(tmp_path, capfd):
    url = f"memory://{tmp_path}"
    files = fsspec.filesystem("memory")

    def fail(*args, **kwargs):
        raise ConnectionError("there is no network")

    options = save(tmp_path / "folder")
    upload = ffdl.CheckpointUpload(options, url, **ALONE)
    files.put_file = fail
    try:
        save(tmp_path / "folder", 1)

        def failure():
            try:
                upload.status()
            except ffdl.Unavailable as error:
                return str(error)

        assert "no network; check the URL" in wait_for(failure, "it is reported")
        with pytest.raises(ffdl.Unavailable, match="no network"):
            upload.close()
    finally:
        del files.put_file
    assert capfd.readouterr().err.count("no network") == 1
    assert steps_at(url) == []
    upload.close()
    assert steps_at(url) == [1]
    with pytest.raises(ZeroDivisionError), ffdl.CheckpointUpload(options, url, interval_s=60):
        save(tmp_path / "folder", 2)
        raise ZeroDivisionError
    assert steps_at(url) == [1]  # what ends by an exception waits for nothing


def test_an_incomplete_copy_is_not_taken(tmp_path, capfd):
    url = f"file://{tmp_path}/remote"
    for step in (1, 2):
        ffdl.CheckpointUpload(save(tmp_path / "folder", step), url).close()
    [shard] = (tmp_path / "remote").glob("*.000000000002.*/*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ffdl.Corrupt, match=f"{shard.name}': .* bytes, but its manifest has"):
        ffdl.CheckpointUpload(ffdl.CheckpointOptions(tmp_path / "fresh"), url)
    assert os.listdir(tmp_path / "fresh") == [".lock"]
    skipping = ffdl.CheckpointOptions(tmp_path / "fresh", skip_damaged=True)
    ffdl.CheckpointUpload(skipping, url).close()
    assert load(skipping) == 1 and "the next older one is tried" in capfd.readouterr().err

    shard.unlink()
    with pytest.raises(ffdl.Corrupt, match="or set skip_damaged"):
        ffdl.CheckpointUpload(ffdl.CheckpointOptions(tmp_path / "another"), url)


def test_the_newer_of_folder_and_url_counts(tmp_path):
    url = f"memory://{tmp_path}"
    here = save(tmp_path / "here", 1)
    ffdl.CheckpointUpload(here, url).close()
    there = ffdl.CheckpointOptions(tmp_path / "there")
    ffdl.CheckpointUpload(there, url).close()
    save(tmp_path / "there", 12)
    ffdl.CheckpointUpload(there, url).close()
    save(tmp_path / "here", 2)  # of a run that was thought dead, and never uploaded
    upload = ffdl.CheckpointUpload(here, url)
    assert load(here) == 12
    upload.close()


def test_two_jobs_at_one_url_are_refused(tmp_path):
    url = f"memory://{tmp_path}"
    other = ffdl.CheckpointOptions(tmp_path / "other")
    upload = ffdl.CheckpointUpload(other, url, interval_s=60)
    ffdl.CheckpointUpload(save(tmp_path / "folder", 1), url).close()
    save(tmp_path / "other", 100)
    with pytest.raises(ffdl.Conflict, match="use a URL for only one job at a time"):
        upload.close()
    assert steps_at(url) == [1]


def test_wrong_uses(tmp_path, bucket):
    url, storage = bucket
    options = ffdl.CheckpointOptions(tmp_path / "folder")
    with pytest.raises(TypeError, match="'options' is of type str; give ffdl.CheckpointOptions"):
        ffdl.CheckpointUpload("folder", url)
    with pytest.raises(ffdl.InvalidArgument, match="it is no URL; give one such as 's3://"):
        ffdl.CheckpointUpload(options, "bucket/line")
    with pytest.raises(ffdl.InvalidArgument, match="open 'nothing://x': .*check the URL"):
        ffdl.CheckpointUpload(options, "nothing://x")
    with pytest.raises(ffdl.InvalidArgument, match="interval_s is 0; give seconds > 0"):
        ffdl.CheckpointUpload(options, url, interval_s=0)
    with pytest.raises(ffdl.NotFound, match="list 's3://absent/line': .*check the URL"):
        ffdl.CheckpointUpload(options, "s3://absent/line", storage_options=storage)
    (tmp_path / "file").write_text("")
    with pytest.raises(ffdl.InvalidArgument, match="name a folder that can be created"):
        ffdl.CheckpointUpload(ffdl.CheckpointOptions(tmp_path / "file"), url)


def test_layout_travels_with_the_checkpoints(tmp_path):
    url = f"memory://{tmp_path}"
    options = save(tmp_path / "folder", 1)
    (tmp_path / "folder" / "layout.json").write_text("{}")
    ffdl.CheckpointUpload(options, url).close()
    ffdl.CheckpointUpload(ffdl.CheckpointOptions(tmp_path / "fresh"), url).close()
    assert (tmp_path / "fresh" / "layout.json").read_text() == "{}"


def test_a_layout_is_not_written_through_a_link(tmp_path):
    url = f"memory://{tmp_path}"
    options = save(tmp_path / "folder", 1)
    (tmp_path / "folder" / "layout.json").write_text("{}")
    ffdl.CheckpointUpload(options, url).close()
    (tmp_path / "own").write_text("mine")
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "layout.json").symlink_to(tmp_path / "own")
    ffdl.CheckpointUpload(ffdl.CheckpointOptions(tmp_path / "fresh"), url).close()
    assert (tmp_path / "own").read_text() == "mine"
    assert (tmp_path / "fresh" / "layout.json").read_text() == "{}"


def test_copies_of_data(tmp_path, place):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    import pyarrow

    url, storage = place
    parquet.write_table(pyarrow.table({"x": [1, 2, 3]}), tmp_path / "x.parquet")
    files, root = fsspec.core.url_to_fs(url, **storage)
    files.makedirs(root, exist_ok=True)
    files.put_file(str(tmp_path / "x.parquet"), f"{root}/x.parquet")
    folder = tmp_path / "copies"
    options = {"max_bytes": 1 << 20, "storage_options": storage}
    paths = ffdl.data.local_copies([f"{url}/x.parquet", tmp_path / "x.parquet"], folder, **options)
    assert paths[1] == str(tmp_path / "x.parquet")
    data = ffdl.data.open_parquet(paths)
    assert data.read([0, 5])["x"].tolist() == [1, 3]

    copy = pathlib.Path(paths[0])
    before = copy.stat().st_ino
    assert ffdl.data.local_copies([f"{url}/x.parquet"], folder, **options) == paths[:1]
    assert copy.stat().st_ino == before  # it was not copied again
    parquet.write_table(pyarrow.table({"x": [4, 5, 6, 7]}), tmp_path / "x.parquet")
    files.put_file(str(tmp_path / "x.parquet"), f"{root}/x.parquet")
    [changed] = ffdl.data.local_copies([f"{url}/x.parquet"], folder, **options)
    assert changed != paths[0] and len(ffdl.data.open_parquet([changed])) == 4


def test_copies_stay_within_their_bound(tmp_path):
    files, root = fsspec.core.url_to_fs(f"memory://{tmp_path}")
    for name in "abcd":
        files.pipe_file(f"{root}/{name}", name.encode() * 100)
    folder = tmp_path / "copies"

    def copy(names, max_bytes=300):
        return ffdl.data.local_copies(
            [f"memory://{tmp_path}/{name}" for name in names], folder, max_bytes=max_bytes)

    copy("abc")
    for path, age in zip(copy("abc"), (2, 3, 1), strict=True):
        os.utime(path, (age, age))
    (tmp_path / "copies" / "mine").write_text("of the user")
    [path] = copy("d")
    assert pathlib.Path(path).read_bytes() == b"d" * 100
    left = {name.rsplit("-")[-1] for name in os.listdir(folder)}
    assert left == {"a", "b", "d", "mine", ".lock"}
    with pytest.raises(ffdl.Exhausted, match="they have 200 bytes, and max_bytes is 150"):
        copy("ab", 150)
    with pytest.raises(ffdl.NotFound, match="/none"):
        copy(["none"])
    with pytest.raises(ffdl.InvalidArgument, match="pass a list of URLs"):
        ffdl.data.local_copies("memory://x", folder, max_bytes=1)


def test_the_command_lists_a_url(tmp_path):
    url = f"file://{tmp_path}/remote"
    ffdl.CheckpointUpload(save(tmp_path / "folder", 4), url).close()
    done = subprocess.run(
        [sys.executable, "-m", "ffdl", "checkpoint", "list", url], capture_output=True, text=True,
        timeout=300, check=True)
    assert done.stdout.startswith("step 4 of job job: job.000000000004.")
    [path] = (tmp_path / "remote").glob("*/manifest-*.json")
    assert json.loads(path.read_bytes())["step"] == 4
