"""Runs in a process of its own, for test_one_process.py: libminuet beside torch, jaxlib and another LLVM.

usage: one_process.py first|last LIBMINUET

The first argument says when libminuet is loaded. Prints the versions, and exits with 77 and a reason where a package is
missing.
"""

import ctypes
import glob
import hashlib
import importlib.util
import signal
import sys
import threading

import numpy as np

RTLD_NOLOAD = 4
SIGACTION_BYTES = 152  # struct sigaction of glibc: the handler, the mask, the flags


def handlers():
    """Returns the handler, the mask and the flags of every signal.

    The kernel's mask has 8 bytes, and glibc leaves what it finds on the stack in the other 120: two calls with nothing
    between them differ there.
    """
    libc = ctypes.CDLL(None)
    found = {}
    for number in range(1, signal.NSIG):
        action = ctypes.create_string_buffer(SIGACTION_BYTES)
        if libc.sigaction(number, None, action) == 0:
            found[number] = action.raw[:16] + action.raw[136:]
    return found


def load_others():
    """Loads all that libminuet has to live beside, and returns it with its versions."""
    import jax
    import jax.numpy
    import jaxlib
    import llvmlite.binding as llvm
    import torch

    versions = [
        f"torch {torch.__version__}",
        f"jaxlib {jaxlib.__version__}",
        "LLVM " + ".".join(map(str, llvm.llvm_version_info)),
    ]
    for path in sorted(
        glob.glob("/usr/lib/x86_64-linux-gnu/libLLVM-*.so.1") + glob.glob("/usr/lib/llvm-*/lib/libLLVM-*.so.1")
    )[-1:]:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)  # its symbols come before ours for every later library
        versions.append(path)
    return torch, jax, llvm, versions


def work_of_torch(torch):
    """Runs a forward and a backward pass."""
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (x @ x.T).sum().backward()
    assert x.grad.sum() == 60


def work_of_jax(jax):
    """Compiles and runs a function."""
    assert float(jax.jit(lambda x: (x * x).sum())(jax.numpy.arange(4.0))) == 14


def work_of_llvm(llvm):
    """Parses a module."""
    assert "define" in str(llvm.parse_assembly("define i32 @f() {\n ret i32 7\n}"))


class Minuet:
    """A network on the CPU device, whose output must have the same bits every time."""

    def __init__(self):
        import minuet

        self.minuet = minuet
        self.context = minuet.Context(disable_disk_cache=True)
        self.device = minuet.Device(self.context, "cpu")
        self.plan = minuet.Plan.network(self.context, "minkunet42", channels=[8] * 9, dtype="float32", seed=1)
        self.plan.load(self.device)
        generator = np.random.default_rng(0)
        voxels = np.unique(generator.integers(-8, 8, (300, 3)), axis=0).astype(np.int32)
        self.coordinates = np.insert(voxels, 0, 0, axis=1)
        self.features = generator.normal(size=(len(voxels), 4)).astype(np.float32)

    def run(self):
        """Returns the bytes of the output."""
        execution = self.minuet.Execution(self.plan, self.device)
        execution.prepare(self.coordinates)
        return execution.run(self.features).tobytes()


def reload(path):
    """Loads and unloads the library three times, with work in between."""
    for _ in range(3):
        library = ctypes.CDLL(path)
        context = ctypes.c_void_p()
        assert library.minuet_context_create(None, ctypes.byref(context)) == 0
        device = ctypes.c_void_p()
        assert library.minuet_device_open(context, b"cpu", None, ctypes.byref(device)) == 0
        library.minuet_device_destroy(device)
        library.minuet_context_destroy(context)
        handle = library._handle
        del library
        dlclose = ctypes.CDLL(None).dlclose
        dlclose.argtypes = [ctypes.c_void_p]
        assert dlclose(handle) == 0
        try:
            ctypes.CDLL(path, mode=RTLD_NOLOAD)
        except OSError:
            continue
        raise AssertionError("libminuet stays loaded after dlclose")


def load_minuet(path):
    """Loads libminuet, and returns a network with its output."""
    before = handlers()
    reload(path)
    network = Minuet()
    expected = network.run()
    assert handlers() == before, "libminuet changed a signal handler"
    return network, expected


def work_of_all(torch, jax, llvm, network, expected):
    """Runs the network in two threads while torch is at work, after work of all others."""
    work_of_torch(torch)
    work_of_jax(jax)
    work_of_llvm(llvm)
    outputs = []
    threads = [threading.Thread(target=lambda: outputs.append(network.run())) for _ in range(2)]
    for thread in threads:
        thread.start()
    work_of_torch(torch)
    for thread in threads:
        thread.join()
    assert outputs == [expected, expected]


def main():
    """Returns the exit code."""
    order, path = sys.argv[1:]
    for name in ("torch", "jax", "llvmlite"):
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed")
            return 77
    if order == "first":
        network, expected = load_minuet(path)
        torch, jax, llvm, versions = load_others()
    else:
        torch, jax, llvm, versions = load_others()
        network, expected = load_minuet(path)
    work_of_torch(torch), work_of_jax(jax), work_of_llvm(llvm)  # which may set handlers of their own the first time
    before = handlers()
    for _ in range(3):
        work_of_all(torch, jax, llvm, network, expected)
    assert handlers() == before, "libminuet changed a signal handler"
    signal.signal(signal.SIGUSR1, lambda *_: None)
    assert handlers() != before, "a changed handler is not seen"
    print(", ".join(versions))
    print(hashlib.sha256(expected).hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
