"""Whole networks in JAX: the bits of the C ABI, dense outputs, and what is refused."""

from __future__ import annotations

import copy
import pickle

import minuet
import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax_problems import cells, device_of_jax, expect_close, in_double, normal, poisoned, same_bits, values_of  # noqa: E402


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_bits_of_the_abi(generator, dtype):
    """MinkUNet42 with small widths as one jitted function, and the same by the package without jax."""
    widths = [8, 8, 8, 8, 16, 16, 8, 8, 8]
    plan_options = {"channels": widths, "dtype": dtype, "dataflow": "fused", "without_values": True}
    context = minuet.Context()
    plan = minuet.Plan.network(context, "minkunet42", **plan_options)
    capacities = [80] * plan.info.levels
    network = sparse.Network("minkunet42", capacities, channels=widths, dtype=dtype)
    parameters = values_of(generator, network)
    points = cells(generator, 70)
    x = generator.normal(size=(80, plan.info.in_channels)).astype(dtype)

    @jax.jit
    def infer(parameters, points, x):
        cloud = network.pyramid(points)
        return network(parameters, cloud, x), cloud.status

    result, status = infer(parameters, points, x)
    sparse.check(status)

    device = device_of_jax(context)
    plan.load(device)
    pyramid = minuet.Pyramid(context, network=plan, level_capacity=capacities)
    pyramid.load(device)
    values = minuet.Parameters(plan, device)
    values.set(parameters)
    buffer = pyramid.build(device, device.to_device(points))
    got = pyramid.run(plan, device, buffer, device.to_device(x), parameters=values)
    assert same_bits(result, device.to_host(got))
    assert np.asarray(result).astype(np.float32)[:70].any()
    assert not result[70:].any()
    other = infer({name: 2 * value for name, value in parameters.items()}, points, x)[0]
    assert not same_bits(other, result)
    assert same_bits(infer(parameters, points, x)[0], result)


def test_two_networks_in_one_function(generator):
    """The second one takes the result of the first one, on a pyramid of its own."""
    capacities = [80] * 5
    first = sparse.Network("minkunet42", capacities, channels=[8, 8, 8, 8, 16, 16, 8, 8, 8], dtype="float32")
    second = sparse.Network(
        "minkunet42", capacities, channels=[16, 8, 8, 8, 8, 8, 8, 8, 16], in_channels=8, dtype="float32"
    )
    points = cells(generator, 70)
    given = values_of(generator, first), values_of(generator, second)
    x = generator.normal(size=(80, 4)).astype("float32")

    def infer(network, parameters, points, x):
        cloud = network.pyramid(points)
        return network(parameters, cloud, x)

    def both(one, two, points, x):
        return infer(second, two, points, infer(first, one, points, x))

    alone = [jax.jit(lambda *operands, network=network: infer(network, *operands)) for network in (first, second)]
    result = jax.jit(both)(*given, points, x)
    assert same_bits(result, alone[1](given[1], points, alone[0](given[0], points, x)))
    assert np.asarray(result)[:70].any()
    assert not np.asarray(result)[70:].any()


@pytest.mark.parametrize("options", [{}, {"frozen_batch_norms": True}, {"recompute_blocks": True}])
def test_training_has_the_bits_of_the_abi(generator, options):
    """One jitted step, and the same by minuet.Training."""
    widths, capacities = [8, 8, 8, 8, 16, 16, 8, 8, 8], [80] * 5
    network = sparse.Network("minkunet42", capacities, channels=widths, is_trained=True, momentum=0.2, **options)
    parameters = values_of(generator, network)
    points = cells(generator, 70)
    x, out = generator.normal(size=(80, 4)).astype(np.float32), generator.normal(size=(80, 8)).astype(np.float32)

    @jax.jit
    def step(parameters, points, x, out):
        cloud = network.pyramid(points)
        result, back, statistics = jax.vjp(lambda *p: network.train(p[0], cloud, p[1]), parameters, x, has_aux=True)
        inference = network(parameters, cloud, x)
        return result, statistics, back(out), inference, cloud.status

    result, statistics, (gradients, of_x), inference, status = step(parameters, points, x, out)
    sparse.check(status)

    context = minuet.Context()
    device = device_of_jax(context)
    plan = minuet.Plan.network(context, "minkunet42", channels=widths, without_values=True, dataflow="fused")
    training = minuet.Training(context, plan, input_gradients=[0], momentum=0.2, **options)
    training.load(device)
    pyramid = training.pyramid(capacities)
    pyramid.load(device)
    buffer = pyramid.build(device, device.to_device(points))
    x = device.to_device(x)
    given = {name: device.to_device(value) for name, value in parameters.items()}
    forward = training.forward(device, pyramid, buffer, [x], given, order="minuet")
    assert same_bits(result, device.to_host(forward.outputs[0]))
    assert np.asarray(result)[:70].any()
    back = training.backward(device, pyramid, buffer, forward.kept, [device.to_device(out)], given, order="minuet")
    assert same_bits(of_x, device.to_host(back.inputs[0]))
    assert set(statistics) == (set() if "frozen_batch_norms" in options else set(network.statistics))
    for name, value in statistics.items():
        assert same_bits(value, device.to_host(forward.statistics[name]))
    assert set(gradients) == set(network.parameters)
    for name, gradient in gradients.items():
        if name in network.statistics:
            assert not gradient.any()
        else:
            assert same_bits(gradient, device.to_host(back.parameters[name])), name
    # The cloud serves inference, too.
    plan.load(device)
    values = minuet.Parameters(plan, device)
    values.set(parameters)
    got = pyramid.run(plan, device, buffer, x, parameters=values)
    assert same_bits(inference, device.to_host(got))


