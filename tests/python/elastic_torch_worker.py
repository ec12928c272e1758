"""A worker of the tests' PyTorch jobs: trains until the file that it is given is there."""

import os
import pathlib
import sys
import zlib

import torch
from elastic_worker import show

import ffdl
import ffdl.torch

SAMPLES, BATCH = 96, 12


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(5, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.2),
            torch.nn.ReLU(), torch.nn.Linear(16, 1))
        self.register_buffer("ends", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("has_begun", torch.tensor(False))
        self.register_buffer("turn", torch.ones(2, dtype=torch.complex64))
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x):
        self.has_begun.fill_(True)
        self.turn *= 1j
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.net(x)

    def checksum(self):
        values = self.state_dict().values()
        return zlib.crc32(b"".join(value.cpu().numpy().tobytes() for value in values))


def train(end_file):
    torch.set_num_threads(1)
    device = os.environ.get("FFDL_TEST_DEVICE", "cpu")
    model = Model().to(device)
    data = torch.randn(SAMPLES, 5, generator=torch.Generator().manual_seed(4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9999)
    ledger = ffdl.make_session_ledger(
        samples=SAMPLES, order=ffdl.SampleOrder.GLOBAL, batch_samples=BATCH, epochs=0)
    trainer = ffdl.torch.elastic(
        model, optimizer, ledger, scheduler=scheduler, clip_norm=1.0, verify_state=True,
        overlap=True, lease_s=5.0, buffers={"ends": "max"},
        bucket_bytes=64, backend=ffdl.Backend[os.environ.get("FFDL_TEST_BACKEND", "AUTO")])
    for batch in trainer.batches():
        x = data[batch]
        model.ends += end_file.exists()
        torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True)).backward()
        result = trainer.step()
        if result != ffdl.StepResult.RETRY_STEP:
            show(step=trainer.session.step, size=trainer.session.world.size, result=result.name,
                 state=[model.checksum(), optimizer.param_groups[0]["lr"]])
        if model.ends[0] > 0:
            trainer.session.finish()
            break


if __name__ == "__main__":
    train(pathlib.Path(sys.argv[1]))
