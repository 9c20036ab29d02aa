"""Levels of the rows, children and cells that a rule keeps, against numpy."""

import minuet
import numpy as np
import pytest


def rows(random, count):
    return np.concatenate([random.integers(0, 3, (count, 1)), random.integers(-50, 50, (count, 3))], 1).astype(np.int32)


def load(selector, device):
    selector.load(device)
    return selector


def test_rows_by_a_mask(context, cpu):
    random = np.random.default_rng(5)
    coordinates, mask = rows(random, 200), random.integers(0, 2, 200).astype(np.uint8)
    selector = load(minuet.Selector(context), cpu)
    kept = selector.run(cpu, coordinates, mask=mask)
    wanted = np.flatnonzero(mask)
    count = len(wanted)
    assert kept.status[0] == 0 and kept.count[0] == count
    assert np.array_equal(kept.coordinates[:count], coordinates[wanted]) and not kept.coordinates[count:].any()
    assert np.array_equal(kept.sources[:count], wanted) and (kept.sources[count:] == -1).all()
    assert np.array_equal(kept.parents, kept.sources)
    assert np.array_equal(kept.places, np.where(mask != 0, np.cumsum(mask != 0) - 1, -1))
    assert kept.features is None
    again = selector.run(cpu, coordinates, mask=mask)
    for name in ("coordinates", "sources", "parents", "places", "count", "status"):
        getattr(again, name)[:] = 77
    workspace = np.empty(selector.bytes("cpu", 200), np.uint8)
    assert selector.run(cpu, coordinates, mask=mask, out=again, workspace=workspace).places is again.places
    assert np.array_equal(again.coordinates, kept.coordinates) and np.array_equal(again.places, kept.places)
    few = selector.run(cpu, coordinates, mask=mask, row_count=np.array([50], np.int32), capacity=count)
    assert few.count[0] == np.count_nonzero(mask[:50])
    assert selector.run(cpu, coordinates, mask=mask, capacity=3).status[0] == minuet.CloudStatus.PAST_CAPACITY


def test_children_by_their_scores(context, cpu):
    random = np.random.default_rng(6)
    coordinates = rows(random, 60)
    scores = random.normal(0, 1, (60, 10)).astype(np.float32)[:, 1:9]
    above = load(minuet.Selector(context, minuet.SelectRule.ABOVE, threshold=0.5, children=2, tensor_stride=4), cpu)
    kept = above.run(cpu, coordinates, scores=scores)
    parents, children = np.nonzero(scores > 0.5)
    count = len(parents)
    assert kept.count[0] == count
    steps = np.stack([np.zeros(8, int), *np.unravel_index(np.arange(8), (2, 2, 2))], 1)
    assert np.array_equal(kept.coordinates[:count], coordinates[parents] + 4 * steps[children])
    assert np.array_equal(kept.parents[:count], parents)
    best = load(minuet.Selector(context, minuet.SelectRule.BEST, best=5, children=2, batch_size=3), cpu)
    kept = best.run(cpu, coordinates, scores=scores)
    for item in range(3):
        own = np.flatnonzero(coordinates[:, 0] == item)
        wanted = np.sort(scores[own].ravel())[-5:]
        sources = kept.sources[: kept.count[0]]
        assert np.array_equal(np.sort(scores.reshape(-1)[sources[coordinates[sources // 8, 0] == item]]), wanted)


def test_cells_of_a_dense_tensor(context, cpu):
    random = np.random.default_rng(7)
    dense = (random.normal(0, 1, (2, 3, 4, 5, 6)) * (random.uniform(0, 1, (2, 1, 4, 5, 6)) < 0.3)).astype(np.float32)
    selector = minuet.Selector(
        context, minuet.SelectRule.NONZERO, shape=(4, 5, 6), batch_size=2, channels=3, tensor_stride=2
    )
    kept = load(selector, cpu).run(cpu, dense=dense)
    cells = np.argwhere((dense != 0).any(1))
    count = len(cells)
    assert kept.count[0] == count and kept.parents is None
    assert np.array_equal(kept.coordinates[:count], cells * (1, 2, 2, 2))
    assert np.array_equal(kept.features[:count], dense[cells[:, 0], :, cells[:, 1], cells[:, 2], cells[:, 3]])
    assert np.array_equal(kept.sources[:count], np.flatnonzero((dense != 0).any(1)))
    image = load(
        minuet.Selector(
            context, minuet.SelectRule.NONZERO, shape=(6, 5, 4), batch_size=2, channels=3, axis_order=(2, 1, 0)
        ),
        cpu,
    )
    assert np.array_equal(image.run(cpu, dense=dense).count, kept.count)


def test_refusals(context, cpu):
    with pytest.raises(minuet.InvalidArgumentError, match="best candidates"):
        minuet.Selector(context, minuet.SelectRule.BEST)
    with pytest.raises(ValueError, match="which have none"):
        minuet.Selector(context, shape=(2, 2, 2), batch_size=1, children=2)
    selector = load(minuet.Selector(context), cpu)
    with pytest.raises(ValueError, match="give their coordinates"):
        selector.run(cpu, mask=np.zeros(2, np.uint8))
    coordinates = np.zeros((2, 4), np.int32)
    with pytest.raises(ValueError, match="must have 2 elements"):
        selector.run(cpu, coordinates, mask=np.zeros(3, np.uint8))
    with pytest.raises(minuet.InvalidArgumentError, match="mask is null"):
        selector.run(cpu, coordinates)
    above = load(minuet.Selector(context, minuet.SelectRule.ABOVE, children=2), cpu)
    with pytest.raises(ValueError, match="must be adjacent"):
        above.run(cpu, coordinates, scores=np.zeros((2, 16), np.float32)[:, ::2])
    cells = load(minuet.Selector(context, shape=(2, 2, 2), batch_size=1), cpu)
    with pytest.raises(ValueError, match="give no coordinates"):
        cells.run(cpu, coordinates, mask=np.zeros(8, np.uint8))


def test_a_network_that_keeps_rows_by_a_mask(context, cpu):
    random = np.random.default_rng(7)
    coordinates = np.unique(rows(random, 300), axis=0)
    features = random.uniform(-1, 1, (len(coordinates), 4)).astype(np.float32)
    network = """{"name": "n", "ndim": 3, "inputs": [{"name": "x", "channels": 4},
        {"name": "keep", "channels": 1, "level": "x", "type": "mask"}], "outputs": ["kept"],
        "layers": [{"op": "prune", "input": "x", "by": "keep", "output": "kept"}]}"""
    plan = minuet.Plan.network(context, description=network, dtype="float32")
    plan.compile("cpu")
    plan.load(cpu)
    assert [item.dtype for item in plan.inputs] == ["float32", "uint8"]
    execution = minuet.Execution(plan, cpu)
    mask = random.integers(0, 2, (len(coordinates), 1))
    for kind in (np.uint8, bool):
        execution.prepare(coordinates)
        out = np.full((len(coordinates), 4), np.nan, np.float32)
        execution.run(features, mask.astype(kind), out=out)
        count = int(mask.sum())
        assert execution.output_shape(0) == (count, 4)
        assert np.array_equal(out[:count], features[mask[:, 0] != 0])
    with pytest.raises(TypeError, match="elements of int32"):
        execution.run(features, mask.astype(np.int32), out=out)
