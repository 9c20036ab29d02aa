"""Coordinate sets and kernel maps against plain loops."""

import minuet
import numpy as np
import oracle
import pytest
from minuet import _library


def rows_of(array):
    return sorted(map(tuple, array.tolist()))


def test_sets_and_maps(device, generator):
    cloud = oracle.make_cloud(generator, 200)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    assert (coordinates.count, coordinates.rows, len(coordinates), coordinates.ndim) == (200, 200, 200, 3)
    np.testing.assert_array_equal(device.to_host(coordinates.export()), cloud)

    coarse = coordinates.downsample(2)
    coarse_cloud = device.to_host(coarse.export())
    assert set(map(tuple, coarse_cloud.tolist())) == oracle.downsample(cloud, 2)
    assert coarse.count == len(coarse_cloud)

    for inputs, outputs, given in (
        (coordinates, coordinates, (cloud, cloud)),
        (coordinates, coarse, (cloud, coarse_cloud)),
    ):
        kernel_map = minuet.KernelMap(inputs, outputs, 3)
        expected = oracle.pairs_of(*given, (3, 3, 3), (1, 1, 1))
        assert (kernel_map.volume, kernel_map.pairs) == (27, len(expected))
        np.testing.assert_array_equal(np.array(rows_of(kernel_map.export())), expected)
        back = kernel_map.transpose()
        assert rows_of(back.export()[:, [0, 2, 1]]) == rows_of(kernel_map.export())


def test_axes_of_their_own(device, generator):
    cloud = oracle.make_cloud(generator, 100)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    kernel_map = minuet.KernelMap(coordinates, coordinates, (3, 1, 2), dilation=(1, 1, 2))
    expected = oracle.pairs_of(cloud, cloud, (3, 1, 2), (1, 1, 2))
    np.testing.assert_array_equal(np.array(rows_of(kernel_map.export())), expected)
    assert minuet.KernelMap(coordinates, coordinates, np.int64(3)).volume == 27
    for wrong in (2**32 + 3, (3, 2**32 + 3, 3), -(2**31) - 1):
        with pytest.raises(ValueError, match=r"kernel_size is -?\d+, and -2147483648 to 2147483647 are taken"):
            minuet.KernelMap(coordinates, coordinates, wrong)
    with pytest.raises(TypeError):
        minuet.KernelMap(coordinates, coordinates, (3, 3, 1.5))
    with pytest.raises(ValueError, match="kernel_size has 2 numbers, and there are 3 axes"):
        minuet.KernelMap(coordinates, coordinates, (3, 1))


def test_reached(device):
    cloud = np.array([[0, 1, 1, 1]], np.int32)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    reached = coordinates.reach(3, stride=2, padding=1, shape=4)
    # Along each axis q = 0 and 2 reach 1 by k = 2 and 0.
    expected = {(0, x, y, z) for x in (0, 2) for y in (0, 2) for z in (0, 2)}
    assert set(map(tuple, device.to_host(reached.export()).tolist())) == expected
    assert minuet.KernelMap(coordinates, reached, 3, padding=1).pairs == 8


def test_generated(device):
    cloud = np.array([[0, 2, 4, -6]], np.int32)
    coarse = minuet.Coordinates(device, device.to_device(cloud), tensor_stride=2)
    centred = coarse.generate([3, 1, 2], stride=2)
    expected = {(0, x, 4, z) for x in (1, 2, 3) for z in (-6, -5)}
    assert set(map(tuple, device.to_host(centred.export()).tolist())) == expected
    assert minuet.KernelMap(centred, coarse, [3, 1, 2]).transpose().pairs == 6
    dense = coarse.generate([3, 1, 1], stride=[1, 2, 1], padding=[2, 0, 0])
    assert set(map(tuple, device.to_host(dense.export()).tolist())) == {(0, x, 4, -6) for x in (-2, 0, 2)}
    with pytest.raises(minuet.InvalidArgumentError, match="stride 4 does not divide 2"):
        coarse.generate(2, stride=4)


def test_duplicates_and_bounds(device):
    cloud = device.to_device(np.array([[0, 1, 2, 3], [0, 1, 2, 3]], np.int32))
    with pytest.raises(minuet.InvalidArgumentError, match="1 of 2 coordinates are duplicates"):
        minuet.Coordinates(device, cloud)
    kept = minuet.Coordinates(device, cloud, keep_first_duplicate=True)
    assert (kept.count, kept.rows) == (1, 2)
    with pytest.raises(minuet.OutOfRangeError):
        minuet.Coordinates(device, cloud, bounds=((0, 0, 0, 0), (0, 1, 1, 1)), keep_first_duplicate=True)
    with pytest.raises(ValueError, match="batch first"):
        minuet.Coordinates(device, cloud, bounds=((0, 0, 0), (0, 1, 1)))


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros((2, 4), np.int64), "int64, and int32 is needed"),
        (np.zeros(4, np.int32), r"the shape \[4\]"),
        (np.zeros((2, 1), np.int32), "1 columns"),
        (np.zeros((2, 6), np.int32), "6 columns"),
        (np.zeros((2, 8), np.int32)[:, ::2], "not contiguous"),
    ],
)
def test_wrong_coordinates(cpu, array, message):
    with pytest.raises((TypeError, ValueError), match=message):
        minuet.Coordinates(cpu, array)


def test_queues(device, generator):
    with minuet.Queue(device) as queue:
        cloud = oracle.make_cloud(generator, 50)
        coordinates = minuet.Coordinates(device, device.to_device(cloud), queue=queue)
        coarse = coordinates.downsample(2)
        assert coarse.count == len(oracle.downsample(cloud, 2))
        other = minuet.Coordinates(device, device.to_device(cloud))
        with pytest.raises(minuet.InvalidArgumentError):
            minuet.KernelMap(coordinates, other, 3)
    assert queue.closed
    assert minuet.KernelMap(coordinates, coarse, 2).pairs == 50


def test_export_into_given_memory(device):
    cloud = np.array([[0, 1, 2, 3], [1, 4, 5, 6]], np.int32)
    coordinates = minuet.Coordinates(device, device.to_device(cloud))
    out = device.to_device(np.full((2, 4), -9, np.int32))
    assert coordinates.export(out) is out
    np.testing.assert_array_equal(device.to_host(out), cloud)
    with pytest.raises(ValueError, match=r"out has the shape \[3, 4\]"):
        coordinates.export(device.to_device(np.zeros((3, 4), np.int32)))


def test_a_count_that_fails(cpu, monkeypatch):
    """The error is that of the failed call, whatever an object that goes at its end says afterwards."""
    coordinates = minuet.Coordinates(cpu, np.zeros((1, 4), np.int32))
    library, destroy = _library.library, coordinates._cell.destroy

    def fail(pointer):
        coordinates.close()
        assert library.minuet_kernel_map_query_pairs(None, None) != 0
        return -1

    def destroy_with_an_error(pointer):
        destroy(pointer)
        assert library.minuet_plan_load(None, None) != 0

    coordinates._cell.destroy = destroy_with_an_error
    monkeypatch.setattr(library, "minuet_coordinates_count", fail)
    with pytest.raises(minuet.InternalError, match="minuet_kernel_map_query_pairs"):
        _ = coordinates.count
