"""Defines ops of torch.library in the namespace `minuet`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._autograd import _profiler_enabled
from torch._C._dynamo import eval_frame
from torch.autograd import forward_ad

library = torch.library.Library("minuet", "DEF")

Gradients = Callable[..., Any]

#: What calls an op where nothing of torch looks on, for each op.
_direct: dict[Any, tuple[Callable[..., Any], Any]] = {}


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
    uncompiled = torch.compiler.disable(implementation, reason="it calls a library")
    for key in ("CPU", "CUDA"):
        library.impl(name, uncompiled, key)
    qualified = f"minuet::{name}"
    torch.library.register_fake(qualified, fake, lib=library)
    op = getattr(torch.ops.minuet, name).default
    function = _function_of(op, implementation, uncompiled, setup_context, backward or _refuse_gradient(name))
    library.impl(name, _gradient_of(op, uncompiled, function), "Autograd", with_keyset=True)
    _direct[op] = (implementation, function)
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


def _function_of(
    op: Any,
    implementation: Callable[..., Any],
    uncompiled: Callable[..., Any],
    setup_context: Callable[..., None] | None,
    backward: Gradients,
) -> Any:
    """Returns the autograd function of an op. Its first argument is the set of dispatch keys, or None where the op is
    called without the dispatcher."""

    def forward(ctx: Any, keyset: Any, *arguments: Any) -> Any:
        if keyset is None:
            output = implementation(*arguments)
            if setup_context is not None:
                setup_context(ctx, arguments, output)
            return output
        with _below():
            output = _run_below(op, uncompiled, keyset, arguments)
            if setup_context is not None:
                setup_context(ctx, arguments, output)
        return output

    def run_backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *backward(ctx, *gradients))

    name = f"Gradient_{op._opname}"
    methods = {"forward": staticmethod(forward), "backward": staticmethod(run_backward)}
    return type(name, (torch.autograd.Function,), methods)


_below = torch._C._AutoDispatchBelowAutograd
_after = torch._C._after_autograd_keyset


def _run_below(op: Any, uncompiled: Callable[..., Any], keyset: Any, arguments: Sequence[Any]) -> Any:
    keys = keyset & _after
    # The dispatcher would call the implementation, and take 4 us for it.
    return uncompiled(*arguments) if keys.raw_repr() in _PLAIN else op.redispatch(keys, *arguments)


def _gradient_of(op: Any, implementation: Callable[..., Any], function: Any) -> Callable[..., Any]:
    """Returns what runs an op where autograd looks on.

    It does what torch.library.register_autograd does, which takes 30 us more for each call, because it asks for the
    op's schema every time. As there, an op may not return views of its inputs, and the transforms of torch.func are not
    served: they are refused with an error. All arguments are positional, and have no defaults.
    """

    def dispatch(keyset: Any, *arguments: Any) -> Any:
        if forward_ad._current_level >= 0:
            refuse_tangents(f"minuet::{op._opname}", arguments)
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            if torch._C._are_functorch_transforms_active():
                raise RuntimeError(
                    f"minuet::{op._opname} is not supported under the transforms of torch.func: use torch.autograd.grad"
                )
            return function.apply(keyset, *arguments)
        with _below():
            return _run_below(op, implementation, keyset, arguments)

    disabled: Callable[..., Any] = torch.compiler.disable(dispatch, reason="it runs below the compiler")
    return disabled


def direct(op: Any, results: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Returns a function that does what an op does, and takes less time for it in plain eager mode, because it calls
    the op's implementation or its autograd function without the dispatcher. Anywhere else it calls the op.

    Args:
        results: where given, it replaces the implementation in plain eager mode where no gradient is asked for. It may
            have None in place of tensors without elements, which an op has to return.
    """
    implementation, function = _direct[op]
    implementation = results or implementation
    # What Function.apply calls behind checks that is_plain() has made.
    apply = super(torch.autograd.Function, function).apply

    def call(*arguments: Any) -> Any:
        if torch.compiler.is_compiling() or not is_plain(arguments):
            return op(*arguments)
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            if is_below_autograd():
                return op(*arguments)
            return apply(None, *arguments)
        return implementation(*arguments)

    return call


_PLAIN_TYPES = frozenset((torch.Tensor, torch.nn.Parameter, type(None), str, int, float, bool, list, tuple))
# Those of plain tensors, with and without a gradient, and in inference mode.
_PLAIN_TENSORS = frozenset(
    bits
    for keys in ((_KEYS.CPU, _KEYS.AutocastCPU), (_KEYS.CUDA, _KEYS.AutocastCUDA))
    for bits in (_bits_of(*keys), _bits_of(*keys, _KEYS.ADInplaceOrView, getattr(_KEYS, f"Autograd{keys[0].name}")))
)


def is_below_autograd() -> bool:
    """Whether the dispatcher would leave autograd out, as it does within the implementation of an op."""
    excluded: bool = torch._C._dispatch_tls_is_dispatch_key_excluded(_KEYS.AutogradCPU)
    return excluded


def is_plain(arguments: Sequence[Any]) -> bool:
    """Whether nothing but autograd looks at a call with these arguments, the first of which is a tensor: no compiler,
    mode, transform, trace, profiler or subclass of tensors does."""
    c = torch._C
    return (
        eval_frame.get_eval_frame_callback() is None
        and forward_ad._current_level < 0
        and not c._len_torch_dispatch_stack()
        and not c._len_torch_function_stack()
        and not c._are_functorch_transforms_active()
        and c._get_tracing_state() is None
        and not _profiler_enabled()
        and _PLAIN_TYPES.issuperset(map(type, arguments))
        and c._dispatch_keys(arguments[0]).raw_repr() in _PLAIN_TENSORS
    )


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
