"""One step of training in several processes, with and without averaging of their gradients.

usage: ddp.py ideal|noop|gloo|ffdl|elastic|elastic_overlap|elastic_late WORKERS PARAMETERS
MINI_BATCH

ideal: without DistributedDataParallel. noop: with a hook that communicates nothing. gloo: with the
defaults. ffdl: back end ffdl, buckets in shared memory. elastic: ffdl.torch.elastic in place of
DistributedDataParallel, with the defaults; elastic_overlap: gradients are averaged during backward;
elastic_late: they are averaged after it.
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


def make_elastic_step(rank, kind, workers, parameters, mini_batch, folder):
    import ffdl.torch

    network = make_network(parameters)
    width = network[0].in_features
    ledger = ffdl.make_session_ledger(
        samples=1000 * workers * mini_batch, order=ffdl.SampleOrder.GLOBAL,
        batch_samples=workers * mini_batch, epochs=0)
    trainer = ffdl.torch.elastic(
        network, torch.optim.SGD(network.parameters(), lr=1e-6, fused=True), ledger,
        store=ffdl.open_store(f"file://{folder}"), id=f"worker-{rank}", min_workers=workers,
        overlap={"elastic": None, "elastic_overlap": True, "elastic_late": False}[kind])
    inputs, wanted = torch.randn(mini_batch, width), torch.randn(mini_batch, width)
    batches = trainer.batches()

    def step():
        next(batches)
        torch.nn.functional.mse_loss(network(inputs), wanted).backward()
        trainer.step()

    return step


def make_step(rank, kind, workers, parameters, mini_batch, rendezvous):
    if kind.startswith("elastic"):
        return make_elastic_step(rank, kind, workers, parameters, mini_batch, rendezvous)
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
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = f"{folder}/rendezvous"
        resident.serve(workers, make_step, kind, workers, parameters, mini_batch, place)


if __name__ == "__main__":
    main()
