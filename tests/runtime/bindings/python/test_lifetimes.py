"""Objects may be dropped or closed in any order, by any thread, at exit and in forked children."""

import gc
import itertools
import os
import subprocess
import sys
import threading
import weakref

import minuet
import numpy as np
import pytest
from conftest import run_python
from minuet import _library

CLOUD = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [0, -7, 2, 5]], np.int32)


def make_all(name):
    """Returns one object of every class, by class, and their output."""
    context = minuet.Context(
        os.environ.get("MINUET_TEST_CACHE"), disable_disk_cache="MINUET_TEST_CACHE" not in os.environ
    )
    device = minuet.Device(context, name)
    queue = minuet.Queue(device)
    coordinates = minuet.Coordinates(device, device.to_device(CLOUD), queue=queue)
    kernel_map = minuet.KernelMap(coordinates, coordinates, 3)
    plan = minuet.Plan.convolution(context, np.ones((27, 8, 8)), kernel_size=3, submanifold=True)
    plan.load(device)
    parameters = minuet.Parameters(plan, device)
    parameters.set({"weight": np.ones((27, 8, 8), np.float32)})
    execution = minuet.Execution(plan, device, queue=queue, parameters=parameters)
    execution.prepare_maps(kernel_map)
    pyramid = minuet.Pyramid(context, [minuet.Level(8)], [minuet.Map(0, 0, 3)])
    pyramid.load(device)
    job = plan.compile_async("cpu")
    output = execution.run(device.to_device(np.ones((3, 8), np.float32)))
    return [context, device, queue, coordinates, kernel_map, plan, parameters, execution, pyramid, job, output]


def orders(count):
    """Every object first and last, and forwards and backwards."""
    numbers = list(range(count))
    yield numbers
    yield numbers[::-1]
    for number in range(1, count - 1):
        yield [number, *(other for other in numbers if other != number)]


@pytest.mark.parametrize("way", ["drop", "close"])
def test_any_order(device, way):
    for order in orders(11):
        objects = dict(enumerate(make_all(device.name)))
        for number in order:
            item = objects.pop(number)
            if way == "close" and isinstance(item, _library.Handle):
                item.close()
                item.close()
                assert item.closed
            del item
        gc.collect()


def test_collected_in_a_cycle(device):
    class Node:
        pass

    for _ in range(3):
        nodes = [Node() for _ in range(11)]
        for node, item, following in zip(
            nodes, make_all(device.name), itertools.islice(itertools.cycle(nodes), 1, 12), strict=True
        ):
            node.item, node.following = item, following
        there = weakref.ref(nodes[0])
        del nodes, node, item, following
        gc.collect()
        assert there() is None


def test_closed_objects_are_refused(cpu):
    with minuet.Queue(cpu) as queue:
        assert queue.stream == 0
    with pytest.raises(ValueError, match="closed"):
        minuet.Coordinates(cpu, CLOUD, queue=queue)


def test_children_outlive_what_they_were_made_from(context):
    device = minuet.Device(context, "cpu")
    coordinates = minuet.Coordinates(device, CLOUD)
    kernel_map = minuet.KernelMap(coordinates, coordinates, 3)
    plan = minuet.Plan.convolution(context, np.ones((27, 4, 4)), kernel_size=3, submanifold=True)
    plan.load(device)
    execution = minuet.Execution(plan, device)
    execution.prepare_maps(kernel_map)
    for item in (coordinates, kernel_map, plan, device):
        item.close()
    np.testing.assert_array_equal(execution.run(np.ones((3, 4), np.float32))[:, 0], [8, 8, 4])


def test_an_object_that_is_closed_in_a_call_lives_until_its_end(context):
    """close() while another thread is inside: the call ends well, and the next one is refused."""
    plan = minuet.Plan.convolution(context, np.ones((27, 4, 4)), kernel_size=3, submanifold=True)
    closed = []

    def close(step):
        thread = threading.Thread(target=plan.close)
        thread.start()
        thread.join()
        closed.append(plan._cell.users)

    try:
        minuet.precompile(context, [plan], ["sm_90a"], step=close)
    except minuet.UnavailableError:
        pytest.skip("NVRTC is not installed")
    assert closed
    assert min(closed) > 0
    assert plan._cell.users == 0
    with pytest.raises(ValueError, match="closed"):
        plan.compile("cpu")


def test_log_lives_as_long_as_what_may_call_it(tmp_path):
    lines = []
    context = minuet.Context(tmp_path, log=lambda is_warning, text: lines.append(text))
    plan = minuet.Plan.convolution(context, np.ones((1, 4, 4)))
    callback = weakref.ref(context._cell.keep[0])
    context.close()
    del context
    gc.collect()
    assert callback() is not None
    plan.close()
    del plan
    gc.collect()
    assert callback() is None


def test_a_log_that_refers_to_its_context_goes_with_it_after_close(tmp_path):
    class Owner:
        def __init__(self):
            self.context = minuet.Context(tmp_path, log=self.log)

        def log(self, is_warning, text):
            raise AssertionError

    owner = Owner()
    owner.context.close()
    there = weakref.ref(owner)
    del owner
    gc.collect()
    assert there() is None


