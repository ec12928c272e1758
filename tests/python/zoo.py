"""Small models and loops as people write them, and how ffdl trains each.

docs/results/zoo.md is made from this table, and test_zoo.py expects what it says:

    python tests/python/zoo.py > docs/results/zoo.md
"""

import copy
import dataclasses
import math
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.utils import parametrizations
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

SAMPLES, WIDTH, BATCH = 48, 8, 8
SAME = "same bits"
CLOSE = "close"


def make_data():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, WIDTH, generator=generator)
    return x, x.sum(dim=1, keepdim=True).sin()


def images_of(x):
    return x.view(-1, 2, 2, 2)


def tokens_of(x):
    return (x.abs() * 3).long().clamp(max=6)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def trainable(model):
    return [one for one in model.parameters() if one.requires_grad]


def mean_error(model, x, y, step):
    return mse_loss(model(x), y)


@dataclasses.dataclass
class Row:
    """A model, and the loop that trains it.

    model: makes the model, after PyTorch's generator was seeded.
    optimizer: makes the model's optimizer, or a list of optimizers.
    loss: the loss of a batch, loss(model, x, y, step). The step counts from 0.
    scheduler: makes the optimizer's scheduler.
    before: before(model, optimizer, step) is what the loop does before a forward pass.
    beside: makes what else is trained beside the model, by name: the extra_state of elastic().
    after: after(model, beside) is what the loop does after an optimizer's step.
    compiled: the back end of torch.compile.
    options: clip_norm or a GradScaler, which each loop has in its way.
    buffers: the rules that elastic() needs if workers change.
    server_options: more options of a ParameterServerOptimizer.
    batch: the samples of a step.
    elastic, changes, server, ddp: what each way of training gives. SAME: the bits of plain PyTorch,
    for `changes` those of the undisturbed run, and for `ddp` those of gloo. CLOSE: the same numbers
    but for rounding. "refused: words": refused with these words before the first step. "stops:
    words": refused with these words in the step in which it happens.
    `changes` is what `elastic` is, if it is left out.
    note: explains the row on the page.
    """

    name: str
    model: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module], Any] = sgd
    loss: Callable[..., torch.Tensor] = mean_error
    scheduler: Callable[[Any], Any] | None = None
    before: Callable[..., Any] | None = None
    beside: Callable[[nn.Module], dict[str, Any]] | None = None
    after: Callable[..., Any] | None = None
    compiled: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    buffers: dict[str, str] | None = None
    server_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    batch: int = BATCH
    elastic: str = SAME
    changes: str | None = None
    server: str = CLOSE
    ddp: str = SAME
    note: str = ""

    def __post_init__(self):
        if self.changes is None:
            self.changes = SAME if self.elastic == CLOSE else self.elastic


def net(*middle, width=6):
    return nn.Sequential(nn.Linear(WIDTH, width), *middle, nn.Tanh(), nn.Linear(width, 1))


# --- models ---


class Language(nn.Module):
    """A language model of one layer. Its last layer has the weights of the first."""

    def __init__(self, is_tied=True, sparse=False):
        super().__init__()
        self.embedding = nn.Embedding(7, 4, sparse=sparse)
        self.out = nn.Linear(4, 7, bias=False)
        if is_tied:
            self.out.weight = self.embedding.weight

    def forward(self, tokens):
        return self.out(self.embedding(tokens).cumsum(1).tanh())


def next_token(model, x, y, step):
    tokens = tokens_of(x)
    return cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


class OddShapes(nn.Module):
    """Has a parameter without elements and one without dimensions."""

    def __init__(self):
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(0, 3))
        self.scale = nn.Parameter(torch.ones(()))
        self.net = net()

    def forward(self, x):
        return self.scale * self.net(x) + self.nothing.sum()


class Counting(nn.Module):
    """Keeps flags and counts in buffers of bool and integers."""

    def __init__(self):
        super().__init__()
        self.net = net()
        self.register_buffer("has_begun", torch.tensor(False))
        self.register_buffer("left", torch.tensor([200, 7], dtype=torch.uint8))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        if self.training:
            self.has_begun.fill_(True)
            self.left.copy_(torch.clamp(self.left.int() - 1, min=0))
            self.calls += 1
        return self.net(x)


