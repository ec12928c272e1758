"""A worker of the tests' jobs over slow links: trains until the file that it is given is there.

With a folder for checkpoints all members go back to the last one when one of them dies.
"""

import os
import pathlib
import sys

import torch
from elastic_torch_worker import Model
from elastic_worker import show

import ffdl
import ffdl.torch

SAMPLES, BATCH, EVERY = 96, 3, 4


def train(end_file, checkpoints=None):
    torch.set_num_threads(1)
    show(phase="join", pid=os.getpid())
    model = Model()
    data = torch.randn(SAMPLES, 5, generator=torch.Generator().manual_seed(4))
    inner = torch.optim.AdamW(model.parameters(), lr=0.01)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(inner, 0.9999)
    loader = ffdl.data.ElasticLoader(
        range(SAMPLES), batch_samples=BATCH, order=ffdl.SampleOrder.ON_DEMAND, epochs=0,
        partition_samples=BATCH * EVERY)
    options = {} if checkpoints is None else {
        "checkpoints": ffdl.CheckpointOptions(checkpoints, every_steps=20),
        "recovery": ffdl.Recovery.CONSISTENT}
    trainer = ffdl.torch.local_sgd(
        model, inner, outer, loader, every=EVERY, scheduler=scheduler, clip_norm=1.0,
        buffers={"ends": "max"}, verify_state=True, lease_s=5.0, **options)
    left_of_round = EVERY
    for batch in trainer.batches():
        left_of_round -= 1
        x = data[torch.from_numpy(batch)]
        model.ends += end_file.exists()
        loss = torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
        loss.backward()
        show(phase="inner" if left_of_round > 0 else "commit")
        result = trainer.step(loss)
        if result is None:
            continue
        left_of_round = EVERY
        show(step=trainer.session.step, size=trainer.session.world.size, result=result.name,
             is_fresh=not inner.state, retried=trainer.session.stats.retried_steps,
             state=[model.checksum(), inner.param_groups[0]["lr"]])
        if model.ends[0] > 0:
            trainer.session.finish()
            break


if __name__ == "__main__":
    train(*map(pathlib.Path, sys.argv[1:]))
