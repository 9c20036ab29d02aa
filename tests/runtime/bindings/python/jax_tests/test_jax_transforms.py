"""What jax does with the ops: jit, grad, checkpoint, scan, threads; what is refused, and clouds that do not fit."""

from __future__ import annotations

import threading

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax_problems import cells, normal, same_bits  # noqa: E402

GEOMETRY = sparse.Geometry(
    [sparse.Level(64), sparse.Level(64, 0, 2)],
    {"same": sparse.conv_map(0, 0, 3), "down": sparse.conv_map(0, 1, 2), "pool": sparse.pool_map(0, 1, 2)},
)


def network(parameters, coordinates, count, x, geometry=GEOMETRY, wrap=lambda function: function):
    """A block, down, and up again, with a batch norm: one loss of a cloud."""
    cloud = sparse.pyramid(geometry, coordinates, count)

    @wrap
    def block(x, parameters):
        y = sparse.conv(cloud, "same", x, parameters["first"], parameters["bias"])
        return sparse.batch_norm(cloud, 0, y, parameters["scale"], relu=True)[0]

    y = block(x, parameters)
    down = sparse.conv(cloud, "down", y, parameters["down"]) + sparse.pool(cloud, "pool", y)
    up = sparse.conv(cloud, "down", down, parameters["up"], transposed=True)
    used = cloud.is_used(0)
    return (jnp.where(used[:, None], up, 0) ** 2).sum() / cloud.count(0)[0], cloud


def problem(generator, count=50, rows=64):
    points = np.zeros((rows, 4), np.int32)
    points[:count] = cells(generator, count)
    parameters = {
        "first": normal(generator, 27, 4, 8) / 8,
        "bias": normal(generator, 8),
        "scale": normal(generator, 8),
        "down": normal(generator, 8, 8, 8) / 8,
        "up": normal(generator, 2, 2, 2, 8, 4) / 8,
    }
    return parameters, points, jnp.array([count], jnp.int32), normal(generator, rows, 4)


def test_checkpoint_and_jit_give_the_same_bits(generator):
    given = problem(generator)
    gradients = [
        jax.jit(jax.grad(lambda *a, wrap=wrap: network(*a, wrap=wrap)[0], argnums=(0, 3)))(*given)
        for wrap in (lambda function: function, jax.checkpoint)
    ]
    assert same_bits(*gradients)
    assert all(bool(jnp.isfinite(leaf).all()) and leaf.any() for leaf in jax.tree.leaves(gradients[0]))


def test_integers_have_float0_gradients(generator):
    given = problem(generator)
    _, back = jax.vjp(lambda *operands: network(*operands)[0], *given)
    gradients = back(jnp.float32(1))
    assert gradients[1].dtype == jax.dtypes.float0
    assert gradients[2].dtype == jax.dtypes.float0


def test_larger_capacities_give_the_same_bits(generator):
    parameters, points, count, x = problem(generator)
    maps = dict(GEOMETRY.maps)
    larger = sparse.Geometry([sparse.Level(96), sparse.Level(128, 0, 2)], maps, pairs_per_row=25)
    results = []
    for geometry, rows in ((GEOMETRY, 64), (larger, 96)):
        given = (parameters, jnp.pad(points, [(0, rows - 64), (0, 0)]), count, jnp.pad(x, [(0, rows - 64), (0, 0)]))
        loss, gradients = jax.jit(jax.value_and_grad(lambda *a, g=geometry: network(*a, g)[0]))(*given)
        results.append((loss, gradients))
    assert same_bits(*results)


