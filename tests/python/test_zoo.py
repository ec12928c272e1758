"""The models and loops of zoo.py: each way of training gives what the table says."""

import io

import pytest
from elastic_jobs import Job, records, size_of, wait_for

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import zoo  # noqa: E402
import zoo_loops  # noqa: E402
from pages import text_of  # noqa: E402
from zoo_loops import ROWS, Run, outcome_of, train_elastic, train_plain  # noqa: E402

STEPS = 8
# PyTorch's compiler, quantization and schedulers warn.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}")
              for kind in ("DeprecationWarning", "UserWarning", "FutureWarning")]


def expect(says, train, compare):
    """train() gives what the table says. compare(states) is the outcome."""
    kind, _, words = says.partition(": ")
    if kind in ("refused", "stops"):
        with pytest.raises(ffdl.InvalidArgument) as raised:
            train()
        assert words in str(raised.value)
        return
    outcome = compare(train())
    assert outcome == says or (says, outcome) == (zoo.CLOSE, zoo.SAME), outcome


@pytest.mark.parametrize("row", ROWS)
def test_one_worker_is_plain_pytorch(row):
    row, batches = ROWS[row], []
    expect(row.elastic, lambda: train_elastic(row, batches, STEPS),
           lambda seen: outcome_of(train_plain(Run(row), batches), seen))
    assert bool(batches) != row.elastic.startswith("refused")


@pytest.mark.parametrize("row", ROWS)
def test_one_learner_is_plain_pytorch(row, name):
    row = ROWS[row]
    of_epoch = torch.arange(zoo.SAMPLES).split(row.batch)
    batches = [(step, of_epoch[step % len(of_epoch)]) for step in range(STEPS)]

    def compare(seen):
        weights = [{name: one for name, one in state.items() if not name.startswith("optimizer")}
                   for state in train_plain(Run(row), batches)]
        return outcome_of(weights, seen)

    expect(row.server, lambda: zoo_loops.train_from_server(row, batches, name), compare)


@pytest.mark.full
@pytest.mark.parametrize("row", [name for name, one in ROWS.items() if one.changes == zoo.SAME])
def test_workers_come_and_are_killed(row, tmp_path):
    """Two workers, one, three, and a resume: the bits of one undisturbed worker."""
    checkpoints, end = tmp_path / "checkpoints", tmp_path / "end"

    def job(name):
        (tmp_path / name).mkdir()
        return Job(tmp_path / name, zoo_loops.__file__, row, checkpoints, end, forks=True)

    def size_is(log, size):
        wait_for(lambda: size_of(log) == size, f"the size is {size}")

    with job("first") as changing:
        first = changing.start(0)
        wait_for(lambda: size_of(first), "it trains")
        size_is(changing.start(1), 2)
        changing.kill(1)
        size_is(first, 1)
        for log in [changing.start(1), changing.start(2)]:
            size_is(log, 3)
        wait_for(lambda: list(checkpoints.glob("*/published-*")), "there is a checkpoint")
        for number in range(3):
            changing.kill(number)
    with job("second") as resumed:
        last = resumed.start(0)
        wait_for(lambda: size_of(last), "it trains")
        end.touch()
        resumed.wait(0)
    assert records(last)[0]["step"] > 20  # it has resumed
    seen = [one for log in tmp_path.glob("*/life-*.log") for one in records(log)]
    undisturbed = {}
    zoo_loops.train_in_micro_batches(
        ROWS[row], max(one["step"] for one in seen), store=ffdl.open_store("mem://"), id="a",
        show_step=lambda step, size, state: undisturbed.update({step: state}))
    differing = [one for one in seen if one["state"] != undisturbed[one["step"]]]
    assert not differing, min(differing, key=lambda one: one["step"])


@pytest.mark.parametrize(
    "row", [name for name, one in ROWS.items() if one.changes != zoo.SAME])
def test_several_workers_are_refused(row):
    """With micro-batches, one worker is refused as several are."""
    expect(ROWS[row].changes, lambda: zoo_loops.train_in_micro_batches(
        ROWS[row], STEPS, store=ffdl.open_store("mem://"), id="a", show_step=lambda **_: None),
        compare=None)


@pytest.mark.full
@pytest.mark.parametrize("row", ROWS)
def test_ddp_is_that_over_gloo(row, torch_processes):
    over_gloo, over_ffdl = (
        torch_processes.run(2, zoo_loops.train_in_ddp, row, STEPS, backend=backend)
        for backend in ("gloo", "ffdl"))
    for expected, seen in zip(over_gloo, over_ffdl, strict=True):
        if isinstance(expected, str) or isinstance(seen, str):  # names of errors
            outcome = f"{seen}, and {expected} over gloo"
        else:
            outcome = outcome_of(*(torch.load(io.BytesIO(one)) for one in (expected, seen)))
        assert outcome == ROWS[row].ddp


def test_the_page_is_made_from_the_table():
    assert text_of("docs/results/zoo.md") == zoo.page()
