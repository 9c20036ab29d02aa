"""Gradients of convolutions, against loops."""

import minuet
import numpy as np
import pytest


def test_of_every_operand(context, cpu):
    random = np.random.default_rng(9)
    coordinates = np.unique(random.integers(0, 6, (120, 4)).astype(np.int32), axis=0)
    rows, inputs, outputs = len(coordinates), 4, 8
    features = random.integers(-4, 5, (rows, inputs)).astype(np.float32)
    gradient = random.integers(-4, 5, (rows, outputs)).astype(np.float32)
    weight = random.integers(-4, 5, (27, inputs, outputs)).astype(np.float32)
    coordinate_set = minuet.Coordinates(cpu, coordinates)
    kernel_map = minuet.KernelMap(coordinate_set, coordinate_set, kernel_size=3)
    of_weight, of_input = np.zeros_like(weight), np.zeros_like(features)
    for k, source, target in kernel_map.export():
        of_weight[k] += np.outer(features[source], gradient[target])
        of_input[source] += weight[k] @ gradient[target]

    op = minuet.ParameterGradients(context, inputs, outputs, kernel_size=3, submanifold=True, bias=True)
    op.load(cpu)
    pairs, count = kernel_map.list_pairs()
    assert count[0] == kernel_map.pairs
    got, bias = np.full_like(weight, np.nan), np.full(outputs, np.nan, np.float32)
    arguments = {"input": features, "pairs": pairs, "pair_count": count, "weight_gradient": got, "bias_gradient": bias}
    op.compute(cpu, gradient, **arguments)
    assert np.array_equal(got, of_weight)
    assert np.array_equal(bias, gradient.sum(0))
    workspace = np.empty(max(1, op.bytes("cpu", len(pairs), rows)), np.uint8)
    op.compute(cpu, gradient, **arguments, accumulate=True, workspace=workspace, row_count=np.array([rows], np.int32))
    assert np.array_equal(got, 2 * of_weight)
    assert np.array_equal(bias, 2 * gradient.sum(0))

    plan = minuet.Plan.convolution(context, weight, kernel_size=3, submanifold=True, input_gradient=True)
    plan.compile("cpu")
    plan.load(cpu)
    execution = minuet.Execution(plan, cpu)
    execution.prepare_maps(kernel_map.transpose())
    assert np.array_equal(execution.run(gradient), of_input)


def test_refuses(context, cpu):
    with pytest.raises(minuet.InvalidArgumentError, match="the gradients are 0"):
        minuet.ParameterGradients(context, 4, 4, weight=False)
    op = minuet.ParameterGradients(context, 4, 4, weight=False, bias=True)
    op.load(cpu)
    bias = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="out_gradient has the shape"):
        op.compute(cpu, np.zeros((2, 5), np.float32), bias_gradient=bias)
    with pytest.raises(minuet.InvalidArgumentError, match="input is given"):
        op.compute(cpu, np.zeros((2, 4), np.float32), input=np.zeros((2, 4), np.float32), bias_gradient=bias)


def test_of_an_affine_step(context, cpu):
    random = np.random.default_rng(10)
    rows, channels, epsilon = 30, 6, 0.25
    features, gradient = (random.uniform(-2, 2, (rows, channels)).astype(np.float32) for _ in range(2))
    centred = features - features.mean(1, keepdims=True, dtype=np.float64)
    normal = centred / np.sqrt((centred**2).mean(1, keepdims=True) + epsilon)
    for n, of_norm in ((features, 0.0), (normal, epsilon)):
        op = minuet.ParameterGradients.affine(context, channels, epsilon=of_norm)
        op.load(cpu)
        scale, shift = np.full(channels, np.nan, np.float32), np.full(channels, np.nan, np.float32)
        op.compute(cpu, gradient, input=features, weight_gradient=scale, bias_gradient=shift)
        assert np.allclose(scale, (gradient * n).sum(0, dtype=np.float64), rtol=0, atol=1e-4)
        assert np.allclose(shift, gradient.sum(0, dtype=np.float64), rtol=0, atol=1e-4)
    with pytest.raises(minuet.InvalidArgumentError, match="has 0 channels"):
        minuet.ParameterGradients.affine(context, 0)


def test_of_a_chain(context, cpu):
    """The gradient of a chain's input is a chain."""
    rows, channels = 20, 4
    random = np.random.default_rng(11)
    features, gradient = (random.uniform(-2, 2, (rows, channels)).astype(np.float32) for _ in range(2))
    scale = random.uniform(-1, 1, channels).astype(np.float32)
    steps = ["silu_gradient", minuet.Step(minuet.PointwiseKind.AFFINE, scale=scale)]
    plan = minuet.Plan.pointwise(context, channels, steps)
    plan.compile("cpu")
    plan.load(cpu)
    coordinate_set = minuet.Coordinates(cpu, np.arange(4 * rows, dtype=np.int32).reshape(rows, 4) % 50)
    execution = minuet.Execution(plan, cpu)
    execution.prepare_maps(minuet.KernelMap(coordinate_set, coordinate_set, kernel_size=1))
    sigmoid = 1 / (1 + np.exp(-features.astype(np.float64)))
    expected = gradient * sigmoid * (1 + features * (1 - sigmoid)) * scale
    assert np.allclose(execution.run(gradient, features), expected, rtol=0, atol=1e-5)


def test_of_poolings(context, cpu):
    random = np.random.default_rng(12)
    coordinates = np.unique(random.integers(0, 6, (80, 4)).astype(np.int32), axis=0)
    rows, channels = len(coordinates), 4
    features = random.uniform(-4, 4, (rows, channels)).astype(np.float32)
    gradient = random.integers(-4, 5, (rows, channels)).astype(np.float32)
    coordinate_set = minuet.Coordinates(cpu, coordinates)
    kernel_map = minuet.KernelMap(coordinate_set, coordinate_set, kernel_size=3)
    geometry = {"kernel_size": 3, "submanifold": True}
    forward = minuet.Plan.pooling(context, channels, "max", winners=True, **geometry)
    forward.compile("cpu")
    forward.load(cpu)
    execution = minuet.Execution(forward, cpu)
    execution.prepare_maps(kernel_map)
    _, winners = execution.run(features)
    expected = {name: np.zeros((rows, channels)) for name in ("max", "average", "sum")}
    pairs = kernel_map.export()
    inputs = np.bincount([target for _, _, target in pairs], minlength=rows)
    for _, source, target in pairs:
        expected["sum"][source] += gradient[target]
        expected["average"][source] += gradient[target] / inputs[target]
    for target in range(rows):
        expected["max"][winners[target], np.arange(channels)] += gradient[target]
    for name, values in expected.items():
        plan = minuet.Plan.pooling(context, channels, name, input_gradient=True, **geometry)
        plan.compile("cpu")
        plan.load(cpu)
        execution = minuet.Execution(plan, cpu)
        execution.prepare_maps(kernel_map.transpose())
        got = execution.run(gradient, *([winners] if name == "max" else []))
        assert np.allclose(got, values, rtol=0, atol=1e-5), name
