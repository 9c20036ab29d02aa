"""Programs for a GPU: custom calls read copies of what is new in each execution. The addresses of the copies recur, so
that XLA does not record launches anew."""

from __future__ import annotations

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax.sharding import PartitionSpec as P  # noqa: E402
from jax_problems import cells, normal, same_bits, values_of  # noqa: E402
from minuet.jax._target import Target, current  # noqa: E402

WIDTHS = [8, 8, 8, 8, 16, 16, 8, 8, 8]


def custom_calls(text):
    """Returns of each custom call of a compiled program its target and the ops that make its operands."""
    defined = dict(re.findall(r"^\s*(?:ROOT )?(%[\w.-]+) = (.*)$", text, re.MULTILINE))
    found = []
    for body in defined.values():
        target = re.search(r'custom_call_target="(minuet_\w+)"', body)
        if target:
            operands = re.findall(r"%[\w.-]+", body[: body.index("custom_call_target")])
            found.append((target[1], [defined[operand] for operand in operands]))
    return found


def jitted(function, network):
    """Returns a jitted function of its own."""
    return jax.jit(lambda *given: function(network, *given))


@pytest.fixture
def problem(generator):
    with sparse.target("sm_90a", with_kernels=False):
        network = sparse.Network("minkunet42", [80] * 5, channels=WIDTHS, is_trained=True, dtype="float16")
    parameters = values_of(generator, network)
    return network, parameters, cells(generator, 70), normal(generator, 80, 4, dtype="float16")


def infer(network, parameters, points, count, x):
    cloud = network.pyramid(points, count)
    return network(parameters, cloud, x), cloud.status


def gradient(network, flat, points, count, x):
    def loss(flat):
        cloud = network.pyramid(points, count)
        result, statistics = network.train(flat, cloud, x)
        return (result.astype(jnp.float32) ** 2).sum(), (result, statistics, cloud.status)

    (_, kept), of_flat = jax.value_and_grad(loss, has_aux=True)(flat)
    return flat - of_flat, kept


@pytest.mark.parametrize("function", [infer, gradient])
def test_calls_have_no_operands_of_the_program(problem, function):
    network, parameters, points, x = problem
    flat, count = network.flatten(parameters), np.array([70], np.int32)
    given = (flat, points, count, x)
    expected = jitted(function, network)(*given)
    with sparse.target("sm_90a", with_kernels=False):
        compiled = jitted(function, network).lower(*given).compile()
    calls = custom_calls(compiled.as_text())
    assert [target for target, _ in calls].count("minuet_pyramid") == 1
    assert len(calls) == (2 if function is infer else 3)
    for target, operands in calls:
        # The parameters are the same array in each execution.
        names = [body for body in operands if "parameter(" in body]
        assert len(names) == (0 if target == "minuet_pyramid" else 1), (target, names)
        assert all("f32[" in body for body in names)
    # The CPU computes the same with the copies.
    for found, wanted in zip(jax.tree.leaves(compiled(*given)), jax.tree.leaves(expected), strict=True):
        assert same_bits(found, wanted)


def test_programs_for_the_cpu_copy_nothing(problem):
    """A program for a GPU, which is compiled here where there is one, reads the parameters alone from its arguments."""
    network, parameters, points, x = problem
    given = (network.flatten(parameters), points, np.array([70], np.int32), x)
    calls = custom_calls(jitted(infer, network).lower(*given).compile().as_text())
    assert sum("parameter(" in body for _, operands in calls for body in operands) == (
        4 if jax.default_backend() == "cpu" else 1
    )


def test_under_shard_map(problem):
    """The copies keep the axes over which arrays vary."""
    network, parameters, points, x = problem
    mesh = jax.make_mesh((1,), ("clouds",), axis_types=(jax.sharding.AxisType.Auto,))
    flat = network.flatten(parameters)
    given = (flat, points, np.array([70], np.int32), x)
    expected = jitted(gradient, network)(*given)

    def step(*given):
        new, (result, statistics, status) = gradient(network, *given)
        return new, (result, statistics[None], status)

    with sparse.target("sm_90a", with_kernels=False):
        sharded = jax.jit(
            jax.shard_map(
                step,
                mesh=mesh,
                in_specs=(P(), P("clouds"), P("clouds"), P("clouds")),
                out_specs=(P(), P("clouds")),
            )
        )
        new, (result, statistics, status) = sharded(*given)
    sparse.check(status)
    assert same_bits(new, expected[0])
    assert same_bits(result, expected[1][0])
    assert same_bits(statistics[0], expected[1][1])


def test_results_that_are_donated_again_keep_their_memory(problem):
    """As the page says: the memory of the last results is that of the next ones."""
    network, parameters, points, x = problem
    prepared, count = network.prepare(parameters), np.array([70], np.int32)

    def run(prepared, points, count, x, last):
        return infer(network, prepared, points, count, x)

    again = jax.jit(run, donate_argnames="last", keep_unused=True)
    expected, _ = jitted(infer, network)(parameters, points, count, x)
    last = jax.tree.map(
        lambda kind: jnp.zeros(kind.shape, kind.dtype), jax.eval_shape(run, prepared, points, count, x, None)
    )
    places = [array.unsafe_buffer_pointer() for array in last]
    for _ in range(3):
        last = again(prepared, points, count, x, last)
        assert [array.unsafe_buffer_pointer() for array in last] == places
        assert same_bits(last[0], expected)
    sparse.check(last[1])


def test_each_target_has_a_trace_of_its_own(problem):
    """Whatever a function was traced for before."""
    network, parameters, points, x = problem
    given = (network.flatten(parameters), points, np.array([70], np.int32), x)

    def text(function, arch, platform):
        with sparse.target(arch, with_kernels=False):
            return function.trace(*given).lower(lowering_platforms=(platform,)).as_text()

    first, last = jitted(gradient, network), jitted(gradient, network)
    for_gpu, for_cpu = text(first, "sm_90a", "cuda"), text(last, "cpu", "cpu")
    assert for_gpu != for_cpu
    expected = last(*given)
    assert text(last, "sm_90a", "cuda") == for_gpu
    assert text(first, "cpu", "cpu") == for_cpu
    assert same_bits(first(*given), expected)


def test_a_target_is_that_of_its_block():
    with sparse.target("sm_90a"):
        with pytest.raises(KeyError), sparse.target("sm_80", with_kernels=False):
            assert current() == Target("sm_80")
            raise KeyError
        assert current() == Target("sm_90a", with_kernels=True)
    assert current() == Target("cpu") or jax.default_backend() == "gpu"
