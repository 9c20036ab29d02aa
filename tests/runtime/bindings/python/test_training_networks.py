"""Training plans from Python: gradients of networks that are linear, and the arrays of single calls."""

from __future__ import annotations

import minuet
import numpy as np
import pytest
from test_training import CAPACITY, ROWS, Step, draw, linear, network_of, padded, plain

BATCH = 2

# Networks that are linear in each input and in each weight, with the extents of their axes.
LINEAR = {
    "sets_that_are_combined": (
        (8, 6, 4),
        {},
        [
            plain("a", save="a"),
            plain("b", rule="reached", padding=1, stride=2, save="b"),
            {"op": "union", "name": "both", "with": "a", "save": "both"},
            {"op": "intersection", "name": "shared", "with": "b", "combine": "concat"},
            plain("c"),
            {"op": "collapse", "name": "flat", "axis": 2},
            plain("d", kernel_size=1, save="out"),
        ],
    ),
    "two_axes": (
        (16, 12),
        {"ndim": 2},
        [
            plain("a", save="a"),
            plain("b", stride=2, bias=True),
            {"op": "inverse", "name": "c", "of": "b", "out_channels": 8, "norm": "none", "activation": "none"},
            {"op": "concat", "with": "a"},
            plain("d", save="out"),
        ],
    ),
    "four_axes": ((4, 4, 3, 3), {"ndim": 4}, [plain("a"), plain("b", kernel_size=2, stride=2, save="out")]),
    "groups": ((8, 6, 4), {}, [plain("a", groups=2), plain("b", groups=4, stride=2), plain("c", groups=8, save="out")]),
    "coarse_inputs": (
        (8, 6, 4),
        {"inputs": [{"name": "x", "channels": 4}, {"name": "y", "channels": 4, "level": "coarse"}]},
        [
            {"op": "average_pool", "name": "pool", "kernel_size": 2, "stride": 2, "save": "coarse"},
            {"op": "add", "with": "y"},
            plain("a"),
            {"op": "concat", "with": "y"},
            plain("b", save="out"),
        ],
    ),
}


@pytest.mark.parametrize("case", LINEAR)
def test_gradients_of_linear_networks(device, context, generator, case):
    """Gradients follow from differences of outputs, because the step is linear in each input and in each weight."""
    extents, more, layers = LINEAR[case]
    network = network_of(context, layers, shape=list(extents), outputs=["out"], **more)
    training = minuet.Training(context, network, input_gradients=range(len(network.inputs)))
    training.load(device)
    capacity, count = 200, 40
    pyramid = training.pyramid([capacity] * network.info.levels, batch_size=BATCH)
    pyramid.load(device)
    cells = generator.permutation(np.prod(extents))[:count]
    batch = generator.integers(0, BATCH, count)
    coordinates = np.stack([batch, *np.unravel_index(cells, extents)], 1).astype(np.int32)
    status = device.empty((1,), "int32")
    buffer = pyramid.build(device, device.to_device(coordinates), status=status)
    assert device.to_host(status)[0] == 0
    names = [info.name for info in network.inputs]
    values = {info.name: draw(generator, info.shape) for info in network.parameters}
    values |= {info.name: draw(generator, (capacity, info.channels)) for info in network.inputs}

    def forward(values):
        given = {name: device.to_device(array) for name, array in values.items()}
        inputs = [given.pop(name) for name in names]
        return training.forward(device, pyramid, buffer, inputs, given), given

    result, given = forward(values)
    output = device.to_host(result.outputs[0]).astype(np.float64)
    g = draw(generator, output.shape)
    found = training.backward(device, pyramid, buffer, result.kept, [device.to_device(g)], given)
    gradients = {name: device.to_host(array) for name, array in found.parameters.items()}
    gradients |= {name: device.to_host(array) for name, array in zip(names, found.inputs, strict=True)}
    assert gradients.keys() == values.keys()
    for name, gradient in gradients.items():
        for _ in range(3):
            step = draw(generator, values[name].shape)
            moved, _ = forward(values | {name: values[name] + step})
            difference = device.to_host(moved.outputs[0]) - output
            wanted = (difference * g).sum()
            got = (gradient.astype(np.float64) * step).sum()
            size = np.linalg.norm(difference) * np.linalg.norm(g)
            assert size > 0, name
            assert abs(got - wanted) < 1e-5 * size, (name, got, wanted, size)


