"""Converts checkpoints of elastic() to and from the formats of PyTorch, Hugging Face and DCP.

docs/guide/checkpoints.md#files-of-others lists the content of each format.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from .. import (
    Checkpoint,
    CheckpointOptions,
    Corrupt,
    InvalidArgument,
    NotFound,
    Unavailable,
    Unimplemented,
    load_checkpoint,
    save_checkpoint,
)
from ..checkpoints.folder import job_of, list_folder, parse_manifest
from .training.buffer_values import held_form
from .training.buffers import Buffers
from .training.common_state import SETTINGS, Settings, name_state, names_of, write_settings
from .training.layout import Layout, layout_of, read_layout, write_layout
from .training.optimizers import (
    ResetState,
    as_one_optimizer,
    as_one_scheduler,
    make_optimizer_state,
)

FORMATS = ("torch", "hf", "dcp")
_WEIGHTS = "model.safetensors"
_OPTIMIZER = "optimizer."  # before the names of an optimizer's tensors
_LOOP = ("seed", "epochs", "progress", "has_stopped")  # of the settings, for an import


def export_checkpoint(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: str = "torch",
    model: torch.nn.Module | None = None,
    optimizer: Any = None,
    config: str | os.PathLike[str] | None = None,
) -> Checkpoint:
    """Writes the newest checkpoint of a folder in the format of PyTorch, Hugging Face or DCP.

    folder: the checkpoint folder of elastic() or local_sgd(), or the folder of one checkpoint.
    target: a new file if `format` is ``torch``, else a new folder. A failed export leaves none.
    format: the format of the target. The format ``torch`` is a file for torch.load(), with the
    entries ``model``, ``optimizer``, ``step`` and others. The format ``hf`` is a folder for
    from_pretrained(), with the weights and the config.json of `config`, if set. The format ``dcp``
    is a folder for torch.distributed.checkpoint, with the content of ``torch`` and the names of
    get_state_dict().
    model, optimizer: objects that are built as for the training. Without layout.json, `model` and
    `optimizer` are required, and also if the model has values that no checkpoint contains, such as
    those of ``get_extra_state()``.

    The export checks all data of the checkpoint, and every exported value is bitwise equal to the
    value in the checkpoint. Raises NotFound (no checkpoint), InvalidArgument (the checkpoint is of
    another model, or the target exists), Unimplemented (safetensors is not installed), Corrupt and
    Unavailable.
    """
    folder, target = os.fspath(folder), os.fspath(target)
    doing = f"export a checkpoint of '{folder}'"
    _expect_format(doing, format)
    if os.path.lexists(target):
        raise InvalidArgument(f"{doing}: '{target}' exists; name another target, or remove it")
    if config is not None and not os.path.isfile(os.path.join(config, "config.json")):
        raise InvalidArgument(f"{doing}: '{os.fspath(config)}' has no config.json; name its folder")
    loaded, flat, layout = _load(doing, folder)
    if model is not None:
        layout = _layout_like(doing, model, optimizer, flat)
    if layout is None:
        raise InvalidArgument(
            f"{doing}: the folder has no layout.json, which elastic() writes; pass the model "
            "(--model) and its optimizer"
        )
    tensors = _shaped(doing, flat, layout)
    weights = _weights(doing, tensors, layout, model, once=format == "hf")
    if format == "hf":
        _write(doing, target, lambda path: _write_hf(weights, config, path))
        return loaded
    content = {"model": weights, "step": loaded.step}
    content |= _training_of(doing, tensors, layout, by_name=format == "dcp")
    if format == "torch":
        _write(doing, target, lambda path: torch.save(content, path))
    else:
        _write(doing, target, lambda path: _write_dcp(content, path))
    return loaded


def import_checkpoint(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    model: torch.nn.Module,
    optimizer: Any,
    format: str = "torch",
    scheduler: Any = None,
    grad_scaler: torch.amp.GradScaler | None = None,
    seed: int = 0,
    extra_state: Mapping[str, Any] | None = None,
    reset_optimizer_state: ResetState | None = None,
    step: int | None = None,
    job: str = "job",
) -> Checkpoint:
    """Converts a file or folder of PyTorch, Hugging Face or DCP to a checkpoint.

    An elastic() with this folder and ``resume=True`` starts from the imported checkpoint. The
    training from an imported checkpoint begins at the first sample of the data.

    source: a file or folder in the format that `format` names. A ``torch`` source is a file with
    the entry ``model``, or with only a model's state_dict. An ``hf`` source is a weight file, or a
    folder with one or several weight files. A ``dcp`` source must be a folder that you trust,
    because PyTorch unpickles its files.
    folder: the new folder of checkpoints, for CheckpointOptions.
    step: the step number of the checkpoint. By default, `step` is the step number of the source, or
    0 if the source has no step number.
    job: the name of the job that starts from the checkpoint. The option ``keep_last`` of this job
    also counts the imported checkpoint.

    Pass to import_checkpoint() the same model, optimizer and other arguments as to elastic(). The
    model must be on the CPU. import_checkpoint() adds missing optimizer state to the optimizer, and
    changes nothing else. Values that are not in the source are copied from the arguments.

    Every imported value is bitwise equal to the value in the source. Raises InvalidArgument if a
    value has another dtype or shape, if the source is of another model or optimizer, or if the
    folder has checkpoints. Also raises NotFound, Corrupt, Unavailable and Unimplemented.
    """
    source, folder = os.fspath(source), os.fspath(folder)
    doing = f"import '{source}'"
    _expect_format(doing, format)
    if list_folder(folder):
        raise InvalidArgument(f"{doing}: '{folder}' has checkpoints; name a new folder")
    one = as_one_optimizer(doing, optimizer)
    settings = Settings(one, as_one_scheduler(one, scheduler, has_metric=True), seed, grad_scaler)
    parameters = [p for p in model.parameters() if p.requires_grad]
    made = make_optimizer_state(one, parameters, names_of(model), reset_optimizer_state)
    live = name_state(doing, model, made, Buffers(doing, model), settings, extra_state or {})
    if any(value.device.type != "cpu" for value in live.values()):
        raise InvalidArgument(f"{doing}: the model is not on the CPU; build it on the CPU")
    layout = layout_of(model, one, live, SETTINGS)
    state = {name: value.clone() for name, value in live.items()}
    for name, dtype in layout.dtypes.items():
        state[name] = state[name].flatten().view(_dtype(dtype)).view(layout.shapes[name])
    content = _read(doing, source, format)
    _take_weights(doing, content["model"], layout, state, model)
    if "optimizer" in content:
        _take_optimizer(doing, content["optimizer"], layout, state)
    for name, value in content.get("extra", {}).items():
        _take(doing, state, name, name, value)
    _take_settings(doing, content, state[SETTINGS])
    given = content.get("step", 0) if step is None else step
    if not isinstance(given, int) or given < 0:
        raise InvalidArgument(f"{doing}: its step is {given!r}; give step= (--step)")
    options = CheckpointOptions(folder, names=list(state))
    held = [held_form(value) for value in state.values()]
    saved = save_checkpoint(options, held, step=given, job=job)
    write_layout(folder, layout)
    return saved


def _expect_format(doing: str, format: str) -> None:
    if format not in FORMATS:
        raise InvalidArgument(f"{doing}: format is '{format}'; give one of {', '.join(FORMATS)}")


# --- out of a folder of checkpoints ---------------------------------------------------------------


def _load(doing: str, folder: str) -> tuple[Checkpoint, dict[str, torch.Tensor], Layout | None]:
    """Returns the checkpoint, its flat tensors, and the layout of its folder."""
    path = os.path.normpath(folder)
    if job_of(os.path.basename(path)) is not None:
        with tempfile.TemporaryDirectory() as alone:  # a folder of this checkpoint only
            os.symlink(os.path.abspath(path), os.path.join(alone, os.path.basename(path)))
            loaded, flat = _load_newest(doing, alone)
        return loaded, flat, read_layout(os.path.dirname(os.path.abspath(path)))
    return *_load_newest(doing, folder), read_layout(folder)


def _load_newest(doing: str, folder: str) -> tuple[Checkpoint, dict[str, torch.Tensor]]:
    stored = list_folder(folder)
    if not stored:
        raise NotFound(
            f"{doing}: the folder has no published checkpoint; name the folder of checkpoints")
    path = os.path.join(folder, stored[0].name, stored[0].manifest)
    try:
        with open(path, "rb") as file:
            facts = parse_manifest(file.read(), path)["tensors"]
    except OSError as error:
        raise Corrupt(f"read manifest '{path}': {error.strerror}; restore the file") from error
    flat = {one["name"]: torch.empty(one["count"], dtype=_dtype(one["dtype"])) for one in facts}
    options = CheckpointOptions(folder, names=list(flat))
    return load_checkpoint(options, list(flat.values())), flat


def _dtype(name: str) -> torch.dtype:
    return getattr(torch, name)  # type: ignore[no-any-return]


def _layout_like(
    doing: str, model: torch.nn.Module, optimizer: Any, flat: dict[str, torch.Tensor]
) -> Layout:
    """Returns the layout of this model and optimizer."""
    names, buffers = names_of(model), Buffers(doing, model)
    state = {names[id(p)]: p.detach() for p in model.parameters()}
    state |= dict(zip(buffers.names, buffers.state, strict=True))
    if optimizer is None:
        return layout_of(model, None, state, SETTINGS)
    one = as_one_optimizer(doing, optimizer)
    parameters = [p for p in model.parameters() if p.requires_grad]
    state |= make_optimizer_state(one, parameters, names)
    outer = "local_sgd.outer_settings"
    return layout_of(model, one, state, outer if outer in flat else SETTINGS)


def _shaped(
    doing: str, flat: dict[str, torch.Tensor], layout: Layout
) -> dict[str, torch.Tensor]:
    """Returns the tensors in the layout's shapes. Tensors that the layout lacks stay flat."""
    tensors = dict(flat)
    for name, shape in layout.shapes.items():
        if name not in flat:
            raise InvalidArgument(
                f"{doing}: the checkpoint has no '{name}', but {_some(flat)}; pass the model of "
                "this checkpoint (--model)"
            )
        one = flat[name]
        if name in layout.dtypes:
            one = one.view(_dtype(layout.dtypes[name]))
        if one.numel() != torch.Size(shape).numel():
            raise InvalidArgument(
                f"{doing}: '{name}' has {one.numel()} elements, but its shape in the "
                f"model is {shape}; pass the model of this checkpoint (--model)"
            )
        tensors[name] = one.view(shape)
    return tensors


