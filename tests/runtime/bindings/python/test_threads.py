"""Threads: everything but executions may be shared, and the GIL is released in calls."""

import threading
from concurrent.futures import ThreadPoolExecutor

import minuet
import numpy as np
import oracle
import pytest


def test_executions_in_threads(device, context, generator):
    """Each thread has an execution of the one plan; results have the bits of a run alone."""
    plan = minuet.Plan.network(context, "minkunet42", channels=[8] * 9, seed=1)
    plan.load(device)
    clouds = [oracle.make_cloud(generator, 100) for _ in range(3)]
    x = device.to_device(generator.normal(size=(100, 4)).astype(np.float32))

    def infer(cloud):
        execution = minuet.Execution(plan, device)
        results = []
        for _ in range(3):
            execution.prepare(device.to_device(cloud))
            results.append(device.to_host(execution.run(x)))
        assert all((result == results[0]).all() for result in results)
        return results[0]

    alone = [infer(cloud) for cloud in clouds]
    with ThreadPoolExecutor(3) as pool:
        for together, expected in zip(pool.map(infer, clouds), alone, strict=True):
            np.testing.assert_array_equal(together, expected)


def test_sets_and_plans_in_threads(device, context, generator):
    cloud = device.to_device(oracle.make_cloud(generator, 100))

    def work(number):
        coordinates = minuet.Coordinates(device, cloud)
        plan = minuet.Plan.convolution(context, np.full((27, 8, 8), number), kernel_size=3, submanifold=True)
        plan.load(device)
        execution = minuet.Execution(plan, device)
        execution.prepare_maps(minuet.KernelMap(coordinates, coordinates, 3))
        return device.to_host(execution.run(device.to_device(np.ones((100, 8), np.float32))))

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, [1, 2, 1, 2]))
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[0] * 2, results[1])


def test_errors_belong_to_their_thread(context):
    def fail(name):
        messages = set()
        for _ in range(100):
            with pytest.raises(minuet.NotFoundError) as caught:
                minuet.Plan.network(context, name)
            messages.add(str(caught.value))
        return messages

    with ThreadPoolExecutor(4) as pool:
        for name, messages in zip("abcd", pool.map(fail, ["net-a", "net-b", "net-c", "net-d"]), strict=True):
            assert len(messages) == 1
            assert f"net-{name}" in messages.pop()


def test_one_execution_serves_one_thread(cpu, context, generator):
    """A call that meets another's is refused, and changes nothing. It shows that the GIL is released, too."""
    plan = minuet.Plan.network(context, "minkunet42", channels=[16] * 9)
    plan.load(cpu)
    execution = minuet.Execution(plan, cpu)
    cloud = oracle.make_cloud(generator, 2000, extent=9)
    x = generator.normal(size=(2000, 4)).astype(np.float32)
    execution.prepare(cloud)
    expected = execution.run(x)
    refused = threading.Event()
    outputs = []

    def run():
        while not refused.is_set():
            try:
                outputs.append(execution.run(x))
            except minuet.FailedPreconditionError:
                refused.set()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert refused.is_set()
    for output in outputs:
        np.testing.assert_array_equal(output, expected)


def test_handles_in_threads(context):
    """Objects are made, used and closed by several threads at once."""

    def work(plan):
        for _ in range(50):
            try:
                assert plan.info.name == "convolution"
            except ValueError as error:
                assert "closed" in str(error)
        plan.close()

    for _ in range(20):
        plan = minuet.Plan.convolution(context, np.ones((1, 4, 4)))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [plan] * 4))
        assert plan.closed
        assert plan._cell.users == 0
