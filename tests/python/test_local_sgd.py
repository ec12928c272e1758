"""Training over slow links: rounds of local steps, and workers that come, leave and are killed."""

import copy
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from elastic_jobs import SOON_S, Job, churn, records, size_of, wait_for
from ranks import on_threads

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import ffdl.torch  # noqa: E402
from ffdl.data.workers import WorkerPool  # noqa: E402
from ffdl.torch.training.inner_state import InnerState  # noqa: E402

WORKER = pathlib.Path(__file__).with_name("local_sgd_worker.py")
SAMPLES, BATCH, EVERY, EPOCHS = 60, 2, 5, 3
PATIENT = {"lease_s": 15.0, "gather_s": 0.05, "verify_state": True}
loss_of = torch.nn.functional.mse_loss


def make_data():
    x = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(1))
    return x, x.sum(dim=1, keepdim=True).sin()


def make_model(*middle):
    generator = torch.Generator().manual_seed(2)  # not PyTorch's, which threads share
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), *middle, torch.nn.Tanh(), torch.nn.Linear(8, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return model


def make_ledger(epochs=EPOCHS, **options):
    return ffdl.make_session_ledger(
        samples=SAMPLES, epochs=epochs, shuffle=ffdl.Shuffle.SAMPLES,
        **{"partition_samples": EVERY * BATCH} | options)


def make_inner(model):
    return torch.optim.AdamW(model.parameters(), lr=0.02)


def make_outer(model):
    return torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)


def rate_at(step):
    return 0.99**step


class Worker:
    """A worker, and the batches of each of its rounds."""

    def __init__(self, store=None, id="a", model=None, ledger=None, inner=None, **options):
        self.model = model or make_model()
        self.inner = inner or make_inner(self.model)
        self.outer = make_outer(self.model)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.inner, rate_at)
        self.trainer = ffdl.torch.local_sgd(
            self.model, self.inner, self.outer, ledger or make_ledger(),
            **{"every": EVERY, "scheduler": self.scheduler, "clip_norm": 0.5, "id": id,
               "store": store or ffdl.open_store("mem://")} | PATIENT | options)
        self.rounds = {}  # batches by the number of the step that committed them
        self.states = {}  # by step
        self.losses = {}

    def train(self, after_round=lambda worker: False):
        x, y = make_data()
        batches = []
        for batch in self.trainer.batches(samples=BATCH):
            batches.append(batch)
            loss = loss_of(self.model(x[batch]), y[batch])
            loss.backward()
            result = self.trainer.step(loss)
            if result is None:
                continue
            if result in (ffdl.StepResult.CONTINUE, ffdl.StepResult.WORLD_CHANGED):
                self.rounds[self.trainer.session.step] = batches
                self.states[self.trainer.session.step] = state_of(self.model)
                self.losses[self.trainer.session.step] = self.trainer.mean_loss
            batches = []
            if after_round(self):
                break
        return self


def state_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def expect_equal(left, right):
    for name in left:
        assert torch.equal(left[name], right[name]), name


def expect_close(left, right):
    for name in left:
        torch.testing.assert_close(left[name], right[name], atol=1e-5, rtol=1e-5)


