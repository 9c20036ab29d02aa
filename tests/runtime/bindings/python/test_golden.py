"""The golden problems, computed in float64 by an independent program, and the same bits as from C and the tool."""

import json
import os
import subprocess

import minuet
import numpy as np
import oracle
import pytest
from conftest import BUILD, is_software, skip_or_fail

FOLDER = oracle.shared_folder() / "golden"
LAYERS = sorted(path.stem for path in FOLDER.glob("*.safetensors") if not path.stem.startswith("network_"))
TRANSPOSED = ("transposed", "inverse", "generative_transposed")


@pytest.fixture(autouse=True)
def golden():
    if not LAYERS:
        skip_or_fail("golden", f"no golden problems in '{FOLDER.parent}'; MINUET_SHARED names the folder")


def numbers(metadata, name):
    return json.loads(metadata[name]) if name in metadata else None


def sets_and_map(device, metadata, tensors):
    """Returns the kernel map of a problem, and the numbers of the expected output rows in ours."""
    ndim, kind = int(metadata["ndim"]), metadata["kind"]
    is_reached = metadata.get("output_rule") == "reached"
    is_transposed = kind in TRANSPOSED
    if metadata.get("kernel") == "custom":
        geometry = {"offsets": tensors["offsets"].tolist()}
        volume = len(geometry["offsets"])
    else:
        geometry = {name: numbers(metadata, name) for name in ("kernel_size", "dilation")}
        volume = np.prod(geometry["kernel_size"])
    padding = numbers(metadata, "padding") if is_reached else None
    tensor_stride = np.array(numbers(metadata, "fine_tensor_stride"))
    points = {name: device.to_device(tensors[f"{name}_coordinates"]) for name in ("in", "out")}
    fine_name, coarse_name = ("out", "in") if is_transposed else ("in", "out")
    strides = numbers(metadata, "stride") or [1] * ndim
    is_generative = kind == "generative_transposed"
    if not is_generative:
        fine = minuet.Coordinates(device, points[fine_name], tensor_stride=tensor_stride.tolist())
    if is_generative:
        coarse = minuet.Coordinates(device, points["in"], tensor_stride=(tensor_stride * strides).tolist())
        fine = coarse.generate(stride=strides, **geometry)
    elif metadata["submanifold"] == "true":
        coarse = fine
    elif metadata["given_outputs"] == "true" or (is_transposed and not is_reached):
        coarse = minuet.Coordinates(device, points[coarse_name], tensor_stride=(tensor_stride * strides).tolist())
    elif is_reached:
        shape = numbers(metadata, "out_spatial_shape") or 0
        coarse = fine.reach(stride=strides, padding=padding, shape=shape, **geometry)
    elif max(strides) > 1:
        coarse = fine.downsample(strides)
    else:
        coarse = fine
    forward = minuet.KernelMap(fine, coarse, **geometry, padding=padding)
    kernel_map = forward.transpose() if is_transposed else forward
    assert kernel_map.volume == volume
    order = {}
    for name, coordinates in ((fine_name, fine), (coarse_name, coarse)):
        rows = {tuple(point): row for row, point in enumerate(device.to_host(coordinates.export()).tolist())}
        order[name] = np.array([rows[tuple(point)] for point in tensors[f"{name}_coordinates"].tolist()], np.int64)
        assert len(rows) == len(order[name])
    assert ndim == fine.ndim
    return kernel_map, order


def make_plan(context, metadata, tensors, dtype="float32"):
    """Returns the plan of a problem, or skips the test of a kind that the library does not have."""
    kind, groups = metadata["kind"], int(metadata["groups"])
    is_custom = metadata.get("kernel") == "custom"
    geometry = {axis: numbers(metadata, axis) for axis in ("kernel_size", "stride", "dilation") if not is_custom}
    if is_custom:
        geometry["offsets"] = tensors["offsets"].tolist()
    common = {
        **geometry,
        "ndim": int(metadata["ndim"]),
        "submanifold": metadata["submanifold"] == "true",
        "transposed": kind in TRANSPOSED,
        "dtype": dtype,
    }
    if metadata.get("output_rule") == "reached":
        common["padding"] = numbers(metadata, "padding")
    if kind.endswith("_pool"):
        return minuet.Plan.pooling(context, tensors["in_features"].shape[1], kind[: -len("_pool")], **common)
    return minuet.Plan.convolution(context, tensors["weight"], groups=groups, **common)