def _weights(
    doing: str, tensors: dict[str, torch.Tensor], layout: Layout, model: torch.nn.Module | None,
    *, once: bool,
) -> dict[str, torch.Tensor]:
    """Returns the model's state_dict. once: returns each tensor under its first name only."""
    weights = {}
    seen: set[str] = set()
    own = {} if model is None else model.state_dict()
    for name, stored in layout.model.items():
        if stored is None:
            if name not in own:
                raise InvalidArgument(
                    f"{doing}: checkpoints do not contain '{name}' of the model, because elastic() "
                    "does not train it; pass the model (--model)"
                )
            weights[name] = own[name]
        elif not once or stored not in seen:
            seen.add(stored)
            weights[name] = tensors[stored]
    return weights


def _training_of(
    doing: str, tensors: dict[str, torch.Tensor], layout: Layout, *, by_name: bool
) -> dict[str, Any]:
    """Returns the entries of an export except the weights. Omits entries without a value."""
    text = tensors[layout.settings].numpy().tobytes().rstrip(b"\0") \
        if layout.settings in tensors else b"null"
    settings = json.loads(text)
    if settings is None or not layout.optimizers:
        raise InvalidArgument(
            f"{doing}: this format has the optimizer's state, and the optimizer is unknown; pass "
            "the optimizer too, as the second value of --model, or use format 'hf'"
        )
    groups = iter(settings["groups"])
    made = [_optimizer_of(one, groups, tensors, by_name) for one in layout.optimizers]
    if by_name:  # as get_state_dict() has several: as one
        made = [{"state": {k: v for one in made for k, v in one["state"].items()},
                 "param_groups": [group for one in made for group in one["param_groups"]]}]
    content = {"optimizer": made[0] if len(made) == 1 else made,
               "training": {key: settings[key] for key in _LOOP if key in settings}}
    content |= {key: settings[key] for key in ("scheduler", "grad_scaler") if settings.get(key)}
    known = {layout.settings, "local_sgd.inner_settings", *layout.model.values()}
    owners = _owners(tensors, layout)
    extra = {name: one for name, one in tensors.items() if name not in known and name not in owners}
    return content | ({"extra": extra} if extra else {})