class BestLoss(nn.Module):
    """Keeps a record that begins at infinity."""

    def __init__(self):
        super().__init__()
        self.net = net()
        self.register_buffer("best", torch.tensor(math.inf))


def with_best_loss(model, x, y, step):
    model.best.fill_(100.0 - step)  # of an evaluation, which is the same at all workers
    return mse_loss(model.net(x), y)


class Centred(nn.Module):
    """A running mean that forward() assigns anew."""

    def __init__(self):
        super().__init__()
        self.net = net()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.net(x - self.mean)


class Positions(nn.Module):
    """A constant that is not saved."""

    def __init__(self):
        super().__init__()
        self.net = net()
        self.register_buffer("table", torch.linspace(-1, 1, WIDTH).cos(), persistent=False)

    def forward(self, x):
        return self.net(x + self.table)


class ActNorm(nn.Module):
    """Begins with the scale and the mean of its first batch."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.register_buffer("is_ready", torch.tensor(False))

    def forward(self, x):
        if not self.is_ready:
            with torch.no_grad():
                self.scale.copy_(1 / x.std(0))
                self.shift.copy_(-x.mean(0) / x.std(0))
                self.is_ready.fill_(True)
        return x * self.scale + self.shift


def started_act_norm():
    """Runs the first batch before the training begins, with the same data at all workers."""
    model = nn.Sequential(ActNorm(WIDTH), net())
    with torch.no_grad():
        model(make_data()[0])
    return model


class OwnGenerator(nn.Module):
    """Draws its noise from a generator of its own."""

    def __init__(self):
        super().__init__()
        self.net = net()
        self.generator = torch.Generator().manual_seed(5)

    def forward(self, x):
        return self.net(x + 0.1 * torch.randn(x.shape, generator=self.generator))


class TwoHeads(nn.Module):
    """The second head is used only in some steps."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(WIDTH, 4)
        self.first, self.second = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x, both):
        hidden = self.body(x).tanh()
        return self.first(hidden) + self.second(hidden) if both else self.first(hidden)


class Lora(nn.Module):
    """A frozen layer, with a trained change of rank 2."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(2, inner.in_features) / 4)
        self.b = nn.Parameter(torch.zeros(inner.out_features, 2))

    def forward(self, x):
        return self.inner(x) + x @ self.a.T @ self.b.T


class SelfTaught(nn.Module):
    """A student, and a teacher that is the average of the student's weights."""

    def __init__(self):
        super().__init__()
        self.student = net(nn.BatchNorm1d(6))
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def follow(self):
        with torch.no_grad():
            for one, mine in zip(self.teacher.parameters(), self.student.parameters()):
                one.lerp_(mine, 0.1)


def taught(model, x, y, step):
    with torch.no_grad():
        aim = model.teacher(x)
    return mse_loss(model.student(x + 0.1), aim) + mse_loss(model.student(x), y)


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, WIDTH))
        self.critic = net()


def take_turns(model, optimizer, step):
    model.critic.requires_grad_(step % 2 == 0)
    model.generator.requires_grad_(step % 2 == 1)


def gan_loss(model, x, y, step):
    made = model.critic(model.generator(torch.randn(len(x), 3)))
    if step % 2 == 1:
        return mse_loss(made, torch.ones_like(made))
    return mse_loss(made, torch.zeros_like(made)) + (model.critic(x) - 1).square().mean()


def two_optimizers(model):
    matrices = [one for one in model.parameters() if one.dim() == 2]
    others = [one for one in model.parameters() if one.dim() != 2]
    return [torch.optim.SGD(matrices, lr=0.05, momentum=0.9), torch.optim.AdamW(others, lr=0.01)]


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(2, 5, num_layers=2, batch_first=True)
        self.out = nn.Linear(5, 1)

    def forward(self, x):
        return self.out(self.rnn(x.view(len(x), -1, 2))[0][:, -1])