@pytest.mark.parametrize("name", LAYERS)
def test_layer(cpu, context, name):
    metadata, tensors = oracle.read_safetensors(FOLDER / f"{name}.safetensors")
    kind, groups = metadata["kind"], int(metadata["groups"])
    plan = make_plan(context, metadata, tensors)
    plan.load(cpu)
    kernel_map, order = sets_and_map(cpu, metadata, tensors)
    execution = minuet.Execution(plan, cpu)
    execution.prepare_maps(kernel_map)

    given = np.empty_like(tensors["in_features"])
    given[order["in"]] = tensors["in_features"]
    ours = execution.run(given)
    actual = ours[order["out"]]
    pairs = tensors["pairs"]
    expected_pairs = pairs.copy()
    expected_pairs[:, 1] = order["in"][pairs[:, 1]]
    expected_pairs[:, 2] = order["out"][pairs[:, 2]]
    assert sorted(map(tuple, kernel_map.export().tolist())) == sorted(map(tuple, expected_pairs.tolist()))
    expected = tensors["out_features"]
    if kind.endswith("_pool"):
        magnitude = np.abs(expected) + 1
    else:
        weight = oracle.spread_groups(tensors["weight"], groups)
        _, magnitude = oracle.convolve(pairs, tensors["in_features"], weight, len(expected))
    oracle.expect_close(actual, expected, magnitude, "float32")


DTYPES = ("float32", "tf32", "float16", "bfloat16")  # by their numbers in C
REDUCTIONS = ("max_pool", "average_pool", "sum_pool")


def write_problem(folder, metadata, tensors, dtype, features):
    """Writes what golden_bits.c and golden_bits.cc read (golden_problem.h)."""
    kind, ndim = metadata["kind"], int(metadata["ndim"])
    transposed = kind in TRANSPOSED
    is_reached = metadata.get("output_rule") == "reached"
    strides = numbers(metadata, "stride") or [1] * ndim
    fine, coarse = ("out", "in") if transposed else ("in", "out")
    fine_stride = numbers(metadata, "fine_tensor_stride")
    if kind == "generative_transposed":
        coarse_is = 4
    elif metadata["submanifold"] == "true":
        coarse_is = 0
    elif metadata["given_outputs"] == "true" or (transposed and not is_reached):
        coarse_is = 1
    elif is_reached:
        coarse_is = 2
    else:
        coarse_is = 3 if max(strides) > 1 else 0
    is_pooling = kind in REDUCTIONS
    channels = tensors["in_features"].shape[1]
    weight = np.zeros(0, np.float32) if is_pooling else tensors["weight"].astype(np.float32)
    head = [
        ndim,
        DTYPES.index(dtype),
        REDUCTIONS.index(kind) if is_pooling else -1,
        channels,
        channels if is_pooling else tensors["out_features"].shape[1],
        int(metadata["groups"]),
        int(metadata["submanifold"] == "true"),
        int(transposed),
        int(is_reached),
        coarse_is,
        len(tensors[f"{fine}_coordinates"]),
        len(tensors[f"{coarse}_coordinates"]),
        weight.size,
    ]
    offsets = tensors["offsets"].ravel().tolist() if "offsets" in tensors else []
    head += [len(offsets) // ndim, *offsets] + [0] * (24 - len(offsets))
    nothing = [0] * ndim
    padding = numbers(metadata, "padding") if is_reached else nothing
    shape = (numbers(metadata, "out_spatial_shape") if is_reached else None) or nothing
    coarse_stride = [one * two for one, two in zip(fine_stride, strides, strict=True)]
    kernel_size, dilation = (numbers(metadata, name) or nothing for name in ("kernel_size", "dilation"))
    axes = [kernel_size, strides, dilation, padding, shape]
    for row in [*axes, fine_stride, coarse_stride]:
        head += row + [0] * (4 - ndim)
    contents = {
        "numbers": np.array(head, np.int32),
        "fine": tensors[f"{fine}_coordinates"].astype(np.int32),
        "coarse": tensors[f"{coarse}_coordinates"].astype(np.int32),
        "features": features,
        "weight": weight,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content.tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LAYERS)
def test_c_and_cpp_and_python_have_the_same_bits(device, context, tmp_path, name, dtype):
    if is_software(device) and dtype != "float16":
        pytest.skip("takes long on the software device")
    metadata, tensors = oracle.read_safetensors(FOLDER / f"{name}.safetensors")
    plan = make_plan(context, metadata, tensors, dtype)
    plan.load(device)
    kernel_map, order = sets_and_map(device, metadata, tensors)
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(kernel_map)
    given = np.empty_like(tensors["in_features"])
    given[order["in"]] = tensors["in_features"]
    features = oracle.encode(given, dtype)
    expected = device.to_host(execution.run(device.to_device(features)))
    assert np.abs(oracle.decode(expected)).max() > 0

    write_problem(tmp_path, metadata, tensors, dtype, features)
    cache = context.cache_directory or str(tmp_path / "cache")
    for program in ("minuet_golden_bits", "minuet_golden_bits_cpp"):
        path = BUILD / "tests" / program
        assert path.exists(), f"build the target {program}"
        done = subprocess.run(
            [path, tmp_path, device.name], env={**os.environ, "MINUET_CACHE_DIR": cache}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "output").read_bytes() == expected.tobytes(), program
        (tmp_path / "output").unlink()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["minkunet42", "sparseresnet21d"])
