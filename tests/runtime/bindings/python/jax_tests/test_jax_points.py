"""Voxels of points and poolings of whole clouds, and their gradients, against float64."""

from __future__ import annotations

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax_problems import cells, expect_close, in_double, normal, poisoned, same_bits  # noqa: E402

LOW, SIZE = (-1.0, 0.5, -2.0), (0.5, 0.25, 1.0)


def scattered(generator, count):
    """Returns points with three features, some of which are not finite or outside of the range, and batch indices."""
    points = np.concatenate([generator.uniform(-2, 3, (count, 3)), generator.normal(size=(count, 3))], 1)
    points[3, 1], points[5, 0] = np.nan, np.inf
    return points.astype(np.float32), generator.integers(0, 3, count).astype(np.int32)


def grouped(points, batch, high):
    """Returns the coordinates of the voxels in the order of their first points, the row of each point, and how many
    points are outside."""
    rows, known, outside = [], {}, 0
    for point, item in zip(points[:, : len(SIZE)], batch, strict=True):
        if not np.isfinite(point).all():
            rows.append(-1)
            continue
        if high is not None and not ((point >= np.float32(LOW)) & (point < np.float32(high))).all():
            rows.append(-1)
            outside += 1
            continue
        cell = np.floor((point - np.float32(LOW)) / np.float32(SIZE)).astype(int).tolist()
        rows.append(known.setdefault((int(item), *cell), len(known)))
    return np.array(list(known), np.int32), np.array(rows), outside


def combined(rows, groups, feature):
    """Returns what combines the rows of each group. Of equal maxima the first has the gradient."""
    members = [np.flatnonzero(rows == group) for group in range(groups)]

    def combine(values):
        results = []
        for own in members:
            taken = values[own]
            if not len(own):
                results.append(0 * values.sum(0))
            elif feature == "max":
                results.append(jnp.take_along_axis(taken, taken.argmax(0)[None], 0)[0])
            elif feature == "first":
                results.append(taken[0])
            else:
                results.append(taken.sum(0) / (len(own) if feature in ("mean", "average") else 1))
        return jnp.stack(results)

    return combine


@pytest.mark.parametrize("feature", ["mean", "max", "sum", "first"])
@pytest.mark.parametrize("high", [None, (2.0, 2.5, 1.0)])
def test_voxelize(generator, feature, high):
    used, capacity = 120, 130
    points, batch = scattered(generator, used)
    coordinates, rows, outside = grouped(points, batch, high)
    voxels_used = len(coordinates)
    assert 1 < voxels_used < used
    behind = np.full((20, 6), np.nan, np.float32)
    given = np.concatenate([points, behind]), np.concatenate([batch, np.full(20, 77, np.int32)])
    count = jnp.array([used], jnp.int32)
    out = normal(generator, voxels_used, 4)

    def ours(points):
        made = sparse.voxelize(
            points, SIZE, low=LOW, high=high, batch=given[1], count=count, first_column=2, feature=feature,
            batch_size=3, capacity=capacity,
        )  # fmt: skip
        return made.features, made

    made = jax.jit(ours)(given[0])[1]
    sparse.check(made.status)
    assert made.coordinates[:voxels_used].tolist() == coordinates.tolist()
    assert not made.coordinates[voxels_used:].any()
    assert made.point_rows.tolist() == [*rows.tolist(), *[-1] * 20]
    assert made.voxel_points.tolist() == np.bincount(rows[rows >= 0], minlength=capacity).tolist()
    assert made.counts.tolist() == [voxels_used, int((rows >= 0).sum()), outside, 2, 0, 0]
    assert made.count.tolist() == [voxels_used]
    combine = combined(rows, voxels_used, feature)
    # Numbers that are not finite belong to no voxel.
    finite = np.nan_to_num(points, nan=0, posinf=0)
    expected, (wide,) = in_double(lambda values: combine(values[:, 2:]), finite, out=out)
    expect_close(made.features[:voxels_used], expected, "float32")
    assert not made.features[voxels_used:].any()
    if feature == "first":
        with pytest.raises(ValueError, match="have no gradient"):
            jax.vjp(ours, given[0], has_aux=True)
        return
    (gradient,) = jax.jit(lambda points, out: jax.vjp(ours, points, has_aux=True)[1](out))(
        given[0], poisoned(out, capacity)
    )
    expect_close(gradient[:used], wide, "float32")
    assert not gradient[used:].any()


