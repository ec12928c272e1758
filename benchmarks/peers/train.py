"""One small network, trained by several workers in three ways.

usage: train.py hogwild|ddp|ffdl WORKERS MINI_BATCH; one step is a mini-batch of every worker.
"""

import functools
import os
import sys
import tempfile
import warnings

import resident
import torch

WIDTH = 1120  # two layers: 10 MB
LEARNING_RATE = 1e-6


def make_network():
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH, bias=False),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, WIDTH, bias=False),
    )


def make_data(mini_batch):
    return torch.randn(mini_batch, WIDTH), torch.randn(mini_batch, WIDTH)


def make_optimizer_step(network, mini_batch):
    inputs, wanted = make_data(mini_batch)
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(network(inputs), wanted).backward()
        optimizer.step()

    return step


def make_hogwild_step(rank, mini_batch, network):
    return make_optimizer_step(network, mini_batch)


def make_ddp_step(rank, mini_batch, workers, rendezvous):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=workers
    )
    network = torch.nn.parallel.DistributedDataParallel(
        make_network(), gradient_as_bucket_view=True
    )
    return make_optimizer_step(network, mini_batch)


class LinearIntoSlot(torch.autograd.Function):
    """A linear layer that computes its weight gradient in the memory that the server reads."""

    @staticmethod
    def forward(ctx, inputs, weight, gradient):
        ctx.save_for_backward(inputs, weight)
        ctx.gradient = gradient
        return inputs @ weight.t()

    @staticmethod
    def backward(ctx, of_output):
        inputs, weight = ctx.saved_tensors
        torch.mm(of_output.t(), inputs, out=ctx.gradient)
        of_inputs = of_output @ weight if ctx.needs_input_grad[0] else None
        return of_inputs, None, None


def forward_into_slot(layer, inputs):
    return LinearIntoSlot.apply(inputs, layer.weight, layer.slot)


def make_ffdl_step(rank, mini_batch, name):
    import ffdl

    learner = ffdl.Learner.attach(name, 20.0)
    network = make_network()
    layers = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    sizes = [layer.weight.numel() for layer in layers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the view is read-only, and nothing writes to it
        weights = torch.from_numpy(learner.live_weights())
    for layer, part in zip(layers, weights.split(sizes)):
        layer.weight.data = part.view(layer.weight.shape)
        layer.forward = functools.partial(forward_into_slot, layer)
    inputs, wanted = make_data(mini_batch)
    begin = 0

    def step():
        nonlocal begin
        slot = torch.from_numpy(learner.gradient_slot(20.0))
        for layer, part in zip(layers, slot.split(sizes)):
            layer.slot = part.view(layer.weight.shape)
        torch.nn.functional.mse_loss(network(inputs), wanted).backward()
        learner.push(ffdl.Gradient.slot(), (rank, begin, begin + mini_batch))
        begin += mini_batch

    return step


def main():
    kind, workers, mini_batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if kind == "hogwild":
        resident.serve(workers, make_hogwild_step, mini_batch, make_network().share_memory())
    elif kind == "ddp":
        with tempfile.TemporaryDirectory() as folder:
            resident.serve(workers, make_ddp_step, mini_batch, workers, f"{folder}/rendezvous")
    else:
        import ffdl

        network = make_network()
        flat = torch.nn.utils.parameters_to_vector(network.parameters()).detach()
        server = ffdl.ParameterServer.create(
            name=f"bench-train-{os.getpid()}",
            parameters=flat.numel(),
            rule=ffdl.UpdateRuleOptions("sgd", learning_rate=LEARNING_RATE),
            non_finite=ffdl.NonFinite.ACCEPT,
            learners_max=workers,
            threads=workers,
        )
        server.weights()[:] = flat.numpy()
        server.start()
        resident.serve(workers, make_ffdl_step, mini_batch, server.name)
        server.stop()


if __name__ == "__main__":
    main()
