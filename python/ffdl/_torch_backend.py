"""What PyTorch calls at the end of its own import: pyproject.toml names it as an entry point.

It must be quick, and must not need ffdl.torch, whose import of torch may have come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .torch import ProcessGroup


def register() -> None:
    """Makes the back end ``ffdl`` known to torch.distributed, once."""
    import torch.distributed as dist

    if dist.is_available() and "ffdl" not in dist.Backend.backend_list:
        dist.Backend.register_backend("ffdl", _create, extended_api=True, devices=["cpu"])


def _create(opts: Any, options: Any) -> ProcessGroup:
    from .torch import process_group

    return process_group.create(opts, options)
