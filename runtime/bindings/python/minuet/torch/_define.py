"""Defines ops of torch.library in the namespace `minuet`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

library = torch.library.Library("minuet", "DEF")

Gradients = Callable[..., Any]


def define(
    schema: str,
    implementation: Callable[..., Any],
    fake: Callable[..., Any],
    *,
    setup_context: Callable[..., None] | None = None,
    backward: Gradients | None = None,
) -> Any:
    """Defines an op, and returns it.

    Args:
        schema: as of torch.library.Library.define. All ops are functional.
        implementation: for tensors on the CPU and on CUDA devices.
        fake: makes outputs of the same shapes without data.
        setup_context, backward: as of torch.library.register_autograd. Without `backward`, the op has no gradient, and
            a backward pass through it raises an error.
    """
    name = library.define(schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order))
    # Where a graph breaks, the compiler would look into what runs between the graphs.
    implementation = torch.compiler.disable(implementation, reason="it calls a library")
    for key in ("CPU", "CUDA"):
        library.impl(name, implementation, key)
    qualified = f"minuet::{name}"
    torch.library.register_fake(qualified, fake, lib=library)
    op = getattr(torch.ops.minuet, name).default
    gradient = _gradient_of(op, implementation, setup_context, backward or _refuse_gradient(name))
    library.impl(name, gradient, "Autograd", with_keyset=True)
    torch.library.register_vmap(qualified, _refuse_vmap(name), lib=library)
    return op


def _bits_of(*keys: Any) -> int:
    """Returns the bits of a set of dispatch keys."""
    bits = torch._C.DispatchKeySet(keys[0])
    for key in keys[1:]:
        bits = bits | torch._C.DispatchKeySet(key)
    return int(bits.raw_repr())


# The keys below autograd of plain tensors that are all on the CPU or all on CUDA devices, also in inference mode, while
# no TorchDispatchMode is active.
_KEYS = torch._C.DispatchKey
_PLAIN = frozenset(
    bits for key in (_KEYS.CPU, _KEYS.CUDA) for bits in (_bits_of(key), _bits_of(key, _KEYS.ADInplaceOrView))
)


def _gradient_of(
    op: Any, implementation: Callable[..., Any], setup_context: Callable[..., None] | None, backward: Gradients
) -> Callable[..., Any]:
    """Returns what runs an op where autograd looks on.

    It does what torch.library.register_autograd does, which takes 30 us more for each call, because it asks for the
    op's schema every time. As there, an op may not return views of its inputs, and the transforms of torch.func are not
    served: they are refused with an error. All arguments are positional, and have no defaults.
    """
    below = torch._C._AutoDispatchBelowAutograd
    after = torch._C._after_autograd_keyset

    def run_below(keyset: Any, arguments: Sequence[Any]) -> Any:
        keys = keyset & after
        # The dispatcher would call the implementation, and take 4 us for it.
        return implementation(*arguments) if keys.raw_repr() in _PLAIN else op.redispatch(keys, *arguments)

    def forward(ctx: Any, keyset: Any, *arguments: Any) -> Any:
        with below():
            output = run_below(keyset, arguments)
            if setup_context is not None:
                setup_context(ctx, arguments, output)
        return output

    def run_backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *backward(ctx, *gradients))

    name = f"Gradient_{op._opname}"
    function: Any = type(
        name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(run_backward)}
    )

    def dispatch(keyset: Any, *arguments: Any) -> Any:
        if forward_ad._current_level >= 0:
            refuse_tangents(f"minuet::{op._opname}", arguments)
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            if torch._C._are_functorch_transforms_active():
                raise RuntimeError(
                    f"minuet::{op._opname} is not supported under the transforms of torch.func: use torch.autograd.grad"
                )
            return function.apply(keyset, *arguments)
        with below():
            return run_below(keyset, arguments)

    disabled: Callable[..., Any] = torch.compiler.disable(dispatch, reason="it runs below the compiler")
    return disabled


def refuse_tangents(what: str, arguments: Sequence[Any]) -> None:
    """Raises where an argument has a tangent of forward-mode differentiation, which would be lost."""
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and forward_ad.unpack_dual(argument).tangent is not None:
            raise RuntimeError(f"{what} has no forward-mode derivative: use torch.autograd.grad, which goes backward")


def _refuse_gradient(name: str) -> Gradients:
    def backward(ctx: Any, *gradients: Any) -> Any:
        if name.endswith("_backward"):
            raise RuntimeError(
                f"minuet::{name} has no gradient: double backward through sparse ops is not supported. Call "
                "backward() or torch.autograd.grad without create_graph"
            )
        raise RuntimeError(f"minuet::{name} has no gradient: detach its inputs, or call it under torch.no_grad()")

    return backward


def _refuse_vmap(name: str) -> Callable[..., Any]:
    def vmap(info: Any, dims: Any, *arguments: Any) -> Any:
        raise RuntimeError(
            f"minuet::{name} is not supported under torch.vmap: the batch index is the first column of the "
            "coordinates, so put the clouds into one tensor"
        )

    return vmap


def given(values: Sequence[Any], wanted: Sequence[bool]) -> tuple[Any, ...]:
    """Returns the gradients that were wanted, and None for the others, of which an op returns empty tensors."""
    return tuple(value if is_wanted else None for value, is_wanted in zip(values, wanted, strict=True))
