"""ffdl for PyTorch: training whose workers come and go, and a back end of torch.distributed.

``elastic(model, optimizer, loader)``: an ordinary loop whose workers come, leave and are killed.
``ParameterServerOptimizer(optimizer, name)``: learners of one host that share their weights, and
wait for nobody.
``init_process_group("ffdl")``, or ``"cpu:ffdl,cuda:nccl"``: the collectives of ffdl.Communicator
under DDP, FSDP and everything else that talks to torch.distributed. An installed ffdl is found
without this import.
"""

from .. import _torch_backend

_torch_backend.register()

from .ddp_hook import ddp_hook  # noqa: E402  # needs torch, which needs the above
from .elastic import Elastic, elastic  # noqa: E402
from .parameter_server_optimizer import ParameterServerOptimizer  # noqa: E402
from .process_group import ProcessGroup  # noqa: E402
from .rendezvous import ProcessGroupOptions  # noqa: E402
from .server_rule import rule_of, schedule_of  # noqa: E402

__all__ = [
    "Elastic",
    "ParameterServerOptimizer",
    "ProcessGroup",
    "ProcessGroupOptions",
    "ddp_hook",
    "elastic",
    "rule_of",
    "schedule_of",
]
