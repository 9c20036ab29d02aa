"""Networks of 8 bits: ranges from clouds, the description, and the results beside those of the floating network."""

import json
import math
import subprocess

import minuet
import numpy as np
import oracle
import pytest
from conftest import BUILD
from minuet._magnitudes import Difference, Magnitudes

CHANNELS = [8, 16, 16, 16, 16, 16, 16, 16, 16]
NETWORK = {
    "name": "net", "ndim": 3, "in_channels": 4,
    "layers": [
        {"op": "block", "name": "stem", "out_channels": 16, "kernel_size": 3, "output": "x"},
        {"op": "block", "name": "down", "out_channels": 32, "kernel_size": 2, "stride": 2},
        {"op": "residual", "name": "r", "out_channels": 32},
        {"op": "residual", "name": "s", "out_channels": 16},
        {"op": "up", "name": "up", "out_channels": 16, "kernel_size": 2, "stride": 2, "onto": "x"},
        {"op": "concat", "with": "x"},
        {"op": "max_pool", "name": "pool", "kernel_size": 3},
        {"op": "block", "name": "last", "out_channels": 16, "kernel_size": 3, "activation": "none"},
        {"op": "linear", "name": "head", "out_channels": 8},
    ],
}  # fmt: skip


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


def quantize_net(context, device, clouds, **options):
    return minuet.quantize(context, device, clouds, description=NETWORK, seed=0, **options)


def by_name(quantized):
    return {layer.name: layer for layer in quantized.layers}


def test_ranges_follow_the_calibration(context, cpu, clouds):
    network = {"channels": CHANNELS, "seed": 3}
    largest, most, least = (
        minuet.quantize(context, cpu, clouds, "minkunet42", **options, **network).layers
        for options in ({"calibration": "max"}, {"percentile": 95}, {"calibration": "mse"})
    )
    for one, other, third in zip(largest, most, least, strict=True):
        assert 0 < other.range < one.range
        assert 0 < third.range <= one.range
    same = minuet.quantize(context, cpu, clouds, "minkunet42", calibration="percentile", percentile=100, **network)
    assert same.layers == largest
    usual = minuet.quantize(context, cpu, clouds, "minkunet42", calibration="percentile", **network)
    assert usual == minuet.quantize(context, cpu, clouds, "minkunet42", percentile=99.99, **network)


def test_errors_are_measured_where_asked(context, device, clouds):
    plain = quantize_net(context, device, clouds)
    assert plain.relative_error is None and plain.report is None
    assert all(layer.own_error is layer.relative_error is layer.cosine is None for layer in plain.layers)
    compared = quantize_net(context, device, clouds, compare=True)
    assert compared.description == plain.description
    # The error is that of runs of both networks.
    error = norm = 0.0
    for cloud in clouds:
        wanted = run(context, device, cloud, description=NETWORK, seed=0)
        given = run(context, device, cloud, description=compared.description, seed=0)
        error += float(np.square(given.astype(np.float64) - wanted).sum())
        norm += float(np.square(wanted.astype(np.float64)).sum())
    assert compared.relative_error == pytest.approx(math.sqrt(error / norm), rel=1e-4)
    layers = by_name(compared)
    # A kernel that stores 8-bit numbers, too, may add in another order.
    assert layers["stem"].relative_error < 1e-5 and layers["stem"].cosine == pytest.approx(1)
    assert all(0 < layer.relative_error < 0.2 and layer.cosine > 0.98 for layer in compared.layers[1:])
    assert all(layer.own_error is None for layer in compared.layers)
    report = compared.report
    assert (report["network"], report["clouds"], report["networks_run"]) == ("net", ["300 voxels", "200 voxels"], 4)
    assert report["relative_error"] == compared.relative_error
    assert [row["relative_error"] for row in report["layers"]] == [layer.relative_error for layer in compared.layers]


def test_a_budget_leaves_the_worst_layers_floating(context, device, clouds):
    whole = quantize_net(context, device, clouds, compare=True)
    # A budget that is large enough changes nothing, and measures nothing else.
    same = quantize_net(context, device, clouds, error_budget=2 * whole.relative_error)
    assert same.description == whole.description and same.report is None
    assert same.relative_error == whole.relative_error
    assert all(layer.own_error is None for layer in same.layers)
    budget = whole.relative_error / 2
    some = quantize_net(context, device, clouds, error_budget=budget, floating=["last"])
    assert some.relative_error <= budget
    able = [layer for layer in some.layers if layer.name not in ("stem", "last")]
    left, kept = ([layer for layer in able if layer.is_int8 == is_int8] for is_int8 in (False, True))
    assert left and kept
    assert min(layer.own_error for layer in left) >= max(layer.own_error for layer in kept)
    assert all(layer.reason == "" for layer in kept)
    assert all("error_budget leaves such convolutions floating" in layer.reason for layer in left)
    assert by_name(some)["last"].reason == "floating names it"
    assert by_name(some)["stem"].own_error is by_name(some)["last"].own_error is None


