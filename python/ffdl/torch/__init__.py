"""ffdl for PyTorch: training with workers that join and leave, and a torch.distributed back end.

``elastic(model, optimizer, loader)``: makes a training loop elastic: its workers may join, leave
and be killed.
``local_sgd(model, inner, outer, loader, every=H)``: makes a loop elastic over slow networks,
because workers make many local steps between two averages (DiLoCo).
``ParameterServerOptimizer(optimizer, name)``: trains with weights that the learners of one host
share. By default, no learner of the server waits for another.
``init_process_group("ffdl")``, or ``"cpu:ffdl,cuda:nccl"``: runs the collectives of DDP, FSDP and
other code on torch.distributed with ffdl.Communicator. PyTorch finds the back end ``ffdl`` even if
ffdl.torch is not imported.
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