def diloco(workers):
    """Algorithm 1 of arXiv 2311.08105 over these batches: the state and the mean loss by step."""
    x, y = make_data()
    common = make_model()
    outer = make_outer(common)
    models = [copy.deepcopy(common) for _ in workers]
    inners = [make_inner(model) for model in models]
    states, losses = {}, {}
    for step in range(1, max(step for worker in workers for step in worker.rounds) + 1):
        total, loss_sum = 0, 0.0
        gradients = [torch.zeros_like(p) for p in common.parameters()]
        for worker, model, inner in zip(workers, models, inners, strict=True):
            model.load_state_dict(common.state_dict())
            samples = 0
            for number, batch in enumerate(worker.rounds.get(step, [])):
                inner.param_groups[0]["lr"] = 0.02 * rate_at((step - 1) * EVERY + number)
                inner.zero_grad()
                loss = loss_of(model(x[batch]), y[batch])
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                inner.step()
                samples += len(batch)
                loss_sum += loss.item() * len(batch)
            for gradient, before, after in zip(
                gradients, common.parameters(), model.parameters(), strict=True
            ):
                gradient += samples * (before - after).detach()
            total += samples
        for p, gradient in zip(common.parameters(), gradients, strict=True):
            p.grad = gradient / total
        outer.step()
        states[step], losses[step] = state_of(common), loss_sum / total
    return states, losses


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_is_diloco(workers):
    """Each worker's inner state stays its own; the mean is weighted by samples."""
    store = ffdl.open_store("mem://")

    def run(number):
        # Unequal shares: the last worker makes rounds of fewer samples.
        ledger = make_ledger(partitions_wanted=1)
        return Worker(store, f"m{number}", min_workers=workers, ledger=ledger).train()

    made = on_threads(range(workers), run)
    states, losses = diloco(made)
    assert len(states) >= SAMPLES * EPOCHS // (workers * EVERY * BATCH)
    for worker in made:
        for step, state in worker.states.items():
            expect_equal(state, next(one.states[step] for one in made if step in one.states))
            expect_close(state, states[step])
            assert worker.losses[step] == pytest.approx(losses[step], rel=1e-4)
        assert not worker.trainer.left and worker.trainer.session.is_finished
        expect_equal(state_of(worker.model), state_of(made[0].model))
    used = torch.cat([batch for one in made for batches in one.rounds.values() for batch in batches])
    assert used.bincount(minlength=SAMPLES).tolist() == [EPOCHS] * SAMPLES


def test_a_round_of_one_plain_step_is_synchronous_training():
    """With SGD inside, and an outer step that takes the mean of the weights over."""
    def sync(number):
        model = make_model()
        trainer = ffdl.torch.elastic(
            model, torch.optim.SGD(model.parameters(), lr=0.1), make_ledger(),
            store=stores[0], id=f"m{number}", min_workers=2, **PATIENT)
        x, y = make_data()
        for batch in trainer.batches(samples=BATCH):
            loss_of(model(x[batch]), y[batch]).backward()
            trainer.step()
        return state_of(model)

    def local(number):
        model = make_model()
        trainer = ffdl.torch.local_sgd(
            model, torch.optim.SGD(model.parameters(), lr=0.1),
            torch.optim.SGD(model.parameters(), lr=1.0), make_ledger(), every=1,
            store=stores[1], id=f"m{number}", min_workers=2, **PATIENT)
        x, y = make_data()
        for batch in trainer.batches(samples=BATCH):
            loss_of(model(x[batch]), y[batch]).backward()
            trainer.step()
        return state_of(model)

    stores = [ffdl.open_store("mem://") for _ in range(2)]
    expect_close(on_threads(range(2), sync)[0], on_threads(range(2), local)[0])


def test_a_worker_without_samples_takes_part():
    """One partition for two: one of them makes no inner step, and applies all rounds."""
    store = ffdl.open_store("mem://")

    def run(number):
        ledger = make_ledger(epochs=1, partition_samples=SAMPLES)
        return Worker(store, f"m{number}", min_workers=2, ledger=ledger).train()

    made = on_threads(range(2), run)
    assert sum(worker.trainer.session.step for worker in made) == 2 * made[0].trainer.session.step
    states, _ = diloco(made)
    expect_close(state_of(made[0].model), states[max(states)])
    expect_equal(state_of(made[0].model), state_of(made[1].model))


def test_a_round_takes_as_many_partitions_as_it_needs():
    ledger = make_ledger(epochs=1, partition_samples=BATCH, partitions_wanted=1)
    worker = Worker(ledger=ledger).train()
    assert [len(one) for one in worker.rounds.values()] == [1, *[EVERY] * 5, 4]


def test_the_last_round_has_fewer_steps():
    worker = Worker(ledger=make_ledger(epochs=1, partition_samples=SAMPLES), every=8).train()
    assert [len(one) for one in worker.rounds.values()] == [8, 8, 8, 6]