def _owners(names: Iterable[str], layout: Layout) -> dict[str, str]:
    """Maps the name of each tensor of an optimizer to the name of its parameter."""
    trained = {one for groups in layout.optimizers for group in groups for one in group}
    found = {name: name.removeprefix(_OPTIMIZER).rpartition(".")[0]
             for name in names if name.startswith(_OPTIMIZER)}
    return {name: parameter for name, parameter in found.items() if parameter in trained}


def _optimizer_of(
    groups: list[list[str | None]], settings: Iterator[dict[str, Any]],
    tensors: dict[str, torch.Tensor], by_name: bool,
) -> dict[str, Any]:
    """Returns an optimizer's state_dict. by_name: the keys are parameter names, not numbers."""
    places = _places(groups)
    own: dict[str, dict[str, torch.Tensor]] = {name: {} for name in places}
    for full, tensor in tensors.items():
        parameter, _, key = full.removeprefix(_OPTIMIZER).rpartition(".")
        if full.startswith(_OPTIMIZER) and parameter in own:
            own[parameter][key] = tensor
    state = {name if by_name else places[name]: one for name, one in own.items() if one}
    numbers = iter(range(sum(map(len, groups))))
    made = []
    for group in groups:
        keys = [name if by_name else number for name, number in zip(group, numbers)]  # noqa: B905
        made.append({**_with_tuples(next(settings)),
                     "params": [key for key in keys if key is not None]})
    return {"state": state, "param_groups": made}


