"""Checkpoints from Python: with a session and without, and as others read them."""

import math
import pathlib
import threading

import numpy as np
import pytest
from ranks import SOON_S, on_threads

import ffdl

PATIENT = {"lease_s": 15.0, "gather_s": 0.05}


def shards(folder):
    """The tensors of a checkpoint's files, as the package safetensors reads them."""
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    files = sorted(pathlib.Path(folder).glob("*.safetensors"))
    assert files
    return [numpy.load_file(file) for file in files]


def test_a_state_without_a_session(tmp_path):
    options = ffdl.CheckpointOptions(
        tmp_path / "folder", keep_last=2, keep_best=1, metric=lambda: losses[-1],
        note=lambda: b"\x00\xffnote", names=["weights", "count"])
    weights, count = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([0])
    losses = []
    for step, loss in enumerate([3, 1, 2.5, 2], 1):
        losses.append(loss)
        count[:] = step
        saved = ffdl.save_checkpoint(options, [weights, count], step=step, job="mine")
        assert (saved.step, saved.job, saved.metric) == (step, "mine", loss)
    [tensors] = shards(saved.folder)
    assert tensors["weights"].tolist() == [0, 1, 2, 3, 4, 5] and tensors["count"].tolist() == [4]

    into = [np.zeros((2, 3), np.float32), np.zeros(1, np.int64)]
    loaded = ffdl.load_checkpoint(options, into)
    assert (loaded.step, loaded.metric, loaded.note) == (4, 2, b"\x00\xffnote")
    assert into[0].tolist() == weights.tolist() and into[1] == [4]
    assert "step=4" in repr(loaded)
    kept = sorted(path.name.split(".")[1] for path in (tmp_path / "folder").glob("mine.*"))
    assert [int(step) for step in kept] == [2, 3, 4]  # the best, and the last two


def test_what_cannot_be_loaded(tmp_path):
    options = ffdl.CheckpointOptions(tmp_path)
    with pytest.raises(ffdl.NotFound, match="none was published"):
        ffdl.load_checkpoint(options, np.zeros(1000))
    saved = ffdl.save_checkpoint(options, np.ones(1000), step=1)
    with pytest.raises(ffdl.InvalidArgument):
        ffdl.load_checkpoint(options, np.zeros(999))
    [file] = pathlib.Path(saved.folder).glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ffdl.Corrupt, match=file.name):
        ffdl.load_checkpoint(options, np.zeros(1000))


def test_options_are_shown_and_checked(tmp_path):
    metric = len
    options = ffdl.CheckpointOptions(
        str(tmp_path), every_steps=5, every_s=1.5, metric=metric, resume=True)
    assert (options.folder, options.every_steps, options.every_s) == (str(tmp_path), 5, 1.5)
    assert options.metric is metric and options.note is None
    assert options.resume and not options.skip_damaged and options.names == []
    with pytest.raises(ffdl.InvalidArgument, match="every_s"):
        ffdl.CheckpointOptions(tmp_path, every_s=math.nan)
    with pytest.raises(TypeError, match="CheckpointOptions"):
        Job(tmp_path).open(checkpoints=str(tmp_path))
    with pytest.raises(TypeError, match="return bytes"):
        ffdl.save_checkpoint(ffdl.CheckpointOptions(tmp_path, note=lambda: "text"), np.ones(3))
    with pytest.raises(ZeroDivisionError):
        ffdl.save_checkpoint(ffdl.CheckpointOptions(tmp_path, metric=lambda: 1 / 0), np.ones(3))
    assert list(tmp_path.iterdir()) == []


class Job:
    """A model that counts the samples that it has seen, and a session of it."""

    def __init__(self, folder, members=1):
        self.seen = np.zeros(40)
        self.gradient = np.zeros(40)
        self.store = ffdl.open_store("mem://")
        self.folder = folder
        self.members = members

    def apply(self):
        self.seen += np.round(self.gradient * 8)

    def open(self, store=None, id="a", **options):
        self.ledger = ffdl.make_session_ledger(
            samples=40, order=ffdl.SampleOrder.GLOBAL, batch_samples=8,
            shuffle=ffdl.Shuffle.SAMPLES, epochs=1)
        self.session = ffdl.Session.open(
            store or self.store, id=id, state=[self.seen], gradients=[self.gradient],
            apply=self.apply, participants=[self.ledger], min_workers=self.members,
            **(PATIENT | options))
        return self.session

    def step(self):
        mine = self.ledger.sample_indices(self.ledger.take())
        self.gradient[:] = 0
        if len(mine):
            self.gradient[mine] = 1 / len(mine)
        return self.session.end_step(self.ledger.taken)


def test_a_job_goes_on_at_another_size(tmp_path):
    """Which samples are due is part of it: each is seen once, by one job or the other."""
    options = ffdl.CheckpointOptions(tmp_path / "folder", every_steps=2, note=lambda: b"of rank 0")
    job = Job(tmp_path)
    session = job.open(checkpoints=options)
    for _ in range(2):
        job.step()
    seen = job.seen.copy()
    while session.stats.checkpoints == 0:  # says when the next step knows it
        session.end_step(0)
    session.checkpoint_status()
    del session
    job.session = None

    store = ffdl.open_store("mem://")
    resumed = ffdl.CheckpointOptions(tmp_path / "folder", resume=True, at_end=False)

    def go_on(id):
        model = Job(tmp_path, members=2)
        session = model.open(store, id, checkpoints=resumed, verify_state=True)
        begun, first = session.step, model.seen.copy()
        while not model.ledger.is_done:
            model.step()
        session.finish()
        return begun, first, model.seen

    for begun, first, at_end in on_threads("bc", go_on):
        assert begun >= 2 and np.array_equal(first, seen)
        assert np.array_equal(at_end, np.ones(40))
    state = np.zeros(40)
    loaded = ffdl.load_checkpoint(resumed, state)
    assert loaded.note == b"of rank 0" and loaded.participants
    assert np.array_equal(state, seen)
    tensors = shards(loaded.folder)
    assert sum(len(one["state.0"]) for one in tensors) == 40


def test_a_checkpoint_that_is_asked_for(tmp_path):
    job = Job(tmp_path)
    session = job.open(checkpoints=ffdl.CheckpointOptions(tmp_path / "folder"))
    asking = threading.Thread(target=session.request_checkpoint)
    asking.start()
    asking.join(SOON_S)
    job.step()
    session.finish()  # which waits until it counts
    assert session.stats.checkpoints == 1 and session.stats.dropped_checkpoints == 0
    assert ffdl.load_checkpoint(ffdl.CheckpointOptions(tmp_path / "folder"), np.zeros(40)).step == 1


def test_a_disk_that_fails_ends_no_training(tmp_path):
    job = Job(tmp_path)
    folder = tmp_path / "folder"
    session = job.open(checkpoints=ffdl.CheckpointOptions(folder, every_steps=1))
    if folder.exists():
        folder.rmdir()
    folder.write_text("no folder")
    job.step()
    while session.stats.dropped_checkpoints == 0:
        session.end_step(0)
    with pytest.raises(ffdl.Error, match="folder"):
        session.checkpoint_status()
    while not job.ledger.is_done:
        job.step()
    assert np.array_equal(job.seen, np.ones(40))


def test_what_a_metric_raises_comes_out(tmp_path):
    job = Job(tmp_path)
    job.open(checkpoints=ffdl.CheckpointOptions(
        tmp_path / "folder", every_steps=1, metric=lambda: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        while True:
            job.step()
    with pytest.raises(ffdl.Cancelled, match="raised an exception"):
        job.step()