def test_a_loader_gives_the_batches_of_a_round(monkeypatch):
    """Its processes load no more than they prefetch, although a round has more batches."""
    x, _ = make_data()
    started = []
    start = WorkerPool.start

    def start_one(pool, key, arguments):
        started.append(key)
        assert len(started) <= len(seen) + 1 + 2  # the one that is taken next, and those ahead
        start(pool, key, arguments)

    seen, results = [], []
    monkeypatch.setattr(WorkerPool, "start", start_one)
    with ffdl.data.ElasticLoader(
        torch.utils.data.TensorDataset(x), batch_samples=BATCH, partition_samples=EVERY * BATCH,
        order=ffdl.SampleOrder.ON_DEMAND, num_workers=1, prefetch_factor=2,
    ) as loader:
        model = make_model()
        trainer = ffdl.torch.local_sgd(
            model, make_inner(model), make_outer(model), loader, every=EVERY,
            store=ffdl.open_store("mem://"), id="a", **PATIENT)
        for (batch,) in trainer.batches():
            seen.append(batch.clone())
            model(batch).mean().backward()
            results.append(trainer.step())
    assert trainer.session.step == SAMPLES // (EVERY * BATCH)
    assert [one is None for one in results] == ([True] * (EVERY - 1) + [False]) * trainer.session.step
    torch.testing.assert_close(torch.cat(seen).sum(dim=0), x.sum(dim=0))
    assert trainer.mean_loss is None  # no loss was given


def test_a_newcomer_gets_the_common_state_and_its_own_inner_state():
    store = ffdl.open_store("mem://")
    has_left = threading.Event()
    made = {}

    def leave_after_some(worker):
        if len(worker.rounds) == 8:
            worker.trainer.session.ask_to_leave()
        return False

    def run_newcomer():
        made["b"] = Worker(
            store, "b", model=make_model(torch.nn.BatchNorm1d(8)), ledger=make_ledger(epochs=0))
        made["step"] = made["b"].trainer.session.step
        made["rate"] = made["b"].inner.param_groups[0]["lr"]
        made["fresh"] = len(made["b"].inner.state)
        made["momentum"] = made["b"].outer.state[made["b"].model[0].weight]["momentum_buffer"].clone()
        made["b"].train(leave_after_some)
        has_left.set()

    joining = threading.Thread(target=run_newcomer)
    first = Worker(
        store, "a", model=make_model(torch.nn.BatchNorm1d(8)), ledger=make_ledger(epochs=0))

    def go_on(worker):
        if worker.trainer.session.step == 5:
            joining.start()
        return has_left.is_set()

    first.train(go_on)
    joining.join()
    newcomer = made["b"]
    assert newcomer.trainer.left and made["fresh"] == 0
    assert made["momentum"].abs().sum() > 0
    assert made["rate"] == pytest.approx(0.02 * rate_at(made["step"] * EVERY))
    both = newcomer.states.keys() & first.states.keys()
    assert len(both) >= 7
    for step in both:
        expect_equal(first.states[step], newcomer.states[step])


def test_a_skipped_round_leaves_no_trace():
    """A round whose mean holds NaN: its samples count, and both optimizers are as before it."""
    worker = Worker(non_finite=ffdl.NonFinite.SKIP)
    x, y = make_data()
    before, rounds = None, 0
    for number, batch in enumerate(worker.trainer.batches(samples=BATCH)):
        loss = loss_of(worker.model(x[batch]), y[batch])
        if number == 2 * EVERY + 1:
            loss = loss * float("nan")
        loss.backward()
        result = worker.trainer.step()
        if result is None:
            continue
        rounds += 1
        now = [state_of(worker.model), copy.deepcopy(worker.inner.state_dict()),
               copy.deepcopy(worker.outer.state_dict())]
        if rounds == 3:
            assert worker.trainer.session.stats.skipped_steps == 1
            expect_equal(before[0], now[0])
            for one, other in zip(before[1:], now[1:], strict=True):
                for key, values in one["state"].items():
                    expect_equal(values, other["state"][key])
                assert one["param_groups"] == other["param_groups"]
        before = now
    assert all(bool(value.isfinite().all()) for value in state_of(worker.model).values())


