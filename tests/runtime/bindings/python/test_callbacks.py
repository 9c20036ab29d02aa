"""Callbacks that fail, that are interrupted, and that are under way when the interpreter ends."""

import sys
import threading

import minuet
import numpy as np
import pytest
from conftest import run_python
from minuet import _abi, _library

POOL = """
import os, signal, sys, threading, time
import minuet, numpy as np
class Pool:
    def __init__(self):
        self.blocks, self.freed = {}, []
    def allocate(self, size, stream):
        memory = np.empty(size + 256, np.uint8)
        address = -(-memory.ctypes.data // 256) * 256
        self.blocks[address] = memory
        return address
    def free(self, memory, size, stream):
        self.freed.append(memory)
        del self.blocks[memory]
cloud = np.insert(np.arange(2400, dtype=np.int32).reshape(800, 3), 0, 0, axis=1)
context = minuet.Context(disable_disk_cache=True)
"""


def test_an_error_in_an_allocator_with_pythons_own_hook():
    """The library is told that there is no memory, and the user sees the error."""
    done = run_python(
        POOL
        + """
class Broken(Pool):
    def allocate(self, size, stream):
        raise RuntimeError("broken pool")
pool = Broken()
device = minuet.Device(context, "cpu", allocator=pool)
try:
    minuet.Coordinates(device, cloud)
except minuet.ResourceExhaustedError:
    print("no memory", pool.freed)
"""
    )
    assert (done.returncode, done.stdout) == (0, "no memory []\n"), done.stderr
    assert "Exception ignored in a callback of minuet" in done.stderr
    assert "RuntimeError: broken pool" in done.stderr


@pytest.mark.parametrize("hook", ["lambda args: 1 / 0", "None", "lambda args: print(args.exc_type, args.err_msg)"])
def test_an_error_in_an_allocator_with_other_hooks(hook):
    done = run_python(
        POOL
        + f"""
sys.unraisablehook = {hook}
class Broken(Pool):
    def allocate(self, size, stream):
        raise RuntimeError("broken pool")
device = minuet.Device(context, "cpu", allocator=Broken())
try:
    minuet.Coordinates(device, cloud)
except minuet.ResourceExhaustedError:
    print("no memory")
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("no memory\n")
    if "print" in hook:
        assert "<class 'RuntimeError'> Exception ignored in a callback of minuet" in done.stdout


@pytest.mark.parametrize("given", ["np.int64(address)", "np.uint64(address)"])
def test_addresses_of_numpy(given):
    done = run_python(
        POOL
        + f"""
class Other(Pool):
    def allocate(self, size, stream):
        address = super().allocate(size, stream)
        return {given}
device = minuet.Device(context, "cpu", allocator=Other())
print(minuet.Coordinates(device, cloud).count)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "800\n", "")


@pytest.mark.parametrize("given", ["'0x100'", "3.0", "[address]"])
def test_what_is_no_address(given):
    done = run_python(
        POOL
        + f"""
class Other(Pool):
    def allocate(self, size, stream):
        address = super().allocate(size, stream)
        return {given}
pool = Other()
device = minuet.Device(context, "cpu", allocator=pool)
try:
    minuet.Coordinates(device, cloud)
except minuet.ResourceExhaustedError:
    print("no memory", pool.freed)
"""
    )
    assert (done.returncode, done.stdout) == (0, "no memory []\n"), done.stderr
    assert "TypeError" in done.stderr


