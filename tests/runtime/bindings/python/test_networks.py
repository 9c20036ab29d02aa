"""Networks: descriptions, parameters as data, capacity mode, pyramids, serialized plans and counters."""

import gc
import json
import weakref

import minuet
import numpy as np
import oracle
import pytest

CHANNELS = [8, 8, 16, 16, 16, 16, 16, 8, 8]


@pytest.fixture
def cloud(generator):
    return oracle.make_cloud(generator, 300)


@pytest.fixture
def features(generator):
    return generator.normal(size=(300, 4)).astype(np.float32)


@pytest.fixture(scope="session")
def network(context, device):
    plan = minuet.Plan.network(context, "minkunet42", channels=CHANNELS, seed=3)
    plan.load(device)
    return plan


def run(device, execution, cloud, features):
    execution.prepare(device.to_device(cloud))
    return device.to_host(execution.run(device.to_device(features)))


def test_shipped_networks():
    networks = {network.name: network for network in minuet.shipped_networks()}
    assert "minkunet42" in networks
    assert json.loads(networks["minkunet42"].description)["name"] == "minkunet42"
    assert len(networks["voxel_backbone_8x"].voxel_size) == 3
    assert networks["sparseresnet21d"].weights_map is None


def test_info(network):
    info = network.info
    assert (info.name, info.dtype, info.ndim, info.in_channels, info.inputs, info.maps) == (
        "minkunet42",
        minuet.DType.FLOAT32,
        3,
        4,
        1,
        0,
    )
    assert network.inputs[0].shape == (-1, 4)
    assert network.outputs[0].dtype == "float32"
    assert len(network.parameters) == info.parameter_tensors
    assert network.parameters[0].shape
    assert json.loads(network.description)


def test_errors(context, tmp_path):
    with pytest.raises(LookupError) as caught:
        minuet.Plan.network(context, "alexnet")
    assert "minkunet42" in str(caught.value)
    assert isinstance(caught.value, minuet.NotFoundError)
    with pytest.raises(minuet.InvalidArgumentError, match=r"layers\[0\]"):
        minuet.Plan.network(
            context,
            description={"name": "x", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [{"op": "teleport"}]},
        )
    with pytest.raises(minuet.NotFoundError):
        minuet.Plan.network(context, "minkunet42", weights=tmp_path / "none.safetensors")
    with pytest.raises(TypeError, match=r"Plan\.network"):
        minuet.Plan()


def test_layers_and_levels(device, network, cloud, features):
    execution = minuet.Execution(network, device)
    assert execution.levels[0].voxels == 0
    run(device, execution, cloud, features)
    levels = execution.levels
    assert levels[0].voxels == 300
    assert levels[1].voxels == len(oracle.downsample(cloud, 2))
    assert levels[1].tensor_stride[:3] == (2, 2, 2)
    layers = execution.layers
    assert len(layers) == network.info.layers
    assert layers[0].in_channels == 4
    assert layers[0].pairs > 300
    assert execution.find_overflow() is None
    assert execution.info.has_capacities is False
    counters = execution.counters
    assert counters.workspace_bytes > 0
    execution.reset_counters()
    assert execution.counters.host_syncs == 0
    with pytest.raises(minuet.FailedPreconditionError):
        execution.stages()
    execution.set_profiling(True)
    run(device, execution, cloud, features)
    assert sum(vars(execution.stages()).values()) > 0


def test_find_overflow(device, context, cloud):
    plan = minuet.Plan.network(context, "minkunet42", channels=CHANNELS, dtype="float16")
    plan.load(device)
    execution = minuet.Execution(plan, device)
    run(device, execution, cloud, np.full((300, 4), 6e4, np.float16))
    layer = execution.find_overflow()
    assert layer is not None
    assert execution.layers[layer].name


