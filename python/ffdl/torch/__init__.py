"""ffdl for PyTorch: training whose workers come and go, and a back end of torch.distributed.

``elastic(model, optimizer, ledger)``: an ordinary loop whose workers come, leave and are killed.
``init_process_group("ffdl")``, or ``"cpu:ffdl,cuda:nccl"``: the collectives of ffdl.Communicator
under DDP, FSDP and everything else that talks to torch.distributed. An installed ffdl is found
without this import.
"""

from .. import _torch_backend

_torch_backend.register()

from .ddp_hook import ddp_hook  # noqa: E402  # needs torch, which needs the above
from .elastic import Elastic, elastic  # noqa: E402
from .process_group import ProcessGroup  # noqa: E402
from .rendezvous import ProcessGroupOptions  # noqa: E402

__all__ = ["Elastic", "ProcessGroup", "ProcessGroupOptions", "ddp_hook", "elastic"]
