"""A character model with PyTorch Lightning's Trainer, on workers that come, leave and die.

    ffdl run --workers 1:4 --job text examples/11_lightning.py --data input.txt
    ffdl scale text 2

Needs PyTorch and lightning 2.6. The callback prints a line of JSON for what happens once for all
workers: a number of steps, a validation, a checkpoint of Lightning.
"""

import argparse
import json
import pathlib
import zlib

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from ffdl.integrations.lightning import ElasticStrategy


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(__file__),
                        help="a file of text [this program]")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/run/lightning"),
                        help="[%(default)s]")
    parser.add_argument("--epochs", type=int, default=2, help="[%(default)s]")
    parser.add_argument("--batch", type=int, default=8, help="of a micro-batch [%(default)s]")
    parser.add_argument("--accumulate", type=int, default=2,
                        help="micro-batches of a step, shared by the workers [%(default)s]")
    parser.add_argument("--context", type=int, default=32, help="[%(default)s]")
    parser.add_argument("--save-steps", type=int, default=50, help="[%(default)s]")
    parser.add_argument("--lease", type=float, default=10, help="in seconds [%(default)s]")
    return parser.parse_args()


class Pieces(torch.utils.data.Dataset):
    """Pieces of a text, one after the other, each with its next characters."""

    def __init__(self, text, length):
        self._text = text
        self._length = length

    def __len__(self):
        return (len(self._text) - 1) // self._length

    def __getitem__(self, index):
        begin = index * self._length
        piece = self._text[begin:begin + self._length + 1]
        return piece[:-1], piece[1:]


class NextCharacter(lightning.LightningModule):
    """An ordinary LightningModule: nothing in it is of ffdl."""

    def __init__(self, characters):
        super().__init__()
        self.embed = torch.nn.Embedding(characters, 16)
        self.recur = torch.nn.GRU(16, 32, batch_first=True)
        self.drop = torch.nn.Dropout(0.1)
        self.score = torch.nn.Linear(32, characters)

    def loss(self, batch):
        seen, following = batch
        scores = self.score(self.drop(self.recur(self.embed(seen))[0]))
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        steps = self.trainer.estimated_stepping_batches
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        by_step = {"scheduler": scheduler, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": by_step}


class Printer(Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step % 20 == 0:
            size = trainer.strategy.elastic.session.world.size
            print(json.dumps({"step": trainer.global_step, "size": size}), flush=True)

    def on_validation_end(self, trainer, *_):
        if not trainer.sanity_checking:
            loss = float(trainer.callback_metrics["val_loss"])
            print(json.dumps({"evaluated": trainer.global_step, "loss": loss}), flush=True)

    def on_save_checkpoint(self, trainer, *_):
        print(json.dumps({"saved": trainer.global_step}), flush=True)


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    lightning.seed_everything(0)
    written = arguments.data.read_text(encoding="utf-8")
    numbers = {character: number for number, character in enumerate(sorted(set(written)))}
    text = torch.tensor([numbers[character] for character in written])
    cut = len(text) * 9 // 10
    module = NextCharacter(len(numbers))
    trainer = lightning.Trainer(
        strategy=ElasticStrategy(lease_s=arguments.lease),
        max_epochs=arguments.epochs, accumulate_grad_batches=arguments.accumulate,
        gradient_clip_val=1.0, check_val_every_n_epoch=None,
        val_check_interval=20 * arguments.accumulate, log_every_n_steps=20,
        enable_progress_bar=False, default_root_dir=arguments.out,
        callbacks=[Printer(), ModelCheckpoint(
            arguments.out / "saved", every_n_train_steps=arguments.save_steps)])
    trainer.fit(
        module,
        torch.utils.data.DataLoader(Pieces(text[:cut], arguments.context), arguments.batch,
                                    shuffle=True),
        torch.utils.data.DataLoader(Pieces(text[cut:], arguments.context), arguments.batch))
    weights = b"".join(value.cpu().numpy().tobytes() for value in module.state_dict().values())
    print(json.dumps({"finished": trainer.global_step, "main": trainer.is_global_zero,
                      "weights": zlib.crc32(weights)}), flush=True)


if __name__ == "__main__":
    main()
