"""Seeds the random generators that a data set may use.

The loader seeds the generators before each batch, so seeding must be fast.
"""

from __future__ import annotations

import ctypes
import random
import sys

import numpy as np

# `random` and `numpy.random` are the same Mersenne twister. Seeding the first takes seven times as
# long as copying the words that the second has made of the seed.
_WORDS = 624
_WORD_BYTES = 4
_HALF_BYTES = _WORDS * _WORD_BYTES // 2

# The functions of `random` are methods of one object. Its own seed() takes as long again to find
# out that its argument is a number.
_generator: random.Random = random.seed.__self__  # type: ignore[attr-defined]
_seed_random = super(random.Random, _generator).seed
_numpys_generator = np.random.get_bit_generator


def _find_state() -> int | None:
    """Returns the address at which `random` stores a position and then words. None: unknown."""
    begin, words = object.__basicsize__, 1 + _WORDS
    if sys.implementation.name != "cpython":
        return None
    if random.Random.__base__.__basicsize__ < begin + words * _WORD_BYTES:
        return None
    there = (ctypes.c_uint32 * words).from_address(id(_generator) + begin)
    _, (*given, position), _ = _generator.getstate()
    return ctypes.addressof(there) if list(there) == [position, *given] else None


_state = _find_state()
_position = ctypes.c_uint32() if _state is None else ctypes.c_uint32.from_address(_state)


def seed_generators(seed: int) -> None:
    """Seeds the generators of `random`, `numpy.random` and, if imported, PyTorch on the CPU.

    seed: a number from 0 to 2**32 - 1, as numpy.random requires.
    """
    np.random.seed(seed)
    numpys = _numpys_generator()
    if _state is None or type(numpys) is not np.random.MT19937:
        _seed_random(seed)
    else:
        # The second half comes first: with the same words both would draw the same numbers.
        words, given = _state + _WORD_BYTES, numpys.ctypes.state_address
        ctypes.memmove(words, given + _HALF_BYTES, _HALF_BYTES)
        ctypes.memmove(words + _HALF_BYTES, given, _HALF_BYTES)
        _position.value = _WORDS  # none of them is drawn yet
    _generator.gauss_next = None  # the value that random.gauss() had in reserve
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed() takes 100 times as long