def test_an_interrupt_in_a_lasting_callback():
    """Ctrl-C in an allocator or a log function is raised by the call that it came in."""
    done = run_python(
        POOL
        + """
class Interrupted(Pool):
    def allocate(self, size, stream):
        if not self.blocks:
            os.kill(os.getpid(), signal.SIGINT)
        return super().allocate(size, stream)
pool = Interrupted()
device = minuet.Device(context, "cpu", allocator=pool)
try:
    minuet.Coordinates(device, cloud)
except KeyboardInterrupt:
    print("interrupted")
pool.blocks[0] = None
print(minuet.Coordinates(device, cloud).count)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n800\n", "")


def test_an_interrupt_between_callbacks():
    """Ctrl-C in the library, before it calls Python back, stops the call and is raised by it."""
    done = run_python(
        POOL
        + """
from minuet import _abi, _library
callback = _library.Callback(_abi.minuet_precompile_options_cancelled, lambda _: False)
try:
    with _library.calling_back():
        signal.raise_signal(signal.SIGINT)
        print("not yet", callback.pointer(None), callback.error, _library.is_stopping())
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "not yet 0 None True\ninterrupted True\n"


def test_an_interrupt_stops_precompile():
    """A signal from outside, while the library compiles."""
    done = run_python(
        """
import os, signal, sys, threading, time
import minuet
if not minuet.system_info().nvrtc:
    print("no NVRTC")
    sys.exit()
context = minuet.Context(disable_disk_cache=True)
plan = minuet.Plan.network(context, "minkunet42", dtype="float16")
began = threading.Event()
def interrupt():
    began.wait()
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    minuet.precompile(context, [plan], ["sm_90a"], jobs=1, cancelled=lambda: began.set())
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    if done.stdout == "no NVRTC\n":
        pytest.skip("NVRTC is not installed")
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_results_of_threads_are_their_own(monkeypatch):
    """A callback that fails in one thread takes nothing from one that succeeds in another."""
    monkeypatch.setattr("sys.unraisablehook", lambda args: None)

    def function(size, stream, user):
        if size < 0:
            raise RuntimeError
        return size

    callback = _library.LastingCallback(_abi.minuet_allocate_callback, function)
    wrong = []

    def work(size, expected):
        wrong.extend(number for number in range(5000) if callback.pointer(size, None, None) != expected)

    threads = [threading.Thread(target=work, args=given) for given in ((4096, 4096), (-1, None), (-1, None))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_exit_beside_a_thread_with_an_allocator():
    """A daemon thread is in a call that calls Python back, again and again, when the interpreter ends."""
    for _ in range(3):
        done = run_python(
            POOL
            + """
device = minuet.Device(context, "cpu", allocator=Pool())
began = threading.Event()
def work():
    while True:
        coordinates = minuet.Coordinates(device, cloud)
        minuet.KernelMap(coordinates, coordinates.downsample(2), 2)
        began.set()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
began.wait()
time.sleep(0.02)
print("done")
"""
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_exit_beside_a_precompile():
    """A compile of a daemon thread that would call Python is cancelled."""
    done = run_python(
        POOL
        + """
context = minuet.Context(disable_disk_cache=True, log=lambda is_warning, text: None)
plan = minuet.Plan.network(context, "minkunet42", dtype="float16")
began = threading.Event()
def work():
    while True:
        try:
            minuet.precompile(context, [plan], ["sm_90a"], step=lambda step: began.set(), cancelled=lambda: None)
        except minuet.Error:
            began.set()
threading.Thread(target=work, daemon=True).start()
began.wait()
print("done")
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_end_waits_for_a_bounded_time():
    """A callback that never returns does not keep the process."""
    done = run_python(
        POOL
        + """
from minuet import _library
_library.END_SECONDS = 0.1
class Stuck(Pool):
    def allocate(self, size, stream):
        began.set()
        time.sleep(3600)
began = threading.Event()
device = minuet.Device(context, "cpu", allocator=Stuck())
threading.Thread(target=lambda: minuet.Coordinates(device, cloud), daemon=True).start()
began.wait()
sys.stdout.write("done\\n")
sys.stdout.flush()
began = time.monotonic()
_library._end()
assert 0.1 <= time.monotonic() - began < 5
os._exit(0)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_child_leaves_what_the_parent_deferred():
    """The process forks in another thread while a callback has put off the end of an object. It is a process of its
    own, because a fork beside the threads of other packages may never return."""
    done = run_python(
        """
import os, threading
import minuet, numpy as np
from minuet import _abi, _library
context = minuet.Context(disable_disk_cache=True)
device = minuet.Device(context, "cpu")
objects = [minuet.Coordinates(device, np.zeros((1, 4), np.int32))]
cell = objects[0]._cell
status, destroyed = [], []
real = cell.destroy

def destroy(pointer):
    destroyed.append(os.getpid())
    real(pointer)

cell.destroy = destroy

def fork():
    child = os.fork()
    if child == 0:
        os._exit(0 if cell in _library._deferred and context.kernel_counters() and not destroyed else 1)
    status.append(os.waitpid(child, 0)[1])

def in_callback(*_):
    objects.clear()
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()

callback = _library.Callback(_abi.minuet_job_callback, in_callback)
callback.pointer(0, None)
callback.raise_error()
assert status == [0]
context.kernel_counters()
assert destroyed == [os.getpid()]
"""
    )
    assert done.returncode == 0, done.stderr


def test_what_threads_keep_is_not_lost(context):
    class Kept:
        calls_back = False

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            plan = minuet.Plan.convolution(context, np.ones((1, 4, 4)))
            objects = [Kept() for _ in range(8)]
            threads = [threading.Thread(target=plan._keep, args=(item,)) for item in objects]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(any(item is kept for kept in plan._cell.keep) for item in objects)
    finally:
        sys.setswitchinterval(interval)
