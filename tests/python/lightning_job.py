"""A LightningModule with a ready-made validation loss, for test_lightning.py."""

import argparse
import json
import os
import pathlib
import zlib

import lightning
import torch
from elastic_jobs import wait_for
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint

import ffdl
from ffdl.integrations.lightning import ElasticStrategy

BEST_EPOCH = 3

def tell(**what):
    print(json.dumps(what) + "\n", end="", flush=True)  # in one write

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2),
            torch.nn.Linear(8, 1))

    def loss(self, batch):
        x, y = batch
        return (self.layer(x) - y).square().mean()

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True, sync_dist=True)
        return {"loss": loss}

    def on_before_optimizer_step(self, optimizer):
        squares = [one.grad.square().sum() for one in self.parameters()]
        self.log("norm", torch.stack(squares).sum().sqrt())

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", float(abs(self.current_epoch - BEST_EPOCH)), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]

class Teller(Callback):
    """Tells what happens once per job. A step may wait for a file, which holds up all workers.

    Another file ends the training.
    """

    def __init__(self, wait_at, folder):
        self._wait_at = wait_at
        self._folder = folder

    def on_train_batch_start(self, trainer, *_):
        tell(step=trainer.global_step, size=trainer.strategy.elastic.session.world.size,
             epoch=trainer.current_epoch)
        if trainer.global_step == self._wait_at:
            wait_for((self._folder / "go").exists, "go")

    def on_train_batch_end(self, trainer, *_):
        if (self._folder / "end").exists():
            trainer.should_stop = True

    def on_validation_end(self, trainer, *_):
        if not trainer.sanity_checking:
            tell(validated=trainer.current_epoch)

    def on_save_checkpoint(self, trainer, *_):
        tell(saved=trainer.current_epoch)

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--wait-at", type=int, default=-1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--patience", type=int, default=1000)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    lightning.seed_everything(1)
    x = torch.randn(44, 4)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    module = Module()
    options = {"lease_s": 5}
    if arguments.resume:
        options["checkpoints"] = ffdl.CheckpointOptions(
            str(arguments.folder / "state"), every_steps=5, resume=True)
    saver = ModelCheckpoint(monitor="val_loss", save_top_k=2)
    stopper = EarlyStopping("val_loss", patience=arguments.patience)
    strategy = ElasticStrategy(**options)
    trainer = lightning.Trainer(
        strategy=strategy, max_epochs=arguments.epochs, accumulate_grad_batches=2,
        gradient_clip_val=0.5, gradient_clip_algorithm="value", default_root_dir=arguments.folder,
        enable_progress_bar=False, log_every_n_steps=1,
        callbacks=[saver, stopper, Teller(arguments.wait_at, arguments.folder)])
    trainer.fit(module, torch.utils.data.DataLoader(data, 5, shuffle=True),
                torch.utils.data.DataLoader(data, 44))
    weights = b"".join(value.numpy().tobytes() for value in module.state_dict().values())
    tell(finished=trainer.global_step, main=trainer.is_global_zero, left=strategy.elastic.left,
         weights=zlib.crc32(weights), best=os.path.basename(saver.best_model_path),
         rate=trainer.optimizers[0].param_groups[0]["lr"])

if __name__ == "__main__":
    main()
