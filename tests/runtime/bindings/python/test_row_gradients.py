"""Gradients of gathers of rows and of groups of rows, against float64: every dtype and device, poisoned outputs."""

from __future__ import annotations

import itertools

import minuet
import numpy as np
import oracle
import pytest

DTYPES = ["float32", "tf32", "float16", "bfloat16"]
BLENDS = [minuet.PointBlend.CENTRES, minuet.PointBlend.CORNERS]
CHANNELS = 8


def poisoned(device, shape, dtype):
    return device.to_device(oracle.encode(np.full(shape, np.nan), dtype))


def read(device, array):
    return oracle.decode(device.to_host(array))


def word(device, number):
    return device.to_device(np.array([number], np.int32))


def weights_of(points, batch, coordinates, blend, size, low, stride):
    """Returns [points, rows]: what a devoxelize weights each row by for each point, in float64."""
    known = {tuple(place): row for row, place in enumerate(coordinates.tolist())}
    result = np.zeros((len(points), len(coordinates)))
    shift = 0.5 if blend == minuet.PointBlend.CENTRES else 0.0
    for index, point in enumerate(points.astype(np.float64)):
        at = (point[:3] - low) / (size * stride) - shift
        if not np.isfinite(at).all():
            continue
        first = np.floor(at)
        for corner in itertools.product((0, 1), repeat=3):
            place = (int(batch[index]), *((first + corner) * stride).astype(int).tolist())
            if place in known:
                part = at - first
                result[index, known[place]] = np.prod(np.where(corner, part, 1 - part))
    return result / np.maximum(result.sum(1, keepdims=True), 1e-30)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("blend", BLENDS)
@pytest.mark.parametrize("stride", [1, 2])
def test_blends(device, context, generator, dtype, blend, stride):
    size, low, most, count = 0.5, -1.0, 500, int(generator.integers(1, 500))
    # Positions are eighths of a voxel, so that float32 holds them and the weights without an error.
    points = (generator.integers(-48, 48, (most, 4)) * (size / 8) + low).astype(np.float32)
    points[0, 1] = np.nan
    batch = generator.integers(0, 2, most).astype(np.int32)
    coordinates = oracle.make_cloud(generator, 300) * np.array([1, stride, stride, stride], np.int32)
    rows = int(generator.integers(100, 300))
    weights = weights_of(points[:count], batch[:count], coordinates[:rows], blend, size, low, stride)
    assert count < 20 or weights.any()
    gradient = oracle.encode(generator.uniform(-2, 2, (most, CHANNELS)), dtype)
    exact = oracle.decode(gradient).astype(np.float64)[:count]
    gradient[count:] = oracle.encode(np.full((most - count, CHANNELS), np.nan), dtype)
    op = minuet.DevoxelizeGradient(
        context, CHANNELS, blend=blend, voxel_size=size, low=low, tensor_stride=stride, dtype=dtype
    )
    op.load(device)
    out = poisoned(device, (300, CHANNELS), dtype)
    given = {
        "points": device.to_device(points),
        "batch": device.to_device(batch),
        "coordinates": device.to_device(coordinates),
        "count": word(device, count),
        "row_count": word(device, rows),
    }
    workspace = device.empty(op.bytes(device.arch, most, 300), "uint8")
    on_device = device.to_device(gradient)
    assert op.compute(device, on_device, **given, out=out, workspace=workspace) is out
    result = read(device, out)
    oracle.expect_close(result[:rows], weights.T @ exact, weights.T @ np.abs(exact), dtype)
    assert not result[rows:].any()
    assert np.array_equal(read(device, op.compute(device, on_device, **given)), result)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gathers(device, context, generator, dtype):
    most, capacity = 600, 90
    count, rows = int(generator.integers(0, most)), int(generator.integers(1, capacity))
    point_rows = generator.integers(-2, rows, most).astype(np.int32)
    gradient = oracle.encode(generator.uniform(-2, 2, (most, CHANNELS)), dtype)
    exact = oracle.decode(gradient).astype(np.float64)
    is_read = (point_rows >= 0) & (np.arange(most) < count)
    gradient[~is_read] = oracle.encode(np.full((int((~is_read).sum()), CHANNELS), np.nan), dtype)
    expected, magnitude = np.zeros((2, rows, CHANNELS))
    np.add.at(expected, point_rows[is_read], exact[is_read])
    np.add.at(magnitude, point_rows[is_read], np.abs(exact[is_read]))
    op = minuet.DevoxelizeGradient(context, CHANNELS, dtype=dtype)
    op.load(device)
    given = {
        "point_rows": device.to_device(point_rows),
        "count": word(device, count),
        "row_count": word(device, rows),
    }
    on_device = device.to_device(gradient)
    out = poisoned(device, (capacity, CHANNELS), dtype)
    assert op.compute(device, on_device, **given, out=out) is out
    result = read(device, out)
    oracle.expect_close(result[:rows], expected, magnitude, dtype)
    assert not result[rows:].any()
    assert np.array_equal(read(device, op.compute(device, on_device, **given, rows=capacity)), result)


