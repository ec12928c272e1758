"""A GPU for tests of ffdl.torch: tensors of the CPU that pass for those of one."""

import contextlib

import torch

import ffdl
import ffdl.torch

STREAM = 7  # where the parameter server's optimizer is said to compute


class Stream:
    """Notes which other one it waits for."""

    def __init__(self, name, log):
        self.name = name
        self._log = log

    def wait_stream(self, other):
        self._log.append(f"{self.name} waits for {other.name}")


class FakeGpu:
    """log: what streams waited for, and what a test adds. generator: that of the GPU. sent: the
    types of the dense gradients that learners pushed.
    """

    def __init__(self, monkeypatch):
        gpu = ffdl.torch.device
        self.log = []
        self.sent = LateTransfers.sent = []
        self.generator = torch.Generator()
        streams = Stream("current", self.log), Stream("default", self.log)
        for name, stand_in in {
            "is_gpu": lambda device: True,
            "device_of": self._device_of,
            "_streams": lambda device: streams,
            "stream_of": lambda device: STREAM,
            "using": lambda device: contextlib.nullcontext(),
            "zeros": lambda count, dtype, device: torch.zeros(count, dtype=dtype),
        }.items():
            monkeypatch.setattr(gpu, name, stand_in)
        monkeypatch.setattr(torch.cuda, "default_generators", (self.generator,))
        optimizer = ffdl.torch.ps.parameter_server_optimizer
        monkeypatch.setattr(optimizer, "Learner", LearnerWithoutDevice)
        monkeypatch.setattr(optimizer, "DeviceLink", LateLink)

    @staticmethod
    def _device_of(doing, tensors):
        assert all(tensor.device.type == "cpu" for _, tensor in tensors)
        return torch.device("cuda", 0)


class LearnerWithoutDevice:
    """Attaches a learner of the host's memory in place of one of GPU 0."""

    @staticmethod
    def attach(name, timeout_s, *, slot, device):
        assert device == 0
        return ffdl.Learner.attach(name, timeout_s, slot=slot)


class LateLink(ffdl.torch.ps.learner_link.DeviceLink):
    """The link of a model on a GPU, whose transfers are late."""

    def __init__(self, learner, *arguments, **options):
        super().__init__(learner, *arguments, **options)
        self._transfers = LateTransfers(learner)


class LateTransfers:
    """The transfers of a learner, which begin nothing before somebody waits for it.

    So what is written too early is sent, and what is read too early is old.
    """

    sent = []

    def __init__(self, learner):
        self._learner = learner
        self._push = None
        self._pull = None

    def start_push(self, gradient, samples, *, stream):
        assert self._push is None and stream == STREAM
        if not isinstance(gradient, ffdl.Gradient):
            self.sent.append(gradient.dtype)
        self._push = lambda: self._learner.push(gradient, samples)

    def finish_push(self, timeout_s):
        push, self._push = self._push, None
        return push()

    def start_pull(self, weights, mode=ffdl.PullMode.RELAXED, *, stream):
        assert self._pull is None and stream == STREAM
        self._pull = lambda: self._learner.pull(weights.numpy(), mode)

    def finish_pull(self, timeout_s):
        pull, self._pull = self._pull, None
        return pull()