def _places(groups: list[list[str | None]]) -> dict[str, int]:
    """Maps each parameter's name to its number in a state_dict."""
    names = [name for group in groups for name in group]
    return {name: number for number, name in enumerate(names) if name is not None}


def _with_tuples(group: dict[str, Any]) -> dict[str, Any]:
    """Converts lists to tuples, because JSON stores tuples such as betas as lists."""
    return {key: tuple(value) if isinstance(value, list) and key != "param_names" else value
            for key, value in group.items()}


# --- into one -------------------------------------------------------------------------------------


def _take(
    doing: str, state: dict[str, torch.Tensor], stored: str, name: str, value: Any
) -> None:
    """Copies a value of the source into the state. The dtype and the shape must be equal."""
    if not isinstance(value, torch.Tensor) or stored not in state:
        raise InvalidArgument(
            f"{doing}: it has '{name}', which this model and optimizer do not have; pass the model "
            "and optimizer of the source"
        )
    mine = state[stored]
    if value.shape != mine.shape or value.dtype != mine.dtype:
        raise InvalidArgument(
            f"{doing}: '{name}' is {_form(value)} in the source and {_form(mine)} in this model; "
            "build the same model"
        )
    mine.copy_(value)


def _take_weights(
    doing: str, weights: dict[str, Any], layout: Layout, state: dict[str, torch.Tensor],
    model: torch.nn.Module,
) -> None:
    given = {name.replace("_orig_mod.", ""): value for name, value in weights.items()}
    own = {name.replace("_orig_mod.", ""): value for name, value in model.state_dict().items()}
    taken: dict[str, str] = {}  # the state's name -> the source's
    for name, value in given.items():
        stored = layout.model.get(name)
        if stored is None and name in layout.model:
            if not _is_same(value, own[name]):
                raise InvalidArgument(
                    f"{doing}: '{name}' differs in this model, and checkpoints do not contain it; "
                    "build the model with the source's value"
                )
            continue
        if stored in taken and not _is_same(value, state[stored]):
            raise InvalidArgument(
                f"{doing}: '{taken[stored]}' and '{name}' differ, but are one tensor in this "
                "model; build the model without tied weights"
            )
        _take(doing, state, stored or name, name, value)
        taken[stored or name] = name
    missing = sorted({one for one in layout.model.values() if one is not None} - taken.keys())
    if missing:
        raise InvalidArgument(
            f"{doing}: it lacks {len(missing)} tensors of this model, such as '{missing[0]}', but "
            f"has {_some(given)}; pass the model of the source"
        )


