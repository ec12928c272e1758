"""The entry point in pyproject.toml that PyTorch calls at the end of ``import torch``.

register() must be fast, because each import of torch calls it. register() must not import
ffdl.torch either, which may be importing torch at this time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .torch import ProcessGroup


def register() -> None:
    """Registers the back end ``ffdl`` with torch.distributed, unless it is registered already."""
    import torch.distributed as dist

    if dist.is_available() and "ffdl" not in dist.Backend.backend_list:
        dist.Backend.register_backend("ffdl", _create, extended_api=True, devices=["cpu"])


def _create(opts: Any, options: Any) -> ProcessGroup:
    from .torch.comm import process_group

    return process_group.create(opts, options)
