"""The parameters of whole networks as one array: the bits are those of one array for each parameter."""

from __future__ import annotations

import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax_problems import cells, normal, same_bits, values_of  # noqa: E402

WIDTHS = [8, 8, 8, 8, 16, 16, 8, 8, 8]


@pytest.fixture
def data(generator):
    return cells(generator, 70), normal(generator, 80, 4), normal(generator, 80, 8)


@functools.partial(jax.jit, static_argnums=0)
def both_passes(network, parameters, points, x, out):
    cloud = network.pyramid(points)
    result, back, statistics = jax.vjp(lambda *p: network.train(p[0], cloud, p[1]), parameters, x, has_aux=True)
    return result, statistics, back(out), network(parameters, cloud, x), cloud.status


@pytest.mark.parametrize(
    "options", [{}, {"frozen_batch_norms": True}, {"recompute_blocks": True}, {"momentum": 0}, {"dtype": "float16"}]
)
def test_both_forms_have_the_same_bits(generator, data, options):
    network = sparse.Network("minkunet42", [80] * 5, channels=WIDTHS, is_trained=True, **options)
    parameters = values_of(generator, network)
    points, x, out = data
    dtype = options.get("dtype", "float32")
    x, out = x.astype(dtype), out.astype(dtype)
    flat = network.flatten(parameters)
    result, statistics, (gradients, of_x), inference, status = both_passes(network, parameters, points, x, out)
    sparse.check(status)
    of_flat = both_passes(network, flat, points, x, out)
    assert same_bits(result, of_flat[0])
    assert same_bits(of_x, of_flat[2][1])
    assert same_bits(inference, of_flat[3])
    assert of_flat[2][0].shape == flat.shape
    for name, gradient in network.unflatten(of_flat[2][0]).items():
        assert same_bits(gradient, gradients[name]), name
    new = network.unflatten(network.with_statistics(flat, of_flat[1]))
    for name, value in {**parameters, **statistics}.items():
        assert same_bits(value, new[name]), name
    changes = not options.get("frozen_batch_norms") and options.get("momentum") != 0
    assert changes == any(not same_bits(new[name], parameters[name]) for name in network.statistics)


def test_a_loop_of_steps(generator, data):
    """Three steps of SGD with momentum, with the flat state donated."""
    network = sparse.Network("minkunet42", [80] * 5, channels=WIDTHS, is_trained=True)
    points, x, out = data

    def step(parameters, momentum, replace):
        def loss(parameters):
            result, statistics = network.train(parameters, network.pyramid(points), x)
            return ((result - out) ** 2).sum(), statistics

        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(parameters)
        momentum = jax.tree.map(lambda m, g: 0.5 * m + g, momentum, gradients)
        parameters = jax.tree.map(lambda p, m: p - 0.25 * m, parameters, momentum)
        return replace(parameters, statistics), momentum, value

    each = jax.jit(lambda p, m: step(p, m, lambda p, s: {**p, **s}))
    whole = jax.jit(lambda p, m: step(p, m, network.with_statistics), donate_argnums=(0, 1))
    parameters = jax.tree.map(jnp.asarray, values_of(generator, network))
    states = [(parameters, jax.tree.map(jnp.zeros_like, parameters))]
    states.append(tuple(network.flatten(part) for part in states[0]))
    # XLA for GPUs makes a cycle of one that takes a result of a custom call.
    assert "dynamic_update_slice" not in whole.lower(*states[1]).as_text()
    losses = []
    for number, compiled in enumerate((each, whole)):
        losses.append([])
        for _ in range(3):
            *states[number], value = compiled(*states[number])
            losses[-1].append(np.asarray(value))
    assert same_bits(losses[0], losses[1])
    assert losses[0][0] != losses[0][2]
    for part in (0, 1):
        assert same_bits(network.flatten(states[0][part]), states[1][part])


def test_the_layout(generator):
    """Trained parameters come first, in their order, and statistics behind them. The way back gives the same bits."""
    network = sparse.Network("minkunet42", [16] * 5, channels=[8] * 9)
    parameters = values_of(generator, network)
    flat = network.flatten(parameters)
    names = [name for name in parameters if name not in network.statistics] + list(network.statistics)
    assert same_bits(flat, np.concatenate([parameters[name].reshape(-1) for name in names]))
    back = network.unflatten(flat)
    assert list(back) == list(network.parameters)
    assert all(same_bits(back[name], parameters[name]) for name in parameters)
    other = network.with_statistics(flat, np.arange(len(flat) - network.flat.trained, dtype=np.float32))
    assert same_bits(other[: network.flat.trained], flat[: network.flat.trained])
    assert other[-1] == len(flat) - network.flat.trained - 1


def test_networks_that_lack_statistics_or_parameters(generator):
    points, x = cells(generator, 9), normal(generator, 9, 4)
    for layers, elements in (
        ([{"op": "linear", "name": "a", "out_channels": 5}], 4 * 5 + 5),
        ([{"op": "relu"}], 0),
    ):
        description = {"name": "n", "ndim": 3, "in_channels": 4, "layers": layers}
        network = sparse.Network(description, [9], is_trained=True)
        parameters = values_of(generator, network)
        flat = network.flatten(parameters)
        assert flat.shape == (elements,)
        out = normal(generator, 9, 5 if elements else 4)
        expected = both_passes(network, parameters, points, x, out)
        found = both_passes(network, flat, points, x, out)
        assert same_bits(found[0], expected[0])
        assert found[1].shape == (0,)
        assert same_bits(network.with_statistics(flat, found[1]), flat)
        assert same_bits(found[2][0], network.flatten(expected[2][0]))
        assert same_bits(found[2][1], expected[2][1])
        assert same_bits(found[3], expected[3])


def test_wrong_arrays(generator):
    network = sparse.Network("minkunet42", [16] * 5, channels=[8] * 9, is_trained=True)
    flat = network.flatten(values_of(generator, network))
    cloud = network.pyramid(cells(generator, 10))
    x = jnp.zeros((16, 4))
    with pytest.raises(ValueError, match=rf"float32 of the shape \[{len(flat) - 1}\], and float32 \[{len(flat)}\]"):
        network(flat[1:], cloud, x)
    with pytest.raises(ValueError, match="the parameters are float16"):
        network.train(flat.astype(jnp.float16), cloud, x)
    with pytest.raises(ValueError, match="the parameters are float32 of the shape"):
        network.unflatten(flat[:-1])
    with pytest.raises(ValueError, match="parameters are missing"):
        network.flatten({})
    parameters = network.unflatten(flat)
    for wrong in (None, "abc", list(parameters.values())):
        with pytest.raises(
            TypeError, match=rf"are of {type(wrong).__name__}: give arrays by their names, or the array"
        ):
            network(wrong, cloud, x)
    with pytest.raises(TypeError, match="are of ArrayImpl: give arrays by their names"):
        network.flatten(flat)
    with pytest.raises(TypeError, match="the statistics are by their names"):
        network.with_statistics(flat, network.train(parameters, cloud, x)[1])
    with pytest.raises(ValueError, match="the statistics are float32 of the shape"):
        network.with_statistics(flat, flat)
