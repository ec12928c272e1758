"""The job for torchrun's restart: it keeps a snapshot, and all processes begin again from that."""

import os

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import job

EVERY = int(os.environ["KILL_EVERY"])  # steps
restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])  # measures
snapshot = job.folder / "snapshot.pt"

dataset = job.Samples()
log = job.StepLog()  # measures

dist.init_process_group("gloo")
model = DistributedDataParallel(job.make_model())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=job.BATCH // dist.get_world_size(), sampler=sampler)

step = 0
if snapshot.exists():
    saved = torch.load(snapshot)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
for epoch in range(step // len(loader), job.EPOCHS):
    sampler.set_epoch(epoch)
    for i, (x, y, numbers) in enumerate(loader):
        if epoch * len(loader) + i < step:
            continue
        log.will(step + 1, numbers)  # measures
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
        step += 1
        log.did(step, restarts, dist.get_world_size())  # measures
        if step % EVERY == 0 and dist.get_rank() == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "step": step}, snapshot.with_suffix(".new"))
            snapshot.with_suffix(".new").rename(snapshot)
dist.destroy_process_group()
