"""Prepared parameters of whole networks: the bits are those of the parameters themselves."""

from __future__ import annotations

import minuet
import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax_problems import cells, device_of_jax, normal, same_bits, values_of  # noqa: E402

WIDTHS = [8, 8, 8, 8, 16, 16, 8, 8, 8]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("is_trained", [False, True])
def test_the_bits_of_the_parameters(generator, dtype, is_trained):
    network = sparse.Network("minkunet42", [80] * 5, channels=WIDTHS, dtype=dtype, is_trained=is_trained)
    parameters = values_of(generator, network)
    points, x = cells(generator, 70), normal(generator, 80, 4, dtype=dtype)

    @jax.jit
    def infer(parameters, points, x):
        cloud = network.pyramid(points)
        return network(parameters, cloud, x), cloud.status

    expected, status = infer(parameters, points, x)
    sparse.check(status)
    assert np.asarray(expected).astype(np.float32)[:70].any()
    flat = network.flatten(parameters)
    assert same_bits(infer(flat, points, x)[0], expected)
    for prepared in (jax.jit(network.prepare)(parameters), network.prepare(flat)):
        assert prepared.dtype == jnp.uint8 and prepared.ndim == 1
        assert same_bits(infer(prepared, points, x)[0], expected)
    # Two sets in turn, and one that went over the host.
    other = network.prepare(2 * flat)
    assert not same_bits(infer(other, points, x)[0], expected)
    assert same_bits(infer(np.asarray(prepared), points, x)[0], expected)


def test_the_bits_of_the_package(generator):
    """The package without jax prepares and runs, too, and takes what jax has prepared."""
    context = minuet.Context()
    plan = minuet.Plan.network(context, "minkunet42", channels=WIDTHS, dataflow="fused", without_values=True)
    capacities = [80] * plan.info.levels
    network = sparse.Network("minkunet42", capacities, channels=WIDTHS)
    parameters = values_of(generator, network)
    points, x = cells(generator, 70), normal(generator, 80, 4)
    expected = network(parameters, network.pyramid(points), x)

    device = device_of_jax(context)
    features = device.to_device(np.asarray(x))
    plan.load(device)
    pyramid = minuet.Pyramid(context, network=plan, level_capacity=capacities)
    pyramid.load(device)
    buffer = pyramid.build(device, device.to_device(np.asarray(points)))
    given = {name: device.to_device(np.asarray(value)) for name, value in parameters.items()}
    block = pyramid.prepare(plan, device, given)
    assert same_bits(device.to_host(pyramid.run(plan, device, buffer, features, prepared=block)), expected)
    assert pyramid.prepared_bytes(plan, device.arch) <= network.prepare(parameters).size
    of_jax = device.to_device(np.asarray(network.prepare(parameters)))
    result = pyramid.run(plan, device, buffer, features, prepared=of_jax)
    assert same_bits(device.to_host(result), expected)


def test_parameters_of_other_dtypes(generator):
    """They are converted to float32 first, as by calls that take them."""
    network = sparse.Network("minkunet42", [16] * 5, channels=[8] * 9)
    parameters = {name: jnp.asarray(value, jnp.bfloat16) for name, value in values_of(generator, network).items()}
    cloud, x = network.pyramid(cells(generator, 10)), normal(generator, 16, 4)
    assert same_bits(network(network.prepare(parameters), cloud, x), network(parameters, cloud, x))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_cpu_does_not_prepare_for_a_gpu(generator, dtype):
    """The layouts differ, also where the one of the CPU needs more memory."""
    network = sparse.Network("minkunet42", [16] * 5, channels=[32] * 9, dtype=dtype)
    points, x = cells(generator, 10), jnp.zeros((16, 4), dtype)
    with sparse.target("cpu"):
        prepared = network.prepare(values_of(generator, network))
    with sparse.target("sm_90a", with_kernels=False), pytest.raises(ValueError, match="on the device that runs it"):
        jax.eval_shape(lambda block: network(block, network.pyramid(points), x), prepared)


def test_what_cannot_be_prepared(generator):
    network = sparse.Network("minkunet42", [16] * 5, channels=[8] * 9, is_trained=True)
    parameters = values_of(generator, network)
    prepared = network.prepare(parameters)
    cloud, x = network.pyramid(cells(generator, 10)), normal(generator, 16, 4)
    with pytest.raises(ValueError, match=rf"\[{prepared.size - 1}\], and \[{prepared.size}\] is needed"):
        network(prepared[1:], cloud, x)
    with pytest.raises(ValueError, match="have no gradients"):
        network.train(prepared, cloud, x)
    with pytest.raises(ValueError, match="prepared already"):
        network.prepare(prepared)
    with pytest.raises(ValueError, match="parameters are missing"):
        network.prepare({})
    bare = {"name": "n", "ndim": 3, "in_channels": 4, "layers": [{"op": "relu"}]}
    for none in ({}, jnp.zeros(0)):
        with pytest.raises(ValueError, match="no parameters to prepare"):
            sparse.Network(bare, [16]).prepare(none)
