"""Sessions from Python: threads of this process, and processes that come, leave and are killed."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from elastic_jobs import Job, churn, committed_steps, expect_each_sample_once, wait_for
from ranks import SOON_S, Launcher, on_threads

import ffdl

PATIENT = {"lease_s": 15.0, "gather_s": 0.05}


class Model:
    """Four weights that follow the mean of what each member gives."""

    def __init__(self, dtype=np.float32):
        self.weights = np.zeros(4, dtype)
        self.gradient = np.zeros(4, dtype)
        self.applied = 0

    def apply(self):
        self.weights += self.gradient
        self.applied += 1

    def open(self, store, id="a", **options):
        given = {"state": [self.weights], "gradients": self.gradient, "apply": self.apply}
        return ffdl.Session.open(store, id=id, **(given | PATIENT | options))


def test_a_job_that_is_done_is_not_trained_again(tmp_path):
    store = ffdl.open_store("mem://")
    x = np.arange(30.0)

    def train(**options):
        model = Model(np.float64)
        loader = ffdl.data.ElasticLoader(x, batch_samples=6, epochs=2)
        session = model.open(store, participants=[loader.ledger], **options)
        came_late = session.is_finished
        for batch in loader.batches(session):
            model.gradient[:] = batch.mean()
            session.end_step(loader.taken)
        assert session.is_finished and loader.is_done
        assert session.step == 10
        return came_late, model

    keep = {"checkpoints": ffdl.CheckpointOptions(tmp_path)}
    came_late, first = train(**keep)
    assert not came_late and first.applied == 10
    came_late, late = train(id="b", **keep)
    assert came_late and late.applied == 0
    assert late.weights.tolist() == first.weights.tolist()
    with pytest.raises(ffdl.errors.JobDone, match="is done at step 10") as raised:
        train(id="c")  # it does not know where the checkpoint is
    assert isinstance(raised.value, ffdl.errors.NotFound) and raised.value.code == 0
    ffdl.begin_again(store, "job")
    came_late, again = train()
    assert not came_late and again.applied == 10


LATE_WORKER = """
import os, signal, sys, time, numpy as np, ffdl
x, w, g = np.arange(120.0), np.zeros(2), np.zeros(2)
def apply(): w[:] -= 1e-7 * g
loader = ffdl.data.ElasticLoader(x, batch_samples=12, epochs=2)
keep = ffdl.CheckpointOptions(sys.argv[1]) if len(sys.argv) > 1 else None
life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
me = os.environ["FFDL_WORKER_ID"]
if life:  # it comes when the others are gone
    while not os.path.exists(os.environ["DONE"]): time.sleep(0.01)
elif me == "worker-1":
    open(os.environ["CAME"], "w").close()
else:  # both are there before the first step, or soon after it
    while not os.path.exists(os.environ["CAME"]): time.sleep(0.01)
s = ffdl.Session.open(state=w, gradients=g, apply=apply, begin_anew=lambda: w.fill(0),
                      participants=[loader.ledger], checkpoints=keep)
print(f"{me} {life} begins at {s.step}", flush=True)
for b in loader.batches(s):
    g[:] = b.mean()
    s.end_step(loader.taken)
    # Ever longer, so that the other one comes before the tenth step.
    if s.world.size == 1 and s.step < 10: time.sleep(0.05 * 2**s.step)
    if me == "worker-1" and life == 0 and s.step >= 10: os.kill(os.getpid(), signal.SIGKILL)