def test_one_program_from_points_to_a_classifier(generator):
    """The voxels of points are the coordinates of a pyramid, and the loss has a gradient by the points."""
    points, batch = scattered(generator, 80)
    points[:, 3:] = np.abs(points[:, 3:])
    geometry = sparse.Geometry([sparse.Level(90)], {"same": sparse.conv_map(0, 0, 3)}, batch_size=3)
    weight = normal(generator, 27, 3, 5)

    @jax.jit
    def gradients(points, weight):
        def loss(points, weight):
            voxels = sparse.voxelize(points, (0.5, 0.5, 0.5), batch=batch, first_column=3, capacity=90)
            cloud = sparse.pyramid(geometry, voxels.coordinates, voxels.count)
            x = sparse.conv(cloud, "same", voxels.features, weight)
            pooled = sparse.global_pool(cloud, 0, x, "average")
            return (pooled**2).sum(), (pooled, voxels.status, cloud.status)

        return jax.grad(loss, (0, 1), has_aux=True)(points, weight)

    (of_points, of_weight), (pooled, *statuses) = gradients(points, weight)
    sparse.check(*statuses)
    assert pooled.shape == (3, 5)
    kept = np.isfinite(points[:, :3]).all(1)
    assert not of_points[~kept].any()
    assert of_points[kept, 3:].any(1).all()
    assert not of_points[:, :3].any()
    assert of_weight.any()
    # The loss is a polynomial of degree two in the features, so a step along the gradient has this change.
    direction = np.asarray(of_points)
    step = 1e-2 / np.abs(direction).max()
    losses = [
        float((np.asarray(gradients(points + np.float32(sign * step) * direction, weight)[1][0], float) ** 2).sum())
        for sign in (-1, 1)
    ]
    slope = (losses[1] - losses[0]) / (2 * step)
    expected = float((direction.astype(np.float64) ** 2).sum())
    assert abs(slope - expected) < 2e-2 * expected


def test_ranges_as_arrays():
    points = np.array([[0.5, 1, 2], [2, 1, 0]], np.float32)
    low, high = np.zeros(3), np.full(3, 1.5)
    made, of_tuples = (
        sparse.voxelize(points, np.ones(3), low=kind(low), high=kind(high + 1)) for kind in (np.asarray, tuple)
    )
    assert same_bits(made, of_tuples)
    with pytest.raises(ValueError, match="low has 0 numbers"):
        sparse.voxelize(points, (1, 1, 1), low=())


def test_limits_of_voxels():
    points = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0, 0], [9, 0, 0], [2, 0, 0]], np.float32)
    made = sparse.voxelize(
        points, (1, 1, 1), high=(3, 3, 3), most_points_per_voxel=1, most_voxels=2, feature="first", capacity=2
    )
    assert made.counts.tolist() == [2, 2, 1, 0, 1, 1]
    assert made.point_rows.tolist() == [0, 1, 0, -1, -1]
    assert made.status.tolist() == [0]
    small = sparse.voxelize(points, (1, 1, 1), capacity=1)
    assert small.status.tolist() == [sparse.CloudStatus.PAST_CAPACITY]
    assert small.count.tolist() == [0]
    with pytest.raises(ValueError, match="PAST_CAPACITY"):
        sparse.check(small.status)
    empty = sparse.voxelize(points[:0], (1, 1, 1))
    assert empty.features.shape == (0, 3)
    assert empty.count.tolist() == [0]


def test_what_voxelize_refuses():
    points = np.zeros((4, 5), np.float32)
    with pytest.raises(ValueError, match="float32 \\[points, columns\\] is needed"):
        sparse.voxelize(points.astype(np.float16), (1, 1, 1))
    with pytest.raises(ValueError, match="5 columns, which do not hold"):
        sparse.voxelize(points, (1, 1, 1), first_column=3, channels=3)
    with pytest.raises(ValueError, match="batch is int32 of the shape"):
        sparse.voxelize(points, (1, 1, 1), batch=np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="count is int32 of the shape"):
        sparse.voxelize(points, (1, 1, 1), count=np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="low has 2 numbers"):
        sparse.voxelize(points, (1, 1, 1), low=(0, 0))
    with pytest.raises(ValueError, match="feature 'median' is not known"):
        sparse.voxelize(points, (1, 1, 1), feature="median")
    with pytest.raises(ValueError, match="have no gradient"):
        jax.grad(lambda points: sparse.voxelize(points, (1, 1, 1), most_points_per_voxel=2).features.sum())(points)