def test_inner_state_returns_to_the_beginning_of_a_round():
    model = make_model()
    inner = make_inner(model)
    kept = InnerState(inner)

    def make_step():
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        inner.step()

    kept.keep()
    make_step()
    kept.end_round(is_applied=False)
    assert not inner.state
    kept.keep()
    make_step()
    kept.end_round(is_applied=True)
    after_one = copy.deepcopy(inner.state_dict()["state"])
    kept.keep()
    make_step()
    kept.keep()  # within the round: nothing
    make_step()
    kept.end_round(is_applied=False)
    for key, values in inner.state_dict()["state"].items():
        expect_equal(after_one[key], values)
    kept.begin_anew()
    assert not inner.state


def test_goes_on_from_a_checkpoint(tmp_path):
    """With an inner optimizer without state it is the training that was not interrupted."""
    def run(store, rounds_max, **options):
        model = make_model()
        worker = Worker(
            store, model=model, inner=torch.optim.SGD(model.parameters(), lr=0.02), **options)
        return worker.train(lambda one: len(one.rounds) == rounds_max)

    whole = run(None, 1000)
    first = run(None, 6, checkpoints=ffdl.CheckpointOptions(tmp_path, every_steps=4))
    wait_for(lambda: first.trainer.session.stats.checkpoints == 1, "there is a checkpoint")
    del first
    resumed = run(None, 1000, checkpoints=ffdl.CheckpointOptions(tmp_path, resume=True))
    assert min(resumed.rounds) == 5 and max(resumed.rounds) == max(whole.rounds)
    for step, state in resumed.states.items():
        expect_equal(whole.states[step], state)
    written = next(tmp_path.rglob("*.safetensors")).read_bytes()
    names = json.loads(written[8 : 8 + int.from_bytes(written[:8], "little")])
    assert set(state_of(whole.model)) < set(names)
    assert "optimizer.0.weight.momentum_buffer" in names


def test_sends_less_by_the_number_of_inner_steps(monkeypatch):
    """The size of what the session averages, times its steps, per sample of a worker."""
    every, samples = 100, 2000
    sizes = []
    opened = ffdl.Session.open

    def open_session(*arguments, **options):
        sizes.append(sum(one.numel() * one.element_size() for one in options["gradients"]))
        return opened(*arguments, **options)

    monkeypatch.setattr(ffdl.Session, "open", open_session)

    def steps_of(make):
        model = make_model()
        ledger = ffdl.make_session_ledger(
            samples=samples, partition_samples=every * BATCH, epochs=1)
        trainer = make(model, ledger)
        x = torch.randn(samples, 6, generator=torch.Generator().manual_seed(1))
        for batch in trainer.batches(samples=BATCH):
            model(x[batch]).square().mean().backward()
            trainer.step()
        return trainer.session.step

    alone = {"store": None, "id": "a"} | PATIENT
    sync = steps_of(lambda model, ledger: ffdl.torch.elastic(
        model, make_inner(model), ledger, **alone | {"store": ffdl.open_store("mem://")}))
    local = steps_of(lambda model, ledger: ffdl.torch.local_sgd(
        model, make_inner(model), make_outer(model), ledger, every=every,
        **alone | {"store": ffdl.open_store("mem://")}))
    assert sync == every * local
    in_sync, in_local = sizes
    weights = sum(one.numel() * one.element_size() for one in make_model().parameters())
    assert in_local == weights + 4  # the mean loss
    assert in_sync >= weights
    assert every * in_sync / in_local > 0.98 * every  # of a model with 65 parameters

def refused(match, error=ffdl.InvalidArgument, **options):
    model = options.pop("model", None) or make_model()
    given = {
        "inner": make_inner(model), "outer": make_outer(model), "samples": make_ledger(),
        "every": EVERY, "store": ffdl.open_store("mem://"), "id": "a"} | PATIENT | options
    with pytest.raises(error, match=match):
        ffdl.torch.local_sgd(model, **given)