@pytest.mark.parametrize("reduction", ["sum", "average", "max"])
def test_global_pool_in_a_classifier(generator, reduction):
    """The output has a row for each batch item, whatever the capacity of its level."""
    batches, width, rows = 2, 3, 9
    description = {
        "name": "n",
        "ndim": 3,
        "in_channels": 4,
        "layers": [
            {"op": "linear", "name": "a", "out_channels": width, "save": "rows"},
            {"op": "global_pool", "name": "pool", "reduction": reduction, "save": "pooled"},
            {"op": "global_pool", "name": "sums", "reduction": "sum", "input": "rows"},
            {"op": "concat", "with": "pooled"},
            {"op": "linear", "name": "b", "out_channels": 4},
        ],
    }
    network = sparse.Network(description, [12, batches + 3], batch_size=batches, is_trained=True)
    parameters = values_of(generator, network)
    batch = np.array([0, 0, 1, 0, 1, 1, 1, 0, 0])
    points = np.stack([batch, *(np.arange(rows) * i for i in (3, 1, -1))], 1).astype(np.int32)
    x, out = normal(generator, rows, 4), normal(generator, batches, 4)

    @jax.jit
    def step(parameters, points, x, out):
        cloud = network.pyramid(points)
        result, back, _ = jax.vjp(lambda *p: network.train(p[0], cloud, p[1]), parameters, x, has_aux=True)
        return result, back(out), network(parameters, cloud, x), cloud.status

    result, (gradients, of_x), inference, status = step(parameters, points, poisoned(x, 12), out)
    sparse.check(status)
    combine = {"sum": jnp.sum, "average": jnp.mean, "max": jnp.max}
    names = sorted(parameters)

    def classify(x, *values):
        value = dict(zip(names, values, strict=True))
        tensor = x @ value["a.weight"][0] + value["a.bias"]
        pooled = [
            jnp.stack([combine[each](tensor[batch == item], 0) for item in range(batches)])
            for each in ("sum", reduction)
        ]
        return jnp.concatenate(pooled, 1) @ value["b.weight"][0] + value["b.bias"]

    expected, wide = in_double(classify, x, *(parameters[name] for name in names), out=out)
    expect_close(result, expected, "float32")
    expect_close(inference, expected, "float32")
    assert not of_x[rows:].any()
    for gradient, each in zip((of_x[:rows], *(gradients[name] for name in names)), wide, strict=True):
        expect_close(gradient, each, "float32")


def test_momenta_that_are_nearly_equal(generator):
    """Training plans of two networks with small momenta are two."""
    layers = [
        {"op": "linear", "name": "a", "out_channels": 5, "bias": False},
        {"op": "batch_norm", "name": "norm"},
    ]
    description = {"name": "n", "ndim": 3, "in_channels": 4, "layers": layers}
    momenta = (1e-7, 4e-7)
    networks = [sparse.Network(description, [64], is_trained=True, momentum=momentum) for momentum in momenta]
    points, x = cells(generator, 64), normal(generator, 64, 4)
    parameters = values_of(generator, networks[0])
    (name,) = (name for name in networks[0].statistics if name.endswith("running_mean"))
    parameters[name] = np.zeros(5, np.float32)
    weight = next(value for name, value in parameters.items() if name.startswith("a."))
    # Both programs are there before one runs, so that the library could share a training plan between them.
    steps = [
        jax.jit(lambda p, points, x, network=network: network.train(p, network.pyramid(points), x)[1])
        .lower(parameters, points, x)
        .compile()
        for network in networks
    ]
    mean = (np.asarray(x, np.float64) @ weight[0].astype(np.float64)).mean(0)
    for step, momentum in zip(steps, momenta, strict=True):
        found = np.asarray(step(parameters, points, x)[name], np.float64) / momentum
        expect_close(found, mean, "float32", 1)