def group_reference(feature, groups, rows, group_gradient, sizes, row_type):
    """Returns the gradients of the rows in float64. `groups`: -1 for a row without one."""
    result = np.zeros(rows.shape)
    for group in range(len(group_gradient)):
        (own,) = np.nonzero(groups == group)
        if not len(own):
            continue
        gradient = group_gradient[group]
        if feature == minuet.PointFeature.SUM:
            result[own] = gradient
        elif feature == minuet.PointFeature.MEAN:
            result[own] = gradient / sizes[group]
        elif feature == minuet.PointFeature.FIRST:
            result[own[0]] = gradient
        else:
            # numpy, too, gives the first one of equal maxima.
            winners = own[np.argmax(np.where(np.isnan(rows[own]), np.inf, rows[own]), axis=0)]
            result[winners, np.arange(rows.shape[1])] = gradient
    return oracle.decode(oracle.encode(result, row_type))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows_are_f32", [False, True])
@pytest.mark.parametrize("feature", list(minuet.PointFeature))
def test_groups(device, context, generator, dtype, rows_are_f32, feature):
    row_type = "float32" if rows_are_f32 else dtype
    most, most_groups = 700, 80
    row_count, group_count = int(generator.integers(1, most)), int(generator.integers(1, most_groups))
    groups = generator.integers(-2, most_groups + 2, most).astype(np.int32)
    # There are so few different numbers that some maxima are equal.
    stored = oracle.encode(generator.integers(-3, 3, (most, CHANNELS)).astype(np.float64), row_type)
    stored[generator.random((most, CHANNELS)) < 0.05] = oracle.encode(np.array([np.nan]), row_type)[0]
    gradient = oracle.encode(generator.uniform(-2, 2, (most_groups, CHANNELS)), dtype)
    exact = oracle.decode(gradient).astype(np.float64)[:group_count]
    gradient[group_count:] = oracle.encode(np.full((most_groups - group_count, CHANNELS), np.nan), dtype)
    known = np.where((groups < group_count) & (np.arange(most) < row_count), groups, -1)
    sizes = np.bincount(known[known >= 0], minlength=most_groups)
    rows = oracle.decode(stored)

    op = minuet.GroupGradient(context, CHANNELS, feature=feature, dtype=dtype, rows_are_f32=rows_are_f32)
    op.load(device)
    given = {"row_count": word(device, row_count), "group_count": word(device, group_count)}
    if feature == minuet.PointFeature.MAX:
        given["input"] = device.to_device(stored)
    out = poisoned(device, (most, CHANNELS), row_type)
    workspace = device.empty(max(1, op.bytes(device.arch, most_groups)), "uint8")
    on_device = device.to_device(gradient)
    assert op.compute(device, on_device, device.to_device(groups), **given, out=out, workspace=workspace) is out
    result, expected = read(device, out), group_reference(feature, known, rows, exact, sizes, row_type)
    assert expected.any() or not (known >= 0).any()
    if feature != minuet.PointFeature.MEAN:
        assert np.array_equal(result, expected)
    oracle.expect_close(result, expected, np.abs(expected), row_type)

    # The group may be the first column of a matrix, such as that of coordinates.
    matrix = np.full((most, 4), 1 << 20, np.int32)
    matrix[:, 0] = groups
    again = op.compute(device, on_device, device.to_device(matrix), **given)
    assert np.array_equal(read(device, again), result)
    if feature == minuet.PointFeature.MEAN:
        # Other sizes than those that the call would count show that it reads them.
        other = device.to_device((3 * sizes).astype(np.int32))
        again = read(device, op.compute(device, on_device, device.to_device(groups), **given, group_sizes=other))
        expected = group_reference(feature, known, rows, exact, 3 * sizes, row_type)
        oracle.expect_close(again, expected, np.abs(expected), row_type)


