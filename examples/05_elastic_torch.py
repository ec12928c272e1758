#!/usr/bin/env python3
"""A character language model in PyTorch with workers that may join, leave and die.

    ffdl run --workers 1:2 --job text examples/05_elastic_torch.py --data input.txt

starts two. While they train, `ffdl scale text 1` takes one away and `ffdl scale text 2` brings it
back. One that is killed starts again by itself. Each step uses the same characters for any number
of workers, so the losses are those of one undisturbed worker. With --checkpoints FOLDER a job that
lost all of its workers, or is started again, continues from the last checkpoint, at any number of
workers.
"""

import argparse
import pathlib
import sys

import torch
from torch.nn import functional

import ffdl
import ffdl.torch


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="a file of text")
    parser.add_argument("--epochs", type=int, default=1, help="[%(default)s]")
    parser.add_argument("--batch", type=int, default=16,
                        help="pieces of text in one step, over all workers [%(default)s]")
    parser.add_argument("--loaders", type=int, default=0,
                        help="processes of each worker for loading pieces [%(default)s]")
    parser.add_argument("--context", type=int, default=64, help="characters of one [%(default)s]")
    parser.add_argument("--width", type=int, default=128, help="of the model [%(default)s]")
    parser.add_argument("--layers", type=int, default=4, help="[%(default)s]")
    parser.add_argument("--dropout", type=float, default=0.0, help="[%(default)s]")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="[%(default)s]")
    parser.add_argument("--checkpoints", type=pathlib.Path,
                        help="folder to write them to, and to continue from")
    parser.add_argument("--every", type=int, default=100,
                        help="steps from one checkpoint to the next [%(default)s]")
    parser.add_argument("--log", type=pathlib.Path,
                        help="folder for lines about each step, which `ffdl report` draws")
    return parser.parse_args()


class Pieces(torch.utils.data.Dataset):
    """Every piece of the text, and the same piece one character later."""

    def __init__(self, text, context):
        self._text = text
        self._context = context

    def __len__(self):
        return (len(self._text) - 1) // self._context

    def __getitem__(self, number):
        begin = number * self._context
        piece = self._text[begin : begin + self._context + 1]
        return piece[:-1], piece[1:]


class LanguageModel(torch.nn.Module):
    def __init__(self, characters, context, width, layers, dropout):
        super().__init__()
        self.embedding = torch.nn.Embedding(characters, width)
        self.position = torch.nn.Parameter(torch.zeros(context, width))
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                width, max(1, width // 32), 4 * width, dropout, functional.gelu,
                batch_first=True, norm_first=True)
            for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, characters)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(context)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, characters):
        hidden = self.embedding(characters) + self.position
        for block in self.blocks:
            hidden = block(hidden, self.mask, is_causal=True)
        return self.head(self.norm(hidden))


def read_text(path):
    """Returns the numbers of its characters, and how many different ones there are."""
    text = path.read_text()
    number_of = {character: number for number, character in enumerate(sorted(set(text)))}
    return torch.tensor([number_of[character] for character in text]), len(number_of)


def loss_of(model, characters, following):
    return functional.cross_entropy(model(characters).flatten(0, 1), following.flatten())


@torch.no_grad()
def validate(model, pieces):
    model.eval()
    loader = torch.utils.data.DataLoader(pieces, batch_size=64)
    losses = [loss_of(model, *batch) * len(batch[0]) for batch in loader]
    return sum(losses).item() / len(pieces)


def main():
    arguments = parse_arguments()
    text, characters = read_text(arguments.data)
    cut = len(text) * 9 // 10
    pieces = Pieces(text[:cut], arguments.context)
    torch.manual_seed(0)  # every worker begins with the same weights
    model = LanguageModel(characters, arguments.context, arguments.width, arguments.layers,
                          arguments.dropout)
    loader = ffdl.data.ElasticLoader(
        pieces, batch_samples=arguments.batch, epochs=arguments.epochs,
        num_workers=arguments.loaders)
    steps = arguments.epochs * len(loader)
    optimizer = torch.optim.AdamW(model.parameters(), arguments.learning_rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    checkpoints = ffdl.CheckpointOptions(
        arguments.checkpoints, every_steps=arguments.every, resume=True
    ) if arguments.checkpoints else None
    trainer = ffdl.torch.elastic(model, optimizer, loader, scheduler=scheduler, clip_norm=1.0,
                                 checkpoints=checkpoints)
    session = trainer.session
    log = ffdl.report.RunLog(arguments.log) if arguments.log else None
    print(f"begins at step {session.step}, one of {session.world.size}", flush=True)
    for batch in trainer.batches():
        loss = loss_of(model, *batch)
        loss.backward()
        result = trainer.step()
        if log is not None and result in (
                ffdl.StepResult.CONTINUE, ffdl.StepResult.WORLD_CHANGED):
            log.write("step", step=session.step, samples=len(batch[0]), loss=loss.item(),
                      workers=session.world.size)
        if result == ffdl.StepResult.WORLD_CHANGED or session.step % 50 == 0:
            print(f"step {session.step}, one of {session.world.size}: loss {loss.item():.3f} "
                  "of its share", flush=True)
    if trainer.left:
        print(f"left after step {session.step}")
        return
    loss = validate(model, Pieces(text[cut:], arguments.context))
    print(f"step {session.step}: loss {loss:.3f} of text that was not trained on")


if __name__ == "__main__":
    sys.exit(main())