def test_a_budget_that_nothing_keeps(context, cpu, clouds, monkeypatch):
    """All networks seem to have the error 0.5, so that none keeps the budget."""
    monkeypatch.setattr(Difference, "relative", 0.5)
    with pytest.raises(
        ValueError, match=r"the outputs is 0\.5, which is above error_budget 0\.1 even if all convolutions"
    ):
        quantize_net(context, cpu, clouds, error_budget=0.1)


def test_outputs_with_other_rows_have_no_error(context, device):
    """The signs of this network's scores choose the voxels of its outputs, and 8 bits change some of them."""
    generator = np.random.default_rng(0)
    clouds = [(oracle.make_cloud(generator, 300), generator.normal(size=(300, 4)).astype(np.float32))]
    network = {"channels": [8, 8, 8, 16, 16, 16, 8, 8, 16, 16, 8], "in_channels": 4, "seed": 3}
    quantized = minuet.quantize(context, device, clouds, "shape_autoencoder", compare=True, **network)
    assert quantized.relative_error == math.inf and quantized.report["relative_error"] is None
    assert "because the network chooses voxels by scores: no error" in quantized.report["notes"][0]
    assert by_name(quantized)["decoder.output"].relative_error == math.inf
    assert math.isnan(by_name(quantized)["decoder.output"].cosine)
    assert 0 < by_name(quantized)["decoder.input"].relative_error < 1
    json.dumps(quantized.report, allow_nan=False)


def test_outputs_of_integers_and_of_layers(context, device, clouds):
    """Integers have no error, and a network may give the result of a layer by itself."""
    description = {
        "name": "labels", "ndim": 3, "in_channels": 4, "outputs": ["layer:b", "labels", "scores"],
        "layers": [
            *({"op": "block", "name": name, "out_channels": 8, "kernel_size": 3} for name in "ab"),
            {"op": "linear", "name": "c", "out_channels": 5, "output": "scores"},
            {"op": "argmax", "output": "labels"},
        ],
    }  # fmt: skip
    quantized = minuet.quantize(context, device, clouds, description=description, compare=True)
    assert [output["name"] for output in quantized.report["outputs"]] == ["layer:b", "scores"]
    assert 0 < quantized.relative_error < 0.2


