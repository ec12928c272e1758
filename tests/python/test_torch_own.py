"""PyTorch's own tests of torch.distributed, with the back end ffdl and with gloo."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("expecttest", reason="PyTorch's own tests need expecttest")
from torch_own_tests import EXCEPTED, faults, run_cases  # noqa: E402

# One of each kind, with three processes for all of them.
QUICK = [
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_accumulate_gradients_no_sync_allreduce_hook",
    "test_all_gather_coalesced_complex",
    "test_all_gather_object_subgroup",
    "test_all_reduce_coalesced_full_group_max",
    "test_all_reduce_complex_unsupported_ops",
    "test_all_reduce_sum_complex",
    "test_barrier_timeout_full_group",
    "test_batch_isend_irecv_gloo_tags",
    "test_broadcast",
    "test_destroy_group",
    "test_gather_full_group",
    "test_get_future",
    "test_irecv",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_reduce_product",
    "test_scatter_object_list",
    "test_send_recv_any_source",
    "test_send_recv_with_tag",
    "test_sparse_all_reduce_sum",
]


def test_quick_ones_pass():
    outcomes = run_cases("ffdl", QUICK)
    assert outcomes == dict.fromkeys(QUICK, "passed")


@pytest.mark.slow
def test_all_that_gloo_passes_pass():
    gloo = run_cases("gloo")
    assert list(gloo.values()).count("passed") > 60  # so PyTorch's gates are open
    assert gloo.keys() >= EXCEPTED.keys()
    assert not faults("ffdl", run_cases("ffdl"), gloo)
