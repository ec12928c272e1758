"""A worker of suspicion_trials.py: trains a network of PyTorch until it is killed."""

import json
import sys
import time

import torch

import ffdl
import ffdl.torch

WIDTH = 256


def main():
    lease_s = float(sys.argv[1])
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(),
                                torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(4096, WIDTH), torch.randn(4096, 1))
    loader = ffdl.data.ElasticLoader(data, batch_samples=128, epochs=0)
    trainer = ffdl.torch.elastic(model, optimizer, loader, lease_s=lease_s, heartbeat_s=lease_s / 4)
    generation = 0
    for inputs, targets in trainer.batches():
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        trainer.step()
        world = trainer.session.world
        if world.generation != generation:
            generation = world.generation
            print(json.dumps({"at": time.monotonic(), "generation": generation,
                              "size": world.size, "step": trainer.session.step}), flush=True)


if __name__ == "__main__":
    main()
