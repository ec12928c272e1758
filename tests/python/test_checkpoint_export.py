"""Checkpoints in the files of PyTorch, Hugging Face and DCP, and back, to the last bit."""

import json
import os
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

import ffdl

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import ffdl.torch  # noqa: E402
from ffdl.torch.checkpoint import export_checkpoint, import_checkpoint  # noqa: E402
from ffdl.torch.training.layout import Layout, read_layout, write_layout  # noqa: E402
from test_torch_elastic import (  # noqa: E402
    OPTIMIZERS,
    expect_equal,
    loss_of,
    make_data,
    make_ledger,
    make_model,
    open_trainer,
    state_of,
)

FORMATS = ["torch", "dcp"]


class Parts:
    """A model with buffers, tied weights and two groups, and all that belongs to its training."""

    def __init__(self, optimizer="adamw", scale=1.0):
        self.model = make_model(torch.nn.BatchNorm1d(8))
        self.model.register_module("again", torch.nn.Linear(6, 8))
        self.model.again.weight = self.model[0].weight
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(scale)
        parameters = list(self.model.parameters())
        groups = [{"params": parameters[:2], "weight_decay": 0.5}, {"params": parameters[2:]}]
        self.optimizer = OPTIMIZERS[optimizer](groups)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)

    def loss(self, x, y):
        return loss_of(self.model[:4](x), y) + self.model.again(x).square().mean()