def test_programs_for_a_gpu():
    """They take the workspace from XLA, as the last result."""
    gradient = jax.jit(jax.grad(lambda points: sparse.voxelize(points, (1, 1, 1)).features.sum()))
    with sparse.target("sm_90a"):
        text = gradient.trace(np.zeros((1000, 4), np.float32)).lower(lowering_platforms=("cuda",)).as_text()
    for name in ("minuet_voxelize", "minuet_group_gradient"):
        (line,) = [line for line in text.splitlines() if f"@{name}(" in line]
        assert re.search(r", tensor<[1-9]\d+xui8>\)$", line), line


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("reduction", ["max", "average", "sum"])
@pytest.mark.parametrize("level", [0, 1])
def test_global_pool(generator, dtype, reduction, level):
    """One of the clouds has no voxels."""
    batches, count = 4, 60
    geometry = sparse.Geometry([sparse.Level(70), sparse.Level(75, 0, 2)], {}, batch_size=batches)
    points = cells(generator, count, batches=2) * np.array([2, 1, 1, 1], np.int32)  # 0 and 2
    cloud = sparse.pyramid(geometry, points)
    sparse.check(cloud)
    used = int(cloud.count(level)[0])
    batch = np.asarray(cloud.coordinates(level))[:used, 0]
    assert set(batch.tolist()) == {0, 2}
    x, out = normal(generator, used, 5, dtype=dtype), normal(generator, batches, 5, dtype=dtype)

    def both(x, out):
        result, back = jax.vjp(lambda x: sparse.global_pool(cloud, level, x, reduction), x)
        return result, back(out)

    given = poisoned(x, geometry.levels[level].capacity), out
    result, (gradient,) = jax.jit(both)(*given)
    assert result.dtype == gradient.dtype == x.dtype
    combine = combined(batch, batches, reduction)
    expected, (wide,) = in_double(combine, x, out=out)
    expect_close(result, expected, dtype)
    assert not result[1].any()
    expect_close(gradient[:used], wide, dtype)
    assert not gradient[used:].any()
    assert same_bits(both(*given), (result, (gradient,)))  # op by op, without jit


@pytest.mark.parametrize(
    ("bounds", "far"),
    [
        (([0, 0, 0, 0], [8999, 2**20, 3, 3]), [0, 2**20, 0, 0]),
        (([0, -(2**30), 0, 0], [8999, 1 - 2**30, 3, 3]), [0, -(2**30), 0, 0]),
        (([0, 0, 0, 0, 0], [8999, 2**15, 3, 3, 3]), [0, 2**15, 0, 0, 0]),
    ],
)
def test_global_pool_within_declared_bounds(generator, bounds, far):
    """A cloud may have any coordinates within the bounds of its geometry, and any number of clouds."""
    ndim = len(far) - 1
    geometry = sparse.Geometry([sparse.Level(6)], {}, ndim=ndim, bounds=bounds, batch_size=9000)
    points = np.array([far, [8500, bounds[0][1], *[1] * (ndim - 1)], [0, *far[1:-1], 3]], np.int32)
    cloud = sparse.pyramid(geometry, points)
    sparse.check(cloud)
    x, out = normal(generator, 3, 2), normal(generator, 9000, 2)
    given = poisoned(x, 6)
    result, back = jax.vjp(lambda x: sparse.global_pool(cloud, 0, x, "sum"), given)
    assert same_bits(result, jnp.zeros((9000, 2)).at[0].set(x[0] + x[2]).at[8500].set(x[1]))
    assert same_bits(back(out)[0], jnp.zeros((6, 2)).at[:3].set(out[jnp.array([0, 8500, 0])]))


def test_equal_maxima_of_a_cloud():
    """The first row has the gradient."""
    geometry = sparse.Geometry([sparse.Level(3)], {}, batch_size=1)
    cloud = sparse.pyramid(geometry, np.array([[0, 0, 0, 2], [0, 0, 0, 1], [0, 0, 0, 0]], np.int32))
    x = np.array([[1, 5], [4, 5], [4, 0]], np.float32)
    gradient = jax.grad(lambda x: sparse.global_pool(cloud, 0, x).sum())(x)
    assert gradient.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_more_clouds_than_voxels(generator):
    geometry = sparse.Geometry([sparse.Level(2)], {}, batch_size=7)
    cloud = sparse.pyramid(geometry, np.array([[5, 0, 0, 0], [3, 0, 0, 0]], np.int32))
    sparse.check(cloud)
    x = normal(generator, 2, 3)
    result, back = jax.vjp(lambda x: sparse.global_pool(cloud, 0, x, "sum"), x)
    assert same_bits(result, jnp.zeros((7, 3)).at[jnp.array([5, 3])].set(x))
    out = normal(generator, 7, 3)
    assert same_bits(back(out)[0], out[jnp.array([5, 3])])


def test_what_global_pool_refuses(generator):
    points, x = cells(generator, 10), normal(generator, 10, 3)
    bare = sparse.Geometry([sparse.Level(10)], {})
    with pytest.raises(ValueError, match="give batch_size to the Geometry"):
        sparse.global_pool(sparse.pyramid(bare, points), 0, x)
    geometry = sparse.Geometry([sparse.Level(10)], {}, batch_size=2)
    with pytest.raises(ValueError, match="reduction 'mean' is not known: use average, max, sum"):
        sparse.global_pool(sparse.pyramid(geometry, points), 0, x, "mean")
    # A batch index that is too large is found when the cloud is made.
    points[4, 0] = 2
    cloud = sparse.pyramid(geometry, points)
    with pytest.raises(ValueError, match="OUT_OF_BOUNDS"):
        sparse.check(cloud)
    assert not sparse.global_pool(cloud, 0, x).any()
