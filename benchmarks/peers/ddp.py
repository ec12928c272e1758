"""One step of training in several processes, with and without what brings their gradients together.

usage: ddp.py ideal|noop|gloo|ffdl WORKERS PARAMETERS MINI_BATCH

ideal: no DistributedDataParallel at all. noop: one whose hook communicates nothing. gloo: as it comes.
ffdl: back end ffdl, buckets in shared memory.
"""

import datetime
import math
import os
import sys
import tempfile

import resident
import torch
import torch.distributed as dist

LAYERS = 4


def make_network(parameters):
    width = round(math.sqrt(parameters / LAYERS))
    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(LAYERS)]
    return torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU())))


def communicate_nothing(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def make_step(rank, kind, workers, parameters, mini_batch, rendezvous):
    network = make_network(parameters)
    width = network[0].in_features
    if kind != "ideal":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group(
            "ffdl" if kind == "ffdl" else "gloo",
            init_method=f"file://{rendezvous}",
            rank=rank,
            world_size=workers,
            timeout=datetime.timedelta(seconds=60),
        )
        network = torch.nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
        if kind == "noop":
            network.register_comm_hook(None, communicate_nothing)
        if kind == "ffdl":
            import ffdl.torch

            network.register_comm_hook(None, ffdl.torch.ddp_hook)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-6, fused=True)
    inputs, wanted = torch.randn(mini_batch, width), torch.randn(mini_batch, width)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(network(inputs), wanted).backward()
        optimizer.step()

    return step


def main():
    kind = sys.argv[1]
    workers, parameters, mini_batch = map(int, sys.argv[2:])
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/rendezvous"
        resident.serve(workers, make_step, kind, workers, parameters, mini_batch, place)


if __name__ == "__main__":
    main()
