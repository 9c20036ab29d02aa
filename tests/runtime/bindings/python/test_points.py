"""Voxels of points, and features of points, against loops."""

import minuet
import numpy as np
import pytest


def loops(points, batch, size, low, channels):
    """Returns the coordinates, means, rows and numbers of points, in the order of the first points."""
    known, members, rows = {}, [], []
    for index, point in enumerate(points):
        if not np.isfinite(point[:3]).all():
            rows.append(-1)
            continue
        cell = np.floor((point[:3] - np.float32(low)) / np.float32(size)).astype(np.int32)
        key = (int(batch[index]), *cell.tolist())
        rows.append(known.setdefault(key, len(known)))
        members[len(members) :] = [[]] * (len(known) - len(members))
        members[rows[-1]] = [*members[rows[-1]], index]
    means = [np.float32(sum(points[i, :channels].astype(np.float64) for i in own) / len(own)) for own in members]
    return np.array(list(known), np.int32), np.array(means), np.array(rows, np.int32), [len(own) for own in members]


def test_there_and_back(context, cpu):
    random = np.random.default_rng(5)
    points = random.uniform(-3, 3, (400, 5)).astype(np.float32)
    points[7, 1] = np.nan
    batch = random.integers(0, 3, 400).astype(np.int32)
    voxelizer = minuet.Voxelizer(context, 4, 0.5, low=-1.0)
    voxelizer.load(cpu)
    voxels = voxelizer.run(cpu, points, batch)
    coordinates, means, rows, sizes = loops(points, batch, 0.5, -1.0, 4)
    count = len(coordinates)
    assert voxels.status[0] == 0
    assert voxels.counts.tolist() == [count, 399, 0, 1, 0, 0]
    assert np.array_equal(voxels.coordinates[:count], coordinates)
    assert np.array_equal(voxels.features[:count], means)
    assert np.array_equal(voxels.point_rows, rows)
    assert voxels.voxel_points[:count].tolist() == sizes
    assert not voxels.features[count:].any()
    again = voxelizer.run(cpu, points, batch)
    for name in ("coordinates", "features", "voxel_points", "point_rows", "counts", "status"):
        getattr(again, name)[:] = 77
    workspace = np.empty(max(1, voxelizer.bytes("cpu", 400)), np.uint8)
    assert voxelizer.run(cpu, points, batch, out=again, workspace=workspace).features is again.features
    assert np.array_equal(again.coordinates, voxels.coordinates) and np.array_equal(again.features, voxels.features)
    with pytest.raises(ValueError, match="coordinates"):
        voxelizer.run(cpu, points, batch, capacity=399, out=again)

    nearest = minuet.Devoxelizer(context, 4)
    nearest.load(cpu)
    given = nearest.run(cpu, voxels.features, point_rows=voxels.point_rows, row_count=voxels.counts[:1])
    assert np.array_equal(given, np.where(rows[:, None] < 0, 0, means[rows]))

    linear = minuet.Devoxelizer(context, 4, blend=minuet.PointBlend.CENTRES, voxel_size=0.5, low=-1.0)
    linear.load(cpu)
    ones = np.ones_like(voxels.features)
    blended = linear.run(
        cpu, ones, points=points, batch=batch, coordinates=voxels.coordinates, row_count=voxels.counts[:1]
    )
    # Weights of the voxels that exist add up to 1, and the voxel of a point exists.
    assert np.allclose(blended, np.where(rows[:, None] < 0, 0, 1), atol=1e-5)


def test_a_capacity_and_limits(context, cpu):
    points = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0, 0], [9, 0, 0], [2, 0, 0]], np.float32)
    voxelizer = minuet.Voxelizer(
        context, 3, 1.0, high=3.0, most_points_per_voxel=1, most_voxels=2, feature=minuet.PointFeature.FIRST
    )
    voxelizer.load(cpu)
    voxels = voxelizer.run(cpu, points, capacity=2)
    assert voxels.counts.tolist() == [2, 2, 1, 0, 1, 1]
    assert voxels.point_rows.tolist() == [0, 1, 0, -1, -1]
    assert voxelizer.run(cpu, points, capacity=1).status[0] == minuet.CloudStatus.PAST_CAPACITY


def test_refusals(context, cpu):
    with pytest.raises(ValueError, match="voxel_size has 2 numbers"):
        minuet.Voxelizer(context, 4, (1.0, 2.0))
    with pytest.raises(minuet.InvalidArgumentError, match="channels is 0"):
        minuet.Voxelizer(context, 0, 1.0)
    voxelizer = minuet.Voxelizer(context, 4, 1.0)
    with pytest.raises(ValueError, match="at least 4"):
        voxelizer.run(cpu, np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="must be adjacent"):
        voxelizer.run(cpu, np.zeros((4, 8), np.float32)[:, ::2])
    with pytest.raises(ValueError, match="must be adjacent"):
        voxelizer.run(cpu, np.zeros((1, 8), np.float32)[:, ::2])
    nearest = minuet.Devoxelizer(context, 4)
    with pytest.raises(ValueError, match="give it"):
        nearest.run(cpu, np.zeros((2, 4), np.float32))


def test_a_network_from_points_to_points(context, cpu):
    random = np.random.default_rng(6)
    points = random.uniform(-3, 3, (300, 4)).astype(np.float32)
    points[3, 0] = np.inf
    batch = random.integers(0, 2, 300).astype(np.int32)
    network = """{"name": "n", "ndim": 3, "in_channels": 4, "layers": [
        {"op": "voxelize", "voxel_size": [0.5, 0.5, 0.5], "low": [-1, -1, -1]}, {"op": "devoxelize"}]}"""
    plan = minuet.Plan.network(context, description=network, dtype="float32")
    plan.compile("cpu")
    plan.load(cpu)
    assert [item.name for item in plan.inputs] == ["input", "batch", "count"]
    execution = minuet.Execution(plan, cpu)
    output = execution.run(points, batch)
    coordinates, means, rows, _ = loops(points, batch, 0.5, -1.0, 4)
    assert execution.read_points() == (len(coordinates), 299, 0, 1, 0, 0)
    expected = np.where(rows[:, None] < 0, np.float32(0), means[rows])
    assert np.array_equal(output, expected)
