"""Steps of an optimizer that are skipped where a cloud did not fit."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import distributed
from torch.optim import Optimizer

from ._capacities import geometry_of, status_of


@contextlib.contextmanager
def skip_unless_fits(optimizer: Optimizer, given: Any, *more: Any, group: Any = None) -> Iterator[None]:
    """Makes the optimizer skip steps inside of the `with` statement if a cloud did not fit, as torch.amp.GradScaler
    does for infinite gradients: parameters and the optimizer's state keep their bits. Call optimizer.step() there, or
    scaler.step(optimizer), whose scale does not shrink because of a cloud. Enter it after the forward passes,
    because it reads the status at once.

    An optimizer with `fused=True` decides on the device, so that nothing waits and a CUDA graph may hold the step. For
    a graph, torch wants `capturable=True` of Adam and AdamW, too. For any other optimizer the host waits for the
    status, as GradScaler does. Hooks of a step that is skipped run where the device decides, and not where the host
    does. If the host skips the very first step, schedulers of the learning rate warn that they came before it.

    If the first step of a fused SGD is skipped, its momentum is zero where torch would have none, so that with
    dampening the next step takes (1 - dampening) times the gradient.

    In a program of several ranks (torch.distributed), all ranks of the group skip if the cloud of any of them did not
    fit, so that their parameters stay equal. All of them must therefore come here in each step.

    Args:
        optimizer: whose steps are skipped.
        given, more: the sparse tensors, geometries or geometry.status() of all clouds behind the gradients: of several
            where gradients are accumulated, or several networks run. Clouds of exact mode always fit.
        group: the process group of the ranks; None: all ranks, which then exchange the status of clouds of exact mode,
            too. The status must be on a device that the group's backend serves: NCCL needs a GPU's.

    Raises:
        RuntimeError: by step(): a forward pass inside of the statement has added to the status of these clouds; or a
            CUDA graph is captured, and the optimizer has to wait.
        ValueError: by step(): it is given a closure.
    """
    geometries = [geometry for geometry in map(geometry_of, (given, *more)) if geometry is not None]
    seen = [len(geometry.session.statuses) for geometry in geometries]
    unfit = _unfit([status_of(each) for each in (given, *more)], group)
    step, own = optimizer.step, vars(optimizer)
    before = own.get("step")  # Schedulers of the learning rate put a function of theirs there.
    function = getattr(step, "__func__", step) if getattr(step, "__self__", None) is optimizer else step

    @functools.wraps(function)
    def step_if_it_fits(*arguments: Any, **named: Any) -> Any:
        if any(map(callable, (*arguments, *named.values()))):
            raise ValueError(
                "step() has a closure, which runs the network anew, and whether its clouds fit is not known before: "
                "run the forward and backward passes first, and call step() without a closure"
            )
        if seen != [len(geometry.session.statuses) for geometry in geometries]:
            raise RuntimeError(
                "a forward pass inside of skip_unless_fits() has added to the status, which was read before: begin the "
                "statement after all forward passes"
            )
        call = functools.partial(function, *arguments, **named)
        if _decides_on_the_device(optimizer):
            return _step_on_the_device(optimizer, unfit, call)
        if unfit.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "the host has to wait for the status before this optimizer's step, which a graph cannot: make the "
                "optimizer with fused=True, and Adam or AdamW with capturable=True, too"
            )
        return None if unfit.item() else call()

    # Schedulers that are made inside of the statement wrap methods only.
    own["step"] = step_if_it_fits if function is step else types.MethodType(step_if_it_fits, optimizer)
    try:
        yield
    finally:
        if before is None:
            del own["step"]
        else:
            own["step"] = before


def _unfit(statuses: Sequence[torch.Tensor], group: Any) -> torch.Tensor:
    """Returns 1 on the device if a cloud did not fit, on any rank of the group, and 0 otherwise. Its form is that of
    found_inf, float32 []."""
    device = statuses[0].device
    unfit = torch.cat([status.to(device) for status in statuses]).any().float()
    if distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(unfit, distributed.ReduceOp.MAX, group)
    return unfit


def _decides_on_the_device(optimizer: Optimizer) -> bool:
    """Whether step() reads optimizer.found_inf. GradScaler asks for the attribute alone, but a state dict that was
    loaded may have switched `fused` off."""
    return getattr(optimizer, "_step_supports_amp_scaling", False) and all(
        group.get("fused") for group in optimizer.param_groups
    )


def _step_on_the_device(optimizer: Any, unfit: torch.Tensor, step: Callable[[], Any]) -> Any:
    """Takes the step with a found_inf that is 1 where a cloud did not fit, too."""
    found = getattr(optimizer, "found_inf", None)  # GradScaler sets it before the step, and deletes it after it.
    # This is no sum, because torch's fused optimizers skip the step for exactly 1.
    skipped = unfit if found is None else torch.maximum(found, unfit.to(found.device))
    optimizer.found_inf = skipped
    without_momentum = _without_momentum(optimizer)
    try:
        result = step()
    finally:
        if found is None:
            del optimizer.found_inf
        else:
            optimizer.found_inf = found
    for parameter in without_momentum:
        # torch allocates it before the step, and a kernel that skips the step does not fill that memory.
        momentum = optimizer.state.get(parameter, {}).get("momentum_buffer")
        if momentum is not None:
            momentum.masked_fill_(skipped.to(momentum.device) != 0, 0)
    return result


def _without_momentum(optimizer: Any) -> list[torch.Tensor]:
    """Returns the parameters for which a step of SGD makes the momentum."""
    if not isinstance(optimizer, torch.optim.SGD):
        return []
    state = optimizer.state
    return [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
        if state.get(parameter, {}).get("momentum_buffer") is None
    ]