class Experts(nn.Module):
    """Sends each sample to one expert. Some experts get no sample of a batch."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 6)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, 1) for _ in range(6))

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(1).max(1)
        out = torch.zeros(len(x), 1)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            if mine.any():
                out = out.index_put((mine.nonzero()[:, 0],), expert(x[mine]))
        return out * weight[:, None]


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 7)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.out(self.layer(self.embedding(tokens), src_mask=mask, is_causal=True))


class Checkpointed(nn.Module):
    """Computes its hidden layer again in backward()."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Sequential(nn.Linear(WIDTH, 6), nn.Dropout(0.2)), nn.Linear(6, 1)

    def forward(self, x):
        hidden = torch.utils.checkpoint.checkpoint(self.first, x, use_reentrant=False)
        return self.last(hidden.tanh())


def convolution(*middle):
    return nn.Sequential(nn.Conv2d(2, 4, 2), *middle, nn.Flatten(), nn.Linear(4, 1))


def frozen_norm():
    model = net(nn.BatchNorm1d(6))
    model[1].requires_grad_(False).eval()
    return model


def half_frozen():
    model = net()
    model[0].requires_grad_(False)
    return model


def rotated():
    model = net()
    model[0].weight = nn.Parameter(torch.randn(WIDTH, 6).T)
    return model


class ComplexWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, 1, dtype=torch.complex64))

    def forward(self, x):
        return (x.to(torch.complex64) @ self.weight).abs()


# --- loops ---


def image_error(model, x, y, step):
    return mse_loss(model(images_of(x)), y)


def in_float64(model, x, y, step):
    return mse_loss(model(x.double()), y.double())


def in_bfloat16(model, x, y, step):
    return mse_loss(model(x.bfloat16()).float(), y)


def by_autocast(dtype):
    def loss(model, x, y, step):
        with torch.autocast("cpu", dtype):
            out = model(x)
        return mse_loss(out.float(), y)

    return loss


def both_late(model, x, y, step):
    return mse_loss(model(x, step >= 3), y)


def both_at_times(model, x, y, step):
    return mse_loss(model(x, step % 2 == 0), y)


def freeze_at(*steps):
    def freeze(model, optimizer, step):
        model[0].requires_grad_(step not in steps)

    return freeze


def unfreeze_late(model, optimizer, step):
    model[0].requires_grad_(step >= 3)


def warm_up(model, optimizer, step):
    for group in optimizer.param_groups:
        group["lr"] = 0.01 * min(step + 1, 5)


def groups(model):
    first, *others = model.parameters()
    return torch.optim.SGD(
        [{"params": [first], "weight_decay": 0.1}, {"params": others, "lr": 0.02}],
        lr=0.05, momentum=0.9)


def group_for_each(model):
    """Rates that fall from the last layer to the first."""
    parameters = list(model.named_parameters())
    return torch.optim.AdamW(
        [{"params": [named], "lr": 0.01 * 0.9**place} for place, named in enumerate(parameters)])


def averaged_model(model):
    return {"average": AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))}


def grad_scaler():
    return torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=4)


def observed(kind):
    """A model with an observer of torch.ao.quantization."""
    import torch.ao.quantization as quantization

    return net(getattr(quantization, kind)())


def fake_quantized():
    import torch.ao.quantization as quantization

    return net(quantization.FakeQuantize(quantization.MovingAverageMinMaxObserver))


NO_RULE = "refused: no update rule is equivalent"
NO_SCHEDULE = "refused: no schedule is equivalent"
ONE_GROUP = "refused: parameter groups"
FROZEN = "refused: requires no gradient, but the server's weight decay"
FREEZES = "stops: was frozen after the optimizer was created"
UNUSED = "stops: has no gradient in this step"
NO_FLOAT32 = "refused: make it float32"

SCHEDULERS = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 5]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, total_iters=3),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.2, total_iters=4),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 9, power=2.0),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 6),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4, 2),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=100_000),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=4),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=3), lr_scheduler.StepLR(o, 2)], [3]),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ExponentialLR(o, 0.9), lr_scheduler.MultiStepLR(o, [4])], o),
}

