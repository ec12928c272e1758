"""Trains a row of zoo.py in each way, and compares the states after each step."""

import io
import pathlib
import sys
import zlib

import torch
import zoo
from elastic_worker import show
from zoo import CLOSE, SAME

import ffdl
import ffdl.torch

X, Y = zoo.make_data()
ROWS = {row.name: row for row in zoo.TABLE}
BULK = {"synchrony": ffdl.Synchrony.BULK, "timeout_s": 60}  # each step is folded before the next


class Run:
    """A model with all that its loop needs, and its state after each step."""

    def __init__(self, row):
        torch.manual_seed(2)
        self._row = row
        self.model = row.model()
        self.optimizer = row.optimizer(self.model)
        self.scheduler = row.scheduler and row.scheduler(self.optimizer)
        self.beside = row.beside(self.model) if row.beside else {}
        self.options = {name: one() if callable(one) else one for name, one in row.options.items()}
        self.called = self.model
        if row.compiled:
            self.called = torch.compile(self.model, backend=row.compiled)
        self.loss = self.loss_of
        self.states = []

    @property
    def optimizers(self):
        return self.optimizer if isinstance(self.optimizer, list) else [self.optimizer]

    @property
    def scaler(self):
        return self.options.get("grad_scaler")

    def seed(self, number):
        """As elastic() seeds before each batch."""
        torch.manual_seed(number)
        for module in self.model.modules():
            if "generator" in vars(module):
                module.generator.manual_seed(number)

    def loss_of(self, numbers, step):
        return self._row.loss(self.called, X[numbers], Y[numbers], step)

    def backward(self, numbers, step, server=None):
        """All that a loop does before the optimizer's step."""
        if self._row.before:
            self._row.before(self.model, server or self.optimizer, step)
        loss = self.loss(numbers, step)
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def after_step(self):
        if self._row.after:
            self._row.after(self.model, self.beside)

    def note(self):
        self.states.append({name: one.detach().clone() for name, one in self._tensors()})

    def checksum(self):
        return zlib.crc32(b"".join(
            name.encode() + one.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
            for name, one in self._tensors()))

    def _tensors(self):
        yield from self.model.named_parameters()
        yield from self.model.named_buffers()
        for name, one in self.beside.items():
            yield from ((f"{name}.{key}", value) for key, value in one.state_dict().items())
        names = {one: name for name, one in self.model.named_parameters()}
        for place, one in enumerate(self.optimizers):
            for parameter, state in one.state.items():
                for key, value in state.items():
                    if isinstance(value, torch.Tensor):
                        yield f"optimizer.{names[parameter]}.{key}", value
            for group, values in enumerate(one.param_groups):
                yield f"optimizer {place}.{group}.lr", torch.as_tensor(
                    values["lr"], dtype=torch.float64)
        if self.scaler:
            yield "scale", torch.tensor(self.scaler.get_scale())


def train_plain(run, batches, server=None):
    """The states after each step.

    batches: of each step, the seed of the generators and the numbers of the samples.
    server: a ParameterServerOptimizer in place of the row's optimizer, scheduler and clipping.
    """
    optimizers = [server] if server else run.optimizers
    for step, (seed, numbers) in enumerate(batches):
        run.seed(seed)
        for one in optimizers:
            one.zero_grad()
        run.backward(numbers, step, server)
        if run.scaler:
            for one in optimizers:
                run.scaler.unscale_(one)
        if "clip_norm" in run.options and not server:
            torch.nn.utils.clip_grad_norm_(run.model.parameters(), run.options["clip_norm"])
        for one in optimizers:
            if run.scaler:
                run.scaler.step(one)
            else:
                one.step()
        if run.scaler:
            run.scaler.update()
        run.after_step()
        if run.scheduler and not server:
            run.scheduler.step()
        run.note()
    return run.states


