"""Keeps the model's buffers bitwise equal on all workers after each step."""

from __future__ import annotations

import fnmatch
import itertools
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from ... import InvalidArgument, World
from .. import device as gpu
from . import buffer_values as values
from .buffer_values import DIGEST, Digests, Memory
from .model_watch import registrations

RULES = ("mean", "sum", "max", "first")
# The number of workers, or of micro-batches of a step, whose values a rule can combine.
SLOTS = 64
_GATHERED = RULES[1:]  # these need the value of each worker
_OPTION = "the option buffers="


class Buffers:
    """The buffers of the model that are in its ``state_dict()``.

    In each step, the members exchange the values of all buffers. From the values of all members,
    each member computes the same next value of a buffer. A buffer that is bitwise equal on all
    members keeps its value. A floating-point buffer that differs gets the mean, weighted by
    samples. Other buffers that differ need a rule.

    device: the device of the model's parameters and buffers.
    names: the names of the buffers.
    settled: for each buffer, the value that is equal on all members.
    state: the values of `settled`, with dtypes that a session can hold.
    forms: the meta tensor (shape and dtype) of the numbers that the session averages, or empty.
    carried: the tensors of the averaged numbers, which the trainer sets.
    non_finite: what happens if a mean is not finite, because only some members have NaN or
    infinity. If non_finite is "refuse", a step whose mean is not finite fails. If non_finite is
    "keep", no buffer changes in such a step, even if all members have the same new NaN or infinity.
    If non_finite is "accept", the buffer gets the mean that is not finite.
    """

    def __init__(
        self, doing: str, model: torch.nn.Module, rules: Mapping[str, str] | None = None
    ) -> None:
        self._places = _Places(doing, model)
        self.names = self._places.names
        found = self._places.tensors
        self._rules = _rules_of(doing, self._places, rules)
        self.device = gpu.device_of(
            doing, [*model.named_parameters(), *zip(self.names, found, strict=True)])
        self._where = gpu.zeros(0, torch.int8, self.device).device
        gathered = [p for p, rule in enumerate(self._rules) if rule in _GATHERED]
        # In the order of dtypes, so that the numbers of a dtype are one tensor.
        others = sorted(set(range(len(found))) - set(gathered),
                        key=lambda p: (self._rules[p] is None, str(found[p].dtype), p))
        self._plain = _Memories(
            [p for p in others if values.fits_a_number(found[p].dtype)], found, self._where)
        self._exact = _Memories(
            [p for p in others if not values.fits_a_number(found[p].dtype)], found, self._where)
        self._gathered = _Memories(gathered, found, self._where)
        self.settled = [torch.empty(0)] * len(found)
        for one in (self._plain, self._exact, self._gathered):
            one.now.read([found[p] for p in one.places])
            one.settled.bytes.copy_(one.now.bytes)
            for place, view in zip(one.places, one.settled.views, strict=True):
                self.settled[place] = view
        self._plain_numbers = self._plain.numbers(self._rules)
        self._exact_numbers = self._exact.numbers(self._rules)
        self._numbers = [*self._plain_numbers, *self._exact_numbers]
        self._digests = Digests(
            [size // 4 for size in self._exact.now.sizes] + [1] * bool(rules), self._where)
        self._agreed = torch.full(  # an exact value more: workers with other rules are found
            (int(bool(rules)),), zlib.crc32(repr(self._rules).encode()) - 2**31,
            dtype=torch.int32, device=self._where)
        self._lay_out()
        self.carried: list[torch.Tensor] = []
        self.non_finite = "refuse"
        self._world: World | None = None
        self._now: list[torch.Tensor] | None = None  # as this step's forward passes left them
        self._mine: tuple[torch.Tensor, torch.Tensor] | None = None  # words and digests, last sent

    @property
    def state(self) -> list[torch.Tensor]:
        return [values.held_form(one) for one in self.settled]

    def change_world(self, world: World) -> None:
        """Encodes the buffers' values again for a step that is repeated in this world."""
        self._world = world
        if self._now is not None and world.size > 1:
            self._expect_slot(world.rank)
            self._code(world.rank)
            gpu.wait_for_current_stream(self.device)

    def collect(self, has_run: bool = True, micro_batch: int | None = None) -> None:
        """Reads the values of the buffers after the forward passes of this worker.

        has_run: False if the loop's body did not run on this worker, so other workers decide.
        micro_batch: the number of this micro-batch within the step of all workers.
        """
        present = self._places.look_up()
        if not self.names:
            return
        self._now = present if has_run else None
        if not has_run:
            self.carried[0].zero_()
        elif micro_batch is not None:
            self._expect_slot(micro_batch)
            self._code(micro_batch)
            self._now = None  # the values are in the session's sum
        elif self._world is not None and self._world.size > 1:
            self._expect_slot(self._world.rank)
            self._code(self._world.rank)

    def apply(self) -> None:
        """Sets `settled` to the values of this step, which are equal on all members."""
        if not self.names:
            return
        if self._now is not None and self._world is not None and self._world.size == 1:
            self._apply_own(self._now)
        else:
            self._apply_mean()
        self._mine = None

    def put_in_place(self) -> None:
        """Copies the settled values to the model's buffers."""
        self._now = None
        self._places.write(self.settled)

    # --- the numbers that travel ------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Sets the sizes of the parts: a one, numbers of each dtype, words, digests and slots."""
        sizes = [1, *(one.now.numel() for one in self._numbers),
                 self._exact.words.numel() + self._agreed.numel(),
                 DIGEST * (len(self._exact.places) + self._agreed.numel())]
        row = self._gathered.words.numel()
        self._sizes = [*sizes, SLOTS * (1 + row) if row else 0]
        self.forms = [torch.empty(sum(self._sizes), dtype=torch.float64, device="meta")]
        if not self.names:
            self.forms = []

    def _parts(
        self, carried: torch.Tensor
    ) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor]:
        _, *numbers, words, digests, slots = carried.split(self._sizes)
        return numbers, words, digests.view(-1, DIGEST), slots.view(SLOTS, -1)

    def _expect_slot(self, slot: int) -> None:
        if self._gathered.places and slot >= SLOTS:
            raise InvalidArgument(
                f"end a step: the rule '{self._rules[self._gathered.places[0]]}' of buffer "
                f"'{self.names[self._gathered.places[0]]}' has the values of at most {SLOTS} "
                f"workers or micro-batches, and this one is number {slot + 1}; use fewer, or "
                "leave the rule out")

    @torch.no_grad()
    def _code(self, slot: int) -> None:
        present = self._now
        assert present is not None
        numbers, words, digests, slots = self._parts(self.carried[0])
        self.carried[0][0] = 1
        for memories in (self._plain, self._exact, self._gathered):
            memories.now.read([present[p] for p in memories.places])
        for one, coded in zip(self._numbers, numbers, strict=True):
            values.encode_numbers(one.now, coded)
        if words.numel():
            mine = torch.cat([self._exact.words, self._agreed])
            digest = self._digests.of(mine)
            words.copy_(mine)
            digests.copy_(digest)
            self._mine = mine, digest
        if slots.numel():
            slots.zero_()
            slots[slot, 0] = 1
            slots[slot, 1:] = self._gathered.words

    # --- the values that count --------------------------------------------------------------------

    def _apply_own(self, present: list[torch.Tensor]) -> None:
        if self.non_finite == "keep" and self._turns_bad(dict(enumerate(present))):
            return
        values.copy_all(self.settled, present)

    @torch.no_grad()
    def _apply_mean(self) -> None:
        (mean,) = self.carried
        numbers, words, digests, _ = self._parts(mean)
        odd = [values.has_odd(one) for one in numbers if one.numel()]
        differ = Digests.differ(digests)
        share, is_odd, is_mixed = torch.stack([mean[0], *(
            one.to(mean.dtype) for one in (
                torch.stack(odd).any() if odd else mean[0] < 0, differ.any()))]).tolist()
        if share <= 0:  # all samples are corrupt
            return
        if abs(share - 1) > 1e-9:  # some workers have not run the loop's body
            mean = mean / share
            numbers, words, digests, _ = self._parts(mean)
            differ = Digests.differ(digests)
            is_mixed = bool(differ.any())
        changed = self._slow_values(
            mean, differ.nonzero().flatten().tolist() if is_mixed else [], bool(is_odd))
        if changed is None:
            return
        for one, coded in zip(self._plain_numbers, numbers, strict=False):
            if not is_odd:
                one.settled.copy_(coded)
        if words.numel():
            into = self._exact.settled.as_type(torch.int32)
            into.copy_(words[: into.numel()].round())
        values.copy_all([self.settled[p] for p in changed], list(changed.values()))

    def _slow_values(
        self, mean: torch.Tensor, differ: list[int], is_odd: bool
    ) -> dict[int, torch.Tensor] | None:
        """Returns the values of the buffers that are not decoded all at once. None: keep all.

        differ: the numbers of the exact buffers that have several values.
        """
        numbers, _, _, slots = self._parts(mean)
        found: dict[int, torch.Tensor] = {}
        mixed: list[int] = []
        for number in differ:
            if number == len(self._exact.places) or not self._rules[self._exact.places[number]]:
                raise InvalidArgument(self._why_differ(number, mean))
        wanted = {self._exact.places[number] for number in differ}
        if is_odd:
            wanted.update(self._plain.places)
        for one, coded in zip(self._numbers, numbers, strict=True):
            if wanted.isdisjoint(one.places):
                continue
            for place, part in zip(one.places, coded.split(one.sizes), strict=True):
                if place in wanted:
                    found[place] = self._decode(place, part, mixed)
        if mixed and self.non_finite == "refuse":
            raise InvalidArgument(
                f"end a step: buffer '{self.names[mixed[0]]}' has no finite mean, because it is "
                "NaN or infinite at some workers only; give it the same value at all workers, or "
                f"pass buffers={{'{self.names[mixed[0]]}': 'max'}} or 'first'")
        if slots.numel():
            found |= self._combine(slots)
        if self.non_finite == "keep" and (mixed or self._turns_bad(found)):
            return None
        return found

    def _decode(self, place: int, mean: torch.Tensor, mixed: list[int]) -> torch.Tensor:
        like = self.settled[place]
        decoded, is_mixed = values.decode_odd(mean[: values.held_form(like).numel()])
        if bool(is_mixed.any()):
            mixed.append(place)
        return values.decode_numbers(decoded, like.dtype).view(like.shape)

    def _combine(self, slots: torch.Tensor) -> dict[int, torch.Tensor]:
        rows = []
        for slot in slots[:, 0].nonzero().flatten().tolist():
            row = Memory(self._gathered.settled.views, self._where)
            row.as_type(torch.int32).copy_((slots[slot, 1:] / slots[slot, 0]).round())
            rows.append(row.views)
        return {
            place: values.combine(self._rules[place] or "", self.settled[place], list(given))
            for place, given in zip(self._gathered.places, zip(*rows, strict=True), strict=True)
        }

    def _turns_bad(self, found: Mapping[int, torch.Tensor]) -> bool:
        """True if a value is not finite, and is not the value before."""
        for place, value in found.items():
            before = self.settled[place]
            if values.is_number(value.dtype):
                one, other = value.to(torch.complex128), before.to(torch.complex128)
                if bool((~one.isfinite() & (one != other) & ~(one.isnan() & other.isnan())).any()):
                    return True
        return False

    # --- errors -----------------------------------------------------------------------------------

    def _why_differ(self, number: int, mean: torch.Tensor) -> str:
        """Returns the message about an exact buffer that has several values."""
        if number == len(self._exact.places):
            return (f"end a step: {_OPTION} has other rules at another worker; pass the same rules "
                    "at all workers")
        name = self.names[self._exact.places[number]]
        seen = "it has several values"
        if self._mine is not None:
            words, digests = self._mine
            seen = self._both_values(number, words, digests[number], mean)
        others = "'max' or 'first'"
        if values.is_integer(self._exact.settled.views[number].dtype):
            others = "'mean', 'sum', 'max' or 'first'"
        return (
            f"end a step: buffer '{name}' differs between workers: {seen}; compute it from "
            f"trainer.step_number or the state alone, pass buffers={{'{name}': RULE}} with RULE "
            f"{others}, or register it with persistent=False, so that each worker has its own")

    def _both_values(
        self, number: int, mine: torch.Tensor, digests: torch.Tensor, mean: torch.Tensor
    ) -> str:
        """Computes the value of the others from the means of the words, and of their digests."""
        _, words, mean_digests, _ = self._parts(mean)
        like = self._exact.settled.views[number]
        own, theirs = Memory([like], mine.device), Memory([like], mine.device)
        sizes = [size // 4 for size in self._exact.now.sizes]
        begin = sum(sizes[:number])
        own_words = mine[begin : begin + sizes[number]]
        own.as_type(torch.int32).copy_(own_words)
        share = Digests.share_of_others(digests, mean_digests[number])
        if not share > 1e-9:  # this worker holds what the others hold, as far as it can see
            return f"it is {_shown(own.views[0], own.views[0])} here and another value elsewhere"
        moved = (words[begin : begin + sizes[number]] - own_words) / share
        others = (own_words + moved).round()
        all_words = mine.clone()
        all_words[begin : begin + sizes[number]] = others.clamp(-(2.0**31), 2.0**31 - 1)
        theirs.as_type(torch.int32).copy_(all_words[begin : begin + sizes[number]])
        half = DIGEST // 2
        expected = digests[:half] + (mean_digests[number][:half] - digests[:half]) / share
        computed = self._digests.of(all_words)[number][:half]
        here = _shown(own.views[0], theirs.views[0])
        if not torch.equal(computed, expected.round()):
            return f"it is {_shown(own.views[0], own.views[0])} here and several values elsewhere"
        return f"it is {here} here and {_shown(theirs.views[0], own.views[0])} elsewhere"


class _Numbers:
    """Buffers of one dtype, as numbers.

    sizes: how many numbers each buffer has, with those that align the next buffer.
    """

    def __init__(self, places: list[int], sizes: list[int], now: torch.Tensor,
                 settled: torch.Tensor) -> None:
        self.places = places
        self.sizes = sizes
        self.now = now
        self.settled = settled


class _Memories:
    """Buffers that travel together: their values before a step, and after the forward passes."""

    def __init__(
        self, places: list[int], tensors: list[torch.Tensor], device: torch.device
    ) -> None:
        self.places = places
        own = [tensors[p] for p in places]
        self._dtypes = [one.dtype for one in own]
        self.now = Memory(own, device)
        self.settled = Memory(own, device)

    @property
    def words(self) -> torch.Tensor:
        return self.now.as_type(torch.int32)

    def numbers(self, rules: list[str | None]) -> list[_Numbers]:
        """Returns views of the buffers whose rule is the mean. Those of a dtype are neighbours."""
        found = []
        begin = end = 0
        for dtype, group in itertools.groupby(
            range(len(self.places)), lambda i: rules[self.places[i]] and self._dtypes[i]
        ):
            those = list(group)
            sizes = [self.now.sizes[i] for i in those]
            begin, end = end, end + sum(sizes)
            if not dtype:
                continue
            real = values.real_of(dtype)
            found.append(_Numbers(
                [self.places[i] for i in those], [size // real.itemsize for size in sizes],
                self.now.bytes[begin:end].view(real), self.settled.bytes[begin:end].view(real)))
        return found


def _shown(tensor: torch.Tensor, other: torch.Tensor) -> str:
    """Returns the value, or the first element that differs from `other`."""
    flat = tensor.flatten()
    if flat.numel() == 1:
        return repr(flat.tolist()[0])
    if flat.numel() <= 4:
        return repr(tensor.tolist())
    places = (flat != other.flatten()).nonzero().flatten().tolist()
    if not places:
        return f"of {flat.numel()} elements"
    return f"{flat[places[0]].item()!r} (element {places[0]})"


def _rules_of(
    doing: str, places: _Places, rules: Mapping[str, str] | None
) -> list[str | None]:
    """Returns the rule of each buffer. None: all members must hold the same bits."""
    if rules is not None and not isinstance(rules, Mapping):
        raise InvalidArgument(
            f"{doing}: 'buffers' is a {type(rules).__name__}; give a dict of names and rules, such "
            "as {'tokens_seen': 'sum'}")
    for pattern, rule in (rules or {}).items():
        if rule not in RULES:
            raise InvalidArgument(
                f"{doing}: the rule of buffers '{pattern}' is {rule!r}; give one of "
                + ", ".join(f"'{one}'" for one in RULES))
        if not any(fnmatch.fnmatchcase(name, pattern) for name in places.names):
            raise InvalidArgument(
                f"{doing}: no buffer has a name like '{pattern}' of buffers=; the model has "
                + (", ".join(f"'{name}'" for name in places.names[:4]) or "no buffers")
                + (", ..." if len(places.names) > 4 else ""))
    found: list[str | None] = []
    for name, tensor, is_count in zip(
        places.names, places.tensors, places.are_counts, strict=True
    ):
        rule = next((rule for pattern, rule in (rules or {}).items()
                     if fnmatch.fnmatchcase(name, pattern)), None)
        if rule is None:
            rule = "mean" if values.is_number(tensor.dtype) or is_count else None
        elif not _is_possible(rule, tensor.dtype):
            raise InvalidArgument(
                f"{doing}: buffer '{name}' has {tensor.dtype}, for which the rule '{rule}' has no "
                "meaning; give another rule")
        found.append(rule)
    return found


def _is_possible(rule: str, dtype: torch.dtype) -> bool:
    is_real = values.is_integer(dtype) or values.is_number(dtype) and not values.is_complex(dtype)
    if rule == "max":
        return is_real or dtype == torch.bool
    return rule == "first" or is_real or values.is_complex(dtype)


class _Places:
    """The places in the modules where the buffers are found, by name, in each step.

    names: the names of the buffers, without the prefix of a compiled model.
    tensors: the buffers when this object was created.
    are_counts: True for each buffer that counts the batches of a batch norm.
    """

    def __init__(self, doing: str, model: torch.nn.Module) -> None:
        self._model = model
        self._saved = model.state_dict(keep_vars=True).keys()
        self.names: list[str] = []
        self.tensors: list[torch.Tensor] = []
        self.are_counts: list[bool] = []
        self._owners: list[tuple[dict[str, Any], str]] = []
        self._ties: list[tuple[str, dict[str, Any], str, int]] = []  # further names of a buffer
        self._known = dict(_find(model))  # including those that state_dict() does not name
        known: dict[int, int] = {}
        for name, (module, key) in self._known.items():
            owner, tensor = _buffers_of(module), module._buffers[key]
            if tensor is None or name not in self._saved:
                continue
            name = name.replace("_orig_mod.", "")
            _expect_plain(doing, name, tensor)
            if id(tensor) in known:
                self._ties.append((name, owner, key, known[id(tensor)]))
                continue
            known[id(tensor)] = len(self.names)
            self.names.append(name)
            self.tensors.append(tensor)
            self.are_counts.append(isinstance(module, _NormBase) and key == "num_batches_tracked")
            self._owners.append((owner, key))
        self._forms = [(one.shape, one.dtype, one.device) for one in self.tensors]
        self._present = list(self.tensors)
        self._is_shared = [  # several elements are one, so nothing is written into it
            any(stride == 0 and size > 1
                for stride, size in zip(one.stride(), one.shape, strict=True))
            for one in self.tensors]
        self._empty = [
            (name, _buffers_of(module), key) for name, (module, key) in self._known.items()
            if module._buffers[key] is None]
        self._modules = list(model.modules())
        self._counts = self._count()

    def look_up(self) -> list[torch.Tensor]:
        """Returns the present tensors. Raises InvalidArgument if other buffers exist."""
        found: list[torch.Tensor] = []
        for (owner, key), (shape, dtype, device), name, last in zip(
            self._owners, self._forms, self.names, self._present, strict=True
        ):
            one = owner.get(key)
            if one is None:
                raise InvalidArgument(
                    f"end a step: buffer '{name}' is gone; do not remove a buffer after the "
                    "trainer was created, or register it with persistent=False")
            if one.shape != shape or one is not last and (
                one.dtype != dtype or one.device != device
            ):
                raise InvalidArgument(
                    f"end a step: buffer '{name}' was {_form(shape, dtype, device)}, and is "
                    f"{_form(one.shape, one.dtype, one.device)}; give it its final form before the "
                    "trainer is created, for example by a forward pass, or register it with "
                    "persistent=False")
            found.append(one)
        for name, owner, key, first in self._ties:
            if owner.get(key) is not found[first]:
                raise InvalidArgument(
                    f"end a step: buffers '{name}' and '{self.names[first]}' were one tensor, and "
                    "are two; change both in place, or register two buffers")
        for name, owner, key in self._empty:
            if owner.get(key) is not None:
                self._refuse_new(name)
        if self._counts != self._count():
            self._search()
        return found

    def write(self, tensors: list[torch.Tensor]) -> None:
        """Gives the modules these values. A tensor that forward has assigned is not written to."""
        into, given = [], []
        for place, ((owner, key), value) in enumerate(zip(self._owners, tensors, strict=True)):
            one = owner.get(key)
            if one is self._present[place] and not self._is_shared[place]:
                into.append(one)
                given.append(value)
            elif one is not None:
                owner[key] = self._present[place] = value.clone()
                self._is_shared[place] = False
        values.copy_all(into, given)
        for _, owner, key, first in self._ties:
            owner[key] = self._present[first]

    def _count(self) -> tuple[int, ...]:
        """Returns numbers of which one changes if a module or a buffer comes or goes."""
        return (registrations(), *[
            len(one) for module in self._modules for one in (module._buffers, module._modules)])

    def _search(self) -> None:
        """Raises InvalidArgument if the model has other buffers. Takes as long as a small step."""
        found = dict(_find(self._model))
        for name, (module, key) in self._known.items():
            now = found.get(name)
            if now is None or now[0] is not module:
                raise InvalidArgument(
                    f"end a step: buffer '{name}' is gone, or its module was replaced; do this "
                    "before the trainer is created, or register the buffer with persistent=False")
        for name, (module, key) in found.items():
            if name not in self._known and module._buffers[key] is not None:
                self._refuse_new(name)
        self._modules = list(self._model.modules())
        self._counts = self._count()

    def _refuse_new(self, name: str) -> None:
        raise InvalidArgument(
            f"end a step: the model has a new buffer '{name}'; register buffers before the "
            "trainer is created, or with persistent=False")


def _find(model: torch.nn.Module) -> Iterator[tuple[str, tuple[torch.nn.Module, str]]]:
    """Yields all names of persistent buffers, with their places. A place may hold None."""
    for prefix, module in model.named_modules():
        for key in _buffers_of(module):
            if key not in module._non_persistent_buffers_set:
                yield f"{prefix}.{key}" if prefix else key, (module, key)


def _buffers_of(module: torch.nn.Module) -> dict[str, Any]:
    """Returns the module's dict. A ScriptModule has none, and gives a dict of its tensors."""
    own = module._buffers
    return own if isinstance(own, dict) else dict(own.items())


def _expect_plain(doing: str, name: str, tensor: torch.Tensor) -> None:
    seen = None
    if torch.nn.parameter.is_lazy(tensor):
        seen = "has no shape yet; run a forward pass first"
    elif tensor.layout != torch.strided or tensor.is_quantized:
        seen = (f"has layout {tensor.layout} and dtype {tensor.dtype}; use a dense tensor, or "
                "register it with persistent=False")
    if seen is not None:
        raise InvalidArgument(f"{doing}: buffer '{name}' {seen}")


def _form(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> str:
    return f"{str(dtype).removeprefix('torch.')} of shape {list(shape)} on '{device}'"
