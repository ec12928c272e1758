"""A character language model with Hugging Face's Trainer, on workers that come, leave and die.

    ffdl run --workers 1:4 --job text examples/10_huggingface.py --data input.txt
    ffdl scale text 2

Needs PyTorch, transformers 5 and accelerate. Each worker prints a line of JSON for what happens
once for all of them: an evaluation, a checkpoint of transformers.
"""

import argparse
import json
import pathlib
import zlib

from ffdl.integrations.huggingface import ElasticTrainer  # before transformers makes arguments

import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainerCallback, TrainingArguments


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(__file__),
                        help="a file of text [this program]")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/run/huggingface"),
                        help="[%(default)s]")
    parser.add_argument("--epochs", type=float, default=2, help="[%(default)s]")
    parser.add_argument("--batch", type=int, default=8, help="of a micro-batch [%(default)s]")
    parser.add_argument("--accumulate", type=int, default=2,
                        help="micro-batches of a step, shared by the workers [%(default)s]")
    parser.add_argument("--context", type=int, default=32, help="[%(default)s]")
    parser.add_argument("--save-steps", type=int, default=50, help="[%(default)s]")
    parser.add_argument("--lease", type=float, default=10, help="in seconds [%(default)s]")
    return parser.parse_args()


class Pieces(torch.utils.data.Dataset):
    """Pieces of a text, one after the other."""

    def __init__(self, text, length):
        self._text = text
        self._length = length

    def __len__(self):
        return len(self._text) // self._length

    def __getitem__(self, index):
        piece = self._text[index * self._length:(index + 1) * self._length]
        return {"input_ids": piece, "labels": piece}


class Printer(TrainerCallback):
    def __init__(self, name_world):
        self.name_world = name_world

    def on_step_end(self, args, state, control, **_):
        if state.global_step % 20 == 0:
            size = self.name_world().size
            print(json.dumps({"step": state.global_step, "size": size}), flush=True)

    def on_evaluate(self, args, state, control, metrics, **_):
        loss = metrics["eval_loss"]
        print(json.dumps({"evaluated": state.global_step, "loss": loss}), flush=True)

    def on_save(self, args, state, control, **_):
        print(json.dumps({"saved": state.global_step}), flush=True)


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    characters = sorted(set(arguments.data.read_text(encoding="utf-8")))
    numbers = {character: number for number, character in enumerate(characters)}
    text = torch.tensor([numbers[c] for c in arguments.data.read_text(encoding="utf-8")])
    cut = len(text) * 9 // 10
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=len(characters), n_positions=arguments.context, n_embd=32, n_layer=2, n_head=2,
        bos_token_id=None, eos_token_id=None))
    trainer = ElasticTrainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(arguments.out), num_train_epochs=arguments.epochs, learning_rate=2e-3,
            per_device_train_batch_size=arguments.batch,
            gradient_accumulation_steps=arguments.accumulate, eval_strategy="steps", eval_steps=20,
            save_steps=arguments.save_steps, logging_steps=20, report_to=[], disable_tqdm=True,
            use_cpu=not torch.cuda.is_available()),
        train_dataset=Pieces(text[:cut], arguments.context),
        eval_dataset=Pieces(text[cut:], arguments.context),
        callbacks=[Printer(lambda: trainer.elastic.session.world)],
        elastic={"lease_s": arguments.lease})
    trainer.train()
    trainer.save_model(str(arguments.out / "final"))
    weights = b"".join(value.cpu().numpy().tobytes() for value in model.state_dict().values())
    print(json.dumps({"finished": trainer.state.global_step, "main": trainer.elastic.is_main,
                      "weights": zlib.crc32(weights)}), flush=True)


if __name__ == "__main__":
    main()
