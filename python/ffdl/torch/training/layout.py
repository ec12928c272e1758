"""Maps a checkpoint's flat tensors to names and shapes in a model and its optimizer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ... import CheckpointOptions
from ...checkpoints.folder import LAYOUT_FILE, create_file
from .common_state import names_of
from .optimizers import all_of

_FORMAT = "ffdl-layout-1"


class Layout(NamedTuple):
    """The content of the file layout.json. docs/reference/file-formats.md describes it."""

    shapes: dict[str, list[int]]  # of the state's tensors, by their names in a checkpoint
    model: dict[str, str | None]  # state_dict()'s name -> the checkpoint's; None: it has it not
    optimizers: list[list[list[str | None]]]  # the parameters of each group of each optimizer
    settings: str  # the name of the tensor with the optimizer's numbers
    dtypes: dict[str, str] = {}  # of the tensors that a checkpoint holds in another dtype


def layout_of(
    model: torch.nn.Module, optimizer: Any, state: Mapping[str, torch.Tensor], settings: str
) -> Layout:
    """Returns the layout of a model and its optimizer.

    optimizer: one optimizer, such as the result of as_one_optimizer(), or None.
    """
    names = names_of(model)
    known = dict(names)  # and the buffers, of which several may be one
    found: dict[str, str | None] = {}
    shapes = {name: list(one.shape) for name, one in state.items()}
    dtypes = {}
    for name, value in model.state_dict(keep_vars=True).items():
        name = name.replace("_orig_mod.", "")
        found[name] = known.setdefault(id(value), name) if name in state else known.get(id(value))
        if name in state and state[name].dtype != value.dtype:
            shapes[name] = list(value.shape)
            dtypes[name] = str(value.dtype).removeprefix("torch.")
    groups = [] if optimizer is None else [
        [[names.get(id(p)) for p in group["params"]] for group in one.param_groups]
        for one in all_of(optimizer)
    ]
    return Layout(shapes, found, groups, settings, dtypes)


def keep_layout(
    checkpoints: CheckpointOptions | None, model: torch.nn.Module, optimizer: Any,
    state: Mapping[str, torch.Tensor], settings: str,
) -> None:
    """Writes the layout into the checkpoint folder, unless ``checkpoints.names`` is set."""
    if checkpoints is not None and not checkpoints.names:
        write_layout(checkpoints.folder, layout_of(model, optimizer, state, settings))


def write_layout(folder: str, layout: Layout) -> None:
    """Writes the layout. After a failed write, training continues, but exports need the model."""
    if read_layout(folder) == layout:
        return
    path = os.path.join(folder, LAYOUT_FILE)
    unfinished = f"{path}.{os.getpid()}.unfinished"
    try:
        os.makedirs(folder, exist_ok=True)
        with create_file(unfinished) as file:
            file.write(json.dumps({"format": _FORMAT, **layout._asdict()}).encode())
        os.replace(unfinished, path)
    except OSError as error:
        print(f"ffdl: write '{path}': {error.strerror}; pass the model to export checkpoints of "
              "this folder",
              file=sys.stderr)


def read_layout(folder: str) -> Layout | None:
    """Returns the layout of a folder, or None if the folder has no readable layout."""
    try:
        with open(os.path.join(folder, LAYOUT_FILE), encoding="utf-8") as file:
            content = json.load(file)
        if content.pop("format") == _FORMAT:
            return Layout(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None