@pytest.fixture
def files(tmp_path, generator):
    """Files of points, one in the middle of each voxel, so that the tool makes these voxels, and their clouds."""
    paths, clouds = [], []
    for number in range(2):
        coordinates = oracle.make_cloud(generator, 400 - 100 * number, 16, 1)
        points = np.empty((len(coordinates), 4), np.float32)
        points[:, :3] = (coordinates[:, 1:] - coordinates[:, 1:].min(0) + 0.5) * 0.1
        points[:, 3] = generator.uniform(0, 1, len(points))
        coordinates[:, 1:] = np.floor(points[:, :3] / np.float32(0.1))
        paths.append(tmp_path / f"{number}.bin")
        paths[-1].write_bytes(points.tobytes())
        clouds.append((coordinates, points))
    return paths, clouds


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("calibration", ["max", "percentile", "mse"])
def test_the_tool_finds_the_same(context, cpu, tmp_path, files, calibration, dtype):
    paths, clouds = files
    percentile = 98 if calibration == "percentile" else None
    network = tmp_path / "net.json"
    network.write_text(json.dumps(NETWORK))
    arguments = ["--random-weights", "--clouds", ",".join(map(str, paths)), "--output", tmp_path / "q.json"]
    arguments += ["--json", tmp_path / "tool.json", "--calibration", calibration, "--device", "cpu"]
    arguments += ["--dtype", {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[dtype]]
    arguments += ["--percentile", "98"] if percentile else []
    arguments += ["--error-budget", "0.008", "--float", "r.conv1"]
    arguments += ["--cache", context.cache_directory or tmp_path]
    done = subprocess.run([BUILD / "bin/minuet", "quantize", network, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    given = [
        (coordinates, features if dtype == "float32" else oracle.encode(features, dtype))
        for coordinates, features in clouds
    ]
    quantized = quantize_net(
        context, cpu, given, calibration=calibration, percentile=percentile, dtype=dtype, compare=True,
        error_budget=0.008, floating=["r.conv1"],
    )  # fmt: skip
    assert json.loads(quantized.description) == json.loads((tmp_path / "q.json").read_text())
    tool, report = json.loads((tmp_path / "tool.json").read_text()), quantized.report
    for row in tool["layers"]:
        if "reason" in row:
            row["reason"] = row["reason"].replace("--float", "floating").replace("--error-budget", "error_budget")
    assert [row["range"] for row in tool["layers"]] == [row["range"] for row in report["layers"]]
    assert set(tool) - set(report) == {"run"}
    for each in (tool, report):
        for key in ("network", "clouds", "version", "networks_run", "run"):
            each.pop(key, None)
    assert is_same(tool, report)
    assert any("own_error" in row for row in report["layers"])


def is_same(one, other):
    """Whether values of JSON are the same but for the rounding of sums."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == (pytest.approx(other, rel=1e-6) if isinstance(other, float) else other)


def test_a_page_of_the_report(context, cpu, clouds, tmp_path):
    folder, page = tmp_path / "results", tmp_path / "page.html"
    folder.mkdir()
    quantized = quantize_net(context, cpu, clouds, compare=True)
    (folder / "net.json").write_text(json.dumps(quantized.report))
    done = subprocess.run([BUILD / "bin/minuet", "report", folder, "--output", page], capture_output=True, text=True)
    if "install it (apt-get install libjs-d3" in done.stderr:
        pytest.skip("this minuet was built without libjs-d3")
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "net in 8 bits" in text and "Cosine by layer" in text and "300 voxels" in text


def test_magnitudes():
    """The first numbers decide the width of the bins, and later ones double it."""
    numbers = Magnitudes()
    assert numbers.add(np.zeros(4, np.float32)) and numbers.range("mse", 100) == 0
    assert numbers.add(np.linspace(0, 1, 1001, dtype=np.float32)) and numbers.add(np.float32([-6, 5]))
    assert numbers.range("max", 100) == numbers.range("percentile", 100) == 6
    assert numbers.range("percentile", 50) == pytest.approx(0.5, abs=8 / 4096 + 0.01)
    assert 0 < numbers.range("percentile", 1e-9) <= 8 / 4096
    assert not numbers.add(np.float32([np.nan])) and not numbers.add(np.float32([np.inf]))
    assert numbers.range("max", 100) == 6
    # Rare large numbers cost less where they are limited than finer steps gain.
    many = Magnitudes()
    many.add(np.append(np.tile(np.linspace(0, 1, 1000, dtype=np.float32), 1000), np.float32(1.5)))
    assert 1 <= many.range("mse", 100) < 1.5


def test_differences():
    difference = Difference()
    assert (difference.relative, difference.cosine) == (0, 1)
    difference.add(np.float32([3, 0]), np.float32([3, 4]))
    assert difference.relative == pytest.approx(4 / 3) and difference.cosine == pytest.approx(0.6)
    difference.add(np.float32([1]), np.float32([1, 2]))
    assert difference.relative == math.inf and math.isnan(difference.cosine)
    zero = Difference()
    zero.add(np.float32([0]), np.float32([1]))
    assert (zero.relative, zero.cosine) == (math.inf, 1)


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
    assert [layer.reason for layer in minuet.with_ranges(plan, {"a": 2.0, "b": 1.0}, ["b"]).layers][
        1
    ] == "floating names it"
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
    with pytest.raises(ValueError, match="calibration is 'mean': use one of max, percentile, mse"):
        minuet.quantize(context, device, clouds, "minkunet42", channels=CHANNELS, calibration="mean")
    with pytest.raises(ValueError, match="percentile is given, and calibration is 'mse'"):
        minuet.quantize(context, device, clouds, "minkunet42", channels=CHANNELS, calibration="mse", percentile=99)
    for budget in (-1, math.inf, math.nan):
        with pytest.raises(ValueError, match="it must be finite and at least 0"):
            minuet.quantize(context, device, clouds, "minkunet42", channels=CHANNELS, error_budget=budget)
    with pytest.raises(TypeError, match=r"give a list of names, \['stem.0'\]"):
        minuet.quantize(context, device, clouds, "minkunet42", channels=CHANNELS, floating="stem.0")
    wild = [(clouds[0][0], clouds[0][1].copy())]
    wild[0][1][0, 0] = np.inf
    with pytest.raises(ValueError, match="is infinite or NaN on cloud 0"):
        minuet.quantize(context, device, wild, "minkunet42", channels=CHANNELS, percentile=50)
    huge = [(clouds[0][0], clouds[0][1] * np.float32(1e32))]
    with pytest.raises(ValueError, match=r"the result of stem\.0 has the range .*, but ranges are at most"):
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