def test_columns_of_points(device, context, generator):
    """A maximum reads the columns of points where they are, and groups may have gaps between them."""
    points = generator.uniform(-3, 3, (200, 7)).astype(np.float32)
    groups = generator.integers(0, 20, 200).astype(np.int32)
    gradient = generator.uniform(-2, 2, (20, 4)).astype(np.float32)
    op = minuet.GroupGradient(context, 4, feature=minuet.PointFeature.MAX)
    op.load(device)
    for rows in (200, 1):
        if device.arch == "cpu":
            given = (points[:rows, 2:6], np.repeat(groups, 3)[::3][:rows])
        else:
            given = (device.to_device(np.ascontiguousarray(points[:rows, 2:6])), device.to_device(groups[:rows]))
        done = op.compute(device, device.to_device(gradient), given[1], input=given[0])
        expected = group_reference(
            minuet.PointFeature.MAX, groups[:rows], points[:rows, 2:6], gradient, None, "float32"
        )
        assert np.array_equal(read(device, done), expected)


@pytest.mark.parametrize("blend", list(minuet.PointBlend))
def test_points_to_voxels_and_back(device, context, generator, blend):
    """Both directions are linear, so that <A x, g> is <x, A' g>, for a cloud in general position."""
    points = generator.uniform(-3, 3, (400, 5)).astype(np.float32)
    points[7, 1] = np.nan
    batch = device.to_device(generator.integers(0, 3, 400).astype(np.int32))
    cloud = device.to_device(points)
    grid = {"voxel_size": 0.5, "low": -1.0}
    voxelizer = minuet.Voxelizer(context, 5, **grid)
    voxelizer.load(device)
    voxels = voxelizer.run(device, cloud, batch)
    count = int(device.to_host(voxels.counts)[0])
    assert 0 < count < 400
    groups = minuet.GroupGradient(context, 5, rows_are_f32=True)
    groups.load(device)
    g = generator.uniform(-2, 2, (400, 5)).astype(np.float32)
    of_points = groups.compute(
        device,
        device.to_device(g),
        voxels.point_rows,
        group_sizes=voxels.voxel_points,
        group_count=device.to_device(np.array([count], np.int32)),
    )
    kept = np.where(device.to_host(voxels.point_rows)[:, None] < 0, 0, points).astype(np.float64)
    there = np.sum(device.to_host(voxels.features)[:count].astype(np.float64) * g[:count])
    assert np.isclose(there, np.sum(kept * device.to_host(of_points)), rtol=0, atol=1e-4)

    options = {} if blend == minuet.PointBlend.NEAREST else grid
    if blend == minuet.PointBlend.NEAREST:
        sources = {"point_rows": voxels.point_rows}
    else:
        sources = {"points": cloud, "batch": batch, "coordinates": voxels.coordinates}
    sources["row_count"] = device.to_device(np.array([count], np.int32))
    forward = minuet.Devoxelizer(context, 5, blend=blend, **options)
    backward = minuet.DevoxelizeGradient(context, 5, blend=blend, **options)
    forward.load(device)
    backward.load(device)
    x = generator.uniform(-2, 2, (400, 5)).astype(np.float32)
    there = device.to_host(forward.run(device, device.to_device(x), **sources)).astype(np.float64)
    back = device.to_host(backward.compute(device, device.to_device(g), rows=400, **sources)).astype(np.float64)
    assert back.any() and not back[count:].any()
    assert np.isclose(np.sum(there * g), np.sum(x * back), rtol=0, atol=1e-2)