def make_elastic(row, run, micro_batch_samples=None, **options):
    in_parts = {"micro_batch_samples": micro_batch_samples} if micro_batch_samples else {}
    batch = max(row.batch, 4) if micro_batch_samples else row.batch  # for three workers
    if row.buffers:
        options["buffers"] = row.buffers
    ledger = ffdl.make_session_ledger(
        samples=zoo.SAMPLES, order=ffdl.SampleOrder.GLOBAL, batch_samples=batch, epochs=0,
        shuffle=ffdl.Shuffle.SAMPLES, **in_parts)
    return ffdl.torch.elastic(
        run.called, run.optimizer, ledger, scheduler=run.scheduler, extra_state=run.beside,
        after_step=run.after_step if row.after else None, verify_state=True, **in_parts,
        **run.options, **options)


def train_elastic(row, batches, steps):
    """The states after each step of one worker. Adds seed and samples of a step to `batches`."""
    run = Run(row)
    trainer = make_elastic(
        row, run, store=ffdl.open_store("mem://"), id="a", lease_s=15.0, gather_s=0.05)
    for numbers in trainer.batches(steps=steps):
        batches.append((torch.initial_seed(), numbers))
        run.backward(numbers, trainer.step_number)
        trainer.step()
        run.note()
    return run.states


def train_from_server(row, batches, name):
    """The states after each step of one learner."""
    run = Run(row)
    options = {key: one for key, one in run.options.items() if key == "clip_norm"}
    server = ffdl.torch.ParameterServerOptimizer(
        run.optimizer, name, scheduler=run.scheduler, **BULK, **options,
        **row.server_options)
    try:
        return train_plain(run, batches, server)
    finally:
        server.close()


class WithLoss(torch.nn.Module):
    """Computes the loss in forward(), as DistributedDataParallel wants it."""

    def __init__(self, run):
        super().__init__()
        self.model = run.called
        self._loss = run.loss

    def forward(self, numbers, step):
        return self._loss(numbers, step)


def train_in_ddp(rank, name, steps):
    """The states after each step as bytes, or an error's type."""
    row = ROWS[name]
    run = Run(row)
    batches = torch.arange(zoo.SAMPLES).view(-1, 2, max(1, row.batch // 2))[:, rank]
    try:
        run.loss = torch.nn.parallel.DistributedDataParallel(
            WithLoss(run), find_unused_parameters=True)
        states = train_plain(
            run, [(step, batches[step % len(batches)]) for step in range(steps)])
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error).__name__
    into = io.BytesIO()
    torch.save(states, into)
    return into.getvalue()


def outcome_of(expected, seen):
    """SAME, CLOSE, or the first difference between the states after each step."""
    outcome = SAME
    for step, (left, right) in enumerate(zip(expected, seen, strict=True), 1):
        for name, one in left.items():
            if torch.equal(one.nan_to_num(), right[name].nan_to_num()):
                continue
            outcome = CLOSE
            try:
                torch.testing.assert_close(
                    right[name], one, rtol=1e-3, atol=1e-5, equal_nan=True)
            except AssertionError as error:
                return f"'{name}' differs after step {step}: {error}"
    return outcome


def train_in_micro_batches(row, steps=None, end_file=None, show_step=show, **options):
    """Shows the checksum of the state after each step."""
    run = Run(row)
    trainer = make_elastic(row, run, max(1, row.batch // 4), lease_s=5.0, **options)
    for numbers in trainer.batches(steps=steps):
        run.backward(numbers, trainer.step_number)
        if trainer.step() not in (None, ffdl.StepResult.RETRY_STEP):
            show_step(step=trainer.step_number, size=trainer.session.world.size,
                      state=run.checksum())
        if end_file is not None and end_file.exists():
            trainer.stop()


if __name__ == "__main__":  # a worker of test_zoo.py: NAME OF ROW, FOLDER OF CHECKPOINTS, END FILE
    torch.set_num_threads(1)
    train_in_micro_batches(
        ROWS[sys.argv[1]], end_file=pathlib.Path(sys.argv[3]),
        checkpoints=ffdl.CheckpointOptions(sys.argv[2], every_steps=20, resume=True))