def test_parameters(device, context, network, cloud, features):
    """Values that are set give the bits of a plan that was made with them."""
    source = minuet.Parameters(network, device, master=True)
    infos = network.parameters
    generator = np.random.default_rng(5)
    values = {info.name: np.abs(generator.normal(size=info.shape)).astype(np.float32) for info in infos}
    empty = minuet.Plan.network(context, "minkunet42", channels=CHANNELS, without_values=True)
    empty.load(device)
    with pytest.raises(minuet.FailedPreconditionError):
        minuet.Execution(empty, device)
    parameters = minuet.Parameters(empty, device, master=True)
    execution = minuet.Execution(empty, device, parameters=parameters)
    execution.prepare(device.to_device(cloud))
    with pytest.raises(minuet.FailedPreconditionError, match=infos[0].name):
        execution.run(device.to_device(features))

    half = len(infos) // 2
    parameters.set({info.name: values[info.name] for info in infos[:half]})
    parameters.set({number: device.to_device(values[infos[number].name]) for number in range(half, len(infos))})
    output = run(device, execution, cloud, features)
    for info in infos[:3]:
        np.testing.assert_array_equal(device.to_host(parameters.get(info.name)), values[info.name])
        assert device.to_host(parameters.get(info.name, dtype="float16")).dtype == np.float16

    source.set(values)
    expected = run(device, minuet.Execution(network, device, parameters=source), cloud, features)
    np.testing.assert_array_equal(output, expected)
    with_inputs = minuet.Execution(empty, device, parameter_inputs=True)
    with_inputs.prepare(device.to_device(cloud))
    given = [device.to_device(values[info.name]) for info in infos]
    np.testing.assert_array_equal(device.to_host(with_inputs.run(device.to_device(features), *given)), expected)
    parameters.release_captures()


def test_parameters_as_bits(device, context):
    """bfloat16 values of parameters as uint16, in and out."""
    plan = minuet.Plan.convolution(context, in_channels=4, out_channels=8)
    plan.load(device)
    parameters = minuet.Parameters(plan, device)
    values = np.arange(32, dtype=np.float32).reshape(1, 4, 8)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    parameters.set({"weight": bits})
    np.testing.assert_array_equal(device.to_host(parameters.get("weight")), values)
    out = np.zeros((1, 4, 8), np.uint16)
    assert parameters.get("weight", out=out) is out
    np.testing.assert_array_equal(out, bits)


def test_wrong_parameters(device, network):
    parameters = minuet.Parameters(network, device)
    info = network.parameters[0]
    with pytest.raises(KeyError, match="no parameter 'weights'"):
        parameters.set({"weights": np.zeros(3)})
    with pytest.raises(IndexError, match="no parameter 9999"):
        parameters.set({9999: np.zeros(3)})
    with pytest.raises(minuet.InvalidArgumentError, match=info.name):
        parameters.set({info.name: np.zeros((1, *info.shape), np.float32)})
    with pytest.raises(minuet.InvalidArgumentError):
        parameters.set({info.name: np.zeros(info.shape, np.int32)})
    with pytest.raises(minuet.FailedPreconditionError):
        parameters.get(info.name)
    with pytest.raises(ValueError, match="out has the shape"):
        parameters.get(info.name, out=np.zeros(3, np.float32))


def test_a_network_without_parameters(device, context, cloud, features):
    """It has all of its values, however it was made."""
    pooling = {"op": "max_pool", "name": "pool", "kernel_size": 3}
    network = {"name": "n", "ndim": 3, "in_channels": 4, "layers": [pooling]}
    made = minuet.Plan.network(context, description=network)
    empty = minuet.Plan.network(context, description=network, without_values=True)
    assert empty.info.parameter_tensors == 0
    copy = minuet.Plan.deserialize(context, empty.serialize([], with_values=True))
    results = []
    for plan in (made, empty, copy):
        plan.load(device)
        results.append(run(device, minuet.Execution(plan, device), cloud, features).copy())
    assert results[0].any()
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_convolution_without_values(device, context, generator):
    cloud = oracle.make_cloud(generator, 40)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    kernel_map = minuet.KernelMap(coordinates, coordinates, 3)
    weight = generator.normal(size=(27, 4, 8)).astype(np.float32)
    scale, shift = generator.normal(size=(2, 8)).astype(np.float32)
    x = device.to_device(generator.normal(size=(40, 4)).astype(np.float32))
    full = minuet.Plan.convolution(context, weight, kernel_size=3, submanifold=True, scale=scale, shift=shift)
    bare = minuet.Plan.convolution(
        context, kernel_size=3, submanifold=True, in_channels=4, out_channels=8, with_scale_and_shift=True
    )
    assert [info.name for info in bare.parameters] == ["weight", "scale", "shift"]
    results = []
    for plan in (full, bare):
        plan.load(device)
        parameters = None
        if plan is bare:
            parameters = minuet.Parameters(plan, device)
            parameters.set({"weight": weight, "scale": scale, "shift": shift})
        execution = minuet.Execution(plan, device, parameters=parameters)
        execution.prepare_maps(kernel_map)
        results.append(device.to_host(execution.run(x)))
    np.testing.assert_array_equal(results[0], results[1])


