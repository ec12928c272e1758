"""Runs the command ``ffdl checkpoint``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from ..errors import Error, InvalidArgument
from .folder import list_checkpoints

_FORMATS = ("torch", "hf", "dcp")


def main(arguments: list[str]) -> int:
    """Returns the exit code, 0 or 1 (a failure). Raises SystemExit(2) for wrong arguments."""
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
    except Error as error:
        print(f"ffdl: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ffdl checkpoint", description="List checkpoints, and convert them to and from the "
        "files of PyTorch, Hugging Face and torch.distributed.checkpoint.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list the checkpoints of a folder or URL, beginning "
                                   "with the newest")
    listing.add_argument("folder", metavar="FOLDER")
    listing.set_defaults(run=_list)

    export = commands.add_parser("export", help="write the newest checkpoint of FOLDER to TARGET")
    export.add_argument("folder", metavar="FOLDER",
                        help="folder of checkpoints, or the subfolder of one checkpoint")
    export.add_argument("target", metavar="TARGET",
                        help="path of a new file (torch) or of a new folder (hf, dcp)")
    export.add_argument("--config", help="for the format hf: folder whose config.json is copied "
                        "to TARGET")
    export.set_defaults(run=_export)

    importing = commands.add_parser("import", help="make a new FOLDER of checkpoints from SOURCE")
    importing.add_argument("source", metavar="SOURCE")
    importing.add_argument("folder", metavar="FOLDER")
    importing.add_argument("--step", type=int, help="step number of the checkpoint (default: the "
                           "step of SOURCE, or 0 if SOURCE has no step)")
    importing.add_argument("--job", default="job", help="name of the job that starts from the "
                           "checkpoint (default: %(default)s)")
    importing.set_defaults(run=_import)

    for command in (export, importing):
        command.add_argument("--format", choices=_FORMATS, default="torch",
                             help="format of TARGET or SOURCE: torch (torch.save), hf "
                             "(Hugging Face) or dcp (torch.distributed.checkpoint); default: "
                             "%(default)s")
        command.add_argument(
            "--model", metavar="MODULE:FUNCTION", required=command is importing,
            help="function that builds the same objects as the training, and returns the model, "
            "(model, optimizer) or (model, optimizer, scheduler)")
    return parser


def _list(given: argparse.Namespace) -> None:
    for one in list_checkpoints(given.folder):
        print(f"step {one.step} of job {one.job}: {one.name}")


def _export(given: argparse.Namespace) -> None:
    from ..torch.checkpoint import export_checkpoint

    made = _made(given.model) if given.model else {}
    made.pop("scheduler", None)
    done = export_checkpoint(
        given.folder, given.target, format=given.format, config=given.config, **made)
    print(f"step {done.step} of job {done.job}: {given.target}")


def _import(given: argparse.Namespace) -> None:
    from ..torch.checkpoint import import_checkpoint

    made = _made(given.model)
    if "optimizer" not in made:
        raise InvalidArgument(
            f"call '{given.model}': it returns only a model; return (model, optimizer)")
    done = import_checkpoint(
        given.source, given.folder, format=given.format, step=given.step, job=given.job, **made)
    print(f"step {done.step} of job {done.job}: {done.folder}")


def _made(name: str) -> dict[str, Any]:
    """Calls the user's MODULE:FUNCTION. Returns a dict of its model, optimizer and scheduler."""
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(
            f"find '{name}': {error}; pass MODULE:FUNCTION that Python can import here") from error
    made = make()
    parts = made if isinstance(made, tuple) else (made,)
    return dict(zip(("model", "optimizer", "scheduler"), parts, strict=False))