def test_coordinates_of_a_network(generator):
    """A cloud of a network has those that were given."""
    network = sparse.Network("minkunet42", [16] * 5, channels=[8] * 9)
    points = cells(generator, 10)
    cloud = network.pyramid(points)
    assert np.asarray(cloud.coordinates(0))[:10].tolist() == points.tolist()
    assert cloud.counts.tolist()[:2] == [10, 10]
    with pytest.raises(ValueError, match="has coordinates of level 0 only"):
        cloud.coordinates(1)


def test_a_network_for_inference_has_no_training(generator):
    network = sparse.Network("minkunet42", [16] * 5, channels=[8] * 9)
    cloud = network.pyramid(cells(generator, 10))
    with pytest.raises(ValueError, match="is_trained=True"):
        network.train(values_of(generator, network), cloud, jnp.zeros((16, 4)))
    parameters = values_of(generator, network)
    for argument in (0, 1):
        with pytest.raises(NotImplementedError, match=r"its method train\(\) has gradients"):
            jax.grad(lambda *pair: network(pair[0], cloud, pair[1]).sum(), argument)(parameters, jnp.zeros((16, 4)))


def test_wrong_operands(generator):
    network = sparse.Network("minkunet42", [16] * 5, channels=[8] * 9)
    parameters = values_of(generator, network)
    points = cells(generator, 10)
    cloud = network.pyramid(points)
    x = jnp.zeros((16, 4))
    first = next(iter(parameters))
    with pytest.raises(ValueError, match=f"parameters are missing: {first}; are not known: none"):
        network({name: value for name, value in parameters.items() if name != first}, cloud, x)
    with pytest.raises(ValueError, match="are not known: other"):
        network({**parameters, "other": x}, cloud, x)
    with pytest.raises(ValueError, match=f"{first} has the shape"):
        network({**parameters, first: x}, cloud, x)
    with pytest.raises(ValueError, match=f"{first} is int32, and float32, .* is needed"):
        jax.eval_shape(lambda: network({**parameters, first: parameters[first].astype(np.int32)}, cloud, x))
    with pytest.raises(ValueError, match=r"float32 of the shape \[15, 4\], and float32 \[16, 4\]"):
        network(parameters, cloud, x[1:])
    with pytest.raises(ValueError, match="1 inputs, and 2 arrays"):
        network(parameters, cloud, x, x)
    with pytest.raises(ValueError, match="another network"):
        sparse.Network("minkunet42", [16] * 5, channels=[8] * 9)(parameters, cloud, x)
    with pytest.raises(ValueError, match="belongs to a Network"):
        sparse.conv(cloud, "same", x, jnp.zeros((27, 4, 4)))
    with pytest.raises(ValueError, match="2 numbers, and the network has 5 levels"):
        sparse.Network("minkunet42", [16, 16])
    with pytest.raises(minuet.NotFoundError):
        sparse.Network("no network", [16])


def test_too_small_capacities(generator):
    network = sparse.Network("minkunet42", [64, 2, 64, 64, 64], channels=[8] * 9)
    cloud = network.pyramid(cells(generator, 60))
    result = network(values_of(generator, network), cloud, jnp.ones((64, 4)))
    assert not result.any()
    with pytest.raises(ValueError, match="PAST_CAPACITY"):
        sparse.check(cloud)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_of_a_network(generator, again):
    """They compute the same. A change of the caller's description is in none of them."""
    layer = {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3}
    description = {"name": "n", "ndim": 3, "in_channels": 4, "layers": [layer]}
    network = sparse.Network(description, [16], dtype="float16", is_trained=True, momentum=0)
    layer["out_channels"] = 12
    copied = again(network)
    parameters, points = values_of(generator, network), cells(generator, 10)
    x = normal(generator, 16, 4, dtype="float16")
    results = [
        (each(parameters, each.pyramid(points), x), each.train(parameters, each.pyramid(points), x))
        for each in (network, copied)
    ]
    assert same_bits(*results)
    assert copied is not network
