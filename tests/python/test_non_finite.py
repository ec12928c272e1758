"""A step whose mean gradient holds NaN or Inf, in each form in which gradients are given."""

import numpy as np
import pytest
from ranks import on_threads

import ffdl

PATIENT = {"lease_s": 15.0, "gather_s": 0.05}
BAD_STEP = 2
FORMS = ["whole", "buckets", "parts", "micro-batches"]


class Member:
    """Trains four steps of four samples; m1 gives `bad` in one of them."""

    def __init__(self, store, number, form, dtype, bad, **options):
        self.number, self.form, self.bad = number, form, bad
        self.weights = np.zeros(5000, dtype)
        self.gradient = np.zeros(5000, dtype)
        self.ledger = ffdl.make_session_ledger(
            samples=32, partition_samples=8, order=ffdl.SampleOrder.GLOBAL, batch_samples=8,
            micro_batch_samples=2)
        if form == "buckets":
            options["bucket_bytes"] = 1
        if form == "micro-batches":
            options |= {"micro_batch_shares": self.ledger, "micro_batch_samples": 2}
        self.session = ffdl.Session.open(
            store, id=f"m{number}", min_workers=2, state=[self.weights],
            gradients=[self.gradient[:10], self.gradient[10:]], apply=self.apply,
            participants=[self.ledger], **(PATIENT | options))

    def apply(self):
        self.weights += self.gradient

    def give(self):
        step = self.session.step + 1
        self.gradient[:] = 1
        if self.number == 1 and step == BAD_STEP:
            self.gradient[4321] = self.bad

    def end_step(self):
        self.ledger.take()
        samples = self.ledger.taken
        self.give()
        if self.form == "buckets":
            self.session.begin_average(1, samples)
        if self.form in ("parts", "micro-batches"):
            self.session.add_micro_batch(2)
            self.give()
            self.session.add_micro_batch(2)
        return self.session.end_step(samples)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_all_skip_it_and_its_samples_count(form, dtype, bad):
    store = ffdl.open_store("mem://")

    def train(number):
        member = Member(store, number, form, dtype, bad, non_finite=ffdl.NonFinite.SKIP)
        while not member.ledger.is_done:
            member.end_step()
        stats = member.session.stats
        member.session.finish()
        assert (stats.steps, stats.skipped_steps, member.ledger.epoch) == (4, 1, 1)
        return member.weights

    for weights in on_threads([0, 1], train):
        assert (weights == 3).all()


@pytest.mark.parametrize("form", FORMS)
def test_all_refuse_it_alike(form):
    store = ffdl.open_store("mem://")

    def train(number):
        member = Member(store, number, form, np.float32, np.nan,
                        name_gradient=lambda array, element: f"weight {array}/{element}")
        member.end_step()
        with pytest.raises(ffdl.InvalidArgument) as refused:
            member.end_step()
        assert (member.weights == 1).all()
        assert (member.session.step, member.ledger.committed) == (1, 8)
        return str(refused.value)

    one, other = on_threads([0, 1], train)
    assert one == other
    assert one.startswith(f"end step {BAD_STEP} of job 'job': weight 1/4311 is ")
    assert "in the mean over 8 samples" in one
    assert "non_finite=skip" in one


@pytest.mark.parametrize("form", FORMS)
def test_it_is_applied_where_it_is_accepted(form):
    store = ffdl.open_store("mem://")

    def train(number):
        member = Member(store, number, form, np.float32, np.nan,
                        non_finite=ffdl.NonFinite.ACCEPT)
        for _ in range(BAD_STEP):
            member.end_step()
        return np.isnan(member.weights).sum()

    assert on_threads([0, 1], train) == [1, 1]


def test_a_model_names_its_parameter_and_keeps_its_state():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import ffdl.torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    ledger = ffdl.make_session_ledger(samples=32, partition_samples=8)

    def state():
        moments = [v for s in optimizer.state.values() for v in s.values()]
        return [one.clone() for one in [*model.state_dict().values(), *moments]]

    def trainer_of(**options):
        return ffdl.torch.elastic(model, optimizer, ledger, store=ffdl.open_store("mem://"),
                                  id="a", **(PATIENT | options))

    trainer = trainer_of(non_finite=ffdl.NonFinite.SKIP)
    for number, batch in enumerate(trainer.batches(samples=8)):
        before = state()
        loss = model(torch.randn(len(batch), 3)).square().mean()
        loss = loss * (float("nan") if number == 1 else 1)
        loss.backward()
        trainer.step()
        same = all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
        assert same == (number == 1)
    assert trainer.session.stats.skipped_steps == 1

    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ledger = ffdl.make_session_ledger(samples=32, partition_samples=8)
    trainer = trainer_of()
    with pytest.raises(ffdl.InvalidArgument, match="element 0 of the gradient of '(weight|bias)'"):
        for batch in trainer.batches(samples=8):
            (model(torch.randn(len(batch), 3)).mean() * float("inf")).backward()
            trainer.step()
