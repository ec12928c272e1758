"""Windows of a long sequence of tokens, for the training of language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidArgument

# More samples than any training uses: each step has windows that no other step had.
_ENDLESS = 1 << 32


def windows(
    tokens: Any,
    block_size: int,
    *,
    stride: int | None = None,
    samples: int | None = None,
    seed: int = 0,
) -> Windows:
    """Creates a data set of windows (parts of equal length) of a long sequence of tokens.

    ::

        tokens = numpy.memmap("train.bin", dtype=numpy.uint16, mode="r")
        data = ffdl.data.windows(tokens, 1024)
        loader = ffdl.data.ElasticLoader(data, batch_samples=12, steps=5000)
        for x, y in trainer.batches():
            ...

    A sample is a pair (x, y). The input x contains block_size consecutive tokens, and the target
    y[i] is the token after x[i]. Both x and y are int64 arrays, or int64 tensors if `tokens` is a
    tensor.

    tokens: a NumPy array, a numpy.memmap or a tensor, of one dimension and with more than
    block_size tokens.
    stride: the distance between the begins of two samples. Without `stride`, each sample begins at
    a random position, which depends only on the sample's number and `seed`. For an evaluation, use
    stride=block_size, so that each token is predicted at most once.
    samples: the number of random windows in an epoch. The default of `samples` is 2**32, which is
    more than any training uses, so the loader's `steps` must end the training. All epochs have the
    same windows.
    Raises InvalidArgument.
    """
    return Windows(tokens, block_size, stride, samples, seed)


class Windows:
    """A data set of windows of a sequence of tokens, created by windows()."""

    def __init__(
        self, tokens: Any, block_size: int, stride: int | None, samples: int | None, seed: int
    ) -> None:
        shape = tuple(getattr(tokens, "shape", ()))
        if len(shape) != 1 or block_size < 1 or shape[0] <= block_size:
            raise InvalidArgument(
                f"make windows of {block_size} tokens: the tokens are a "
                f"'{type(tokens).__name__}' of shape {list(shape)}; pass a one-dimensional array "
                "or tensor of more than block_size tokens, and a block_size of at least 1"
            )
        if stride is not None and (stride < 1 or samples is not None):
            raise InvalidArgument(
                f"make windows: stride is {stride}, samples {samples}; pass only one of them, and "
                "a stride of at least 1"
            )
        if samples is not None and samples < 1:
            raise InvalidArgument(f"make windows: samples is {samples}; give at least 1, or None")
        self._tokens = tokens
        self._block = block_size
        self._stride = stride
        self._seed = seed
        self._places = shape[0] - block_size
        in_strides = 0 if stride is None else -(-self._places // stride)
        self._samples = in_strides or samples or _ENDLESS

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        if not 0 <= number < self._samples:
            raise IndexError(f"window {number} of {self._samples}")
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[tuple[Any, Any]]:
        pairs = []
        for begin in self.begins(np.asarray(numbers, np.uint64)).tolist():
            window = self._tokens[begin : begin + self._block + 1]
            if isinstance(window, np.ndarray):
                window = window.astype(np.int64)
            else:
                window = window.long()
            pairs.append((window[:-1], window[1:]))
        return pairs

    def begins(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Returns the positions in the sequence at which the windows with these numbers begin."""
        if self._stride is not None:
            return (numbers * np.uint64(self._stride)).astype(np.int64)
        share = (_mixed(numbers, self._seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.minimum((share * self._places).astype(np.int64), self._places - 1)


def _mixed(numbers: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Returns SplitMix64's random bits for each number (Steele, Lea and Flood 2014, figure 17)."""
    golden = 0x9E3779B97F4A7C15
    offset = np.uint64((seed + 1) * golden % (1 << 64))
    bits = numbers * np.uint64(golden) + _finished(np.full(1, offset))
    return _finished(bits)


def _finished(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