def test_a_training_step_is_one_function_and_learns(generator):
    parameters, *given = problem(generator)

    @jax.jit
    def train(parameters, *given):
        def step(parameters, _):
            (loss, cloud), gradients = jax.value_and_grad(network, has_aux=True)(parameters, *given)
            updated = jax.tree.map(lambda value, gradient: value - 0.02 * gradient, parameters, gradients)
            return updated, (loss, cloud.status)

        return jax.lax.scan(step, parameters, None, 60)

    after, (losses, statuses) = train(parameters, *given)
    sparse.check(statuses)
    assert losses[-1] < 0.5 * losses[0]
    assert same_bits((after, (losses, statuses)), train(parameters, *given))


def test_many_threads_run_one_function(generator):
    """Each call has its own values of the weights, although all share the plans."""
    function = jax.jit(jax.value_and_grad(lambda *operands: network(*operands)[0]))
    problems = [problem(generator, 40 + number) for number in range(8)]
    expected = [function(*given) for given in problems]
    wrong = []

    def work(number):
        for _ in range(6):
            if not same_bits(function(*problems[number]), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_functions_with_equal_ops(generator):
    """Plans are shared, and outlive the function that made them."""
    given = problem(generator)
    one = jax.jit(lambda *operands: network(*operands)[0])
    two = jax.jit(lambda *operands: 2 * network(*operands)[0])
    first = one(*given)
    del one
    assert float(two(*given)) == 2 * float(first)


def test_no_voxels(generator):
    parameters, points, _, x = problem(generator)
    cloud = sparse.pyramid(GEOMETRY, points, jnp.zeros(1, jnp.int32))
    assert cloud.counts.tolist() == [0, 0, 0]

    def loss(parameters, x):
        return (sparse.conv(cloud, "same", x, parameters["first"]) ** 2).sum()

    value, gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(parameters, x)
    assert value == 0
    assert not any(leaf.any() for leaf in jax.tree.leaves(gradients))


@pytest.mark.parametrize("what", ["coarse", "pairs", "count", "duplicate", "bounds"])
def test_a_cloud_that_does_not_fit(generator, what):
    """Outputs and gradients are zeros, the status says why, and check() raises it."""
    parameters, points, count, x = problem(generator)
    levels, options, wanted = list(GEOMETRY.levels), {}, sparse.CloudStatus.PAST_CAPACITY
    if what == "coarse":
        levels[1] = sparse.Level(3, 0, 2)
    elif what == "pairs":
        options["pairs_per_row"] = 0.5
    elif what == "count":
        count = jnp.array([65], jnp.int32)
    elif what == "duplicate":
        points[1], wanted = points[0], sparse.CloudStatus.DUPLICATE
    else:
        options["bounds"], wanted = ((0, 0, 0, 0), (1, 2, 2, 2)), sparse.CloudStatus.OUT_OF_BOUNDS
    geometry = sparse.Geometry(levels, dict(GEOMETRY.maps), **options)

    def loss(parameters, x):
        cloud = sparse.pyramid(geometry, points, count)
        return (sparse.conv(cloud, "same", x, parameters["first"]) ** 2).sum(), cloud

    (value, cloud), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(parameters, x)
    assert int(cloud.status[0]) & wanted
    assert not gradients["first"].any()
    assert (value == 0) == (what != "pairs")
    with pytest.raises(ValueError, match=wanted.name):
        sparse.check(cloud)


def test_check_within_jit_is_refused(generator):
    _, points, count, _ = problem(generator)

    @jax.jit
    def function():
        sparse.check(sparse.pyramid(GEOMETRY, points, count))

    with pytest.raises(TypeError, match="outside of jit"):
        function()


@pytest.mark.parametrize("has_jit", [False, True])
def test_vmap_is_refused(generator, has_jit):
    parameters, points, count, x = problem(generator)

    def function(x):
        return network(parameters, points, count, x)[0]

    with pytest.raises(NotImplementedError, match="put the clouds into one array"):
        jax.vmap(jax.jit(function) if has_jit else function)(jnp.stack([x, x]))


def test_second_derivatives_are_refused(generator):
    given = problem(generator)
    with pytest.raises(NotImplementedError, match=r"ops have first derivatives in reverse mode alone \(jax\.grad\)"):
        jax.hessian(lambda x: network(given[0], given[1], given[2], x)[0])(given[3])


def test_wrong_operands(generator):
    parameters, points, count, x = problem(generator)
    cloud = sparse.pyramid(GEOMETRY, points, count)
    weight = parameters["first"]
    with pytest.raises(ValueError, match=r"shape \[63, 4\], and \[64, channels\]"):
        sparse.conv(cloud, "same", x[1:], weight)
    with pytest.raises(ValueError, match="no map 'other': use one of same, down, pool"):
        sparse.conv(cloud, "other", x, weight)
    with pytest.raises(ValueError, match=r"the weight has the shape \[8, 8, 8\]"):
        sparse.conv(cloud, "same", x, parameters["down"])
    with pytest.raises(ValueError, match="bias has the shape"):
        sparse.conv(cloud, "same", x, weight, jnp.zeros(3))
    for dtype in (jnp.int32, bool, jnp.complex64, jnp.float8_e4m3fn):
        with pytest.raises(ValueError, match=f"the weight is {jnp.dtype(dtype)}, and float32, .* is needed"):
            jax.eval_shape(lambda d=dtype: sparse.conv(cloud, "same", x, weight.astype(d)))
    with pytest.raises(ValueError, match=r"bias is int32, and float32, .* is needed"):
        jax.eval_shape(lambda: sparse.conv(cloud, "same", x, weight, jnp.zeros(8, jnp.int32)))
    for groups in (0, -1):
        with pytest.raises(ValueError, match=f"groups is {groups}, and it must be 1 or more"):
            sparse.conv(cloud, "same", x, weight, groups=groups)
    with pytest.raises(ValueError, match="features are int32"):
        sparse.conv(cloud, "same", x.astype(jnp.int32), weight)
    with pytest.raises(ValueError, match="reduction 'mean' is not known"):
        sparse.pool(cloud, "pool", x, "mean")
    with pytest.raises(ValueError, match="coordinates are float32"):
        sparse.pyramid(GEOMETRY, x)
    with pytest.raises(ValueError, match="65 coordinates"):
        sparse.pyramid(GEOMETRY, np.zeros((65, 4), np.int32))
    with pytest.raises(ValueError, match="count is float32"):
        sparse.pyramid(GEOMETRY, points, jnp.zeros(1))
    with pytest.raises(ValueError, match="weight has the shape"):
        sparse.batch_norm(cloud, 0, x, jnp.ones(3))
    with pytest.raises(ValueError, match="residual is float16"):
        sparse.batch_norm(cloud, 0, x, residual=x.astype(jnp.float16))
    with pytest.raises(ValueError, match="the capacity is 64"):
        sparse.padded(np.zeros((65, 1)), 64)
    with pytest.raises(Exception, match="level 1"):
        sparse.Geometry([sparse.Level(8), sparse.Level(0, 0, 2)], {})
    pooled = sparse.pyramid(sparse.Geometry(GEOMETRY.levels, {"pool": sparse.pool_map(0, 1, 2)}), points, count)
    with pytest.raises(Exception, match=r"(minuet_run|minuet_plan_run_bytes): .*purposes"):  # the library's own error
        jax.block_until_ready(sparse.conv(pooled, "pool", x, jnp.zeros((8, 4, 4))))


def test_a_gradient_without_pairs(generator):
    _, points, count, x = problem(generator)
    geometry = sparse.Geometry([sparse.Level(64)], {"same": sparse.conv_map(0, 0, 3, is_trained=False)})
    cloud = sparse.pyramid(geometry, points, count)
    weight = jnp.ones((27, 4, 4))
    assert sparse.conv(cloud, "same", x, weight).any()
    with pytest.raises(ValueError, match="is_trained=True"):
        jax.grad(lambda weight: sparse.conv(cloud, "same", x, weight).sum())(weight)