def test_refusals(context, cpu):
    with pytest.raises(minuet.InvalidArgumentError, match="channels is 0"):
        minuet.DevoxelizeGradient(context, 0)
    with pytest.raises(minuet.InvalidArgumentError, match="channels is 0"):
        minuet.GroupGradient(context, 0)
    with pytest.raises(ValueError, match="low has 2 numbers"):
        minuet.DevoxelizeGradient(context, 4, blend=BLENDS[0], voxel_size=1.0, low=(0.0, 1.0))
    gradient, rows = np.zeros((3, 4), np.float32), np.zeros(3, np.int32)
    nearest = minuet.DevoxelizeGradient(context, 4)
    bare = minuet.Device(minuet.Context(), "cpu")  # Other tests may have loaded the op on the device that they share.
    with pytest.raises(minuet.FailedPreconditionError, match="load"):
        nearest.compute(bare, gradient, point_rows=rows, rows=2)
    nearest.load(cpu)
    with pytest.raises(ValueError, match="give rows or out"):
        nearest.compute(cpu, gradient, point_rows=rows)
    with pytest.raises(ValueError, match="give it"):
        nearest.compute(cpu, gradient, rows=2)
    with pytest.raises(ValueError, match=r"out_gradient has the shape \[3, 4\], and \[2, 4\]"):
        nearest.compute(cpu, gradient, point_rows=rows[:2], rows=2)
    with pytest.raises(ValueError, match=r"out has the shape \[5, 4\], and \[2, 4\]"):
        nearest.compute(cpu, gradient, point_rows=rows, rows=2, out=np.zeros((5, 4), np.float32))
    with pytest.raises(minuet.ResourceExhaustedError, match="workspace"):
        nearest.compute(cpu, gradient, point_rows=rows, rows=2, workspace=np.zeros(1, np.uint8))
    with pytest.raises(minuet.OutOfRangeError):
        nearest.bytes("cpu", 1 << 30, 1)
    linear = minuet.DevoxelizeGradient(context, 4, blend=BLENDS[0], voxel_size=1.0)
    with pytest.raises(ValueError, match="give points and coordinates"):
        linear.compute(cpu, gradient, points=gradient)
    with pytest.raises(ValueError, match=r"coordinates has the shape \[3, 4\], and \[2, 4\]"):
        linear.compute(cpu, gradient, points=gradient, coordinates=np.zeros((3, 4), np.int32), rows=2)

    mean = minuet.GroupGradient(context, 4)
    with pytest.raises(minuet.FailedPreconditionError, match="load"):
        mean.compute(bare, gradient, rows)
    mean.load(cpu)
    with pytest.raises(ValueError, match="give at least one"):
        mean.compute(cpu, gradient, np.zeros((3, 0), np.int32))
    with pytest.raises(ValueError, match="group_sizes has the shape"):
        mean.compute(cpu, gradient, rows, group_sizes=rows[:2])
    with pytest.raises(TypeError, match="groups has elements of int64"):
        mean.compute(cpu, gradient, rows.astype(np.int64))
    with pytest.raises(minuet.InvalidArgumentError, match="only a maximum reads the rows"):
        mean.compute(cpu, gradient, rows, input=gradient)
    with pytest.raises(minuet.ResourceExhaustedError, match="workspace"):
        mean.compute(cpu, gradient, rows, workspace=np.zeros(1, np.uint8))
    maximum = minuet.GroupGradient(context, 4, feature=minuet.PointFeature.MAX)
    maximum.load(cpu)
    with pytest.raises(minuet.InvalidArgumentError, match="input"):
        maximum.compute(cpu, gradient, rows)
    with pytest.raises(minuet.InvalidArgumentError, match="computes the gradient of groups"):
        minuet.DevoxelizeGradient.bytes(maximum, "cpu", 3, 2)
