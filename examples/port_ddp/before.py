#!/usr/bin/env python3
"""Fits a function of two numbers with a fixed number of processes.

    torchrun --nproc-per-node 2 before.py
"""

import argparse
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch", type=int, default=64, help="samples of a step")
parser.add_argument("--learning-rate", type=float, default=0.01)
parser.add_argument("--out", default="out", help="the place of the checkpoints")
parser.add_argument("--resume", action="store_true", help="continue from the last one")
options = parser.parse_args()

points = torch.rand(2560, 2, generator=torch.Generator().manual_seed(1)) * 4 - 2
values = (points[:, :1] * points[:, 1:]).sin()
dataset = TensorDataset(points[:2048], values[:2048])

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=options.batch // ranks, sampler=sampler)
steps = options.epochs * len(loader)


def learning_rate(step):
    return options.learning_rate * (1 + math.cos(math.pi * step / steps)) / 2


@torch.no_grad()
def evaluate():
    model.eval()
    loss = mse_loss(model(points[2048:]), values[2048:]).item()
    model.train()
    return loss


step = 0
if options.resume:
    saved = torch.load(f"{options.out}.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
for epoch in range(step // len(loader), options.epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.zero_grad()
        mse_loss(ddp(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
    if rank == 0:
        print(f"step {step}: loss {evaluate():.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "step": step}, f"{options.out}.pt")
if rank == 0:
    print(f"final loss {evaluate():.4f}")
dist.destroy_process_group()