class Pool:
    """A caller's allocator, which counts and collects garbage in the middle of the library's calls."""

    def __init__(self):
        self.blocks = {}
        self.most = 0
        self.waste = None
        self.deferred = 0

    def allocate(self, size, stream):
        assert stream == 0
        memory = np.empty(size + 256, np.uint8)
        address = (memory.ctypes.data + 255) // 256 * 256
        self.blocks[address] = (size, memory)
        self.most = max(self.most, sum(size for size, _ in self.blocks.values()))
        self.waste = None
        gc.collect()
        self.deferred = max(self.deferred, len(_library._deferred))
        return address

    def free(self, memory, size, stream):
        assert self.blocks.pop(memory)[0] == size


def test_allocator(context):
    pool = Pool()
    device = minuet.Device(context, "cpu", allocator=pool)
    queue = minuet.Queue(device)
    coordinates = minuet.Coordinates(device, CLOUD, queue=queue)
    # Garbage that the collection inside of the allocator finds is an object of the very queue that is in a call.
    pool.waste = [minuet.KernelMap(coordinates, coordinates, 3)]
    pool.waste.append(pool.waste)
    plan = minuet.Plan.convolution(context, np.ones((27, 4, 4)), kernel_size=3, submanifold=True)
    plan.load(device)
    execution = minuet.Execution(plan, device, queue=queue)
    execution.prepare_maps(minuet.KernelMap(coordinates, coordinates, 3))
    np.testing.assert_array_equal(execution.run(np.ones((3, 4), np.float32))[:, 0], [8, 8, 4])
    assert pool.most > 0
    # The map was destroyed after the call, which might have held a lock that destroying takes.
    assert pool.deferred == 1
    assert _library._deferred == []
    del execution, plan, coordinates, queue, device
    gc.collect()
    assert pool.blocks == {}


def test_an_allocator_that_fails(context):
    class Broken:
        def allocate(self, size, stream):
            raise RuntimeError("broken pool")

        def free(self, memory, size, stream):
            raise AssertionError

    device = minuet.Device(context, "cpu", allocator=Broken())
    seen = []
    hook, sys.unraisablehook = sys.unraisablehook, seen.append
    try:
        with pytest.raises(minuet.ResourceExhaustedError):
            minuet.Coordinates(device, CLOUD)
    finally:
        sys.unraisablehook = hook
    assert [str(item.exc_value) for item in seen[:1]] == ["broken pool"]
    with pytest.raises(minuet.InvalidArgumentError, match="name"):
        minuet.Device(context, allocator=Broken())


SET_UP = """
import os, threading, gc, numpy as np, minuet
from test_lifetimes import make_all, CLOUD
objects = make_all("{name}")
execution = objects[7]
"""


@pytest.mark.parametrize(
    "how",
    [
        "print('done')",
        "import atexit; [atexit.register(item.close) for item in objects if hasattr(item, 'close')]; print('done')",
        "objects.append(objects); del objects, execution; print('done')",
        "import sys; sys.keep = objects; print('done'); sys.exit(0)",
    ],
)
def test_exit(device, how):
    done = run_python(SET_UP.format(name=device.name) + how)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "done", "")


def test_exit_beside_a_thread_at_work(device):
    """A daemon thread is in the library, or about to call it, when the interpreter ends."""
    for _ in range(3):
        done = run_python(
            SET_UP.format(name=device.name)
            + """
device = objects[1]
x = device.to_device(np.ones((3, 8), np.float32))
began = threading.Event()
def work():
    while True:
        execution.run(x)
        began.set()
threading.Thread(target=work, daemon=True).start()
began.wait()
print('done')
"""
        )
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "done", "")


def test_exit_beside_a_compile():
    """A compile in the background that would call Python is cancelled at the end of the interpreter."""
    done = run_python(
        """
import minuet, numpy as np
context = minuet.Context(disable_disk_cache=True, log=lambda is_warning, text: None)
plan = minuet.Plan.network(context, "minkunet42", dtype="float16")
job = plan.compile_async("sm_90a", lambda error: print("ended:", type(error).__name__))
print("done")
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "done" or lines[1] == "done"
    assert any(line in ("ended: CancelledError", "ended: UnavailableError") for line in lines)


def test_exit_code_of_an_exception(cpu):
    done = run_python("import minuet; minuet.Device(minuet.Context(disable_disk_cache=True), 'tpu')")
    assert done.returncode == 1
    assert "InvalidArgumentError" in done.stderr


def test_forked_children(device):
    """A child leaves the parent's objects alone, may compile with its plans, and ends well."""
    done = run_python(
        SET_UP.format(name=device.name)
        + """
context, device, plan = objects[0], objects[1], objects[5]
child = os.fork()
if child == 0:
    try:
        execution.prepare_maps(objects[4])
    except RuntimeError as error:
        assert 'before the process forked' in str(error), error
    else:
        raise SystemExit(3)
    plan.compile('cpu')
    own = minuet.Plan.convolution(context, np.ones((1, 4, 4)))
    own.compile('cpu')
    del objects, execution, device, plan, own, context
    gc.collect()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
execution.run(objects[1].to_device(np.ones((3, 8), np.float32)))
print('done')
"""
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


def test_missing_library():
    done = run_python("import minuet", environment={"MINUET_LIBRARY": "/nowhere/libminuet.so"})
    assert done.returncode == 1
    assert "ImportError: /nowhere/libminuet.so does not exist" in done.stderr


def test_another_library(tmp_path):
    source = tmp_path / "other.c"
    source.write_text("int minuet_one(void) { return 1; }")
    library = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = run_python("import minuet", environment={"MINUET_LIBRARY": str(library)})
    assert "has no function minuet_last_error" in done.stderr