TABLE = [
    Row("layers", net),
    Row("LayerNorm", lambda: net(nn.LayerNorm(6)), adamw),
    Row("BatchNorm", lambda: net(nn.BatchNorm1d(6))),
    Row("BatchNorm, frozen", frozen_norm, lambda m: torch.optim.SGD(trainable(m), lr=0.05)),
    Row("BatchNorm, momentum=None", lambda: net(nn.BatchNorm1d(6, momentum=None))),
    Row("BatchNorm2d, one sample", lambda: nn.Sequential(nn.BatchNorm2d(2), *convolution()),
        loss=image_error, batch=1),
    Row("GroupNorm and InstanceNorm",
        lambda: nn.Sequential(nn.GroupNorm(2, 2), nn.InstanceNorm2d(2, track_running_stats=True),
                              *convolution()), loss=image_error),
    Row("spectral norm", lambda: nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(WIDTH, 6)), nn.Tanh(), nn.Linear(6, 1))),
    Row("weight norm", lambda: nn.Sequential(
        parametrizations.weight_norm(nn.Linear(WIDTH, 6)), nn.Tanh(), nn.Linear(6, 1))),
    Row("tied weights", Language, adamw, next_token),
    Row("empty and 0-dim parameters", OddShapes),
    Row("float64", lambda: net(nn.BatchNorm1d(6)).double(), loss=in_float64, server=NO_FLOAT32),
    Row("bfloat16", lambda: net(nn.BatchNorm1d(6)).bfloat16(), loss=in_bfloat16,
        server=NO_FLOAT32),
    Row("complex weights", ComplexWeights, server=NO_FLOAT32,
        elastic="refused: parameter 'weight' is torch.complex64, which a session cannot hold"),
    Row("bfloat16 by autocast", net, adamw, by_autocast(torch.bfloat16)),
    Row("bool and integer flags", Counting),
    Row("best loss that begins at inf", BestLoss, loss=with_best_loss),
    Row("MinMaxObserver", lambda: observed("MinMaxObserver")),
    Row("fake quantization", fake_quantized, buffers={"*.zero_point": "mean"},
        note="Several workers need `buffers={'*.zero_point': 'mean'}`: integers that differ are "
             "refused without a rule."),
    Row("buffer that forward assigns anew", Centred),
    Row("buffer that is not saved", Positions),
    Row("ActNorm, started before", started_act_norm),
    Row("ActNorm", lambda: nn.Sequential(ActNorm(WIDTH), net()),
        server="stops: was changed in place by the loop or the model",
        changes="stops: parameter '0.scale' was changed in place by forward() or the loop"),
    Row("Dropout", lambda: net(nn.Dropout(0.3))),
    Row("generator of the model's own", OwnGenerator,
        note="`elastic` seeds a generator that is an attribute of a module before each batch, as "
             "it does PyTorch's."),
    Row("head used late", TwoHeads, adamw, both_late, server=UNUSED,
        note="A server of Adam takes it with `rows_max`, but corrects the bias by the updates of "
             "the whole model."),
    Row("head used at times", TwoHeads,
        lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1),
        both_at_times, server_options={"rows_max": 8},
        note="The server needs `rows_max`."),
    Row("layer frozen for some steps", net, adamw, before=freeze_at(2, 3), server=FREEZES),
    Row("layer unfrozen late", half_frozen, adamw, before=unfreeze_late, server=FROZEN,
        elastic="stops: the model has new trainable parameters, such as '0.weight'",
        note="Freeze such a layer after `elastic()` was called."),
    Row("LoRA", lambda: nn.Sequential(Lora(nn.Linear(WIDTH, 6)), nn.Tanh(), nn.Linear(6, 1)),
        lambda m: torch.optim.AdamW(trainable(m), lr=0.01)),
    Row("frozen layer in the optimizer", half_frozen, adamw, server=FROZEN),
    Row("EMA as a part of the model", SelfTaught, lambda m: sgd(m.student), taught,
        after=lambda model, beside: model.follow()),
    Row("EMA beside the model", net, adamw, beside=averaged_model,
        after=lambda model, beside: beside["average"].update_parameters(model)),
    Row("two optimizers", net, two_optimizers, server="refused: give one optimizer"),
    Row("GAN", Gan, lambda m: torch.optim.Adam(m.parameters(), lr=0.01, betas=(0.5, 0.9)),
        gan_loss, before=take_turns, server=FREEZES),
    Row("channels_last", lambda: convolution().to(memory_format=torch.channels_last),
        loss=image_error, elastic="refused: parameter '0.weight' is not contiguous"),
    Row("channels_last of the images alone", convolution,
        loss=lambda m, x, y, step: mse_loss(
            m(images_of(x).contiguous(memory_format=torch.channels_last)), y)),
    Row("transposed weight", rotated,
        elastic="refused: parameter '0.weight' is not contiguous"),
    Row("sparse embedding", lambda: Language(False, sparse=True),
        lambda m: torch.optim.SGD(m.parameters(), lr=0.05), next_token, elastic=CLOSE),
    Row("SparseAdam", lambda: nn.Embedding(7, 1, sparse=True),
        lambda m: torch.optim.SparseAdam(list(m.parameters())),
        lambda m, x, y, step: mse_loss(m(tokens_of(x)).mean(1), y),
        elastic="refused: its first step creates its state"),
    Row("torch.compile", net, compiled="aot_eager"),
    Row("parameter groups", net, groups, server=ONE_GROUP),
    Row("a group for each parameter", net, group_for_each, server=ONE_GROUP),
    *(Row(name, net, groups, scheduler=make, server=ONE_GROUP)
      for name, make in SCHEDULERS.items()),
    Row("rate set by the loop", net, before=warm_up,
        server="stops: the optimizer's hyperparameters were changed"),
    Row("rate as a tensor", net, lambda m: torch.optim.Adam(m.parameters(), torch.tensor(0.01)),
        elastic="refused: use numbers and text only", server="refused: give a number"),
    Row("clipping", net, options={"clip_norm": 0.1}),
    Row("GradScaler", net, loss=by_autocast(torch.float16),
        options={"grad_scaler": grad_scaler}),
    Row("LSTM", lambda: Recurrent(nn.LSTM), adamw),
    Row("GRU", lambda: Recurrent(nn.GRU)),
    Row("mixture of experts", Experts,
        lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1),
        server_options={"rows_max": 32}, note="The server needs `rows_max`."),
    Row("transformer", Transformer, loss=next_token),
    Row("gradient checkpointing", Checkpointed),
    Row("LBFGS", net, lambda m: torch.optim.LBFGS(m.parameters()),
        elastic="refused: its first step creates its state", server=NO_RULE,
        ddp="TypeError, and TypeError over gloo",
        note="It needs a closure, which these loops have not."),
]

