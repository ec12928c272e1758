"""ffdl for PyTorch: training with workers that join and leave, and a torch.distributed back end.

``elastic(model, optimizer, loader)``: an ordinary loop whose workers may join, leave and be killed.
``local_sgd(model, inner, outer, loader, every=H)``: an elastic loop for slow links, with many local
steps per average (DiLoCo).
``ParameterServerOptimizer(optimizer, name)``: learners of one host that share their weights, and do
not wait for each other.
``init_process_group("ffdl")``, or ``"cpu:ffdl,cuda:nccl"``: the collectives of ffdl.Communicator
for DDP, FSDP and all other users of torch.distributed. PyTorch finds an installed ffdl without this
import.
"""

from .. import _torch_backend

_torch_backend.register()

from .comm.ddp_hook import ddp_hook  # noqa: E402  # needs torch, which needs the above
from .training.elastic import Elastic, elastic  # noqa: E402
from .training.local_sgd import LocalSgd, local_sgd  # noqa: E402
from .ps.parameter_server_optimizer import ParameterServerOptimizer  # noqa: E402
from .comm.process_group import ProcessGroup  # noqa: E402
from .comm.rendezvous import ProcessGroupOptions  # noqa: E402
from .ps.server_rule import rule_of, schedule_of  # noqa: E402

__all__ = [
    "Elastic",
    "LocalSgd",
    "ParameterServerOptimizer",
    "ProcessGroup",
    "ProcessGroupOptions",
    "ddp_hook",
    "elastic",
    "local_sgd",
    "rule_of",
    "schedule_of",
]
