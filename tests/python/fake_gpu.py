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
        self.sent = LateLearner.sent = []
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
        monkeypatch.setattr(
            ffdl.torch.parameter_server_optimizer, "DeviceLearner", LateLearner)

    @staticmethod
    def _device_of(doing, tensors):
        assert all(tensor.device.type == "cpu" for _, tensor in tensors)
        return torch.device("cuda", 0)


class LateLearner:
    """A DeviceLearner that begins nothing before somebody waits for it.

    So what is written too early is sent, and what is read too early is old.
    """

    sent = []

    def __init__(self, learner):
        self.learner = learner
        self._push = None
        self._pull = None

    @classmethod
    def attach(cls, name, timeout_s, *, slot, device):
        assert device == 0
        return cls(ffdl.Learner.attach(name, timeout_s, slot=slot))

    def start_push_ranges(self, gradient, samples, *, stream):
        self.sent.append(gradient.dtype)
        if gradient.dtype == torch.float32:
            self._start_push(lambda: self.learner.push_ranges(gradient.numpy(), samples), stream)
        else:
            kind = self.learner.gradient_type
            self._start_push(lambda: self.learner.push_ranges(kind, gradient, samples), stream)

    def start_push_sparse(self, samples, *, tables, dense, stream):
        rows = [(begin, rows, values.numpy()) for begin, rows, values in tables]
        parts = [(begin, values.numpy()) for begin, values in dense]
        assert all(len(set(numbers.tolist())) == len(numbers) for _, numbers, _ in rows)
        self._start_push(
            lambda: self.learner.push_sparse(samples, tables=rows, dense=parts), stream)

    def _start_push(self, push, stream):
        assert self._push is None and stream == STREAM
        self._push = push

    def finish_push(self, timeout_s):
        push, self._push = self._push, None
        return push()

    def start_pull(self, weights, mode=ffdl.PullMode.RELAXED, *, stream):
        assert self._pull is None and stream == STREAM
        self._pull = lambda: self.learner.pull(weights.numpy(), mode)

    def finish_pull(self, timeout_s):
        pull, self._pull = self._pull, None
        return pull()