def train(parts, folder, steps=4, **options):
    trainer = open_trainer(
        parts.model, parts.optimizer, ledger=make_ledger(), scheduler=parts.scheduler,
        checkpoints=ffdl.CheckpointOptions(folder, **options.pop("checkpoints", {})), **options)
    begun = trainer.session.step, state_of(parts.model)
    x, y = make_data()
    for batch in trainer.batches(steps=steps):
        parts.loss(x[batch], y[batch]).backward()
        trainer.step()
    return begun


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A training of four steps, and the folder with the checkpoint of the last one."""
    parts = Parts()
    folder = tmp_path_factory.mktemp("trained") / "folder"
    train(parts, folder)
    return parts, folder


def tensors_of(folder):
    """All tensors of the newest checkpoint, with every byte."""
    [stored] = ffdl.checkpoints.list_checkpoints(folder)
    manifest = json.loads((pathlib.Path(folder) / stored.name / stored.manifest).read_bytes())
    flat = {one["name"]: torch.empty(one["count"], dtype=getattr(torch, one["dtype"]))
            for one in manifest["tensors"]}
    ffdl.load_checkpoint(ffdl.CheckpointOptions(folder, names=list(flat)), list(flat.values()))
    return flat


def expect_alike(mine, theirs):
    """Compares nested values, tensors by their bits."""
    if isinstance(mine, torch.Tensor):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        assert mine.numpy().tobytes() == theirs.numpy().tobytes()
    elif isinstance(mine, dict):
        assert mine.keys() == theirs.keys()
        for key, value in mine.items():
            expect_alike(value, theirs[key])
    elif isinstance(mine, list):
        assert len(mine) == len(theirs)
        for pair in zip(mine, theirs, strict=True):
            expect_alike(*pair)
    else:
        assert type(mine) is type(theirs) and mine == theirs


def test_torch_reads_it(trained, tmp_path):
    parts, folder = trained
    done = export_checkpoint(folder, tmp_path / "file.pt")
    assert done.step == 4
    content = torch.load(tmp_path / "file.pt", weights_only=True)
    assert content["step"] == 4
    expect_alike(dict(parts.model.state_dict()), content["model"])
    expect_alike(parts.optimizer.state_dict(), content["optimizer"])
    expect_alike(parts.scheduler.state_dict(), content["scheduler"])
    other = Parts()
    other.model.load_state_dict(content["model"])
    other.optimizer.load_state_dict(content["optimizer"])
    expect_alike(parts.optimizer.state_dict(), other.optimizer.state_dict())
    assert list(tmp_path.iterdir()) == [tmp_path / "file.pt"]


def test_dcp_reads_it(trained, tmp_path):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    parts, folder = trained
    export_checkpoint(folder, tmp_path / "dcp", format="dcp")
    other = Parts(scale=2)
    model, optimizer = get_state_dict(other.model, other.optimizer)
    into = {"model": model, "optimizer": optimizer, "step": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells that there is one process
        checkpoint.load(into, checkpoint_id=tmp_path / "dcp")
    set_state_dict(other.model, other.optimizer, model_state_dict=into["model"],
                   optim_state_dict=into["optimizer"])
    assert into["step"] == 4
    expect_alike(dict(parts.model.state_dict()), dict(other.model.state_dict()))
    expect_alike(parts.optimizer.state_dict(), other.optimizer.state_dict())


def test_safetensors_has_each_tensor_once(trained, tmp_path):
    reader = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    parts, folder = trained
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.json").write_text('{"model_type": "mine"}')
    export_checkpoint(folder, tmp_path / "hf", format="hf", config=tmp_path / "config")
    assert (tmp_path / "hf" / "config.json").read_text() == '{"model_type": "mine"}'
    found = reader.load_file(tmp_path / "hf" / "model.safetensors")
    expected = dict(parts.model.state_dict())
    del expected["again.weight"]  # the same tensor as 0.weight
    expect_alike(expected, {name: found.pop(name) for name in expected})
    assert not found
    other = Parts(scale=2).model
    reader.load_model(other, tmp_path / "hf" / "model.safetensors")
    expect_equal(state_of(parts.model), state_of(other))


def test_from_pretrained_reads_it_and_its_files_come_back(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
    model = transformers.GPT2LMHeadModel(config)  # ties lm_head to the embedding
    config.save_pretrained(tmp_path / "config")
    trainer = open_trainer(
        model, "adamw", checkpoints=ffdl.CheckpointOptions(tmp_path / "folder"))
    for batch in trainer.batches(steps=1):
        tokens = torch.arange(8).repeat(len(batch), 1)
        model(tokens, labels=tokens).loss.backward()
        trainer.step()
    export_checkpoint(tmp_path / "folder", tmp_path / "hf", format="hf", config=tmp_path / "config")
    read = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "hf")
    expect_equal(state_of(model), state_of(read))

    read.save_pretrained(tmp_path / "split", max_shard_size="2KB")
    assert len(list((tmp_path / "split").glob("*.safetensors"))) > 1
    for source in ("hf", "split"):
        again = transformers.GPT2LMHeadModel(config)
        import_checkpoint(
            tmp_path / source, tmp_path / f"from-{source}", format="hf", model=again,
            optimizer=OPTIMIZERS["adamw"](again.parameters()))
        before, after = tensors_of(tmp_path / "folder"), tensors_of(tmp_path / f"from-{source}")
        assert before.keys() == after.keys()
        for name, _ in model.named_parameters():
            expect_alike(before[name], after[name])


@pytest.mark.parametrize("format", FORMATS)
def test_a_round_trip_has_every_bit(trained, tmp_path, format):
    _, folder = trained
    export_checkpoint(folder, tmp_path / "there", format=format)
    parts = Parts(scale=3)
    before = state_of(parts.model)
    done = import_checkpoint(
        tmp_path / "there", tmp_path / "back", format=format, model=parts.model,
        optimizer=parts.optimizer, scheduler=parts.scheduler)
    assert done.step == 4
    expect_alike(tensors_of(folder), tensors_of(tmp_path / "back"))
    expect_equal(before, state_of(parts.model))
    export_checkpoint(tmp_path / "back", tmp_path / "again.pt")
    export_checkpoint(folder, tmp_path / "first.pt")
    expect_alike(torch.load(tmp_path / "first.pt", weights_only=True),
                 torch.load(tmp_path / "again.pt", weights_only=True))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_comes_back(tmp_path, name):
    model = make_model()
    optimizer = OPTIMIZERS[name](model.parameters())
    trainer = open_trainer(model, optimizer, checkpoints=ffdl.CheckpointOptions(tmp_path / "a"))
    x, y = make_data()
    for batch in trainer.batches(steps=2):
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
    export_checkpoint(tmp_path / "a", tmp_path / "file.pt")
    content = torch.load(tmp_path / "file.pt", weights_only=True)
    held = {place: {key: value for key, value in values.items() if value is not None}
            for place, values in optimizer.state_dict()["state"].items()}
    expect_alike({place: values for place, values in held.items() if values},
                 content["optimizer"]["state"])
    expect_alike(optimizer.state_dict()["param_groups"], content["optimizer"]["param_groups"])
    again = make_model()
    import_checkpoint(tmp_path / "file.pt", tmp_path / "b", model=again,
                      optimizer=OPTIMIZERS[name](again.parameters()))
    expect_alike(tensors_of(tmp_path / "a"), tensors_of(tmp_path / "b"))


def plain_training(steps):
    """Trains as the tests' trainer does, without ffdl; returns the files' content and the order."""
    parts = Parts()
    x, y = make_data()
    ledger = make_ledger(epochs=1)
    session = ffdl.Session.open(
        ffdl.open_store("mem://"), id="a", state=[np.zeros(1)], gradients=[np.zeros(1)],
        apply=lambda: None, participants=[ledger], lease_s=15.0, gather_s=0.05)
    for _ in range(steps):
        batch = ledger.sample_indices(ledger.take())
        parts.optimizer.zero_grad()
        parts.loss(x[batch], y[batch]).backward()
        parts.optimizer.step()
        parts.scheduler.step()
        session.end_step(ledger.taken)
    return parts


def test_a_job_begins_from_a_file_of_pytorch(tmp_path):
    """Its samples begin with the first epoch, and its steps count on."""
    plain = plain_training(3)
    torch.save({"model": plain.model.state_dict(), "optimizer": plain.optimizer.state_dict(),
                "scheduler": plain.scheduler.state_dict(), "step": 3}, tmp_path / "plain.pt")
    parts = Parts(scale=2)
    import_checkpoint(tmp_path / "plain.pt", tmp_path / "folder", model=parts.model,
                      optimizer=parts.optimizer, scheduler=parts.scheduler)
    step, begun = train(parts, tmp_path / "folder", steps=None, checkpoints={"resume": True})
    assert step == 3
    expect_equal(state_of(plain.model), begun)
    assert parts.scheduler.last_epoch == 3 + 10
    newest = ffdl.checkpoints.list_checkpoints(tmp_path / "folder")[0]
    assert newest.step == 3 + 10  # all of two epochs


def test_a_state_dict_alone_begins_a_job_at_a_step(tmp_path):
    source = make_model()
    torch.save(source.state_dict(), tmp_path / "weights.pt")
    model = make_model()
    with torch.no_grad():
        model[0].weight.zero_()
    import_checkpoint(tmp_path / "weights.pt", tmp_path / "folder", model=model, step=7,
                      optimizer=OPTIMIZERS["momentum"](model.parameters()))
    trainer = open_trainer(
        model, checkpoints=ffdl.CheckpointOptions(tmp_path / "folder", resume=True))
    assert trainer.session.step == 7
    expect_equal(state_of(source), state_of(model))


def test_several_optimizers_and_extra_state(tmp_path):
    def parts():
        model = make_model()
        optimizers = [OPTIMIZERS["adamw"](model[0].parameters()),
                      OPTIMIZERS["momentum"](model[2].parameters())]
        return model, optimizers, torch.optim.swa_utils.AveragedModel(model)

    model, optimizers, average = parts()
    trainer = open_trainer(
        model, optimizers, extra_state={"average": average},
        after_step=lambda: average.update_parameters(model),
        checkpoints=ffdl.CheckpointOptions(tmp_path / "folder"))
    x, y = make_data()
    for batch in trainer.batches(steps=2):
        loss_of(model(x[batch]), y[batch]).backward()
        trainer.step()
    for format in FORMATS:
        export_checkpoint(tmp_path / "folder", tmp_path / format, format=format)
        model, optimizers, average = parts()
        import_checkpoint(tmp_path / format, tmp_path / f"from-{format}", format=format,
                          model=model, optimizer=optimizers, extra_state={"average": average})
        expect_alike(tensors_of(tmp_path / "folder"), tensors_of(tmp_path / f"from-{format}"))
    assert isinstance(torch.load(tmp_path / "torch", weights_only=True)["optimizer"], list)


def test_local_steps_export_the_outer_weights(tmp_path):
    model = make_model()
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    ledger = ffdl.make_session_ledger(
        samples=60, order=ffdl.SampleOrder.ON_DEMAND, partition_samples=12, epochs=1)
    trainer = ffdl.torch.local_sgd(
        model, torch.optim.AdamW(model.parameters()), outer, ledger, every=2,
        store=ffdl.open_store("mem://"), id="a", lease_s=15.0, gather_s=0.05,
        checkpoints=ffdl.CheckpointOptions(tmp_path / "folder"))
    x, y = make_data()
    for batch in trainer.batches(samples=6):
        loss = loss_of(model(x[batch]), y[batch])
        loss.backward()
        trainer.step(loss.detach())
    export_checkpoint(tmp_path / "folder", tmp_path / "file.pt")
    content = torch.load(tmp_path / "file.pt", weights_only=True)
    expect_alike(dict(model.state_dict()), content["model"])
    expect_alike(outer.state_dict(), content["optimizer"])


class Masked(torch.nn.Linear):
    def __init__(self, hidden=1):
        super().__init__(2, 1)
        self.mask = torch.tensor([True, hidden > 1])

    def get_extra_state(self):
        return self.mask

    def set_extra_state(self, mask):
        self.mask = mask


class Odd(torch.nn.Linear):
    """Buffers of dtypes that the format of checkpoints lacks."""

    def __init__(self, on=False):
        super().__init__(2, 1)
        self.register_buffer("mask", torch.tensor([[True, on]]))
        self.register_buffer("turn", torch.tensor([1j, complex(on, 2)]))
        self.register_buffer("zero", torch.tensor(1j if on else 0j, dtype=torch.complex128))
        self.register_buffer("byte", torch.tensor(200 + on, dtype=torch.uint8))


def test_buffers_of_every_dtype_go_out_and_in(tmp_path):
    def trained(model):
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    model, optimizer = trained(Odd(True))
    folder = ffdl.CheckpointOptions(tmp_path / "folder")
    trainer = open_trainer(model, optimizer, checkpoints=folder)
    trainer.session.end_step(0)
    trainer.session.finish()
    export_checkpoint(tmp_path / "folder", tmp_path / "file.pt")
    content = torch.load(tmp_path / "file.pt", weights_only=True)
    expect_alike(dict(model.state_dict()), content["model"])
    other, its_optimizer = trained(Odd())
    import_checkpoint(
        tmp_path / "file.pt", tmp_path / "back", model=other, optimizer=its_optimizer)
    open_trainer(other, its_optimizer, checkpoints=ffdl.CheckpointOptions(
        tmp_path / "back", resume=True))
    expect_alike(dict(model.state_dict()), dict(other.state_dict()))


def test_what_no_checkpoint_holds_comes_from_the_model(tmp_path):
    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = open_trainer(
        model, optimizer, checkpoints=ffdl.CheckpointOptions(tmp_path / "folder"))
    trainer.session.end_step(0)
    trainer.session.finish()
    with pytest.raises(ffdl.InvalidArgument, match="checkpoints do not contain '_extra_state'"):
        export_checkpoint(tmp_path / "folder", tmp_path / "file.pt")
    other = Masked()
    export_checkpoint(tmp_path / "folder", tmp_path / "file.pt", model=other,
                      optimizer=torch.optim.SGD(other.parameters(), lr=0.1))
    content = torch.load(tmp_path / "file.pt", weights_only=True)
    expect_alike(dict(model.state_dict()), content["model"])
    again = Masked()
    import_checkpoint(tmp_path / "file.pt", tmp_path / "back", model=again,
                      optimizer=torch.optim.SGD(again.parameters(), lr=0.1))
    wrong = Masked(2)
    with pytest.raises(ffdl.InvalidArgument, match="'_extra_state' differs in this model"):
        import_checkpoint(tmp_path / "file.pt", tmp_path / "other", model=wrong,
                          optimizer=torch.optim.SGD(wrong.parameters(), lr=0.1))


def test_the_layout_is_not_written_through_a_link(tmp_path):
    (tmp_path / "own").write_text("mine")
    for name in ("layout.json", f"layout.json.{os.getpid()}.unfinished"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).symlink_to(tmp_path / "own")
        layout = Layout({"a": [1]}, {"a": "a"}, [], "settings")
        write_layout(folder, layout)
        assert (tmp_path / "own").read_text() == "mine"
        assert read_layout(folder) == layout


def test_a_folder_without_layout_needs_the_model(trained, tmp_path):
    parts, folder = trained
    [stored] = ffdl.checkpoints.list_checkpoints(folder)
    alone = folder.parent / "alone"
    alone.mkdir()
    (alone / stored.name).symlink_to(folder / stored.name)
    with pytest.raises(ffdl.InvalidArgument, match=r"has no layout.json.*--model"):
        export_checkpoint(alone, tmp_path / "file.pt")
    other = Parts(scale=2)
    with pytest.raises(ffdl.InvalidArgument, match="the optimizer is unknown; pass"):
        export_checkpoint(alone, tmp_path / "file.pt", model=other.model)
    export_checkpoint(alone, tmp_path / "file.pt", model=other.model, optimizer=other.optimizer)
    export_checkpoint(folder / stored.name, tmp_path / "one.pt")  # of one, by its own folder
    expect_alike(torch.load(tmp_path / "one.pt", weights_only=True),
                 torch.load(tmp_path / "file.pt", weights_only=True))
    expect_alike(dict(parts.model.state_dict()),
                 torch.load(tmp_path / "file.pt", weights_only=True)["model"])


def test_a_damaged_checkpoint_is_not_exported(tmp_path):
    train(Parts(), tmp_path / "folder", steps=1)
    [file] = (tmp_path / "folder").glob("*/*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ffdl.Corrupt, match=file.name):
        export_checkpoint(tmp_path / "folder", tmp_path / "file.pt")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_wrong_exports(trained, tmp_path):
    _, folder = trained
    with pytest.raises(ffdl.InvalidArgument, match="format is 'onnx'; give one of torch, hf, dcp"):
        export_checkpoint(folder, tmp_path / "x", format="onnx")
    with pytest.raises(ffdl.InvalidArgument, match="exists; name another"):
        export_checkpoint(folder, tmp_path)
    with pytest.raises(ffdl.NotFound, match="has no published checkpoint"):
        export_checkpoint(tmp_path, tmp_path / "x")
    with pytest.raises(ffdl.InvalidArgument, match="has no config.json"):
        export_checkpoint(folder, tmp_path / "x", format="hf", config=tmp_path)
    other = torch.nn.Linear(3, 3)
    with pytest.raises(ffdl.InvalidArgument, match="has no 'weight', but '0.weight'"):
        export_checkpoint(folder, tmp_path / "x", format="hf", model=other)
    other = torch.nn.Sequential(other)
    with pytest.raises(ffdl.InvalidArgument, match="has 48 elements, but its shape in the model"):
        export_checkpoint(folder, tmp_path / "x", format="hf", model=other)
    (tmp_path / "file").write_text("")
    with pytest.raises(ffdl.Unavailable, match="check the disk"):
        export_checkpoint(folder, tmp_path / "file" / "x")


class MakesFolder:
    """An object whose pickled form makes a folder if it is executed."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_no_code_in_a_file_is_executed(tmp_path):
    made = tmp_path / "made"
    torch.save({"model": {"weight": MakesFolder(str(made))}}, tmp_path / "evil.pt")
    parts = Parts()
    for format in ("torch", "hf"):
        with pytest.raises(ffdl.Corrupt, match=f"not of format '{format}'"):
            import_checkpoint(tmp_path / "evil.pt", tmp_path / "new", format=format,
                              model=parts.model, optimizer=parts.optimizer)
        assert not made.exists()
    torch.load(tmp_path / "evil.pt", weights_only=False)
    assert made.exists()  # the file has such code


