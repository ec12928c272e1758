"""Encodes values of buffers as float64 numbers, of which a session computes the weighted mean.

The mean of equal numbers is equal to each of them, apart from rounding. So each value is encoded
such that a small error of rounding cannot change the value. Bits are sent as words of 32 bits,
because a float64 represents integers of up to 53 bits exactly.
"""

from __future__ import annotations

import numpy as np
import torch

_ALIGNMENT = 16
# The numbers of a digest: 4 integers of 16 bits, and their squares, which show if they differ.
DIGEST = 8
_SPREAD = 1e-3  # of the squares of digests that differ, at least
# A session refuses a mean that is not finite. So NaN and infinities travel as large numbers, which
# the mean of finite values cannot reach, and which do not cancel each other.
_INF, _MINUS_INF, _NAN = 2.0**300, -(2.0**400), 2.0**500
_LARGE = 2.0**200  # the greatest value that has a mean
_TINY = 2.0**-1000  # holds the sign of a zero

_FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
           torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
_INTEGERS = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16,
             torch.uint32, torch.uint64}
_COMPLEX = {torch.complex32: torch.float16, torch.complex64: torch.float32,
            torch.complex128: torch.float64}
# The dtypes that a session can hold in its state.
HELD = {torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
        torch.float32, torch.float64}
_BY_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def is_number(dtype: torch.dtype) -> bool:
    """Returns True if values of this dtype have a mean."""
    return dtype in _FLOATS or dtype in _COMPLEX


def is_integer(dtype: torch.dtype) -> bool:
    return dtype in _INTEGERS


def is_complex(dtype: torch.dtype) -> bool:
    return dtype in _COMPLEX


