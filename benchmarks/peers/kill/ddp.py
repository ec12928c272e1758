"""The job without any means against a kill; the others are compared with it line by line."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import job

dataset = job.Samples()
log = job.StepLog()  # measures

dist.init_process_group("gloo")
model = DistributedDataParallel(job.make_model())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=job.BATCH // dist.get_world_size(), sampler=sampler)

step = 0
for epoch in range(job.EPOCHS):
    sampler.set_epoch(epoch)
    for x, y, numbers in loader:
        log.will(step + 1, numbers)  # measures
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
        step += 1
        log.did(step, 0, dist.get_world_size())  # measures
dist.destroy_process_group()