def test_wrong_imports(trained, tmp_path):
    _, folder = trained
    source = tmp_path / "file.pt"
    export_checkpoint(folder, source)
    content = torch.load(source, weights_only=True)
    parts = Parts()
    scheduled = {"scheduler": parts.scheduler}

    def importing(what, **options):
        torch.save(what, tmp_path / "changed.pt")
        import_checkpoint(tmp_path / "changed.pt", tmp_path / "new", **{
            "model": parts.model, "optimizer": parts.optimizer} | scheduled | options)

    def changed(name, value):
        return content | {"model": content["model"] | {name: value}}

    def refused(match):
        return pytest.raises(ffdl.InvalidArgument, match=match)

    with refused("has checkpoints; name a new folder"):
        import_checkpoint(source, folder, model=parts.model, optimizer=parts.optimizer)
    with pytest.raises(ffdl.NotFound, match="no such file"):
        import_checkpoint(tmp_path / "none", tmp_path / "new", model=parts.model,
                          optimizer=parts.optimizer)
    for format in ("torch", "hf", "dcp"):
        (tmp_path / "junk").write_bytes(b"no tensors")
        with pytest.raises(ffdl.Corrupt, match=f"not of format '{format}'"):
            import_checkpoint(tmp_path / "junk", tmp_path / "new", format=format,
                              model=parts.model, optimizer=parts.optimizer)
    with refused("it has 'weights'; write"):
        importing({"weights": 1})
    half = content["model"]["0.bias"].half()
    with refused(r"'0.bias' is float16 of shape \[8\] in the source and float32 of shape \[8\]"):
        importing(changed("0.bias", half))
    with refused("it has 'more', which this model"):
        importing(changed("more", half))
    with refused("'0.weight' and 'again.weight' differ"):
        importing(changed("again.weight", content["model"]["0.weight"] + 1))
    less = {name: one for name, one in content["model"].items() if name != "3.bias"}
    with refused("lacks 1 tensors of this model, such as '3.bias'"):
        importing(content | {"model": less})
    with refused(r"groups of \[\[2, 5\]\] parameters, but the passed optimizers \[\[7\]\]"):
        importing(content, optimizer=OPTIMIZERS["adamw"](parts.model.parameters()), scheduler=None)
    with refused("has 'optimizer.0.weight.exp_avg', which this model"):
        other = Parts("sgd")
        importing(content, model=other.model, optimizer=other.optimizer, scheduler=other.scheduler)
    state = {place: {"step": one["step"]} for place, one in content["optimizer"]["state"].items()}
    with refused("lacks 'optimizer.0.bias.exp_avg' of the passed optimizer"):
        importing(content | {"optimizer": content["optimizer"] | {"state": state}})
    with refused("has the state of a scheduler; pass scheduler= too"):
        importing(content, scheduler=None)
    with refused("its step is -1; give step="):
        importing(content | {"step": -1})
    assert not (tmp_path / "new").exists()