def test_weights_have_the_order_of_the_description(device, context, generator):
    """By default, and bit by bit as those in the order of the plan's shapes."""
    layers = [plain("a"), plain("b", out_channels=6)]
    ours = Step(context, device, generator, network_of(context, layers), input_gradients=[0])
    theirs = Step(
        context, device, generator, network_of(context, layers, weights_order="spconv-xyz"), input_gradients=[0]
    )

    def reordered(weight):
        return np.ascontiguousarray(weight.reshape(3, 3, 3, *weight.shape[1:]).transpose(4, 0, 1, 2, 3))

    theirs.parameters = {name: device.to_device(reordered(array)) for name, array in ours.values.items()}
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 6))
    first, second = ours.forward(x), theirs.forward(x)
    np.testing.assert_array_equal(ours.host(first.outputs[0]), ours.host(second.outputs[0]))
    expected, found = ours.backward(first.kept, g), theirs.backward(second.kept, g)
    np.testing.assert_array_equal(ours.host(expected.inputs[0]), ours.host(found.inputs[0]))
    for name, array in found.parameters.items():
        np.testing.assert_array_equal(ours.host(array), reordered(ours.host(expected.parameters[name])))


CHAIN = [
    linear("a", 8),
    {"op": "layer_norm", "name": "layer"},
    {"op": "scale_shift", "name": "scale"},
    {"op": "batch_norm", "name": "batch"},
    linear("b", 4) | {"save": "out"},
    linear("unread", 4) | {"save": "x"},
    {"op": "scale_shift", "name": "unread_scale"},
    {"op": "batch_norm", "name": "unread_norm"},
]


def test_each_gradient_can_be_computed_alone(device, context, generator):
    network = network_of(context, CHAIN, outputs=["out"])
    step = Step(context, device, generator, network)
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 4))
    kept = step.forward(x).kept
    all_gradients = {name: step.host(array) for name, array in step.backward(kept, g).parameters.items()}
    assert len(all_gradients) == len(step.values) - 4
    for name, expected in all_gradients.items():
        for before in (None, 0.5):
            array = device.to_device(np.full_like(expected, np.nan if before is None else before))
            found = step.backward(kept, g, gradients={name: array}, accumulate=before is not None)
            assert found.parameters.keys() == {name}
            wanted = expected + (before or 0)
            np.testing.assert_allclose(step.host(array), wanted, rtol=1e-5, atol=1e-6, err_msg=name)
        assert expected.any() != name.startswith("unread"), name


def test_gradients_of_weights_may_have_strides(cpu, context, generator):
    step = Step(context, cpu, generator, network_of(context, [plain("a"), linear("b", 4)]))
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 4))
    kept = step.forward(x).kept
    expected = step.backward(kept, g).parameters
    large = {
        name: np.full((*reversed(array.shape[1:]), array.shape[0] + 3), 7, np.float32)
        for name, array in expected.items()
        if array.ndim == 3
    }
    strided = {name: array[..., :-3].transpose(2, 1, 0) for name, array in large.items()}
    step.backward(kept, g, gradients=strided)
    for name, array in strided.items():
        np.testing.assert_array_equal(array, expected[name])
        assert (large[name][..., -3:] == 7).all()


def test_some_inputs_have_gradients(device, context, generator):
    inputs = [{"name": "x", "channels": 4}, {"name": "y", "channels": 4, "level": "x"}]
    network = network_of(context, [{"op": "multiply", "with": "y"}, {"op": "silu"}], inputs=inputs)
    both = Step(context, device, generator, network, input_gradients=[0, 1])
    one = Step(context, device, generator, network, input_gradients=[1])
    x, y, g = (draw(generator, (ROWS, 4)) for _ in range(3))
    expected = both.backward(both.forward(x, y).kept, g).inputs
    found = one.backward(one.forward(x, y).kept, g).inputs
    assert found[0] is None
    np.testing.assert_array_equal(one.host(found[1]), one.host(expected[1]))


def test_gradients_are_added_in_the_order_of_their_readers(device, context, generator):
    layers = [{"op": "relu", "input": "input", "save": f"y{i}"} for i in range(3)]
    step = Step(
        context, device, generator, network_of(context, layers, outputs=["y0", "y1", "y2"]), input_gradients=[0]
    )
    result = step.forward(np.ones((ROWS, 4), np.float32))
    found = step.backward(result.kept, *(np.full((ROWS, 4), value, np.float32) for value in (1e8, -1e8, 1)))
    np.testing.assert_array_equal(step.host(found.inputs[0])[:ROWS], 1)