def _take_optimizer(
    doing: str, given: Any, layout: Layout, state: dict[str, torch.Tensor]
) -> None:
    parts = given if isinstance(given, list) else [given]
    several = layout.optimizers
    if len(parts) == 1 and len(several) > 1:  # DCP has them as one
        several = [[group for groups in several for group in groups]]
    mine = [[len(group) for group in groups] for groups in several]
    theirs = [[len(group["params"]) for group in one["param_groups"]] for one in parts]
    if mine != theirs:
        raise InvalidArgument(
            f"{doing}: its optimizers have groups of {theirs} parameters, but the passed "
            f"optimizers {mine}; build the same optimizers"
        )
    owners = _owners(state, layout)
    for one, groups in zip(parts, several, strict=True):
        by_place = {place: name for name, place in _places(groups).items()}
        found = set()
        for key, values in one["state"].items():
            name = by_place.get(key, key)
            for what, value in values.items():
                if value is None:
                    continue
                full = f"{_OPTIMIZER}{name}.{what}"
                _take(doing, state, full, full, value)
                found.add(full)
        wanted = {name for name, owner in owners.items() if owner in by_place.values()}
        # An optimizer that has made no step yet has no state.
        if found and found != wanted:
            raise InvalidArgument(
                f"{doing}: it lacks '{min(wanted - found)}' of the passed optimizer; build the "
                "same optimizer"
            )


def _take_settings(doing: str, content: dict[str, Any], into: torch.Tensor) -> None:
    settings = json.loads(into.numpy().tobytes().rstrip(b"\0"))
    if "optimizer" in content:
        given = content["optimizer"]
        parts = given if isinstance(given, list) else [given]
        groups = [group for one in parts for group in one["param_groups"]]
        settings["groups"] = [
            mine | {key: value for key, value in group.items() if key != "params"}
            for mine, group in zip(settings["groups"], groups, strict=True)
        ]
    for key in ("scheduler", "grad_scaler"):
        if key not in content:
            continue
        if settings[key] is None:
            raise InvalidArgument(
                f"{doing}: it has the state of a {key}; pass {key}= too")
        settings[key] = content[key]
    loop = content.get("training", {})
    settings |= {key: loop[key] for key in _LOOP if key in loop}
    try:
        text = json.dumps(settings, sort_keys=True).encode()
    except TypeError as error:
        raise InvalidArgument(
            f"{doing}: its hyperparameters have no JSON form ({error}); save numbers and text only"
        ) from error

    def refuse(why: str) -> None:
        raise InvalidArgument(f"{doing}: {why}")

    write_settings(text, into, refuse)


# --- the files of others --------------------------------------------------------------------------


def _write(doing: str, target: str, write: Callable[[str], None]) -> None:
    """Writes a temporary file or folder beside the target, and then renames it to the target."""
    unfinished = f"{target}.unfinished"
    _remove(unfinished)
    try:
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        write(unfinished)
        os.rename(unfinished, target)
    except (OSError, RuntimeError) as error:
        raise Unavailable(f"{doing}: write '{target}': {error}; check the disk") from error
    finally:
        _remove(unfinished)


