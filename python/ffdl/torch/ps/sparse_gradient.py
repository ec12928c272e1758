"""Converts PyTorch's sparse gradients to the form that a parameter server accepts."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .. import device as gpu


class SparseGradient(NamedTuple):
    """A sparse gradient, as arguments of Gradient.sparse(). Omits parameters without a gradient.

    tables: tuples (first parameter, rows int64[n], values float32[n, row_size]).
    parts: tuples (first parameter, values float32[m]).

    The row numbers are in host memory. The values are arrays on the CPU or tensors on the GPU. On a
    GPU, the values of repeated rows are added up first, so each row occurs once.
    """

    tables: list[tuple[int, Any, Any]]
    parts: list[tuple[int, Any]]

    @classmethod
    def of(
        cls, parameters: list[torch.nn.Parameter], gradients: list[torch.Tensor | None]
    ) -> SparseGradient | None:
        """Returns the sparse gradient, or None if every parameter has a dense gradient."""
        if not any(gradient is None or _is_of_rows(gradient) for gradient in gradients):
            return None
        result = cls([], [])
        begin = 0
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None and _is_of_rows(gradient):
                if gpu.is_gpu(gradient.device):
                    gradient = gradient.coalesce()
                rows, values = gradient._indices()[0], gradient._values()
                if len(rows) > 0:
                    matrix = values.reshape(len(rows), -1).contiguous()
                    numbers = rows.contiguous().cpu().numpy()
                    result.tables.append((begin, numbers, _as_array(matrix)))
            elif gradient is not None:
                result.parts.append((begin, _as_array(gradient.to_dense().reshape(-1))))
            begin += parameter.numel()
        return result


def _as_array(values: torch.Tensor) -> Any:
    return values if gpu.is_gpu(values.device) else values.numpy()


def _is_of_rows(gradient: torch.Tensor) -> bool:
    return gradient.is_sparse and gradient.sparse_dim() == 1 and gradient.dim() > 1