def test_capacity_mode(device, context, network, cloud, features):
    fused = minuet.Plan.network(context, "minkunet42", channels=CHANNELS, seed=3, dataflow="fused")
    fused.load(device)
    exact = minuet.Execution(fused, device)
    expected = run(device, exact, cloud, features)
    capacities = exact.suggest_capacities(1.25)
    assert all(capacity >= level.voxels for capacity, level in zip(capacities, exact.levels, strict=True))
    execution = minuet.Execution(fused, device, level_capacity=capacities)
    assert execution.info.has_capacities
    size = minuet.workspace_bytes(fused, device.arch, level_capacity=capacities)
    assert size == execution.info.workspace_bytes

    rows = capacities[0]
    padded_features = np.full((rows, 4), np.nan, np.float32)
    padded_features[:300] = features
    padded_cloud = np.zeros((rows, 4), np.int32)
    padded_cloud[:300] = cloud
    count = device.to_device(np.array([300], np.int32))
    execution.prepare_on_device(device.to_device(padded_cloud), count)
    output = device.to_host(execution.run(device.to_device(padded_features)))
    assert output.shape == (rows, expected.shape[1])
    np.testing.assert_allclose(output[:300], expected, rtol=1e-3, atol=1e-4)
    assert (output[300:] == 0).all()
    found = execution.read_cloud()
    assert (found.status, found.coordinates) == (0, 300)
    assert found.voxels == tuple(level.voxels for level in exact.levels)
    status = device.to_device(np.full(1, -1, np.int32))
    counts = device.to_device(np.full(1 + len(capacities), -1, np.int32))
    execution.copy_cloud(status, counts)
    device.synchronize()
    assert device.to_host(status)[0] == 0
    assert tuple(device.to_host(counts)) == (300, *found.voxels)
    assert all(execution.cloud_addresses())

    execution.prepare(device.to_device(np.repeat(cloud[:1], 2, 0)))
    output = device.to_host(execution.run(device.to_device(padded_features)))
    assert (output == 0).all()
    assert minuet.CloudStatus.DUPLICATE in execution.read_cloud().status


def test_workspace(device, network, cloud, features):
    needed = minuet.workspace_bytes(network, device.arch, max_points=300, max_neighbours=27)
    memory = device.empty(needed, "uint8")
    execution = minuet.Execution(network, device, workspace=memory)
    expected = run(device, execution, cloud, features)
    other = minuet.Execution(network, device, defer_workspace=True)
    with pytest.raises(minuet.FailedPreconditionError):
        other.prepare(device.to_device(cloud))
    other.set_workspace(device.empty(needed, "uint8"))
    np.testing.assert_array_equal(run(device, other, cloud, features), expected)
    with pytest.raises(MemoryError, match="4096 bytes"):
        run(device, minuet.Execution(network, device, workspace=device.empty(4096, "uint8")), cloud, features)
    with pytest.raises(minuet.FailedPreconditionError):
        minuet.workspace_bytes(
            minuet.Plan.network(network.context, "minkunet42"), "sm_90a", max_points=1, max_neighbours=1
        )


@pytest.mark.parametrize("way", ["made", "set"])
def test_a_workspace_lives_until_the_execution_is_destroyed(device, network, way):
    """An execution that goes while it is in a call is destroyed at the end of that, and its memory stays until then."""
    memory = device.empty(minuet.workspace_bytes(network, device.arch, max_points=300, max_neighbours=27), "uint8")
    if way == "made":
        execution = minuet.Execution(network, device, workspace=memory)
    else:
        execution = minuet.Execution(network, device, defer_workspace=True)
        execution.set_workspace(memory)
    there, cell = weakref.ref(memory), execution._cell
    execution._acquire()
    execution.close()
    del execution, memory
    gc.collect()
    assert there() is not None
    cell.release()
    del cell
    gc.collect()
    assert there() is None


@pytest.mark.parametrize(
    "levels, options, message",
    [
        ([minuet.Level(4096)], {"level_capacity": [4]}, "level_capacity is of a network"),
        ([minuet.Level(8)], {"keep_coordinates": [1]}, "keep_coordinates has 1, and the pyramid has levels 0 to 0"),
        ([minuet.Level(8)], {"keep_coordinates": [33]}, "keep_coordinates has 33"),
        ([minuet.Level(8)], {"keep_coordinates": [-1]}, "keep_coordinates has -1"),
        ([minuet.Level(8), minuet.Level(8, parent=2**32)], {}, "parent is 4294967296"),
        ([minuet.Level(8)], {"network": True, "level_capacity": [8] * 5}, "levels and maps of its own"),
    ],
)
def test_wrong_pyramids(context, network, levels, options, message):
    if "network" in options:
        options = {**options, "network": network}
    with pytest.raises(ValueError, match=message):
        minuet.Pyramid(context, levels, **options)


