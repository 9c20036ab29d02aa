"""The slots of an index, and the memory that follows from them."""

import dataclasses

import minuet
import numpy as np
import oracle
import pytest

ROWS = 300
CAPACITY = 5000


@pytest.fixture
def network(context, device):
    plan = minuet.Plan.network(context, "minkunet42", channels=[8] * 9, seed=3, dataflow="fused")
    plan.load(device)
    return plan


def test_declared_slots(device, network, generator):
    """They change the memory, and no result."""
    cloud = device.to_device(oracle.make_cloud(generator, ROWS))
    features = np.full((CAPACITY, 4), np.nan, np.float32)
    features[:ROWS] = generator.normal(size=(ROWS, 4))
    exact = minuet.Execution(network, device)
    with pytest.raises(minuet.FailedPreconditionError):
        exact.suggest_slots()
    exact.prepare(cloud)
    slots = exact.suggest_slots()
    assert slots == (4096,) * network.info.levels

    capacities = [CAPACITY] * network.info.levels
    usual, declared = minuet.index_bytes(capacities), minuet.index_bytes(capacities, slots)
    assert (declared.slots, declared.rows, declared.points) == (sum(slots), usual.rows, usual.points)
    outputs, sizes = [], []
    for given in (None, slots):
        execution = minuet.Execution(network, device, level_capacity=capacities, level_slots=given)
        execution.prepare(cloud)
        outputs.append(device.to_host(execution.run(device.to_device(features))))
        assert execution.read_cloud().status == 0
        sizes.append(execution.info.workspace_bytes)
        size = minuet.workspace_bytes(network, device.arch, level_capacity=capacities, level_slots=given)
        assert size == sizes[-1]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert outputs[0][:ROWS].any()
    assert sizes[0] - sizes[1] == usual.table - declared.table


def test_slots_of_pyramids(device, context, network):
    levels = [minuet.Level(CAPACITY), minuet.Level(CAPACITY, parent=0, stride=2)]
    fewer = [dataclasses.replace(level, slots=4096) for level in levels]
    usual, declared = (minuet.Pyramid(context, given).bytes(device.arch) for given in (levels, fewer))
    tables = [minuet.index_bytes([CAPACITY] * 2, given).table for given in (None, [4096] * 2)]
    assert usual[1] - declared[1] == tables[0] - tables[1]

    capacities, slots = [CAPACITY] * network.info.levels, [4096] * network.info.levels
    usual, declared = (
        minuet.Pyramid(context, network=network, level_capacity=capacities, level_slots=given).bytes(device.arch)
        for given in (None, slots)
    )
    tables = [minuet.index_bytes(capacities, given).table for given in (None, slots)]
    assert usual[1] - declared[1] == tables[0] - tables[1]


def test_wrong_slots(device, context, network):
    with pytest.raises(ValueError, match="level_slots has 1 numbers, and level_capacity has 5"):
        minuet.Execution(network, device, level_capacity=[8] * 5, level_slots=[1])
    with pytest.raises(ValueError, match="level_slots has 5 numbers, and level_capacity has 0"):
        minuet.Execution(network, device, level_slots=[1] * 5)
    with pytest.raises(ValueError, match="level_slots has 5 numbers, and level_capacity has 0"):
        minuet.Pyramid(context, [minuet.Level(8)], level_slots=[0] * 5)
    with pytest.raises(minuet.InvalidArgumentError, match=r"level_slots\[1\]: the number of slots is -1"):
        minuet.index_bytes([8, 8], [0, -1])
    with pytest.raises(minuet.OutOfRangeError, match="level 0: 67108865 slots"):
        minuet.Pyramid(context, [minuet.Level(8, slots=2**26 + 1)])
