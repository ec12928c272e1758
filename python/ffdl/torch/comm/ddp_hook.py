"""A communication hook for DDP, with buckets in memory that the ranks of a host share."""

# DDP compares the annotations of a hook: they must be objects, not text.
import weakref
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist

import ffdl

from .process_group import ProcessGroup

# Buffers that have been moved, by address, while their storage lives.
_moved: weakref.WeakValueDictionary[int, np.ndarray[Any, Any]] = weakref.WeakValueDictionary()


def ddp_hook(
    group: dist.ProcessGroup | None, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Averages a DDP bucket of gradients without copies.

    Use ``model.register_comm_hook(group, ffdl.torch.ddp_hook)``.
    model: a DistributedDataParallel over the back end ffdl, with ``gradient_as_bucket_view=True``.
    When a bucket is full for the first time, the hook moves the bucket and the gradients in it into
    shared memory. From then on, the ranks of a host add up this bucket in place. The hook copies a
    bucket first if gradient_as_bucket_view is not set, if a parameter has no gradient yet, or if
    the dtype is bfloat16. All buckets except the last are averaged on a separate thread, during
    backward.
    group: the process group of the model. By default, `group` is the default group of
    torch.distributed. Raises InvalidArgument for a group of another back end than ffdl.
    """
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, ProcessGroup):
        raise ffdl.InvalidArgument(
            "ddp_hook: the group is not of back end 'ffdl'; use init_process_group('ffdl')"
        )
    buffer = bucket.buffer()
    if buffer.data_ptr() not in _moved and _may_move(bucket, buffer):
        found.register_memory(_move(bucket, buffer))
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.AVG
    if hasattr(options, "asyncOp"):  # older versions have no other way
        options.asyncOp = not bucket.is_last()  # after the last bucket there is no computation left
    work = found.allreduce([buffer], options)
    if not work.is_success():  # yet
        return work.get_future().then(lambda done: cast("list[torch.Tensor]", done.value())[0])
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(buffer)
    return future


def _gradients(bucket: dist.GradBucket) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in bucket.parameters()]


def _may_move(bucket: dist.GradBucket, buffer: torch.Tensor) -> bool:
    """Returns True if the bucket and all its gradients can be moved into shared memory."""
    storage = buffer.untyped_storage().data_ptr()
    return (
        buffer.device.type == "cpu"
        and buffer.dtype in (torch.float16, torch.float32, torch.float64)
        and buffer.numel() > 0
        and all(
            gradient is not None and gradient.untyped_storage().data_ptr() == storage
            for gradient in _gradients(bucket)
        )
    )


def _move(bucket: dist.GradBucket, buffer: torch.Tensor) -> np.ndarray[Any, Any]:
    """Moves the bucket, with DDP's own tensors `buffer` and `grad`, into shared memory."""
    array = ffdl.shared_array(buffer.numel(), buffer.numpy().dtype)
    moved = torch.from_numpy(array)
    moved.copy_(buffer)
    begin = buffer.storage_offset()
    for tensor in [*_gradients(bucket), buffer]:
        assert tensor is not None
        offset = tensor.storage_offset() - begin
        tensor.set_(moved.untyped_storage(), offset, tensor.size(), tensor.stride())
    _moved[array.ctypes.data] = array
    return array