open(os.environ["DONE"], "w").close()
print(f"{me} {life} ends at {s.step} with {w.tobytes().hex()}", flush=True)
"""


@pytest.mark.parametrize("keeps", [True, False])
def test_a_worker_that_is_started_again_after_the_end_ends_as_the_others(tmp_path, keeps):
    worker = tmp_path / "late.py"
    worker.write_text(LATE_WORKER)
    environment = dict(os.environ, TMPDIR=str(tmp_path), DONE=str(tmp_path / "done"),
                       CAME=str(tmp_path / "came"))

    def run(*options):
        command = [sys.executable, "-m", "ffdl", "run", "--workers", "1:2", "--job", "late",
                   *options, str(worker)]
        if keeps:
            command.append(str(tmp_path / "checkpoints"))
        return subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=SOON_S, check=False)

    first = run()
    assert first.returncode == 0, first.stderr
    assert "job 'late' is done: its last step is 20" in first.stderr
    ends = {line.split(" with ")[1] for line in first.stdout.splitlines() if " with " in line}
    assert len(ends) == 1, first.stdout
    begins = [line for line in first.stdout.splitlines() if "worker-1 1 begins" in line]
    assert [line.split()[-1] for line in begins] == (["20"] if keeps else []), first.stdout
    second = run()
    assert second.returncode == 0, second.stderr
    assert "give --again" in second.stderr and "begins" not in second.stdout
    (tmp_path / "done").unlink()
    again = run("--again")
    assert again.returncode == 0, again.stderr
    assert "begins at 0" in again.stdout


def test_one_member_trains_alone():
    model = Model()
    worlds = []
    ledger = ffdl.make_session_ledger(samples=10, partition_samples=4, epochs=2)
    session = model.open(
        ffdl.open_store("mem://"), participants=[ledger], on_world=worlds.append
    )
    assert (session.self.id, session.step, session.world.rank) == ("a", 0, 0)
    assert [world.size for world in worlds] == [1]
    seen = []
    while not ledger.is_done:
        mine = ledger.sample_indices(ledger.take(3))
        seen.extend(mine)
        model.gradient[:] = 1
        assert session.end_step(ledger.taken) == ffdl.StepResult.CONTINUE
    assert sorted(seen) == sorted(2 * list(range(10)))
    steps = session.stats.steps
    assert session.step == steps == model.applied == model.weights[0]
    session.finish()
    with pytest.raises(ffdl.Cancelled, match="has left job"):
        session.end_step(1)
    with pytest.raises(ffdl.Cancelled, match="has left job"):
        session.life_status()


def test_members_go_back_alike(tmp_path):
    store = ffdl.open_store("mem://")
    with pytest.raises(ffdl.InvalidArgument, match="needs checkpoints, but no folder is set"):
        Model().open(store, "a", recovery=ffdl.Recovery.CONSISTENT)
    session = Model().open(
        store, "a", recovery=ffdl.Recovery.CONSISTENT, checkpoints=ffdl.CheckpointOptions(tmp_path)
    )
    with pytest.raises(ffdl.InvalidArgument, match="is consistent, this member's forward"):
        Model().open(store, "b", recovery=ffdl.Recovery.FORWARD, lease_s=2.0)
    session.finish()  # at once: the refused one was never a candidate


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_mean_is_over_samples(dtype):
    store = ffdl.open_store("mem://")

    def train(number):
        model = Model(dtype)
        session = model.open(store, f"m{number}", min_workers=2)
        model.gradient[:] = 8 * number
        result = session.end_step(number)  # the one gives 0 * 1, the other 3 * 24
        session.finish()
        assert result in (ffdl.StepResult.CONTINUE, ffdl.StepResult.WORLD_CHANGED)
        return model.weights.tobytes()

    expected = np.full(4, 20, dtype).tobytes()  # (1 * 8 + 3 * 24) / 4
    assert on_threads([1, 3], train) == [expected, expected]


def test_a_member_without_samples_takes_part():
    store = ffdl.open_store("mem://")

    def train(number):
        model = Model()
        session = model.open(store, f"m{number}", min_workers=2)
        model.gradient[:] = np.nan if number == 0 else 5
        session.end_step(number)
        session.end_step(0)  # nobody has any: counts, and applies nothing
        assert (session.step, model.applied) == (2, 1)
        session.finish()
        return model.weights[0]

    assert on_threads([0, 1], train) == [5, 5]


def open_with_buckets(store, **options):
    """Its first weight's gradient is a bucket, and those of the others."""
    model = Model()
    gradients = [model.gradient[:1], model.gradient[1:]]
    return model, model.open(store, gradients=gradients, bucket_bytes=1, **options)