def test_wrong_capacities(device, network):
    with pytest.raises(ValueError, match=r"level_capacity\[1\] is 9223372036854775808"):
        minuet.Execution(network, device, level_capacity=[1, 2**63])
    with pytest.raises(ValueError, match=r"channels\[0\] is 4294967304"):
        minuet.Plan.network(network.context, "minkunet42", channels=[2**32 + 8] * 9)


def test_pyramid_of_a_network(device, context, cloud, features):
    plan = minuet.Plan.network(context, "minkunet42", channels=CHANNELS, seed=3, dataflow="fused")
    plan.load(device)
    capacities = [400] * plan.info.levels
    pyramid = minuet.Pyramid(context, network=plan, level_capacity=capacities, keep_coordinates=[1])
    pyramid.load(device)
    pyramid.load_run(plan, device)
    assert min(pyramid.bytes(device.arch)) > 0
    counts = device.to_device(np.zeros(1 + len(capacities), np.int32))
    status = device.to_device(np.full(1, -1, np.int32))
    buffer = pyramid.build(device, device.to_device(cloud), counts=counts, status=status)
    padded = np.full((400, 4), np.nan, np.float32)
    padded[:300] = features
    output = device.to_host(pyramid.run(plan, device, buffer, device.to_device(padded)))
    assert device.to_host(status)[0] == 0
    assert device.to_host(counts)[0] == 300
    execution = minuet.Execution(plan, device, level_capacity=capacities)
    execution.prepare(device.to_device(cloud))
    expected = device.to_host(execution.run(device.to_device(padded)))
    np.testing.assert_array_equal(output, expected)
    level = device.to_host(pyramid.coordinates(device, buffer, 1))
    coarse = oracle.downsample(cloud, 2)
    assert set(map(tuple, level[: len(coarse)].tolist())) == coarse
    source, target = (device.to_host(rows)[:300] for rows in pyramid.rows(device, buffer))
    np.testing.assert_array_equal(target[source], np.arange(300))


def test_prepared_parameters(device, context, cloud, features, generator):
    """They give the bits of Parameters, in new memory and in the caller's."""
    options = {"channels": CHANNELS, "dataflow": "fused", "without_values": True}
    plan = minuet.Plan.network(context, "minkunet42", **options)
    plan.load(device)
    pyramid = minuet.Pyramid(context, network=plan, level_capacity=[300] * plan.info.levels)
    pyramid.load(device)
    buffer, x = pyramid.build(device, device.to_device(cloud)), device.to_device(features)
    given = {}
    for item in plan.parameters:
        value = generator.normal(size=item.shape).astype(np.float32) / 4
        given[item.name] = abs(value) + 1 if item.name.endswith("running_var") else value
    values = minuet.Parameters(plan, device)
    values.set(given)
    expected = device.to_host(pyramid.run(plan, device, buffer, x, parameters=values))
    on_device = {name: device.to_device(value) for name, value in given.items()}
    size = pyramid.prepared_bytes(plan, device.arch)
    own = device.to_device(np.full(size, 255, np.uint8))
    assert pyramid.prepare(plan, device, on_device, order="minuet", out=own) is own
    for prepared in (own, pyramid.prepare(plan, device, on_device)):
        result = device.to_host(pyramid.run(plan, device, buffer, x, prepared=prepared))
        np.testing.assert_array_equal(result, expected)
    first = next(iter(given))
    with pytest.raises(ValueError, match=f"parameters without a value: {first}"):
        pyramid.prepare(plan, device, {name: value for name, value in on_device.items() if name != first})
    with pytest.raises(minuet.InvalidArgumentError, match="choose one of them"):
        pyramid.run(plan, device, buffer, x, prepared=own, parameters=values)
    with pytest.raises(minuet.ResourceExhaustedError, match="prepared has"):
        pyramid.prepare(plan, device, on_device, out=device.empty(size - 1, "uint8"))


