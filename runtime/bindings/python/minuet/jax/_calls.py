"""How all ops of minuet.jax call libminuet_xla."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ._registration import TARGETS


class ParameterForm(enum.IntEnum):
    """How a custom call takes parameters: the values of its attribute `parameters`."""

    NONE = 0
    EACH = 1
    FLAT = 2
    PREPARED = 3


#: The shape and the dtype of a result.
Result = tuple[Sequence[int], Any]


def alike(*arrays: Any) -> tuple[Any, ...]:
    """Returns arrays that all vary over the same axes of a mesh (jax.shard_map). The gradient of one that was the same
    on all shards is then summed over them."""
    flat, structure = jax.tree_util.tree_flatten(arrays)
    given = [jnp.asarray(array) for array in flat]
    varying = [jax.typeof(array).manual_axis_type.varying for array in given]
    every = frozenset[Any]().union(*varying)
    made = []
    for array, axes in zip(given, varying, strict=True):
        missing = tuple(sorted(every - axes))
        made.append(jax.lax.pcast(array, missing, to="varying") if missing else array)
    result: tuple[Any, ...] = jax.tree_util.tree_unflatten(structure, made)
    return result


def _struct(operand: Any, shape: Sequence[int], dtype: Any) -> jax.ShapeDtypeStruct:
    """Describes a result that varies over the same axes of a mesh as an operand."""
    kind = jax.typeof(operand)
    if not kind.manual_axis_type.varying:
        return jax.ShapeDtypeStruct(tuple(shape), dtype)
    whole = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec())
    return jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=whole, manual_axis_type=kind.manual_axis_type)


def call(
    name: str, results: Sequence[Result], operands: Sequence[Any], *, workspace: int = 0, **attributes: Any
) -> tuple[Any, ...]:
    """Calls a custom call, and returns its results.

    Args:
        workspace: bytes of the workspace on the GPU of the target; 0: none, as on the CPU.
    """
    if name not in TARGETS:
        raise ValueError(f"libminuet_xla has no custom call {name}")
    operands = alike(*operands)
    wanted = [*results, *([((workspace,), jnp.uint8)] if workspace else [])]
    structs = [_struct(operands[0], shape, dtype) for shape, dtype in wanted]

    @jax.custom_batching.custom_vmap
    def run(*arrays: Any) -> tuple[Any, ...]:
        made: Any = jax.ffi.ffi_call(name, tuple(structs))(*arrays, **attributes)
        return tuple(made)

    @run.def_vmap
    def refuse(*_: Any) -> Any:
        raise NotImplementedError(
            "ops of minuet.jax cannot be mapped by jax.vmap: the batch index is the first column of the coordinates, "
            "so put the clouds into one array; for a cloud on each device use jax.shard_map"
        )

    return tuple(run(*operands))[: len(results)]
