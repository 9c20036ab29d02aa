"""Training plans from Python: what the class passes on, against numpy; the C++ tests have the networks."""

from __future__ import annotations

import json

import minuet
import numpy as np
import pytest

CAPACITY, ROWS = 12, 9


def network_of(context, layers, dtype="float32", **more):
    description = {"name": "n", "ndim": 3, "layers": layers, **({"in_channels": 4} | more)}
    if "inputs" in description:
        del description["in_channels"]
    return minuet.Plan.network(
        context, description=json.dumps(description), dtype=dtype, without_values=True, dataflow="fused"
    )


def linear(name, channels):
    return {"op": "linear", "name": name, "out_channels": channels}


def draw(generator, shape):
    return generator.uniform(-1, 1, shape).astype(np.float32)


def padded(rows, capacity=CAPACITY):
    """NaN behind the rows, which no call may read."""
    result = np.full((capacity, rows.shape[1]), np.nan, np.float32)
    result[: len(rows)] = rows
    return result


class Step:
    """A training plan with a pyramid of one level and parameters drawn at random."""

    def __init__(self, context, device, generator, network, **options):
        self.device = device
        self.training = minuet.Training(context, network, **options)
        self.training.load(device)
        self.pyramid = self.training.pyramid([CAPACITY])
        self.pyramid.load(device)
        coordinates = np.array([[0, 3 * i, i, -i] for i in range(ROWS)], np.int32)
        self.buffer = self.pyramid.build(device, device.to_device(coordinates))
        self.values = {
            info.name: np.abs(draw(generator, info.shape)) + 0.25
            if info.name.endswith("running_var")
            else draw(generator, info.shape)
            for info in network.parameters
        }
        self.parameters = {name: device.to_device(value) for name, value in self.values.items()}

    def forward(self, *inputs, **more):
        given = [self.device.to_device(padded(rows)) for rows in inputs]
        return self.training.forward(self.device, self.pyramid, self.buffer, given, self.parameters, **more)

    def backward(self, kept, *out_gradients, **more):
        given = [None if rows is None else self.device.to_device(padded(rows)) for rows in out_gradients]
        return self.training.backward(self.device, self.pyramid, self.buffer, kept, given, self.parameters, **more)

    def host(self, array):
        return self.device.to_host(array)


def test_a_step_of_linear_layers(device, context, generator):
    network = network_of(context, [linear("a", 8), {"op": "relu"}, linear("b", 4)])
    step = Step(context, device, generator, network, input_gradients=[0])
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 4))
    result = step.forward(x)
    value = {name: array.astype(np.float64) for name, array in step.values.items()}
    hidden = np.maximum(x @ value["a.weight"][0] + value["a.bias"], 0)
    output = step.host(result.outputs[0])
    np.testing.assert_allclose(output[:ROWS], hidden @ value["b.weight"][0] + value["b.bias"], rtol=1e-5, atol=1e-5)
    assert not output[ROWS:].any()
    assert result.statistics == {}
    gradients = step.backward(result.kept, g)
    of_hidden = g @ value["b.weight"][0].T * (hidden > 0)
    expected = {
        "a.weight": (x.T @ of_hidden)[None],
        "a.bias": of_hidden.sum(0),
        "b.weight": (hidden.T @ g)[None],
        "b.bias": g.sum(0),
    }
    assert gradients.parameters.keys() == expected.keys()
    for name, wanted in expected.items():
        np.testing.assert_allclose(step.host(gradients.parameters[name]), wanted, rtol=1e-4, atol=1e-4, err_msg=name)
    of_input = step.host(gradients.inputs[0])
    np.testing.assert_allclose(of_input[:ROWS], of_hidden @ value["a.weight"][0].T, rtol=1e-4, atol=1e-4)
    assert not of_input[ROWS:].any()


def test_gradients_are_added_and_chosen(device, context, generator):
    step = Step(context, device, generator, network_of(context, [linear("a", 8), linear("b", 4)]))
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 4))
    kept = step.forward(x).kept
    once = step.backward(kept, g)
    assert once.inputs == (None,)
    before = {name: device.to_device(np.full_like(step.values[name], 0.5)) for name in ("a.weight", "b.bias")}
    twice = step.backward(kept, g, gradients=before, accumulate=True)
    assert twice.parameters.keys() == before.keys()
    for name, array in before.items():
        np.testing.assert_allclose(step.host(array), step.host(once.parameters[name]) + 0.5, rtol=1e-5, atol=1e-6)
    for array in step.backward(kept, None).parameters.values():
        assert not step.host(array).any()
    with pytest.raises(ValueError, match="nothing to add to"):
        step.backward(kept, g, accumulate=True)
    with pytest.raises(KeyError, match="no such parameter"):
        step.backward(kept, g, gradients={"c": before["b.bias"]})
    with pytest.raises(minuet.InvalidArgumentError, match="overlap"):
        step.backward(kept, g, gradients={"b.bias": step.parameters["b.bias"]})