def test_a_mean_that_is_begun_early_is_over_samples_too():
    store = ffdl.open_store("mem://")

    def train(number):
        model, session = open_with_buckets(store, id=f"m{number}", min_workers=2)
        for _ in range(5):
            model.gradient[0] = 8 * number
            session.begin_average(1, number)
            model.gradient[1:] = 8 * number
            session.end_step(number)
        session.finish()
        return list(model.weights)

    assert on_threads([1, 3], train) == [[100] * 4, [100] * 4]


def test_buckets_are_averaged_before_the_step_ends():
    _, session = open_with_buckets(ffdl.open_store("mem://"))
    while session.stats.early_buckets == 0:
        session.begin_average(1, 4)
        session.end_step(4)
    with pytest.raises(ffdl.InvalidArgument, match="there are 2"):
        session.begin_average(3, 4)
    session.begin_average(2, 4)
    with pytest.raises(ffdl.InvalidArgument, match="was called with 4"):
        session.end_step(5)
    session.end_step(4)
    session.finish()


def test_what_a_callback_raises_comes_out_as_itself():
    class Mine(Exception):
        pass

    def fail(*_):
        raise Mine("of the test")

    store = ffdl.open_store("mem://")
    session = Model().open(store, job="apply", apply=fail)
    with pytest.raises(Mine, match="of the test"):
        session.end_step(1)
    with pytest.raises(ffdl.Cancelled, match="raised an exception"):
        session.end_step(1)
    with pytest.raises(Mine):
        Model().open(store, job="on_world", on_world=fail)
    ledger = ffdl.make_session_ledger(samples=9, partition_samples=3, on_stable=fail)
    session = Model().open(store, job="on_stable", participants=[ledger])
    ledger.take(1)
    session.end_step(1)
    ledger.take(1)
    with pytest.raises(Mine):
        session.end_step(1)


def test_who_raises_does_not_stop_the_others():
    store = ffdl.open_store("mem://")
    session = Model().open(store, "a")
    raised = threading.Event()

    def join():
        with pytest.raises(ZeroDivisionError):
            Model().open(store, "b", apply=lambda: 1 / 0)  # in its first step
        raised.set()

    joining = threading.Thread(target=join)
    joining.start()
    while not raised.is_set() or session.world.size > 1:
        session.end_step(1)
    joining.join()
    session.finish()


def test_arrays_live_as_long_as_the_session():
    class Array(np.ndarray):
        """One that can be seen to go."""

    state = np.zeros(1000).view(Array)
    gradient = np.zeros(1000).view(Array)
    seen = weakref.ref(state), weakref.ref(gradient)
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[state], gradients=[gradient],
        apply=lambda: None, **PATIENT)
    del state, gradient
    gc.collect()
    assert all(one() is not None for one in seen)
    session.end_step(1)
    del session
    gc.collect()
    assert all(one() is None for one in seen)


def test_a_cycle_through_a_callback_is_collected():
    class Owner:
        def apply(self):
            pass

    owner = Owner()
    owner.session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[np.zeros(1)], gradients=[np.zeros(1)],
        apply=owner.apply, **PATIENT)
    seen = weakref.ref(owner)
    del owner
    gc.collect()
    assert seen() is None


def test_one_thread_at_a_time():
    store = ffdl.open_store("mem://")
    ledger = ffdl.make_session_ledger(samples=10)
    inside, go_on = threading.Event(), threading.Event()

    def apply():
        assert session.step == 0 and ledger.epoch == 0  # on the thread of the call
        inside.set()
        assert go_on.wait(SOON_S)

    session = Model().open(store, apply=apply, participants=[ledger])
    ledger.take(1)
    training = threading.Thread(target=session.end_step, args=(1,))
    training.start()
    assert inside.wait(SOON_S)
    for call in (lambda: session.end_step(1), lambda: session.step, lambda: ledger.taken):
        with pytest.raises(ffdl.InvalidArgument, match="inside a call"):
            call()
    session.ask_to_leave()  # from any thread
    go_on.set()
    training.join(SOON_S)
    assert not training.is_alive()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_is_told():
    session = Model().open(ffdl.open_store("mem://"))
    child = os.fork()
    if child == 0:
        try:
            session.end_step(1)
        except ffdl.Cancelled:
            del session
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    session.end_step(1)
    session.finish()


