"""Ops of minuet.jax with random inputs, and their gradients, against float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax_problems import (  # noqa: E402
    cells,
    coarse_pairs,
    convolved,
    expect_close,
    in_double,
    normal,
    poisoned,
    pooled,
    same_bits,
    spread,
)

# The number of axes, the kernel, the stride, and whether the op leads back.
KERNELS = {
    "submanifold": (3, (3, 3, 3), 1, False),
    "even": (3, (2, 2, 2), 1, False),
    "point": (3, (1, 1, 1), 1, False),
    "line": (1, (5,), 1, False),
    "plane": (2, (3, 3), 1, False),
    "four axes": (4, (3, 1, 3, 2), 1, False),
    "down": (3, (2, 2, 2), 2, False),
    "wide": (3, (3, 3, 3), 2, False),
    "up": (3, (2, 2, 2), 2, True),
    "wide up": (3, (3, 3, 3), 2, True),
}


def problem_of(generator, name, make, count=50):
    """Returns the cloud of a kernel, whose coordinates are the first rows of more, and its pairs."""
    ndim, size, stride, transposed = KERNELS[name]
    levels = [sparse.Level(77)] + ([sparse.Level(91, 0, stride)] if stride > 1 else [])
    geometry = sparse.Geometry(levels, {"map": make(0, len(levels) - 1, size)}, ndim=ndim)
    points = np.concatenate([cells(generator, count, ndim), np.full((9, 1 + ndim), 7, np.int32)])
    cloud = jax.jit(lambda: sparse.pyramid(geometry, points, jnp.array([count], jnp.int32)))()
    sparse.check(cloud)
    pairs, fine, coarse = coarse_pairs(cloud, size, stride, transposed=transposed)
    ends = [(0, fine), (len(levels) - 1, coarse)]
    return cloud, pairs, ends[::-1] if transposed else ends, transposed


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float32") for name in KERNELS] + [("submanifold", "float16"), ("up", "float16"), ("down", "bfloat16")],
)
def test_convolution(generator, name, dtype):
    groups = 2 if name in ("submanifold", "down", "up", "plane") else 1
    cloud, pairs, ((source, rows), (target, out_rows)), transposed = problem_of(generator, name, sparse.conv_map)
    volume = cloud.geometry.volume("map")
    x, out = normal(generator, rows, 6, dtype=dtype), normal(generator, out_rows, 8, dtype=dtype)
    # Weights are rounded to the dtype of the features, so both sides get rounded ones.
    weight = normal(generator, volume, 6 // groups, 8, dtype=dtype).astype(jnp.float32)
    bias = normal(generator, 8)

    def ours(x, weight, bias):
        return sparse.conv(cloud, "map", x, weight, bias, groups=groups, transposed=transposed)

    def both(x, weight, bias, out):
        result, back = jax.vjp(ours, x, weight, bias)
        return result, back(out)

    given = (poisoned(x, cloud.capacity(source)), weight, bias, poisoned(out, cloud.capacity(target)))
    result, gradients = jax.jit(both)(*given)
    assert result.dtype == x.dtype
    assert gradients[0].dtype == x.dtype
    assert gradients[1].dtype == weight.dtype
    assert not result[out_rows:].any()
    assert not gradients[0][rows:].any()
    convolve = convolved(pairs, out_rows)
    expected = in_double(lambda x, w, b: convolve(x, spread(w, groups)) + b, x, weight, bias, out=out)
    size = float(np.abs(expected[0]).max()) + 1
    expect_close(result[:out_rows], expected[0], dtype, size)
    for gradient, wide in zip((gradients[0][:rows], *gradients[1:]), expected[1], strict=True):
        expect_close(gradient, wide, dtype)
    if name == "point":
        assert same_bits(both(*given), (result, gradients))  # op by op, without jit


# A map of one offset within a level, and the offset.
ONE_OFFSET = {
    "listed zero": ({"offsets": [(0, 0, 0)]}, (0, 0, 0)),
    "listed": ({"offsets": [(1, 0, 0)]}, (1, 0, 0)),
    "padded": ({"kernel_size": 1, "padding": 1}, (-1, -1, -1)),
    "padded on one axis": ({"kernel_size": 1, "padding": (0, 1, 0)}, (0, -1, 0)),
    "padded by zero": ({"kernel_size": 1, "padding": 0}, (0, 0, 0)),
}


@pytest.mark.parametrize("name", ONE_OFFSET)
def test_one_offset(generator, name):
    """Rows are paired with themselves only where the offset is zero."""
    options, offset = ONE_OFFSET[name]
    count, capacity = 150, 170
    geometry = sparse.Geometry([sparse.Level(capacity)], {"map": sparse.conv_map(0, 0, **options)})
    assert geometry.is_identity(geometry.map("map")[1]) == (offset == (0, 0, 0))
    points = cells(generator, count)
    rows = {tuple(point): row for row, point in enumerate(points.tolist())}
    sources = [rows.get((batch, *np.add(point, offset).tolist())) for batch, *point in points.tolist()]
    pairs = np.array([(0, source, row) for row, source in enumerate(sources) if source is not None])
    assert 0 < len(pairs) <= count
    x, out, weight = normal(generator, count, 4), normal(generator, count, 6), normal(generator, 1, 4, 6)

    @jax.jit
    def both(points, x, weight, out):
        cloud = sparse.pyramid(geometry, points)
        result, back = jax.vjp(lambda x, weight: sparse.conv(cloud, "map", x, weight), x, weight)
        return result, back(out), cloud.status

    result, (of_x, of_weight), status = both(points, poisoned(x, capacity), weight, poisoned(out, capacity))
    sparse.check(status)
    expected, (wide_x, wide_weight) = in_double(convolved(pairs, count), x, weight, out=out)
    expect_close(result[:count], expected, "float32")
    expect_close(of_x[:count], wide_x, "float32")
    expect_close(of_weight, wide_weight, "float32")


@pytest.mark.parametrize("reduction", ["max", "average", "sum"])
@pytest.mark.parametrize("name", ["submanifold", "down", "up"])
def test_pooling(generator, name, reduction):
    cloud, pairs, ((source, rows), (target, out_rows)), transposed = problem_of(generator, name, sparse.pool_map, 30)
    x, out = normal(generator, rows, 3), normal(generator, out_rows, 3)
    given = (poisoned(x, cloud.capacity(source)), poisoned(out, cloud.capacity(target)))

    @jax.jit
    def both(x, out):
        result, back = jax.vjp(lambda x: sparse.pool(cloud, "map", x, reduction, transposed=transposed), x)
        return result, back(out)

    result, (gradient,) = both(*given)
    assert not result[out_rows:].any()
    assert not gradient[rows:].any()
    expected, (wide,) = in_double(pooled(pairs, out_rows, reduction), x, out=out)
    expect_close(result[:out_rows], expected, "float32")
    expect_close(gradient[:rows], wide, "float32")


@pytest.mark.parametrize(
    ("dtype", "has_residual", "relu", "has_statistics"),
    [
        ("float32", False, False, True),
        ("float32", False, True, False),
        ("float32", True, False, False),
        ("float32", True, True, True),
        ("float16", True, True, True),
    ],
)
def test_batch_norm(generator, dtype, has_residual, relu, has_statistics):
    cloud, _, ((_, rows), _), _ = problem_of(generator, "point", sparse.conv_map)
    x, out, residual = (normal(generator, rows, 5, dtype=dtype) for _ in range(3))
    weight, bias, mean = (normal(generator, 5) for _ in range(3))
    variance = normal(generator, 5) ** 2
    before = sparse.Statistics(mean, variance) if has_statistics else None

    def ours(x, weight, bias, residual):
        added = residual if has_residual else None
        return sparse.batch_norm(cloud, 0, x, weight, bias, before, momentum=0.3, eps=1e-3, residual=added, relu=relu)

    @jax.jit
    def both(x, weight, bias, residual, out):
        result, back, after = jax.vjp(ours, x, weight, bias, residual, has_aux=True)
        return result, back(out), after

    def reference(x, weight, bias, residual):
        normalized = (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-3)
        result = normalized * weight + bias + (residual if has_residual else 0)
        return jnp.where(result > 0, result, 0) if relu else result

    capacity = cloud.capacity(0)
    result, gradients, after = both(
        poisoned(x, capacity), weight, bias, poisoned(residual, capacity), poisoned(out, capacity)
    )
    expected, wide = in_double(reference, x, weight, bias, residual, out=out)
    assert not result[rows:].any()
    expect_close(result[:rows], expected, dtype, 4)
    for place, (gradient, each) in enumerate(zip(gradients, wide, strict=True)):
        if place in (0, 3):
            assert not gradient[rows:].any()
            gradient = gradient[:rows]
        expect_close(gradient, each, dtype, 4)
    if not has_statistics:
        assert after is None
        return
    double = np.asarray(x).astype(np.float64)
    expect_close(after.mean, 0.7 * np.asarray(mean) + 0.3 * double.mean(0), "float32")
    expect_close(after.variance, 0.7 * np.asarray(variance) + 0.3 * double.var(0, ddof=1), "float32")


def test_to_dense(generator):
    inside = np.zeros(0, bool)
    while not inside.any():  # Few voxels are drawn, and now and then none lies inside.
        cloud, _, (_, (level, rows)), _ = problem_of(generator, "down", sparse.conv_map)
        cells_of = [(b, *(p // 2 for p in point)) for b, *point in np.asarray(cloud.coordinates(level))[:rows].tolist()]
        inside = np.zeros(cloud.capacity(level), bool)
        inside[:rows] = [all(0 <= c < n for c, n in zip(cell[1:], (2, 1, 2), strict=True)) for cell in cells_of]
    x = poisoned(normal(generator, rows, 4), cloud.capacity(level))
    dense, back = jax.vjp(lambda x: sparse.to_dense(cloud, level, x, (2, 1, 2), 2), x)
    expected = np.zeros((2, 2, 1, 2, 4), np.float32)
    for row in np.flatnonzero(inside):
        expected[cells_of[row]] = x[row]
    assert not inside[:rows].all()
    assert same_bits(dense, expected)
    (gradient,) = back(jnp.ones_like(dense))
    assert (np.asarray(gradient) == inside[:, None]).all()


def test_coordinates_and_counts(generator):
    """Rows of the first level are the caller's, and rows past the count are zeros."""
    ndim = 3
    points = cells(generator, 40)
    geometry = sparse.Geometry([sparse.Level(50), sparse.Level(50, 0, (2, 1, 4))], {})
    cloud = sparse.pyramid(geometry, points)
    assert cloud.counts.tolist()[:2] == [40, 40]
    found = np.asarray(cloud.coordinates(0))
    assert (found[:40] == points).all()
    assert not found[40:].any()
    step = np.array([1, 2, 1, 4])
    coarse = np.asarray(cloud.coordinates(1))
    wanted = np.unique(points // step * step, axis=0)
    used = int(cloud.count(1)[0])
    assert used == len(wanted)
    assert np.unique(coarse[:used], axis=0).tolist() == wanted.tolist()
    assert cloud.is_used(1).sum() == used
    assert geometry.tensor_stride(1) == (2, 1, 4)
    assert coarse.shape == (50, 1 + ndim)


@pytest.mark.parametrize("level", [-1, 2])
def test_levels_that_are_not_there(generator, level):
    geometry = sparse.Geometry([sparse.Level(50), sparse.Level(50, 0, 2)], {}, batch_size=2)
    cloud, x = sparse.pyramid(geometry, cells(generator, 40)), normal(generator, 50, 4)
    for function in (
        cloud.count,
        cloud.capacity,
        cloud.coordinates,
        cloud.is_used,
        geometry.tensor_stride,
        lambda level: sparse.batch_norm(cloud, level, x),
        lambda level: sparse.global_pool(cloud, level, x),
        lambda level: sparse.to_dense(cloud, level, x, (4, 4, 4), 2),
    ):
        with pytest.raises(ValueError, match=f"level is {level}, and it must be 0 to 1"):
            function(level)


@pytest.mark.parametrize("zero", [0, (2, 0, 2), -1])
def test_numbers_of_geometries_that_are_not_positive(zero):
    levels = [sparse.Level(8), sparse.Level(8, 0, 2)]
    match = "and each of its numbers must be 1 or more"
    for name in ("stride", "kernel_size", "dilation"):
        with pytest.raises(ValueError, match=f"the {name} of level 1 is .*{match}"):
            sparse.Geometry([levels[0], sparse.Level(8, 0, **{"kernel_size": 3, name: zero})], {})
    for name, describe in itertools.product(("kernel_size", "dilation"), (sparse.conv_map, sparse.pool_map)):
        with pytest.raises(ValueError, match=f"the {name} of the map 'down' is .*{match}"):
            sparse.Geometry(levels, {"down": describe(0, 1, **{"kernel_size": 3, name: zero})})


def test_options_of_geometries_that_are_refused():
    for ndim in (0, 5):
        with pytest.raises(ValueError, match=f"ndim is {ndim}, and it must be 1 to 4"):
            sparse.Geometry([sparse.Level(8)], {}, ndim=ndim)
    for pairs in (0, -1, float("nan")):
        with pytest.raises(ValueError, match=f"pairs_per_row is {pairs}, and it must be above 0"):
            sparse.Geometry([sparse.Level(8)], {}, pairs_per_row=pairs)


@pytest.mark.parametrize("array", [np.array, jnp.array])
def test_numbers_of_geometries_as_arrays(array):
    def geometry(make):
        return sparse.Geometry(
            [sparse.Level(8), sparse.Level(8, 0, make([2, 1, 4]))],
            {
                "sizes": sparse.conv_map(0, 1, kernel_size=make([3, 1, 2]), padding=make([1, 0, 0])),
                "offsets": sparse.conv_map(0, 0, offsets=make([[0, 0, 0], [1, 0, -1]])),
            },
        )

    assert geometry(array) == geometry(tuple)
    assert hash(geometry(array)) == hash(geometry(tuple))


@pytest.mark.parametrize("eps", [0.0, -1.0, float("nan"), float("inf")])
def test_an_eps_that_is_not_positive(generator, eps):
    cloud = sparse.pyramid(sparse.Geometry([sparse.Level(50)], {}), cells(generator, 40))
    with pytest.raises(ValueError, match=f"eps is {eps}, and it must be above 0 and finite"):
        sparse.batch_norm(cloud, 0, normal(generator, 50, 4), eps=eps)
