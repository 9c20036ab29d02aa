"""Networks of 8 bits: ranges from clouds, the description, and the results beside those of the floating network."""

import json

import minuet
import numpy as np
import oracle
import pytest

CHANNELS = [8, 16, 16, 16, 16, 16, 16, 16, 16]


@pytest.fixture
def clouds(generator):
    return [
        (oracle.make_cloud(generator, count), generator.normal(size=(count, 4)).astype(np.float32))
        for count in (300, 200)
    ]


def run(context, device, cloud, **network):
    plan = minuet.Plan.network(context, **network)
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare(device.to_device(cloud[0]))
    return device.to_host(execution.run(device.to_device(cloud[1])))


def relative_error(wanted, given):
    return float(np.linalg.norm(given - wanted) / np.linalg.norm(wanted))


def test_a_network_of_eight_bits(context, device, clouds):
    quantized = minuet.quantize(context, device, clouds, "minkunet42", channels=CHANNELS, seed=3)
    layers = {layer.name: layer for layer in quantized.layers}
    assert not layers["stem.0"].is_int8, "it reads the network's input"
    assert layers["stem.1"].is_int8
    assert layers["decoder.3.residual.0.shortcut"].is_int8
    assert all(layer.range > 0 for layer in quantized.layers)
    described = {layer["name"]: layer for layer in json.loads(quantized.description)["layers"] if "name" in layer}
    assert "precision" not in described["stem.0"]
    assert described["encoder.0.down"]["precision"] == "int8"
    assert "reads the network's input" in layers["stem.0"].reason
    assert layers["stem.1"].reason == ""
    wanted = run(context, device, clouds[0], name="minkunet42", channels=CHANNELS, seed=3)
    given = run(context, device, clouds[0], description=quantized.description, seed=3)
    assert 0 < relative_error(wanted, given) < 0.2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_other_dtypes_have_nearly_the_same_ranges(context, dtype, clouds):
    """Features and results of bfloat16 are numbers, also where numpy has only their bits."""
    device = minuet.Device(context, "cpu")
    network = {"channels": CHANNELS, "seed": 3}
    wanted = minuet.quantize(context, device, clouds, "minkunet42", dtype="float32", **network)
    narrow = [(coordinates, to_dtype(features, dtype)) for coordinates, features in clouds]
    given = minuet.quantize(context, device, narrow, "minkunet42", dtype=dtype, **network)
    for one, other in zip(wanted.layers, given.layers, strict=True):
        assert one.range == pytest.approx(other.range, rel=0.1)


def to_dtype(features, dtype):
    return features.astype(np.float16) if dtype == "float16" else (features.view(np.uint32) >> 16).astype(np.uint16)


def test_layers_stay_floating(context, device, clouds):
    names = ("stem.1", "encoder.0.residual.0.conv1")
    network = {"channels": CHANNELS, "seed": 3}
    quantized = minuet.quantize(context, device, clouds[:1], "minkunet42", floating=names, percentile=99, **network)
    layers = {layer.name: layer for layer in quantized.layers}
    assert not any(layers[name].is_int8 for name in names)
    assert layers["encoder.0.residual.1.conv2"].is_int8
    whole = minuet.quantize(context, device, clouds[:1], "minkunet42", **network)
    assert all(layers[layer.name].range <= layer.range for layer in whole.layers)
    wanted = run(context, device, clouds[0], name="minkunet42", **network)
    assert relative_error(wanted, run(context, device, clouds[0], description=quantized.description, seed=3)) < 0.3


def test_a_quantized_network_is_quantized_anew(context, device, clouds):
    network = {"channels": CHANNELS, "seed": 3}
    wanted = minuet.quantize(context, device, clouds, "minkunet42", **network)
    narrow = minuet.quantize(context, device, clouds, "minkunet42", percentile=60, **network)
    again = minuet.quantize(context, device, clouds, description=narrow.description, seed=3)
    assert narrow.description != wanted.description
    assert again == wanted


def test_ranges_of_the_caller(context):
    plan = minuet.Plan.network(
        context,
        description={
            "name": "two", "ndim": 3, "in_channels": 4,
            "layers": [{"op": "block", "name": name, "out_channels": 8, "kernel_size": 3} for name in "ab"],
        },
    )  # fmt: skip
    assert json.loads(minuet.observe(plan))["outputs"] == ["output", "layer:a", "layer:b"]
    quantized = minuet.with_ranges(plan, {"a": 2.0, "b": 0.0})
    assert [layer.is_int8 for layer in quantized.layers] == [False, True]
    assert json.loads(quantized.description)["layers"][0]["output_range"] == 2
    assert quantized.layers[0].reason == 'it reads the network\'s input "input", which has floating numbers'
    assert minuet.with_ranges(plan, {"a": 0.0, "b": 1.0}).layers[1].reason.endswith('which has no "output_range"')
    assert [layer.reason for layer in minuet.with_ranges(plan, {"a": 2.0, "b": 1.0}, ["b"]).layers][1] == ""
    made = minuet.Plan.network(context, description=quantized.description).info
    assert (made.convolutions, made.int8_convolutions) == (2, 1)


def test_mistakes(context, device, clouds):
    with pytest.raises(ValueError, match="clouds is empty"):
        minuet.quantize(context, device, [], "minkunet42", channels=CHANNELS)
    empty = [(np.zeros((0, 4), np.int32), np.zeros((0, 4), np.float32))]
    with pytest.raises(ValueError, match="no cloud has a voxel"):
        minuet.quantize(context, device, empty, "minkunet42", channels=CHANNELS)
    for percentile in (49, 101, float("nan")):
        with pytest.raises(ValueError, match="give one from 50 to 100"):
            minuet.quantize(context, device, clouds, "minkunet42", channels=CHANNELS, percentile=percentile)
    with pytest.raises(TypeError, match=r"give a list of names, \['stem.0'\]"):
        minuet.quantize(context, device, clouds, "minkunet42", channels=CHANNELS, floating="stem.0")
    wild = [(clouds[0][0], clouds[0][1].copy())]
    wild[0][1][0, 0] = np.inf
    with pytest.raises(ValueError, match="is infinite or NaN on cloud 0"):
        minuet.quantize(context, device, wild, "minkunet42", channels=CHANNELS, percentile=50)
    huge = [(clouds[0][0], clouds[0][1] * np.float32(1e32))]
    with pytest.raises(ValueError, match=r"the result of stem\.0 has the range .* on cloud 0, but ranges are at most"):
        minuet.quantize(context, device, huge, "minkunet42", channels=CHANNELS, dtype="float32")
    plan = minuet.Plan.network(context, "minkunet42", channels=CHANNELS)
    with pytest.raises(TypeError, match="give a list of names"):
        minuet.with_ranges(plan, {"stem.0": 1.0}, "stem.0")
    with pytest.raises(ValueError, match="floating names none, which ranges has not"):
        minuet.with_ranges(plan, {"stem.0": 1.0}, ["none"])
    with pytest.raises(minuet.InvalidArgumentError, match='no convolution "none"'):
        minuet.with_ranges(plan, {"none": 1.0})
    convolution = minuet.Plan.convolution(context, np.ones((1, 4, 4), np.float32), kernel_size=1, submanifold=True)
    with pytest.raises(minuet.InvalidArgumentError, match="a single op"):
        minuet.observe(convolution)