PAGE = """# A zoo of models and loops

Small models and loops as people write them, and what each way of training gives. The rows are in
`tests/python/zoo.py`, with the code of each model. `tests/python/test_zoo.py` trains every row in
every way, and expects what this page says. The command that makes the page:

```
$ python tests/python/zoo.py > docs/results/zoo.md
```

| column | what is compared |
|---|---|
| one worker | `ffdl.torch.elastic` with one worker, with plain PyTorch on the same samples and with the same seeds: parameters, buffers, the optimizer's state and its learning rates, after every step |
| workers change | `elastic` with `micro_batch_samples`: one worker, two, one of which is killed, and three, which are all killed; then a new job resumes from a checkpoint. It is compared with one undisturbed worker, after every step |
| one learner | `ParameterServerOptimizer` with `Synchrony.BULK`, with plain PyTorch: parameters and buffers, after every step |
| DDP | `DistributedDataParallel` with two ranks over the process group `ffdl`, with the same over gloo |

- **same bits**: all values are equal.
- **close**: all values are equal up to rounding. The server's update rules round in another order
  than PyTorch, and a sparse gradient is made dense.
- **refused: ...**: `InvalidArgument` before the first step, with these words.
- **stops: ...**: `InvalidArgument` in the step in which it happens, with these words.

"""


def page():
    lines = ["| model or loop | one worker | workers change | one learner | DDP |",
             "|---|---|---|---|---|"]
    lines += [f"| {row.name} | {row.elastic} | {row.changes} | {row.server} | {row.ddp} |"
              for row in TABLE]
    notes = [textwrap.fill(f"- **{row.name}**: {row.note}", 100, subsequent_indent="  ",
                           break_on_hyphens=False, break_long_words=False)
             for row in TABLE if row.note]
    return PAGE + "\n".join([*lines, "", *notes]).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
