"""Kernels that are crosses or lists of offsets, in single ops, networks and pyramids."""

import minuet
import numpy as np
import oracle
import pytest

CROSS = [[-1, 0, 0], [0, -1, 0], [0, 0, -1], [0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
LIST = [[3, 0, -1], [0, 0, 0], [-2, -2, 1], [0, 1, 0]]


def listed_pairs(inputs, outputs, offsets, stride=1):
    """Returns (offset, input row, output row) of a forward map, ascending."""
    rows = {tuple(point): row for row, point in enumerate(inputs.tolist())}
    found = []
    for number, offset in enumerate(offsets):
        for row, (batch, *point) in enumerate(outputs.tolist()):
            at = (batch, *(p + o * stride for p, o in zip(point, offset, strict=True)))
            if at in rows:
                found.append((number, rows[at], row))
    return np.array(sorted(found), np.int32).reshape(-1, 3)


@pytest.mark.parametrize("dtype", ["float32", "tf32", "float16", "bfloat16"])
@pytest.mark.parametrize("dataflow", ["gather-gemm-scatter", "fused"])
def test_single_ops(device, context, generator, dtype, dataflow):
    cloud = oracle.make_cloud(generator, 150)
    features = oracle.encode(generator.integers(-64, 65, (150, 8)) / 64, dtype)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    for kernel, offsets in (
        ({"kernel_size": 3, "kernel_shape": "cross"}, CROSS),
        ({"offsets": CROSS}, CROSS),
        ({"offsets": LIST}, LIST),
        ({"offsets": LIST[2:3]}, LIST[2:3]),
        ({"offsets": [[0, 0, 0]]}, [[0, 0, 0]]),
    ):
        weight = (generator.integers(-64, 65, (len(offsets), 8, 16)) / 64).astype(np.float32)
        plan = minuet.Plan.convolution(context, weight, submanifold=True, dtype=dtype, dataflow=dataflow, **kernel)
        plan.load(device)
        kernel_map = minuet.KernelMap(coordinates, coordinates, **kernel)
        assert kernel_map.volume == len(offsets)
        pairs = listed_pairs(cloud, cloud, offsets)
        np.testing.assert_array_equal(sorted(map(tuple, kernel_map.export().tolist())), list(map(tuple, pairs)))
        execution = minuet.Execution(plan, device)
        execution.prepare_maps(kernel_map)
        actual = oracle.decode(device.to_host(execution.run(device.to_device(features))))
        expected, magnitude = oracle.convolve(pairs, oracle.decode(features), weight, 150)
        oracle.expect_close(actual, expected, magnitude, dtype)
        is_linear = offsets == [[0, 0, 0]]
        assert execution.layers[0].offset_count == (0 if is_linear else len(offsets))


@pytest.mark.parametrize("padding", [0, 1, (0, 1, 0)])
def test_one_offset_of_a_dense_convolution(device, context, generator, padding):
    """With padding it is not zero, so a map within one set does not pair rows with themselves."""
    cloud = oracle.make_cloud(generator, 400)
    offset = [-number for number in ((padding,) * 3 if isinstance(padding, int) else padding)]
    pairs = listed_pairs(cloud, cloud, [offset])
    assert len(pairs) > 0
    features = (generator.integers(-64, 65, (400, 8)) / 64).astype(np.float32)
    weight = (generator.integers(-64, 65, (1, 8, 16)) / 64).astype(np.float32)
    expected, magnitude = oracle.convolve(pairs, features, weight, 400)
    plan = minuet.Plan.convolution(context, weight, padding=padding, dataflow="fused")
    plan.load(device)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    kernel_map = minuet.KernelMap(coordinates, coordinates, kernel_size=1, padding=padding)
    np.testing.assert_array_equal(sorted(map(tuple, kernel_map.export().tolist())), list(map(tuple, pairs)))
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(kernel_map)
    oracle.expect_close(device.to_host(execution.run(device.to_device(features))), expected, magnitude, "float32")

    entry = minuet.Map(0, 0, 1, padding=padding, purposes=minuet.Purpose.CONVOLUTION)
    pyramid = minuet.Pyramid(context, [minuet.Level(400)], [entry])
    pyramid.load(device)
    buffer = pyramid.build(device, device.to_device(cloud))
    result = pyramid.run(plan, device, buffer, device.to_device(features), kernel_map=0, output_rows=400)
    oracle.expect_close(device.to_host(result)[:400], expected, magnitude, "float32")


KERNELS = {
    "cross": {"kernel_size": 3, "kernel_shape": "cross"},
    "list": {"kernel_shape": "custom", "offsets": CROSS},
    "box": {"kernel_size": 3},
}


def description(kernel):
    """A network with crosses: as crosses, as lists of their offsets, or as the boxes around them."""
    kernel = KERNELS[kernel]
    bare = {"norm": "none", "activation": "none"}
    return {
        "name": "offsets",
        "ndim": 3,
        "in_channels": 4,
        "layers": [
            {"op": "block", "name": "a", "out_channels": 8, **kernel, **bare, "output": "x"},
            {"op": "residual", "name": "b", "out_channels": 12, **kernel},
            {"op": "max_pool", "name": "c", "stride": 2, "kernel_shape": "custom", "offsets": LIST},
            {"op": "average_pool", "name": "d", "kernel_shape": "custom", "offsets": LIST[1:]},
            {"op": "up", "name": "e", "out_channels": 6, "stride": 2, **kernel, **bare, "onto": "x"},
        ],
    }


def weights_of_crosses(generator, plan):
    """Returns values for all parameters of a network whose crosses are crosses."""
    values = {}
    for parameter in plan.parameters:
        value = generator.integers(-64, 65, parameter.shape) / 64
        if parameter.name.endswith("running_var"):
            value = np.abs(value) + 0.5
        values[parameter.name] = value.astype(np.float32)
    return values


def in_boxes(values):
    """Returns the values for the same network with boxes: the weights of the offsets that a cross lacks are 0."""
    box = oracle.offsets_of((3, 3, 3))
    spread = {}
    for name, value in values.items():
        spread[name] = value
        if value.ndim == 3 and len(value) == len(CROSS):
            spread[name] = np.zeros((len(box), *value.shape[1:]), np.float32)
            for number, offset in enumerate(CROSS):
                spread[name][box.index(tuple(offset))] = value[number]
    return spread


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_networks(device, context, generator, dtype):
    cloud = oracle.make_cloud(generator, 200)
    features = device.to_device(oracle.encode(generator.integers(-64, 65, (200, 4)) / 64, dtype))
    results, values = {}, None
    for kernel in KERNELS:
        plan = minuet.Plan.network(
            context, description=description(kernel), dtype=dtype, without_values=True, dataflow="fused"
        )
        plan.load(device)
        if values is None:
            values = weights_of_crosses(generator, plan)
        parameters = minuet.Parameters(plan, device)
        parameters.set(in_boxes(values) if kernel == "box" else values)
        results[kernel] = []
        for options in ({}, {"map_method": "sorted"}, {"level_capacity": [200] * plan.info.levels}):
            execution = minuet.Execution(plan, device, parameters=parameters, **options)
            execution.prepare(device.to_device(cloud))
            results[kernel].append(device.to_host(execution.run(features)))
        pyramid = minuet.Pyramid(context, network=plan, level_capacity=[200] * plan.info.levels)
        pyramid.load(device)
        pyramid.load_run(plan, device, parameters=parameters)
        buffer = pyramid.build(device, device.to_device(cloud))
        results[kernel].append(device.to_host(pyramid.run(plan, device, buffer, features, parameters=parameters)))
    # Each way to make the maps gives a cross the bits of its list.
    for cross, custom in zip(results["cross"], results["list"], strict=True):
        np.testing.assert_array_equal(cross, custom)
    # The box has the same offsets with weights that are not 0, but may add them in another order.
    expected = oracle.decode(results["box"][0])
    largest = np.abs(expected).max()
    assert largest > 0
    for result in results["cross"] + results["box"]:
        difference = np.abs(oracle.decode(result) - expected).max()
        assert difference <= (1e-5 if dtype == "float32" else 1e-2) * largest


def test_a_network_is_its_ops(device, context, generator):
    cloud = oracle.make_cloud(generator, 120)
    features = (generator.integers(-64, 65, (120, 4)) / 64).astype(np.float32)
    bare = {"norm": "none", "activation": "none"}
    layers = [
        {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "kernel_shape": "cross", **bare},
        {"op": "block", "name": "b", "out_channels": 8, "kernel_shape": "custom", "offsets": LIST, **bare},
    ]
    network = {"name": "two", "ndim": 3, "in_channels": 4, "layers": layers}
    plan = minuet.Plan.network(context, description=network, without_values=True)
    plan.load(device)
    shapes = (7, 4, 8), (4, 8, 8)
    weights = [(generator.integers(-64, 65, shape) / 64).astype(np.float32) for shape in shapes]
    parameters = minuet.Parameters(plan, device)
    parameters.set({"a.conv.weight": weights[0], "b.conv.weight": weights[1]})
    execution = minuet.Execution(plan, device, parameters=parameters)
    execution.prepare(device.to_device(cloud))
    actual = device.to_host(execution.run(device.to_device(features)))
    middle, _ = oracle.convolve(listed_pairs(cloud, cloud, CROSS), features, weights[0], 120)
    expected, magnitude = oracle.convolve(listed_pairs(cloud, cloud, LIST), middle, weights[1], 120)
    np.testing.assert_allclose(actual, expected, atol=1e-5 * magnitude.max())


def test_pyramids_of_single_ops(device, context, generator):
    cloud = oracle.make_cloud(generator, 60)
    x = generator.normal(size=(64, 8)).astype(np.float32)
    weight = generator.normal(size=(4, 8, 8)).astype(np.float32)
    plan = minuet.Plan.convolution(context, weight, offsets=LIST, stride=2, dataflow="fused")
    plan.load(device)
    purposes = minuet.Purpose.CONVOLUTION | minuet.Purpose.EXPORT
    pyramid = minuet.Pyramid(
        context,
        [minuet.Level(64), minuet.Level(64, parent=0, stride=2)],
        [minuet.Map(0, 1, offsets=LIST, purposes=purposes), minuet.Map(0, 1, 3, kernel_shape="cross")],
        keep_coordinates=[1],
    )
    pyramid.load(device)
    count = device.to_device(np.array([60], np.int32))
    buffer = pyramid.build(device, device.to_device(np.concatenate([cloud, np.zeros((4, 4), np.int32)])), count)
    output = device.to_host(pyramid.run(plan, device, buffer, device.to_device(x), output_rows=64))
    coarse = device.to_host(pyramid.coordinates(device, buffer, 1))[: len(oracle.downsample(cloud, 2))]
    pairs, number = pyramid.export_pairs(device, buffer, 0, 400)
    expected_pairs = listed_pairs(cloud, coarse, LIST)
    found = device.to_host(pairs)[: int(device.to_host(number)[0])]
    assert sorted(map(tuple, found.tolist())) == list(map(tuple, expected_pairs.tolist()))
    expected, magnitude = oracle.convolve(expected_pairs, x, weight, 64)
    oracle.expect_close(output, expected, magnitude, "float32")


def test_a_map_that_a_pyramid_lacks_is_named_by_its_list(context, device):
    layer = {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "kernel_shape": "cross"}
    network = {"name": "one", "ndim": 3, "in_channels": 4, "layers": [layer]}
    plan = minuet.Plan.network(context, description=network, seed=1, dataflow="fused")
    plan.load(device)
    boxes = minuet.Map(0, 0, 3, purposes=minuet.Purpose.CONVOLUTION)
    pyramid = minuet.Pyramid(context, [minuet.Level(64)], [boxes])
    pyramid.load(device)
    with pytest.raises(minuet.InvalidArgumentError, match="level 0 with the plan's list of 7 offsets, which the plan"):
        pyramid.load_run(plan, device)


def test_wrong_kernels_are_refused(context, device):
    weight = np.zeros((4, 2, 2), np.float32)
    with pytest.raises(minuet.InvalidArgumentError, match="offsets 0 and 2 are equal"):
        minuet.Plan.convolution(context, weight[:3], offsets=[[0, 1, 0], [0, 0, 0], [0, 1, 0]])
    with pytest.raises(ValueError, match=r"weight has the shape \[4, 2, 2\]"):
        minuet.Plan.convolution(context, weight, offsets=LIST[:3])
    with pytest.raises(ValueError, match="a cross has its own"):
        minuet.Plan.convolution(context, weight, offsets=LIST, kernel_shape="cross")
    with pytest.raises(minuet.InvalidArgumentError, match="there are no offsets"):
        minuet.Plan.pooling(context, 4, kernel_shape="custom")
    with pytest.raises(minuet.InvalidArgumentError, match="dense_offsets is 1"):
        minuet.Plan.pooling(context, 4, offsets=LIST, padding=1)
    layer = {"op": "block", "name": "a", "out_channels": 8, "kernel_shape": "cross", "kernel_size": 3}
    for change, place in (
        ({"rule": "reached", "padding": 1}, "layers[0].kernel_shape: "),
        ({"op": "generative_up", "stride": 1}, "layers[0].kernel_shape: "),
        ({"kernel_shape": "custom"}, "layers[0].kernel_size: "),
        ({"offsets": LIST}, "layers[0].offsets: "),
        ({"kernel_shape": "star"}, "layers[0].kernel_shape: "),
    ):
        network = {"name": "wrong", "ndim": 3, "in_channels": 4, "layers": [{**layer, **change}]}
        with pytest.raises(minuet.Error) as raised:
            minuet.Plan.network(context, description=network)
        assert place in str(raised.value)
    custom = {"op": "block", "name": "a", "out_channels": 8, "kernel_shape": "custom"}
    for offsets, place in (
        ([], "layers[0].offsets: "),
        ([1, 2, 3], "layers[0].offsets: "),
        ([[0, 0, 0], [0, 0]], "layers[0].offsets[1]: "),
        ([[0, 0, 1 << 29]], "layers[0].offsets[0][2]: "),
        ([[0, 0, 1], [0, 0, 1]], "layers[0].offsets: "),
    ):
        network = {"name": "wrong", "ndim": 3, "in_channels": 4, "layers": [{**custom, "offsets": offsets}]}
        with pytest.raises(minuet.InvalidArgumentError) as raised:
            minuet.Plan.network(context, description=network)
        assert place in str(raised.value)
