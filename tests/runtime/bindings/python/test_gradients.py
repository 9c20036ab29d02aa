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