def test_steps_with_one_workspace_keep_their_own(device, context, generator):
    layers = [plain("a"), {"op": "batch_norm", "name": "bn"}, linear("b", 4)]
    step = Step(context, device, generator, network_of(context, layers), input_gradients=[0])
    sizes = step.training.bytes(device.arch, step.pyramid)
    forward, backward = (
        device.to_device(np.full(size, 0xFF, np.uint8)) for size in (sizes.forward_workspace, sizes.backward_workspace)
    )
    inputs = [draw(generator, (ROWS, 4)) for _ in range(2)]
    g = draw(generator, (ROWS, 4))
    kept = [step.forward(x, workspace=forward).kept for x in inputs]
    found = [step.host(step.backward(one, g, workspace=backward).parameters["b.weight"]) for one in kept]
    expected = [step.host(step.backward(step.forward(x).kept, g).parameters["b.weight"]) for x in inputs]
    assert not np.array_equal(*found)
    np.testing.assert_array_equal(found, expected)


def test_written_memory_overlaps_nothing_that_is_read(cpu, context, generator):
    layers = [linear("a", 8), {"op": "batch_norm", "name": "bn"}, linear("b", 4)]
    step = Step(context, cpu, generator, network_of(context, layers), input_gradients=[0])
    x, g = padded(draw(generator, (ROWS, 4))), padded(draw(generator, (ROWS, 4)))
    kept = step.training.forward(cpu, step.pyramid, step.buffer, [x], step.parameters).kept

    def backward(**more):
        step.training.backward(cpu, step.pyramid, step.buffer, kept, [g], step.parameters, **more)

    for other in (kept, step.buffer, g, step.parameters["a.weight"]):
        within = np.asarray(other).reshape(-1).view(np.float32)[:4]
        with pytest.raises(minuet.InvalidArgumentError, match="overlap"):
            backward(gradients={"b.bias": within})
    with pytest.raises(minuet.InvalidArgumentError, match="overlap"):
        backward(out=[g])
    statistics = {name: np.empty_like(array) for name, array in step.values.items() if "running" in name}
    for other in (x, step.buffer, step.parameters["b.weight"]):
        wrong = {"bn.running_var": np.asarray(other).reshape(-1).view(np.float32)[:8]}
        with pytest.raises(minuet.InvalidArgumentError, match="overlap"):
            step.training.forward(cpu, step.pyramid, step.buffer, [x], step.parameters, statistics=statistics | wrong)


def misaligned(shape):
    """An array that begins 4 bytes behind a multiple of 16."""
    count = int(np.prod(shape))
    memory = np.zeros(count + 8, np.float32)
    begin = (4 - memory.ctypes.data // 4) % 4 + 1
    return memory[begin : begin + count].reshape(shape)


def test_messages_name_the_arguments_of_the_call(cpu, context, generator):
    inputs = [{"name": "x", "channels": 4}, {"name": "y", "channels": 4, "level": "x"}]
    layers = [{"op": "argmax", "save": "m"}, {"op": "multiply", "input": "x", "with": "y", "save": "out"}]
    step = Step(
        context, cpu, generator, network_of(context, layers, inputs=inputs, outputs=["m", "out"]), input_gradients=[1]
    )
    x, wrong = np.zeros((CAPACITY, 4), np.float32), misaligned((CAPACITY, 4))
    rest = (cpu, step.pyramid, step.buffer)
    with pytest.raises(minuet.InvalidArgumentError, match=r"inputs\[1\]"):
        step.training.forward(*rest, [x, wrong], step.parameters)
    labels = np.empty((CAPACITY, 1), np.int32)
    with pytest.raises(minuet.InvalidArgumentError, match=r"outputs\[1\]"):
        step.training.forward(*rest, [x, x], step.parameters, out=[labels, wrong])
    kept = step.training.forward(*rest, [x, x], step.parameters).kept
    with pytest.raises(minuet.InvalidArgumentError, match=r"out_gradients\[1\]"):
        step.training.backward(*rest, kept, [None, wrong], step.parameters)
    with pytest.raises(minuet.InvalidArgumentError, match=r"input_gradients\[1\]"):
        step.training.backward(*rest, kept, [None, x], step.parameters, out=[None, wrong])


def test_sizes_are_computed_once(device, context, generator, monkeypatch):
    step = Step(context, device, generator, network_of(context, [linear("a", 8)]))
    calls = []
    bytes_of = minuet.Training.bytes
    monkeypatch.setattr(minuet.Training, "bytes", lambda *given: calls.append(given) or bytes_of(*given))
    for _ in range(2):
        step.backward(step.forward(draw(generator, (ROWS, 4))).kept, draw(generator, (ROWS, 8)))
    assert len(calls) == 1