@pytest.mark.parametrize("options, match", [
    ({"every": 0}, "'every' is 0; give at least 1 inner step per round"),
    ({"every": 2.5}, "'every' is 2.5"),
    ({"every": True}, "'every' is True"),
    ({"inner": "adam"}, "'inner' is a str; give an optimizer of torch.optim"),
    ({"outer": None}, "'outer' is a NoneType"),
    ({"clip_norm": 0.0}, "clip_norm is 0.0; give a norm above 0, or None"),
    ({"samples": [1, 2]}, "the samples are a list; pass an ffdl.data.ElasticLoader"),
    ({"inner": make_inner(make_model())}, "it lacks 4 parameters of the model"),
    ({"outer": make_outer(make_model())}, "it lacks 4 parameters of the model"),
    ({"checkpoints": "folder"}, "'checkpoints' is of type str"),
])
def test_wrong_arguments(options, match):
    error = TypeError if "checkpoints" in options else ffdl.InvalidArgument
    refused(match, error, **options)


def test_wrong_arguments_that_need_the_model():
    model = make_model()
    both = make_inner(model)
    refused("'inner' and 'outer' are the same object", model=model, inner=both, outer=both)
    refused("use SampleOrder.ON_DEMAND", samples=ffdl.make_session_ledger(
        samples=SAMPLES, order=ffdl.SampleOrder.GLOBAL, batch_samples=BATCH))
    refused("dampening", model=model, outer=torch.optim.SGD(
        model.parameters(), lr=0.7, momentum=0.9, dampening=0.5))
    refused("there is no option 'overlap'", TypeError, overlap=False)
    frozen = make_model().requires_grad_(False)
    trained = torch.nn.Parameter(torch.zeros(1))
    refused("no parameter requires gradients", model=frozen,
            inner=torch.optim.SGD([trained], lr=1), outer=torch.optim.SGD([trained], lr=1))


def test_wrong_use_in_the_loop():
    worker = Worker()
    with pytest.raises(ffdl.InvalidArgument, match="pass at least 1 sample per inner step"):
        next(iter(worker.trainer.batches()))
    for optimizer in (worker.inner, worker.outer):
        with pytest.raises(ffdl.InvalidArgument, match="call trainer.step.. instead"):
            optimizer.step()
    batches = worker.trainer.batches(samples=BATCH)
    next(batches)
    with pytest.raises(ffdl.InvalidArgument, match="was not called in step 1"):
        next(batches)
    worker.trainer.step()
    worker.inner.param_groups[0]["lr"] = 0.5
    with pytest.raises(ffdl.InvalidArgument, match="the loop changed the optimizer's"):
        worker.trainer.step()


def audit(folder):
    found = ffdl.audit_commit_logs([str(log) for log in folder.glob("*.commits")])
    assert (found.problems, found.first_problems) == (0, [])
    assert (found.missing, found.repeated) == (0, 0)
    return found


@pytest.mark.slow
def test_processes_come_leave_and_are_killed(tmp_path):
    assert len(churn(tmp_path, WORKER)) == 5


class Killer:
    """Kills workers of a job, each in a phase that is drawn, while another one has the state."""

    WORKERS = 3

    def __init__(self, job, seed):
        self._job = job
        self._chance = random.Random(seed)
        self._logs = {}
        self.phases = {"join": 0, "inner": 0, "commit": 0}

    def start(self, number):
        self._logs[number] = self._job.start(number)

    def kill_one(self):
        phase = self._chance.choice(list(self.phases))
        victim = self._chance.randrange(self.WORKERS)
        if phase == "join":
            self._kill_trained(victim)
            self.start(victim)
            self._wait_for_phase(victim, "join")
        else:
            self._expect_another(victim)
            self._wait_for_phase(victim, phase)
        time.sleep(self._chance.uniform(0, 0.02 if phase == "join" else 0.002))
        self._job.kill(victim)
        self.phases[phase] += 1
        self.start(victim)

    def _kill_trained(self, victim):
        self._expect_another(victim)
        self._job.kill(victim)
        self.phases["inner"] += 1

    def _expect_another(self, victim):
        """Waits until another worker trains together with this one."""
        other = (victim + 1) % self.WORKERS
        wait_for(lambda: size_of(self._logs[other]) >= 2 and size_of(self._logs[victim]) >= 2,
                 "two workers train", 4 * SOON_S)

    def _wait_for_phase(self, number, phase):
        log = self._logs[number]
        begin = log.stat().st_size
        if phase == "join":
            begin = 0
        sought = f'"phase": "{phase}"'.encode()

        def is_there():
            with log.open("rb") as lines:
                lines.seek(begin)
                return sought in lines.read()

        wait_for(is_there, f"{log.name} is in '{phase}'")


