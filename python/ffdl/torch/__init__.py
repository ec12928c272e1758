"""ffdl for PyTorch: a back end of torch.distributed.

``init_process_group("ffdl")``, or ``"cpu:ffdl,cuda:nccl"``: the collectives of ffdl.Communicator
under DDP, FSDP and everything else that talks to torch.distributed. An installed ffdl is found
without this import.
"""

from .. import _torch_backend

_torch_backend.register()

from .ddp_hook import ddp_hook  # noqa: E402  # needs torch, which needs the above
from .process_group import ProcessGroup  # noqa: E402
from .rendezvous import ProcessGroupOptions  # noqa: E402

__all__ = ["ProcessGroup", "ProcessGroupOptions", "ddp_hook"]