class Interrupted(Exception):
    pass


@pytest.fixture
def interrupt():
    """Sends a signal a while after it is called, just before a wait; the handler raises Interrupted."""

    def handler(*_):
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)
    has_begun = threading.Event()

    def send():
        assert has_begun.wait(SOON_S)
        time.sleep(0.3)
        signal.raise_signal(signal.SIGUSR1)

    sending = threading.Thread(target=send)
    sending.start()
    yield has_begun.set
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    has_begun.set()  # also where the test has failed before
    sending.join()
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_ends_open(interrupt):
    with pytest.raises(Interrupted):
        interrupt()
        Model().open(ffdl.open_store("mem://"), min_workers=2)


def test_a_signal_ends_end_step(interrupt):
    store = ffdl.open_store("mem://")
    other_is_there, over = threading.Event(), threading.Event()

    def idle():
        session = Model().open(store, "b", min_workers=2)
        other_is_there.set()
        assert over.wait(SOON_S)
        del session

    idler = threading.Thread(target=idle)
    idler.start()
    session = Model().open(store, "a", min_workers=2)
    assert other_is_there.wait(SOON_S)
    with pytest.raises(Interrupted):
        interrupt()
        session.end_step(1)
    with pytest.raises(ffdl.Cancelled):
        session.end_step(1)
    over.set()
    idler.join()


def test_what_cannot_be_is_said():
    store = ffdl.open_store("mem://")
    with pytest.raises(ffdl.InvalidArgument, match="no mean"):
        Model(np.int32).open(store)
    with pytest.raises(ffdl.InvalidArgument, match="array 'state'"):
        Model().open(store, state=["weights"])
    with pytest.raises(ffdl.InvalidArgument, match="read-only"):
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        Model().open(store, state=frozen)
    with pytest.raises(ffdl.InvalidArgument, match="'lease_s' is -1"):
        Model().open(store, lease_s=-1)
    with pytest.raises(ffdl.InvalidArgument, match="start the program by 'ffdl run'"):
        Model().open(None)
    with pytest.raises(TypeError, match="open_store"):
        Model().open("mem://")
    with pytest.raises(TypeError, match="is of type str; give StepParticipants"):
        Model().open(store, participants=["ledger"])
    assert ffdl.job_environment() is None


def test_members_of_another_shape_are_refused():
    store = ffdl.open_store("mem://")
    model = Model()
    session = model.open(store, "a")
    refused = threading.Event()

    def join():
        other = np.zeros(5, np.float32)
        with pytest.raises(ffdl.InvalidArgument, match="other shapes"):
            Model().open(store, "b", state=other)
        refused.set()

    joining = threading.Thread(target=join)
    joining.start()
    while not refused.is_set():
        session.end_step(0)
    joining.join()
    session.finish()


def test_workers_come_leave_and_are_killed(tmp_path):
    lives = churn(tmp_path, pathlib.Path(__file__).with_name("elastic_worker.py"))
    steps = {one["step"] for life in lives for one in life if "step" in one}
    assert sorted(steps) == list(range(1, max(steps) + 1))
    expect_each_sample_once(committed_steps(lives))


def test_a_worker_ends_with_its_launcher(tmp_path, monkeypatch):
    """As one that a shell has started, which the kernel does not kill with `ffdl run`."""
    launcher = Launcher(monkeypatch)
    try:
        worker = pathlib.Path(__file__).with_name("elastic_worker.py")
        with Job(tmp_path, worker, tmp_path / "never") as job:
            log = job.start(0)
            wait_for(lambda: '"step"' in log.read_text(), "the worker trains")
            launcher.kill()
            said = f"its launcher, 'ffdl run' with process id {launcher.pid}, has ended"
            wait_for(lambda: said in log.read_text(), "the worker ends")
            assert "Cancelled" in log.read_text()
    finally:
        launcher.kill()
