"""The job for `ffdl run`."""

import torch
from torch.nn.functional import mse_loss

import ffdl.torch
import job

dataset = job.Samples()
log = job.StepLog()  # measures

model = job.make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loader = ffdl.data.ElasticLoader(dataset, batch_samples=job.BATCH, epochs=job.EPOCHS)

trainer = ffdl.torch.elastic(model, optimizer, loader)
for x, y, numbers in trainer.batches():
    step, world = trainer.step_number, trainer.session.world  # measures
    log.will(step + 1, numbers)  # measures
    mse_loss(model(x), y).backward()
    trainer.step()
    if trainer.step_number == step + 1:  # measures
        log.did(step + 1, world.generation, world.size)  # measures