def _remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.remove(path)


def _write_hf(
    weights: dict[str, torch.Tensor], config: str | os.PathLike[str] | None, path: str
) -> None:
    os.mkdir(path)
    _safetensors().save_file(weights, os.path.join(path, _WEIGHTS), metadata={"format": "pt"})
    if config is not None:
        shutil.copy(os.path.join(config, "config.json"), path)


def _write_dcp(content: dict[str, Any], path: str) -> None:
    from torch.distributed import checkpoint

    # Older versions decide it alone.
    alone = {"no_dist": True} if "no_dist" in inspect.signature(checkpoint.save).parameters else {}
    with _quiet_dcp():
        checkpoint.save(content, checkpoint_id=path, **alone)


@contextlib.contextmanager
def _quiet_dcp() -> Iterator[None]:
    """Converts DCP's CheckpointException to OSError, which callers catch. Hides warnings."""
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is one process
            yield
    except CheckpointException as error:
        raise OSError("; ".join(str(one[0]) for one in error.failures.values())) from error


def _read(doing: str, source: str, format: str) -> dict[str, Any]:
    """Returns the entries of the source, as for ``torch``. "model" is always present."""
    if not os.path.exists(source):
        raise NotFound(f"{doing}: no such file or folder; check the path")
    try:
        if format == "hf":
            return {"model": _read_hf(source)}
        content = _read_torch(source) if format == "torch" else _read_dcp(source)
    except (InvalidArgument, Unimplemented):
        raise
    except Exception as error:  # of any kind, from bytes of another format
        raise Corrupt(
            f"{doing}: it is not of format '{format}': {error}; check the file") from error
    if isinstance(content, Mapping) and content and all(
        isinstance(value, torch.Tensor) for value in content.values()
    ):
        return {"model": content}
    if not isinstance(content, Mapping) or not isinstance(content.get("model"), Mapping):
        what = _some(content) if isinstance(content, Mapping) else type(content).__name__
        raise InvalidArgument(
            f"{doing}: it has {what}; write {{'model': model.state_dict(), 'optimizer': "
            "optimizer.state_dict(), 'step': number}"
        )
    return dict(content)


def _read_torch(source: str) -> Any:
    return torch.load(source, map_location="cpu", weights_only=True)


def _read_dcp(source: str) -> Any:
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    if not os.path.isfile(os.path.join(source, ".metadata")):
        raise OSError("it has no file .metadata")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(source))) as aside:
        path = os.path.join(aside, "content")
        with _quiet_dcp():
            dcp_to_torch_save(source, path)
        return _read_torch(path)


def _read_hf(source: str) -> dict[str, torch.Tensor]:
    files = [source]
    if os.path.isdir(source):
        files = [os.path.join(source, _WEIGHTS)]
        index = os.path.join(source, f"{_WEIGHTS}.index.json")
        if os.path.exists(index):
            with open(index, encoding="utf-8") as file:
                names = sorted(set(json.load(file)["weight_map"].values()))
            files = [os.path.join(source, os.path.basename(name)) for name in names]
    weights: dict[str, torch.Tensor] = {}
    for path in files:
        weights |= _safetensors().load_file(path)
    return weights


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise Unimplemented(
            f"read or write safetensors: {error}; pip install safetensors") from error
    return safetensors.torch


def _is_same(given: Any, mine: Any) -> bool:
    """Compares the bits of tensors, because NaN is not equal to NaN."""
    if not isinstance(given, torch.Tensor) or not isinstance(mine, torch.Tensor):
        return bool(given == mine)
    return _form(given) == _form(mine) and torch.equal(_bytes(given), _bytes(mine))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {list(tensor.shape)}"


def _some(names: Mapping[str, Any]) -> str:
    return ", ".join(f"'{name}'" for name in list(names)[:3]) + (", ..." if len(names) > 3 else "")