@pytest.mark.parametrize("kills", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_kills_lose_and_repeat_nothing(kills, tmp_path):
    """During inner steps, commits and joins."""
    end, ledger_log = tmp_path / "end", tmp_path / "ledger"
    ledger_log.mkdir()
    seed = random.randrange(1 << 32)
    print(f"seed {seed}, {kills} kills")
    with Job(tmp_path, WORKER, end, forks=True, more={"FFDL_LEDGER_LOG": str(ledger_log)}) as job:
        killer = Killer(job, seed)
        for number in range(Killer.WORKERS):
            killer.start(number)
        while sum(killer.phases.values()) < kills:
            killer.kill_one()
        end.touch()
        for number in range(Killer.WORKERS):
            job.wait(number)
    states, repeated = {}, 0
    for life in tmp_path.glob("life-*.log"):
        rounds = [one for one in records(life) if "step" in one]
        for one in rounds:
            assert states.setdefault(one["step"], one["state"]) == one["state"]
            assert one["result"] != "RETRY_STEP"  # the inner steps were made once
        repeated += rounds[-1]["retried"] if rounds else 0
    found = audit(ledger_log)
    print(f"{killer.phases}; {len(states)} rounds, {repeated} exchanges repeated; "
          f"{found.samples} samples in {found.epochs} epochs: {found.missing} lost, {found.repeated} repeated")
    assert found.epochs > 1 and found.steps >= len(states) - 1


def test_all_go_back_to_a_checkpoint(tmp_path):
    """The inner states that the rounds since then have made do not stay."""
    end, ledger_log = tmp_path / "end", tmp_path / "ledger"
    ledger_log.mkdir()
    folder = tmp_path / "checkpoints"
    with Job(tmp_path, WORKER, end, folder, forks=True,
             more={"FFDL_LEDGER_LOG": str(ledger_log)}) as job:
        first = job.start(0)
        wait_for(lambda: size_of(first) == 1, "there is one")
        second = job.start(1)
        wait_for(lambda: size_of(second) == 2 and list(folder.rglob("published-*")),
                 "two train, and there is a checkpoint")
        job.kill(1)
        wait_for(lambda: size_of(first) == 1, "there is one again")
        end.touch()
        job.wait(0)
    rounds = [one for one in records(first) if "step" in one]
    ((before, after),) = [both for both in zip(rounds, rounds[1:], strict=False)
                          if both[1]["result"] == "HEALED"]
    # The checkpoint may be that of the very last round.
    assert not before["is_fresh"] and after["is_fresh"] == (after["step"] < before["step"])
    audit(ledger_log)


def test_under_ffdl_run(tmp_path):
    """The launcher starts a killed worker again, and the job goes on to its end."""
    end, ledger_log = tmp_path / "end", tmp_path / "ledger"
    with (tmp_path / "output").open("w") as output:
        run = subprocess.Popen(
            [sys.executable, "-m", "ffdl", "run", "--workers", "1:2", "--log-dir", tmp_path / "logs",
             "--ledger-log", ledger_log, "--python", sys.executable, WORKER, end],
            stdout=output, stderr=subprocess.STDOUT)
        logs = [tmp_path / "logs" / f"worker-{number}.log" for number in range(2)]

        def train_together(lives):
            def are_there():
                return all(log.is_file() for log in logs) and all(
                    size_of(log) == 2 for log in logs) and sum(
                    one.get("phase") == "join" for log in logs for one in records(log)) == lives

            wait_for(are_there, f"both train, in {lives} lives: {(tmp_path / 'output').read_text()}")

        try:
            train_together(2)
            pids = [one["pid"] for one in records(logs[1]) if "pid" in one]
            told = len(records(logs[0]))
            os.kill(pids[-1], signal.SIGKILL)
            # Also where the next life has joined before this process looks.
            wait_for(lambda: any(one.get("size") == 1 for one in records(logs[0])[told:]),
                     "one of them trains alone")
            train_together(3)
            end.touch()
            assert run.wait(120) == 0
        finally:
            if run.poll() is None:
                run.terminate()
                run.wait(60)
    audit(ledger_log)