def test_statistics_may_be_stored_in_place(device, context, generator):
    layers = [linear("a", 8), {"op": "batch_norm", "name": "bn"}, linear("b", 4)]
    step = Step(context, device, generator, network_of(context, layers), momentum=0.25)
    x = draw(generator, (ROWS, 4))
    result = step.forward(x)
    hidden = x @ step.values["a.weight"][0].astype(np.float64) + step.values["a.bias"]
    for name, batch in (("bn.running_mean", hidden.mean(0)), ("bn.running_var", hidden.var(0, ddof=1))):
        expected = 0.75 * step.values[name] + 0.25 * batch
        np.testing.assert_allclose(step.host(result.statistics[name]), expected, rtol=1e-5, atol=1e-5)
    own = {name: step.parameters[name] for name in result.statistics}
    again = step.forward(x, statistics=own)
    for name, array in own.items():
        assert again.statistics[name] is array
        np.testing.assert_array_equal(step.host(array), step.host(result.statistics[name]))
    with pytest.raises(ValueError, match="statistics has no array for"):
        step.forward(x, statistics={})


def test_cumulative_statistics_count_batches(device, context, generator):
    """Both batch norms read the count of before, although the call replaces it."""
    layers = [{"op": "batch_norm", "name": "bn"}, linear("a", 4), {"op": "batch_norm", "name": "last"}]
    step = Step(context, device, generator, network_of(context, layers), cumulative=True)
    x, count = draw(generator, (ROWS, 4)), device.to_device(np.array([3], np.int64))
    result = step.forward(x, batch_count=count, new_batch_count=count)
    expected = 0.75 * step.values["bn.running_mean"] + 0.25 * x.mean(0)
    np.testing.assert_allclose(step.host(result.statistics["bn.running_mean"]), expected, rtol=1e-5, atol=1e-6)
    assert step.host(count).tolist() == [4]
    other = device.to_device(np.array([3], np.int64))
    apart = step.forward(x, batch_count=other, new_batch_count=device.empty((1,), "int64"))
    for name, array in result.statistics.items():
        np.testing.assert_array_equal(step.host(array), step.host(apart.statistics[name]))
    assert step.host(other).tolist() == [3]
    with pytest.raises(minuet.InvalidArgumentError, match="batch_count is null"):
        step.forward(x)


def test_frozen_batch_norms_are_an_affine_step(device, context, generator):
    layers = [{"op": "batch_norm", "name": "bn"}]
    network = network_of(context, layers)
    step = Step(context, device, generator, network, frozen_batch_norms=True, input_gradients=[0])
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 4))
    result = step.forward(x)
    assert result.statistics == {}
    scale = step.values["bn.weight"] / np.sqrt(step.values["bn.running_var"] + 1e-5)
    expected = (x - step.values["bn.running_mean"]) * scale + step.values["bn.bias"]
    np.testing.assert_allclose(step.host(result.outputs[0])[:ROWS], expected, rtol=1e-4, atol=1e-5)
    gradients = step.backward(result.kept, g)
    np.testing.assert_allclose(step.host(gradients.inputs[0])[:ROWS], g * scale, rtol=1e-4, atol=1e-5)
    assert gradients.parameters.keys() == {"bn.weight", "bn.bias"}
    for name in ("statistics", "batch_count", "new_batch_count"):
        with pytest.raises(ValueError, match=f"^{name} is given, but the batch norms are frozen"):
            step.forward(x, **{name: {}})