def test_a_network_has_the_bits_of_the_tool(device, context, tmp_path, name, dtype):
    if is_software(device) and (name, dtype) != ("sparseresnet21d", "float32"):
        pytest.skip("takes long on the software device")
    metadata, tensors = oracle.read_safetensors(FOLDER / f"network_{name}.safetensors")
    weights = FOLDER / f"network_{name}_weights.safetensors"
    channels = numbers(metadata, "channels")
    plan = minuet.Plan.network(context, name, channels=channels, weights=weights, dtype=dtype)
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare(device.to_device(tensors["in_coordinates"]))
    output = execution.run(device.to_device(oracle.encode(tensors["in_features"], dtype)))
    actual = oracle.decode(device.to_host(output))
    coordinates = device.to_host(execution.output_coordinates())

    order = {tuple(point): row for row, point in enumerate(coordinates.tolist())}
    rows = [order[tuple(point)] for point in tensors["out_coordinates"].tolist()]
    expected = tensors["out_features"]
    limit = {"float32": 1e-5, "float16": 4e-3}[dtype]
    assert np.linalg.norm(actual[rows] - expected) <= limit * np.linalg.norm(expected)

    np.save(tmp_path / "coordinates.npy", tensors["in_coordinates"])
    np.save(tmp_path / "features.npy", tensors["in_features"])
    done = subprocess.run(
        [
            BUILD / "bin/minuet",
            "run",
            "--coordinates",
            tmp_path / "coordinates.npy",
            "--features",
            tmp_path / "features.npy",
            "--network",
            name,
            "--channels",
            ",".join(map(str, channels)),
            "--weights",
            weights,
            "--dtype",
            {"float32": "fp32", "float16": "fp16"}[dtype],
            "--device",
            device.name,
            "--output",
            tmp_path / "output.npy",
            "--output-coordinates",
            tmp_path / "where.npy",
            "--cache",
            context.cache_directory or tmp_path,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "where.npy"), coordinates)
    np.testing.assert_array_equal(np.load(tmp_path / "output.npy").view(np.uint32), actual.view(np.uint32))
