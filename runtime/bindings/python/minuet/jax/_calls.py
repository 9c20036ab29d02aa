"""How all ops of minuet.jax call libminuet_xla."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._registration import TARGETS
from ._target import current


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


def staged(array: Any, sign: Any) -> Any:
    """Returns a copy of an operand of a custom call, in memory of the program, where that saves time on a GPU.

    XLA makes custom calls parts of a command buffer (a CUDA graph). Where the address of an operand or a result of a
    call differs from that of the last execution, XLA calls it again to record its launches anew, which takes longer
    than a small network runs. Operands of a program that are new in each execution have new addresses, but the memory
    that a program has for itself has mostly the same one. So the costly call reads a copy, and XLA updates only the
    kernel that copies, or the one of the user's op that it is fused with. The copy is an op that changes no value, and
    XLA cannot know that.

    Args:
        sign: int32 [1 or more] that is not negative, of a result of a custom call; not used for arrays of int32.
    """
    if not isinstance(array, jax.core.Tracer) or current().arch == "cpu":
        return array
    least = np.iinfo(np.int32).min
    if array.dtype == jnp.int32:
        # Neither the least number nor its neighbour is a coordinate or a count.
        return jnp.maximum(array, np.int32(least + 1))
    return jnp.where(sign[0] > least, array, jnp.zeros((), array.dtype))


def repeated(count: Any) -> Any:
    """Returns a count, int32 [1], as an array that is larger than results of one number. XLA may put a small copy
    (staged()) into the memory of such a result, whose address differs in each execution."""
    if not isinstance(count, jax.core.Tracer) or current().arch == "cpu":
        return count
    return jnp.broadcast_to(count, (64,))


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

    @jax.custom_jvp
    def run(*arrays: Any) -> tuple[Any, ...]:
        made: Any = jax.ffi.ffi_call(name, tuple(structs))(*arrays, **attributes)
        return tuple(made)

    @run.defjvp
    def refuse_derivative(*_: Any) -> Any:
        raise NotImplementedError(
            "this call of minuet.jax cannot be differentiated: ops have first derivatives in reverse mode alone "
            "(jax.grad), and a call of a Network is for inference: its method train() has gradients"
        )

    # Around the refusal, because jax then takes tangents of integers as none, under shard_map too.
    mapped = jax.custom_batching.custom_vmap(run)

    @mapped.def_vmap
    def refuse_batch(*_: Any) -> Any:
        raise NotImplementedError(
            "ops of minuet.jax cannot be mapped by jax.vmap: the batch index is the first column of the coordinates, "
            "so put the clouds into one array; for a cloud on each device use jax.shard_map"
        )

    return tuple(mapped(*operands))[: len(results)]