def test_layers_are_computed_again_by_name(device, context, generator):
    layers = [linear("a", 8), linear("stage.a", 8), {"op": "tanh"}, linear("stage.b", 8), {"op": "gelu"}]
    network = network_of(context, [*layers, {"op": "batch_norm", "name": "stage.c"}, linear("b", 4)])
    step = Step(context, device, generator, network)
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 4))
    expected = step.backward(step.forward(x).kept, g).parameters
    all_kept = step.training.bytes(device.arch, step.pyramid).kept
    step.training = minuet.Training(context, network, recompute=["stage"])
    step.training.load(device)
    step.pyramid = step.training.pyramid([CAPACITY])
    step.pyramid.load(device)
    assert step.training.bytes(device.arch, step.pyramid).kept < all_kept
    found = step.backward(step.forward(x).kept, g).parameters
    for name, array in expected.items():
        np.testing.assert_array_equal(step.host(found[name]), step.host(array), err_msg=name)
    with pytest.raises(minuet.InvalidArgumentError, match=r'recompute\[0\] is "stag"'):
        minuet.Training(context, network, recompute=["stag"])
    with pytest.raises(TypeError, match="recompute is the text 'stage'"):
        minuet.Training(context, network, recompute="stage")


def test_branches_give_the_same_bits(device, context, generator):
    network = network_of(context, [linear(f"l{i}", 8) for i in range(6)])
    step = Step(context, device, generator, network)
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 8))
    expected = step.backward(step.forward(x).kept, g).parameters
    for branches in (1, 2):
        training = minuet.Training(context, network, branches=branches)
        training.load(device)
        step.training = training
        step.pyramid = training.pyramid([CAPACITY])
        step.pyramid.load(device)
        found = step.backward(step.forward(x).kept, g).parameters
        for name, array in expected.items():
            np.testing.assert_array_equal(step.host(found[name]), step.host(array), err_msg=name)
    with pytest.raises(minuet.InvalidArgumentError, match="branches is 3"):
        minuet.Training(context, network, branches=3)


def test_memory_of_the_caller(device, context, generator):
    step = Step(context, device, generator, network_of(context, [linear("a", 8)]), input_gradients=[0])
    sizes = step.training.bytes(device.arch, step.pyramid)
    assert sizes.kept > 0
    assert sizes.backward_workspace > 0
    memory = [
        device.to_device(np.full(size, 0xFF, np.uint8))
        for size in (sizes.kept, sizes.forward_workspace, sizes.backward_workspace)
    ]
    x, g = draw(generator, (ROWS, 4)), draw(generator, (ROWS, 8))
    out = device.to_device(np.full((CAPACITY, 8), np.nan, np.float32))
    of_input = device.to_device(np.full((CAPACITY, 4), np.nan, np.float32))
    result = step.forward(x, out=[out], kept=memory[0], workspace=memory[1])
    assert result.outputs[0] is out
    assert result.kept is memory[0]
    gradients = step.backward(result.kept, g, out=[of_input], workspace=memory[2])
    assert gradients.inputs[0] is of_input
    other = step.forward(x)
    np.testing.assert_array_equal(step.host(out), step.host(other.outputs[0]))
    np.testing.assert_array_equal(step.host(of_input), step.host(step.backward(other.kept, g).inputs[0]))
    small = device.empty(8, "uint8")
    with pytest.raises(minuet.ResourceExhaustedError, match="kept has"):
        step.forward(x, kept=small)
    with pytest.raises(ValueError, match="kept is None"):
        step.backward(None, g)


DENSE = {
    "to_dense": {"op": "to_dense", "save": "dense"},
    "channels_last": {"op": "to_dense", "format": "channels_last", "save": "dense"},
    "birds_eye": {"op": "birds_eye", "image_axes": [2, 0], "save": "dense"},
}
DENSE_SHAPE, BATCH, WIDTH = (8, 6, 4), 2, 8


