"""Runs in a process of its own, for test_jax_processes.py: clouds on four devices of the host."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import minuet.jax as sparse
import numpy as np
from conftest import ROOT, new_generator
from jax.sharding import PartitionSpec as P
from jax_problems import cells, convolved, expect_close, in_double, same_bits

sys.path.insert(0, str(ROOT / "tools/bench"))
from scale_networks_jax import OpNetwork

RANKS, ROWS = 4, 64
CLOUDS = P("clouds")
GEOMETRY = sparse.Geometry([sparse.Level(ROWS)], {"same": sparse.conv_map(0, 0, 3)})


def shards(generator):
    """Clouds of different sizes, side by side, with NaN in rows past their counts."""
    counts = np.array([50, 7, 33, 64], np.int32)
    points = np.zeros((RANKS * ROWS, 4), np.int32)
    x = np.full((RANKS * ROWS, 4), np.nan, np.float32)
    for rank, count in enumerate(counts):
        points[rank * ROWS : rank * ROWS + count] = cells(generator, count)
        x[rank * ROWS : rank * ROWS + count] = generator.normal(size=(count, 4))
    return points, counts, x


def loss_of(weight, scale, points, count, x, axis_name):
    cloud = sparse.pyramid(GEOMETRY, points, count)
    y = sparse.conv(cloud, "same", x, weight)
    before = sparse.Statistics(jnp.zeros(6), jnp.ones(6))
    y, after = sparse.batch_norm(cloud, 0, y, scale, None, before, relu=True, axis_name=axis_name)
    return (y**3).sum(), (cloud.status, after)


def test_training_step(mesh, generator):
    """Gradients of weights are summed over the shards, and batch norm shares statistics: as float64 on one device."""
    points, counts, x = shards(generator)
    weight, scale = generator.normal(size=(27, 4, 6)).astype(np.float32), generator.normal(size=6).astype(np.float32)

    def step(weight, scale, points, count, x):
        gradient = jax.value_and_grad(loss_of, argnums=(0, 1), has_aux=True)
        (loss, (status, after)), gradients = gradient(weight, scale, points, count, x, "clouds")
        return jax.lax.psum(loss, "clouds"), gradients, status, after

    sharded = jax.jit(
        jax.shard_map(step, mesh=mesh, in_specs=(P(), P(), CLOUDS, CLOUDS, CLOUDS), out_specs=(P(), P(), CLOUDS, P()))
    )
    loss, gradients, status, after = sharded(weight, scale, points, counts, x)
    assert status.shape == (RANKS,)
    sparse.check(status)
    assert same_bits(sharded(weight, scale, points, counts, x), (loss, gradients, status, after))

    # In float64 all voxels are rows of one convolution, and the clouds differ by their batch indices.
    used = (np.arange(ROWS) < counts[:, None]).reshape(-1)
    pairs, base = [], 0
    for rank, count in enumerate(counts):
        cloud = sparse.pyramid(GEOMETRY, points[rank * ROWS : (rank + 1) * ROWS], jnp.array([count], jnp.int32))
        listed, number = cloud.pairs["same"]
        pairs.append(np.asarray(listed)[: int(number[0])] + np.array([0, base, base]))
        base += int(count)
    convolve = convolved(np.concatenate(pairs), base)

    def reference(weight, scale):
        y = convolve(jnp.asarray(x[used], weight.dtype), weight)
        y = (y - y.mean(0)) / jnp.sqrt(y.var(0) + 1e-5) * scale
        return (jnp.maximum(y, 0) ** 3).sum()

    expected, wide = in_double(reference, weight, scale, out=np.float64(1))
    expect_close(loss, expected, "float32")
    for gradient, each in zip(gradients, wide, strict=True):
        expect_close(gradient, each, "float32")
    with jax.enable_x64(True):
        y = np.asarray(convolve(jnp.asarray(x[used], jnp.float64), jnp.asarray(weight, jnp.float64)))
    expect_close(after.mean, 0.1 * y.mean(0), "float32")
    expect_close(after.variance, 0.9 + 0.1 * y.var(0, ddof=1), "float32")


def test_inference(mesh, generator):
    """Each shard gives the bits of a device that is alone."""
    points, counts, x = shards(generator)
    weight = jnp.asarray(generator.normal(size=(27, 4, 6)), jnp.float32)

    def infer(points, count, x):
        return sparse.conv(sparse.pyramid(GEOMETRY, points, count), "same", x, weight)

    whole = jax.jit(jax.shard_map(infer, mesh=mesh, in_specs=CLOUDS, out_specs=CLOUDS))(points, counts, x)
    for rank in range(RANKS):
        rows = slice(rank * ROWS, (rank + 1) * ROWS)
        assert same_bits(whole[rows], jax.jit(infer)(points[rows], counts[rank : rank + 1], x[rows]))


def test_points(mesh, generator):
    """Voxels of points and pooled clouds of each shard, and gradients of the points, are those of a device that is
    alone."""
    geometry = sparse.Geometry([sparse.Level(ROWS)], {"same": sparse.conv_map(0, 0, 3)}, batch_size=2)
    points = generator.normal(size=(RANKS * 50, 5)).astype(np.float32)
    batch = generator.integers(0, 2, RANKS * 50).astype(np.int32)
    weight = jnp.asarray(generator.normal(size=(27, 2, 6)), jnp.float32)

    def pool(points, batch):
        voxels = sparse.voxelize(points, (0.5,) * 3, batch=batch, first_column=3, capacity=ROWS)
        cloud = sparse.pyramid(geometry, voxels.coordinates, voxels.count)
        y = sparse.conv(cloud, "same", voxels.features, weight)
        return sparse.global_pool(cloud, 0, y, "max"), voxels.status | cloud.status

    def step(points, batch):
        (_, made), gradient = jax.value_and_grad(
            lambda points: (lambda y, status: ((y**2).sum(), (y, status)))(*pool(points, batch)), has_aux=True
        )(points)
        return *made, gradient

    whole = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=CLOUDS, out_specs=CLOUDS))(points, batch)
    sparse.check(whole[1])
    for rank in range(RANKS):
        rows = slice(rank * 50, (rank + 1) * 50)
        alone = jax.jit(step)(points[rows], batch[rows])
        assert alone[0].any() and alone[2].any()
        pooled = slice(rank * 2, (rank + 1) * 2)
        assert same_bits((whole[0][pooled], whole[2][rows]), (alone[0], alone[2]))


def test_loss_curve(mesh, generator):
    """MinkUNet42 with narrow layers: devices with clouds of different sizes learn what one learns from all clouds."""
    steps, classes, rate = 4, 8, 0.05
    widths = [8] * 9
    kinds = sparse.Network("minkunet42", [ROWS] * 5, channels=widths, is_trained=True).parameters
    first = {}
    for name, kind in kinds.items():
        is_one = name.endswith(("running_var", "bn.weight", "bn1.weight", "bn2.weight"))
        values = generator.normal(size=kind.shape) * (2 / np.prod(kind.shape[:-1])) ** 0.5
        first[name] = values.astype(np.float32) if len(kind.shape) > 1 else np.full(kind.shape, is_one, np.float32)

    def step_of(network, axis):
        total = (lambda x: x) if axis is None else (lambda x: jax.lax.psum(x, axis))

        def step(parameters, points, count, x, labels):
            def loss_of(parameters):
                cloud = network.pyramid(points, count)
                y, statistics = network.train(parameters, cloud, x, axis_name=axis)
                each = -jnp.take_along_axis(jax.nn.log_softmax(y), labels[:, None], 1)[:, 0]
                used = cloud.is_used(0)
                return jnp.where(used, each, 0).sum() / total(used.sum()), (statistics, cloud.status)

            (loss, (statistics, status)), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
            after = jax.tree.map(lambda p, g: p - rate * g, parameters, gradients)
            return {**after, **statistics}, total(loss), gradients, status

        return step

    sharded = jax.jit(
        jax.shard_map(
            step_of(OpNetwork([ROWS] * 5), "clouds"),
            mesh=mesh,
            in_specs=(P(), CLOUDS, CLOUDS, CLOUDS, CLOUDS),
            out_specs=(P(), P(), P(), CLOUDS),
        )
    )
    alone = jax.jit(step_of(OpNetwork([RANKS * ROWS] * 5), None))
    states, losses = [first, first], []
    for number in range(steps):
        points, counts, x = shards(generator)
        labels = generator.integers(0, classes, RANKS * ROWS).astype(np.int32)
        used = (np.arange(ROWS) < counts[:, None]).reshape(-1)
        rank_of = np.repeat(np.arange(RANKS), ROWS)
        # On one device the clouds differ by their batch indices. Those of a rank have two, 0 and 1.
        moved = points + np.stack([2 * rank_of, *[np.zeros_like(rank_of)] * 3], 1).astype(np.int32)
        whole = [sparse.padded(array[used], RANKS * ROWS) for array in (moved, x, labels)]
        given = [(points, counts, x, labels), (whole[0], np.array([used.sum()], np.int32), *whole[1:])]
        made = [step(state, *arrays) for step, state, arrays in zip((sharded, alone), states, given, strict=True)]
        for _, _, _, status in made:
            sparse.check(status)
        states, losses = [each[0] for each in made], [*losses, [float(each[1]) for each in made]]
        if number == 0:
            for name, wanted in made[1][2].items():
                if "running" not in name:  # Running statistics have no gradient.
                    expect_near(made[0][2][name], wanted)
    losses = np.array(losses)
    assert len(set(np.round(losses[:, 0], 3))) == steps
    assert np.allclose(losses[:, 0], losses[:, 1], rtol=1e-4), losses
    for name, wanted in states[1].items():
        expect_near(states[0][name], wanted)


def expect_near(actual, wanted):
    """Compares the results of two orders of adding, through all layers of a network."""
    actual, wanted = np.asarray(actual, np.float64), np.asarray(wanted, np.float64)
    assert wanted.any()
    assert np.linalg.norm(actual - wanted) <= 1e-3 * np.linalg.norm(wanted)


def main() -> None:
    assert jax.device_count() == RANKS
    mesh = jax.make_mesh((RANKS,), ("clouds",), axis_types=(jax.sharding.AxisType.Auto,))
    generator = new_generator()
    test_training_step(mesh, generator)
    test_inference(mesh, generator)
    test_points(mesh, generator)
    test_loss_curve(mesh, generator)
    print("done")


if __name__ == "__main__":
    main()