def test_pyramid_of_single_ops(device, context, generator):
    cloud = oracle.make_cloud(generator, 60)
    x = generator.normal(size=(64, 8)).astype(np.float32)
    weight = generator.normal(size=(8, 8, 8)).astype(np.float32)
    plan = minuet.Plan.convolution(context, weight, kernel_size=2, stride=2, dataflow="fused")
    plan.load(device)
    pyramid = minuet.Pyramid(
        context,
        [minuet.Level(64), minuet.Level(64, parent=0, stride=2)],
        [minuet.Map(0, 1, 2, purposes=minuet.Purpose.CONVOLUTION | minuet.Purpose.EXPORT)],
        keep_coordinates=[1],
    )
    pyramid.load(device)
    count = device.to_device(np.array([60], np.int32))
    padded = device.to_device(np.concatenate([cloud, np.zeros((4, 4), np.int32)]))
    buffer = pyramid.build(device, padded, count)
    with pytest.raises(ValueError, match="output_rows"):
        pyramid.run(plan, device, buffer, device.to_device(x))
    output = device.to_host(pyramid.run(plan, device, buffer, device.to_device(x), output_rows=64))
    pairs, number = pyramid.export_pairs(device, buffer, 0, 100)
    number = int(device.to_host(number)[0])
    pairs = device.to_host(pairs)[:number]
    coarse = device.to_host(pyramid.coordinates(device, buffer, 1))
    expected_pairs = oracle.pairs_of(cloud, coarse[: len(oracle.downsample(cloud, 2))], (2, 2, 2), (1, 1, 1))
    assert sorted(map(tuple, pairs.tolist())) == [tuple(pair) for pair in expected_pairs.tolist()]
    expected, magnitude = oracle.convolve(expected_pairs, x, weight, 64)
    oracle.expect_close(output, expected, magnitude, "float32")


def test_serialized_plans(device, context, network, cloud, features):
    data = network.serialize()
    assert data == network.serialize()
    again = minuet.Plan.deserialize(context, data)
    again.load(device)
    assert again.info == network.info
    expected = run(device, minuet.Execution(network, device), cloud, features)
    np.testing.assert_array_equal(run(device, minuet.Execution(again, device), cloud, features), expected)
    assert len(network.serialize(with_values=False)) < len(data) / 4
    with pytest.raises(minuet.InvalidArgumentError):
        minuet.Plan.deserialize(context, data[:-1])


def test_dense_output(device, context, generator):
    """A bird's-eye output: rank 4, the batch declared, zeros where there is no voxel."""
    plan = minuet.Plan.network(context, "voxel_backbone_8x", shape=[32, 32, 41])
    plan.load(device)
    info = plan.outputs[0]
    assert len(info.shape) == 4
    points = np.unique(generator.integers(0, (1, 32, 32, 41), (200, 4)), axis=0).astype(np.int32)
    execution = minuet.Execution(plan, device, batch_size=2)
    execution.prepare(device.to_device(points))
    x = generator.normal(size=(len(points), info.channels and plan.info.in_channels)).astype(np.float32)
    output = device.to_host(execution.run(device.to_device(x)))
    assert output.shape == (2, *info.shape[1:])
    assert (output[1] == 0).all()
    assert np.isfinite(output).all()


def test_outputs_that_lack_axes(context, device, generator):
    plan = minuet.Plan.network(
        context,
        description={
            "name": "axes",
            "ndim": 3,
            "in_channels": 4,
            "shape": 9,
            "outputs": ["flat", "items"],
            "layers": [
                {"op": "collapse", "name": "a", "axis": 1, "output": "flat"},
                {"op": "global_pool", "name": "b", "input": "input", "reduction": "average", "output": "items"},
            ],
        },
    )
    plan.load(device)
    assert [output.axes for output in plan.outputs] == [(0, 2), ()]
    cells = np.unique(generator.integers(0, 9, (60, 4), dtype=np.int32) % [2, 9, 9, 9], axis=0).astype(np.int32)
    features = generator.normal(size=(len(cells), 4)).astype(np.float32)
    execution = minuet.Execution(plan, device, batch_size=3)
    execution.prepare(device.to_device(cells))
    flat, items = (device.to_host(output) for output in execution.run(device.to_device(features)))
    assert [level.ndim for level in execution.levels] == [3, 2, 0]
    places = device.to_host(execution.output_coordinates(0))
    assert places.shape == (len(flat), 3)
    for place, row in zip(places, flat, strict=True):
        column = (cells[:, [0, 1, 3]] == place).all(axis=1)
        np.testing.assert_allclose(row, features[column].sum(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(device.to_host(execution.output_coordinates(1)), [[0], [1], [2]])
    for item in range(2):
        np.testing.assert_allclose(items[item], features[cells[:, 0] == item].mean(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(items[2], np.zeros(4))