def dense_places(kind, coordinates):
    """The index, in a dense array of a coarser level, of each channel of each row."""
    b, x, y, z = (coordinates[:, i, None] for i in range(4))
    x, y, z = x // 2, y // 2, z // 2
    c = np.arange(WIDTH)[None]
    if kind == "to_dense":
        return b, c, x, y, z
    if kind == "channels_last":
        return b, x, y, z, c
    return b, c * (DENSE_SHAPE[1] // 2) + y, z, x


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", DENSE)
def test_dense_outputs_only_move_rows(device, context, generator, kind, dtype):
    """The gradients are those of the network without the dense tensor, bit by bit."""
    down = {"op": "block", "name": "down", "out_channels": WIDTH, "kernel_size": 3, "stride": 2, "save": "rows"}
    layers = [down, DENSE[kind]]
    networks = [
        network_of(context, layers[: 1 + i], dtype, shape=list(DENSE_SHAPE), outputs=[name])
        for i, name in enumerate(["rows", "dense"])
    ]
    both = network_of(context, layers, dtype, shape=list(DENSE_SHAPE), outputs=["rows", "dense"])
    cells = generator.permutation(np.prod(DENSE_SHAPE))[:CAPACITY]
    batch = np.sort(generator.integers(0, BATCH, CAPACITY))
    coordinates = np.stack([batch, *np.unravel_index(cells, DENSE_SHAPE)], 1).astype(np.int32)
    values = {info.name: device.to_device(draw(generator, info.shape) ** 2) for info in both.parameters}
    x = device.to_device(draw(generator, (CAPACITY, 4)).astype(dtype))

    def step(network, make_gradients):
        training = minuet.Training(context, network, input_gradients=[0])
        training.load(device)
        pyramid = training.pyramid([CAPACITY, CAPACITY], batch_size=BATCH, keep_coordinates=[1])
        pyramid.load(device)
        counts = device.empty((3,), "int32")
        buffer = pyramid.build(device, device.to_device(coordinates), counts=counts)
        rows = device.to_host(pyramid.coordinates(device, buffer, 1))[: device.to_host(counts)[2]]
        result = training.forward(device, pyramid, buffer, [x], values)
        given = [None if g is None else device.to_device(g) for g in make_gradients(rows)]
        found = training.backward(device, pyramid, buffer, result.kept, given, values)
        gradients = {name: device.to_host(array) for name, array in found.parameters.items()}
        gradients["input"] = device.to_host(found.inputs[0])
        return [device.to_host(output) for output in result.outputs], gradients, rows

    of_rows = draw(generator, (CAPACITY, WIDTH)).astype(dtype)
    plain, expected, rows = step(networks[0], lambda rows: [of_rows])
    places = dense_places(kind, rows)
    wanted = np.zeros((BATCH, *both.outputs[1].shape[1:]), dtype)
    wanted[places] = plain[0][: len(rows)]
    scattered = draw(generator, wanted.shape).astype(dtype)
    scattered[places] = of_rows[: len(rows)]
    for network, gradients in ((networks[1], [scattered]), (both, [None, scattered]), (both, [of_rows, None])):
        outputs, found, its_rows = step(network, lambda rows, given=gradients: given)
        np.testing.assert_array_equal(its_rows, rows)
        np.testing.assert_array_equal(outputs[-1], wanted)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("reduction", ["sum", "average", "max"])
def test_global_pool_in_a_classifier(device, context, generator, reduction):
    """Two pooled tensors are joined, so that the gradient of each is a part of the columns of another."""
    layers = [
        linear("a", WIDTH) | {"save": "rows"},
        {"op": "global_pool", "name": "pool", "reduction": reduction, "save": "pooled"},
        {"op": "global_pool", "name": "sums", "reduction": "sum", "input": "rows"},
        {"op": "concat", "with": "pooled"},
        linear("b", 4),
    ]
    training = minuet.Training(context, network := network_of(context, layers), input_gradients=[0])
    training.load(device)
    pyramid = training.pyramid([CAPACITY, BATCH + 3], batch_size=BATCH)
    pyramid.load(device)
    batch = np.array([0, 0, 1, 0, 1, 1, 1, 0, 0])
    coordinates = np.stack([batch, *(np.arange(ROWS) * i for i in (3, 1, -1))], 1).astype(np.int32)
    buffer = pyramid.build(device, device.to_device(coordinates))
    value = {info.name: draw(generator, info.shape) for info in network.parameters}
    parameters = {name: device.to_device(array) for name, array in value.items()}
    x, g = draw(generator, (ROWS, 4)), draw(generator, (BATCH, 4))
    given = [device.to_device(padded(x))]
    result = training.forward(device, pyramid, buffer, given, parameters)
    found = training.backward(device, pyramid, buffer, result.kept, [device.to_device(g)], parameters)
    rows = x @ value["a.weight"][0] + value["a.bias"]
    of_item = [np.flatnonzero(batch == item) for item in range(BATCH)]
    combine = {"sum": np.sum, "average": np.mean, "max": np.max}[reduction]
    pooled = np.stack([combine(rows[own], 0) for own in of_item])
    joined = np.concatenate([np.stack([rows[own].sum(0) for own in of_item]), pooled], 1)
    np.testing.assert_allclose(
        device.to_host(result.outputs[0]), joined @ value["b.weight"][0] + value["b.bias"], rtol=1e-4, atol=1e-4
    )
    of_joined = g @ value["b.weight"][0].T
    of_rows = of_joined[batch, :WIDTH].copy()
    for item, own in enumerate(of_item):
        of_pooled = of_joined[item, WIDTH:]
        if reduction == "max":
            of_rows[own[rows[own].argmax(0)], np.arange(WIDTH)] += of_pooled
        else:
            of_rows[own] += of_pooled / (len(own) if reduction == "average" else 1)
    expected = {
        "a.weight": (x.T @ of_rows)[None],
        "a.bias": of_rows.sum(0),
        "b.weight": (joined.T @ g)[None],
        "b.bias": g.sum(0),
    }
    assert found.parameters.keys() == expected.keys()
    for name, wanted in expected.items():
        np.testing.assert_allclose(device.to_host(found.parameters[name]), wanted, rtol=1e-4, atol=1e-4, err_msg=name)
    of_input = device.to_host(found.inputs[0])
    np.testing.assert_allclose(of_input[:ROWS], of_rows @ value["a.weight"][0].T, rtol=1e-4, atol=1e-4)
    assert not of_input[ROWS:].any()


def plain(name, **more):
    """A convolution alone, which is linear in its input and in its weight."""
    fields = {
        "op": "block",
        "name": name,
        "out_channels": WIDTH,
        "kernel_size": 3,
        "norm": "none",
        "activation": "none",
    }
    return fields | more


COARSE = {
    "is_read_by_a_global_pooling": {"op": "global_pool", "name": "g", "reduction": "sum", "input": "b", "save": "m"},
    "has_no_gradient": {"op": "argmax", "input": "b", "save": "m"},
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("case", COARSE)
def test_gradients_of_coarse_inputs_stay_within_their_rows(cpu, context, generator, case, dtype):
    """The gradient is part of a larger array, of which no other element changes."""
    pool = {"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2, "save": "q"}
    inputs = [{"name": "a", "channels": 4}, {"name": "b", "channels": 8, "level": "q"}]
    network = network_of(context, [pool, COARSE[case]], dtype, inputs=inputs, outputs=["q", "m"])
    training = minuet.Training(context, network, input_gradients=[1])
    training.load(cpu)
    items = [out.level for out in network.outputs if not out.axes]
    pyramid = training.pyramid([CAPACITY] * (2 + len(items)), batch_size=BATCH)
    pyramid.load(cpu)
    counts = np.empty(3 + len(items), np.int32)
    coordinates = np.array([[i % BATCH, 3 * i, i, -i] for i in range(ROWS)], np.int32)
    buffer = pyramid.build(cpu, coordinates, counts=counts)
    rows = counts[2]
    assert 0 < rows < CAPACITY
    a, b = (padded(draw(generator, (ROWS, info.channels))).astype(dtype) for info in network.inputs)
    result = training.forward(cpu, pyramid, buffer, [a, b], {})
    large = np.full((CAPACITY + 1, 16), 7, dtype)
    given = [None, draw(generator, (BATCH, 8)).astype(dtype) if items else None]
    workspace = cpu.to_device(np.full(training.bytes(cpu.arch, pyramid).backward_workspace, 0xFF, np.uint8))
    whole = training.backward(cpu, pyramid, buffer, result.kept, given, {}, workspace=workspace).inputs[1]
    workspace[...] = 0xFF
    of_b = large[:CAPACITY, :8]
    found = training.backward(cpu, pyramid, buffer, result.kept, given, {}, out=[None, of_b], workspace=workspace)
    assert found.inputs[1] is of_b
    np.testing.assert_array_equal(of_b, whole)
    assert of_b[:rows].any() == bool(items)
    assert not of_b[rows:].any()
    of_b[...] = 7
    assert (large == 7).all()
    for wrong in ([of_b, None], [of_b], [None, None]):
        with pytest.raises(ValueError, match=r"with arrays at \[1\] and None elsewhere"):
            training.backward(cpu, pyramid, buffer, result.kept, given, {}, out=wrong)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradients_may_all_be_left_out(device, context, generator, dtype):
    network = network_of(context, [linear("a", 8), linear("b", 4)], dtype)
    step = Step(context, device, generator, network, input_gradients=[0])
    x = device.to_device(np.zeros((CAPACITY, 4), "uint16" if dtype == "bfloat16" else dtype))
    kept = step.training.forward(device, step.pyramid, step.buffer, [x], step.parameters).kept
    found = step.backward(kept, None)
    for array in (*found.parameters.values(), *found.inputs):
        assert not np.asarray(step.host(array)).view(np.uint8).any()


def test_a_call_that_fails_adds_no_gradients(cpu, context, generator):
    """Of the gradients only the last one is wrong: that of the layer that comes first in the network."""
    layers = [linear("a", 8), {"op": "batch_norm", "name": "bn"}, linear("b", 4)]
    step = Step(context, cpu, generator, network_of(context, layers))
    result = step.forward(draw(generator, (ROWS, 4)))
    gradients = {name: np.zeros_like(array) for name, array in step.values.items() if "running" not in name}
    for name, wrong in (("a.weight", np.zeros((1, 8, 4), np.float32)), ("a.bias", np.zeros((8, 2), np.float32)[:, 0])):
        with pytest.raises(minuet.InvalidArgumentError, match=name.replace(".", r"\.")):
            step.backward(result.kept, draw(generator, (ROWS, 4)), gradients=gradients | {name: wrong}, accumulate=True)
    assert not any(array.any() for array in gradients.values())


def test_only_batch_norms_count_batches(device, context, generator):
    step = Step(context, device, generator, network_of(context, [linear("a", 8)]))
    count = device.to_device(np.array([3], np.int64))
    with pytest.raises(minuet.InvalidArgumentError, match="no batch norm, which counts the batches"):
        step.forward(draw(generator, (ROWS, 4)), batch_count=count, new_batch_count=count)


def test_cumulative_statistics_of_a_network_without_batch_norms_need_no_count(device, context, generator):
    network = network_of(context, [linear("a", 8)])
    x, kept = draw(generator, (ROWS, 4)), []
    for cumulative in (False, True):
        step = Step(context, device, np.random.default_rng(1), network, cumulative=cumulative)
        kept.append(step.forward(x))
    assert np.array_equal(*(device.to_host(result.outputs[0]) for result in kept))


def test_refuses_pyramids_without_lists_of_pairs(device, context):
    """The pyramid of the inference has the same levels and maps, but gives no pairs."""
    network = network_of(context, [plain("a")])
    training = minuet.Training(context, network)
    pyramid = minuet.Pyramid(context, network=network, level_capacity=[CAPACITY])
    with pytest.raises(minuet.InvalidArgumentError, match="minuet_training_create_pyramid"):
        training.bytes(device.arch, pyramid)
    pyramid = minuet.Pyramid(context, network=network, level_capacity=[CAPACITY], keep_first_duplicate=True)
    with pytest.raises(minuet.InvalidArgumentError, match="gradients of duplicates would have to be added"):
        training.bytes(device.arch, pyramid)


def test_lists_what_is_kept(context):
    network = network_of(context, [linear("a", 8), {"op": "tanh"}, linear("b", 2)], dtype="float16")
    kept = minuet.Training(context, network).kept
    assert {(one.name, one.level, one.channels, one.dtype) for one in kept} == {
        ("input", 0, 4, "float16"),
        ("tanh 1 tanh", 0, 8, "float16"),
    }


def test_refuses_what_cannot_be_trained(context):
    network = network_of(
        context, [{"op": "space_to_channel", "name": "s", "stride": 2}, linear("a", 2)], shape=[8, 8, 8]
    )
    with pytest.raises(minuet.UnimplementedError, match="layer s, a space_to_channel"):
        minuet.Training(context, network)
    op = minuet.Plan.convolution(context, np.ones((1, 4, 4), np.float32))
    with pytest.raises(minuet.InvalidArgumentError, match="the plan is of a single op"):
        minuet.Training(context, op)


def test_checks_what_is_given(device, context, generator):
    step = Step(context, device, generator, network_of(context, [linear("a", 8)]))
    x = draw(generator, (ROWS, 4))
    with pytest.raises(ValueError, match="the network takes 1 inputs, and 2 are given"):
        step.forward(x, x)
    kept = step.forward(x).kept
    with pytest.raises(ValueError, match="the network gives 1 outputs, and 0 gradients are given"):
        step.backward(kept)
    with pytest.raises(ValueError, match="`out` has 2 arrays"):
        step.forward(x, out=[kept, kept])
    del step.parameters["a.bias"]
    with pytest.raises(ValueError, match=r"parameters without a value: a\.bias"):
        step.forward(x)


@pytest.mark.parametrize("momentum", [0.0, -0.1, 1.5])
def test_a_momentum_that_is_no_share(context, momentum):
    """The library would read 0 as its default."""
    plan = network_of(context, [linear("a", 4)])
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        minuet.Training(context, plan, momentum=momentum)
    minuet.Training(context, plan, momentum=momentum, cumulative=True)