PROGRAM = """
import torch

def make():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return model, optimizer

def model_alone():
    return make()[0]
"""


def test_the_command(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    model = torch.nn.Linear(2, 1)
    torch.save({"model": model.state_dict()}, tmp_path / "plain.pt")

    def ffdl_checkpoint(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "ffdl", "checkpoint", *arguments], cwd=tmp_path,
            capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr

    code, out, err = ffdl_checkpoint(
        "import", "plain.pt", "folder", "--model", "program:make", "--step", "5", "--job", "mine")
    assert (code, err) == (0, "") and out.startswith("step 5 of job mine: folder/mine.00000")
    code, out, _ = ffdl_checkpoint("list", "folder")
    assert code == 0 and out.startswith("step 5 of job mine: mine.000000000005.l0.g0.")
    assert ffdl_checkpoint("export", "folder", "out.pt")[0] == 0
    content = torch.load(tmp_path / "out.pt", weights_only=True)
    expect_alike(dict(model.state_dict()), content["model"])
    assert content["step"] == 5 and content["optimizer"]["param_groups"][0]["lr"] == 0.5
    for arguments, message in [
        (["list", "nowhere"], "there is no such folder"),
        (["export", "folder", "out.pt"], "'out.pt' exists"),
        (["import", "plain.pt", "new", "--model", "program:none"], "find 'program:none'"),
        (["import", "plain.pt", "new", "--model", "program:model_alone"], "(model, optimizer)"),
    ]:
        code, out, err = ffdl_checkpoint(*arguments)
        assert (code, out) == (1, "") and err.startswith("ffdl: ") and message in err
    assert ffdl_checkpoint("import", "plain.pt", "new")[0] == 2