def real_of(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype of a complex dtype's two parts, or the dtype itself."""
    return _COMPLEX.get(dtype, dtype)


def fits_a_number(dtype: torch.dtype) -> bool:
    """Returns True if the float64 mean of equal values of this dtype restores their bits."""
    return is_number(dtype) and real_of(dtype) != torch.float64


def held_form(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a view in a dtype that a session can hold: for a complex tensor, its real parts."""
    if tensor.dtype in HELD:
        return tensor
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    return tensor.view(_BY_SIZE[tensor.dtype.itemsize])


class Memory:
    """Copies of tensors in one block of memory, which a single operation can read or write.

    bytes: the memory, as int8.
    views: for each tensor, a view of the memory with the tensor's shape and dtype.
    sizes: for each tensor, the number of bytes from its start to the start of the next tensor.
    """

    def __init__(self, tensors: list[torch.Tensor], device: torch.device) -> None:
        self.sizes = [
            -(-one.numel() * one.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT for one in tensors]
        self.bytes = torch.zeros(sum(self.sizes), dtype=torch.int8, device=device)
        parts = self.bytes.split(self.sizes) if tensors else ()
        self.views = [
            part[: one.numel() * one.dtype.itemsize].view(one.dtype).view(one.shape)
            for part, one in zip(parts, tensors, strict=True)
        ]

    def read(self, tensors: list[torch.Tensor]) -> None:
        """Copies the tensors, whose dtypes are those of the views, into the memory."""
        copy_all(self.views, tensors)

    def as_type(self, dtype: torch.dtype) -> torch.Tensor:
        return self.bytes.view(dtype)


def copy_all(into: list[torch.Tensor], tensors: list[torch.Tensor]) -> None:
    if into:
        with torch.no_grad():
            torch._foreach_copy_(into, tensors)


def elements_of(tensor: torch.Tensor) -> int:
    """Returns the number of real numbers in a tensor."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


# --- numbers --------------------------------------------------------------------------------------


def encode_numbers(flat: torch.Tensor, into: torch.Tensor) -> None:
    """Encodes numbers of any dtype into a float64 tensor."""
    if flat.dtype == torch.float64:
        large = flat.isfinite() & (flat.abs() > _LARGE)
        flat = torch.where(large, flat.sign() * (2 * _LARGE), flat)
    wide = flat.to(torch.float64)
    torch.nan_to_num(wide, _NAN, _INF, _MINUS_INF, out=into)
    if flat.dtype in _FLOATS:
        into += torch.copysign(torch.tensor(_TINY, dtype=wide.dtype, device=wide.device), wide)


def has_odd(mean: torch.Tensor) -> torch.Tensor:
    """Returns True if a NaN or an infinity has contributed to an element."""
    least, greatest = mean.aminmax()
    return (least < -_LARGE) | (greatest > _LARGE)


def decode_odd(mean: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the mean with its NaN and infinities, and a mask of the mixed elements.

    An element is mixed if it is NaN or infinite on some members, but finite or another such value
    on other members. The mean of a mixed element follows IEEE 754.
    """
    odd = mean.abs() > _LARGE
    pure = torch.zeros_like(odd)
    decoded = torch.where(odd & (mean > 0), torch.inf, mean)
    decoded = torch.where(odd & (mean < 0), -torch.inf, decoded)
    decoded = torch.where(odd & (mean > _NAN * 2.0**-64), torch.nan, decoded)
    for code in (_INF, _MINUS_INF, _NAN):
        pure |= (mean / code - 1).abs() < 1e-9
    return decoded, odd & ~pure


def decode_numbers(mean: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounds means to a dtype. For a complex dtype, `mean` contains real and imaginary parts."""
    if is_integer(dtype):
        return _to_integers(mean, dtype)
    flat = mean.to(real_of(dtype))
    return flat.view(dtype) if is_complex(dtype) else flat


def _to_integers(mean: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    # The largest float64 below 2**63 or 2**64 is the limit there.
    top = np.nextafter(float(limits.max) + 1, 0) if limits.bits == 64 else float(limits.max)
    return mean.round().clamp(float(limits.min), float(top)).to(dtype)


# --- words ----------------------------------------------------------------------------------------


class Digests:
    """Hashes of tensors, with which members detect that their tensors are not bitwise equal.

    The hash of a tensor is the upper half of a sum of products with odd numbers, modulo 2**64. A
    session only computes means, so members compare hashes by means. If hashes differ, the mean of
    their squares is larger than the square of their mean.
    """

    def __init__(self, sizes: list[int], device: torch.device) -> None:
        """sizes: the number of 32-bit words of each tensor."""
        self._ends = torch.tensor(np.cumsum([0, *sizes]), device=device)
        factors = _scrambled(2 * sum(sizes)).reshape(2, -1)
        self._factors = torch.from_numpy(factors).to(device)
        self._last = torch.zeros(0, dtype=torch.int32, device=device)
        self._digests = torch.zeros(0, device=device)

    def of(self, words: torch.Tensor) -> torch.Tensor:
        """Returns the encoded hashes of the tensors, as float64[tensors, DIGEST]."""
        if not torch.equal(words, self._last):
            self._last = words.clone()
            self._digests = self._compute(words)
        return self._digests

    def _compute(self, words: torch.Tensor) -> torch.Tensor:
        sums = (words.to(torch.int64) * self._factors).cumsum(1)
        sums = torch.nn.functional.pad(sums, (1, 0))[:, self._ends].diff(dim=1)
        pieces = torch.cat([sums >> 48, ((sums >> 32) & 0xFFFF) - 0x8000])
        numbers = pieces.T.to(torch.float64)
        return torch.cat([numbers, numbers * numbers], dim=1)

    @staticmethod
    def differ(mean: torch.Tensor) -> torch.Tensor:
        """Returns for each tensor whether members differ. mean: the mean of the results of of()."""
        numbers, squares = mean.split(DIGEST // 2, dim=1)
        return (squares - numbers * numbers).amax(dim=1) > _SPREAD

    @staticmethod
    def share_of_others(mine: torch.Tensor, mean: torch.Tensor) -> float:
        """Returns the weight of the members with other bits, if these members have equal bits."""
        numbers, squares = mine.split(DIGEST // 2)
        mean_numbers, mean_squares = mean.split(DIGEST // 2)
        moved = mean_numbers - numbers
        spread = mean_squares - 2 * numbers * mean_numbers + squares
        place = int(moved.abs().argmax())
        return float(moved[place] ** 2 / spread[place])


def _scrambled(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Returns numbers whose bits look random: splitmix64, of odd results."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31)) | np.uint64(1)).view(np.int64)


# --- rules ----------------------------------------------------------------------------------------


def combine(rule: str, before: torch.Tensor, values: list[torch.Tensor]) -> torch.Tensor:
    """Applies "sum", "max" or "first" to the values of the members, in the order of ranks."""
    if rule == "first" or len(values) == 1:
        return values[0]
    return _largest(values) if rule == "max" else _sum_of_increments(before, values)


def _largest(values: list[torch.Tensor]) -> torch.Tensor:
    dtype = values[0].dtype
    if dtype == torch.uint64:  # no arithmetic exists: the order of the signed is turned round
        turn = torch.tensor(-(2**63), device=values[0].device)
        return (_largest([v.view(torch.int64) ^ turn for v in values]) ^ turn).view(dtype)
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    return torch.stack([one.to(wide) for one in values]).amax(dim=0).to(dtype)


def _sum_of_increments(before: torch.Tensor, values: list[torch.Tensor]) -> torch.Tensor:
    dtype = before.dtype
    if is_integer(dtype):  # modulo 2**64, and then modulo the size of the dtype
        first, *rest = [_as_int64(one) for one in values]
        for one in rest:
            first = first + (one - _as_int64(before))
        return first.view(dtype) if dtype == torch.uint64 else first.to(dtype)
    wide = torch.complex128 if is_complex(dtype) else torch.float64
    start, total = before.to(wide), before.to(wide)
    for one in values:
        total = total + torch.where(one.to(wide) == start, 0, one.to(wide) - start)
    return total.to(dtype)


def _as_int64(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int64) if tensor.dtype == torch.uint64 else tensor.to(torch.int64)
