"""The job for torchft: each worker is a replica group of one process, and keeps its loader's place."""

import os
from datetime import timedelta

import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader
from torchft import DistributedSampler, Manager, Optimizer, ProcessGroupGloo
from torchft.ddp import PureDistributedDataParallel

import job

group = int(os.environ["REPLICA_GROUP_ID"])
place_file = job.folder / f"place-{group}"

dataset = job.Samples()
log = job.StepLog()  # measures


def load_state_dict(saved):
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])


def state_dict():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


manager = Manager(pg=ProcessGroupGloo(timeout=timedelta(seconds=5)), min_replica_size=1,
                  load_state_dict=load_state_dict, state_dict=state_dict,
                  replica_id=f"group_{group}", timeout=timedelta(seconds=30))
# torchft's DistributedDataParallel is faster, but over gloo its hook fails at the survivor of a kill:
# the survivor's process ends, and the training begins again.
model = PureDistributedDataParallel(manager, job.make_model())
optimizer = Optimizer(manager, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
sampler = DistributedSampler(dataset, replica_rank=group, num_replica_groups=2, group_rank=0,
                             num_replicas=1)
loader = DataLoader(dataset, batch_size=job.BATCH // 2, sampler=sampler)

place = int(place_file.read_text()) if place_file.exists() else 0
for epoch in range(place // len(loader), job.EPOCHS):
    sampler.set_epoch(epoch)
    for i, (x, y, numbers) in enumerate(loader):
        if epoch * len(loader) + i < place:
            continue
        step = manager.current_step()  # measures
        log.will(step + 1, numbers)  # measures
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
        place += 1
        place_file.with_suffix(".new").write_text(str(place))
        place_file.with_suffix(".new").rename(place_file)
        if manager.current_step() == step + 1 and manager.is_participating():  # measures
            log.did(step + 1, manager._quorum_id, manager.num_participants())  # measures
manager.shutdown()
