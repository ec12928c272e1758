"""Maps PyTorch's optimizers and schedulers to the update rules of a parameter server."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import lr_scheduler

from ... import Decay, InvalidArgument, LearningRateSchedule, UpdateRuleOptions


def _refuse(what: object, why: str) -> InvalidArgument:
    return InvalidArgument(f"use '{type(what).__name__}' at a parameter server: {why}")


def rule_of(optimizer: torch.optim.Optimizer) -> UpdateRuleOptions:
    """Returns the update rule with the same arithmetic as the optimizer.

    SGD: ``sgd``, or ``momentum`` if momentum is not 0, or ``nesterov`` if nesterov is also set.
    Adam: ``adam``. AdamW: ``adamw``. Adagrad: ``adagrad``.
    SparseAdam: ``adam``. A small difference remains: the rule adds epsilon after the bias
    correction, and SparseAdam before it.

    The optimizer must have exactly one parameter group. Raises InvalidArgument for other
    optimizers, and if dampening, amsgrad, maximize, lr_decay or initial_accumulator_value is set.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise _refuse(optimizer, "give one optimizer of torch.optim; for several, train with "
                                 "ffdl.torch.elastic()")
    if len(optimizer.param_groups) != 1:
        raise _refuse(optimizer, f"it has {len(optimizer.param_groups)} parameter groups; put all "
                                 "parameters in one group, with the same numbers")
    group = optimizer.param_groups[0]
    for option in ("dampening", "amsgrad", "maximize", "lr_decay", "initial_accumulator_value"):
        if group.get(option):
            raise _refuse(optimizer, f"no update rule has '{option}'; leave it at its default")
    if isinstance(group["lr"], torch.Tensor):
        raise _refuse(optimizer, "its learning rate is a tensor; give a number")
    numbers = {
        "learning_rate": group.get("initial_lr", group["lr"]),
        "weight_decay": group.get("weight_decay", 0.0),
    }
    kind = type(optimizer)
    if kind is torch.optim.SGD:
        if not group["momentum"]:
            return UpdateRuleOptions("sgd", **numbers)
        name = "nesterov" if group["nesterov"] else "momentum"
        return UpdateRuleOptions(name, momentum=group["momentum"], **numbers)
    if kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SparseAdam):
        # Adam with decoupled_weight_decay is AdamW under another name.
        is_decoupled = kind is torch.optim.AdamW or group.get("decoupled_weight_decay", False)
        beta1, beta2 = group["betas"]
        return UpdateRuleOptions("adamw" if is_decoupled else "adam", beta1=beta1, beta2=beta2,
                                 epsilon=group["eps"], **numbers)
    if kind is torch.optim.Adagrad:
        return UpdateRuleOptions("adagrad", epsilon=group["eps"], **numbers)
    raise _refuse(optimizer, "no update rule is equivalent; use SGD, Adam, AdamW, SparseAdam or "
                                "Adagrad")


def schedule_of(scheduler: Any) -> LearningRateSchedule:
    """Returns the schedule that computes the same learning rates as the scheduler.

    Each update of the server, from any learner, is one step of the schedule.
    scheduler: a CosineAnnealingLR, StepLR or LinearLR. Without a scheduler, the learning rate is
    constant. After T_max steps of CosineAnnealingLR, the rate stays at eta_min, while PyTorch's
    rate would rise again. A LinearLR must be a warm-up from the factor 1 / (total_iters + 1) to 1,
    or a decay from the factor 1.

    Raises InvalidArgument for other schedulers.
    """
    if scheduler is None:
        return LearningRateSchedule()
    if scheduler.last_epoch != 0:
        raise _refuse(scheduler, "it was stepped; pass a new one, because the server steps it")
    kind = type(scheduler)
    if kind is lr_scheduler.CosineAnnealingLR:
        return LearningRateSchedule(Decay.COSINE, decay_steps=scheduler.T_max,
                                    final_factor=scheduler.eta_min / scheduler.base_lrs[0])
    if kind is lr_scheduler.StepLR:
        return LearningRateSchedule(Decay.STEP, decay_steps=scheduler.step_size,
                                    final_factor=scheduler.gamma)
    if kind is lr_scheduler.LinearLR:
        steps = scheduler.total_iters
        if scheduler.start_factor == 1:
            return LearningRateSchedule(Decay.LINEAR, decay_steps=steps,
                                        final_factor=scheduler.end_factor)
        if scheduler.end_factor == 1 and abs(scheduler.start_factor * (steps + 1) - 1) < 1e-6:
            return LearningRateSchedule(warmup_steps=steps + 1)
        raise _refuse(scheduler, f"no schedule has its factors; for a warm-up of {steps} "
                                 f"steps, begin at the factor 1 / {steps + 1} and end at 1")
    raise _refuse(scheduler, "no schedule is equivalent; use CosineAnnealingLR, StepLR or "
                             "LinearLR, or give an ffdl.LearningRateSchedule")
