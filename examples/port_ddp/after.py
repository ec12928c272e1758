#!/usr/bin/env python3
"""Fits a function of two numbers with workers that may join, leave and die.

    ffdl run --workers 1:2 after.py
"""

import argparse
import math

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

import ffdl.torch

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

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters())
loader = ffdl.data.ElasticLoader(dataset, batch_samples=options.batch, epochs=options.epochs)
steps = options.epochs * len(loader)


def learning_rate(step):
    return options.learning_rate * (1 + math.cos(math.pi * step / steps)) / 2


@torch.no_grad()
def evaluate():
    model.eval()
    loss = mse_loss(model(points[2048:]), values[2048:]).item()
    model.train()
    return loss


checkpoints = ffdl.CheckpointOptions(options.out, every_steps=len(loader), resume=options.resume)
trainer = ffdl.torch.elastic(model, optimizer, loader, clip_norm=1.0, checkpoints=checkpoints)
for x, y in trainer.batches():
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(trainer.step_number)
    mse_loss(model(x), y).backward()
    trainer.step()
    if trainer.on_main(every=len(loader)):
        print(f"step {trainer.step_number}: loss {evaluate():.4f}", flush=True)
if trainer.is_main:
    print(f"final loss {evaluate():.4f}")
