"""Python as libminuet's host, by ctypes: what is open when the interpreter ends (R27), and torch beside it (R36).

usage: host.py LIBRARY atexit|leave|thread|torch
"""

import atexit
import ctypes
import sys
import threading

NOT_HERE = 77


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("ext", ctypes.c_void_p), ("cache_directory", ctypes.c_char_p),
                ("disable_disk_cache", ctypes.c_int32), ("log", ctypes.c_void_p), ("log_user", ctypes.c_void_p)]


class NetworkOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("ext", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("description", ctypes.c_char_p), ("dtype", ctypes.c_int32),
                ("channels", ctypes.POINTER(ctypes.c_int32)), ("channel_count", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("weights_path", ctypes.c_char_p), ("seed", ctypes.c_uint64)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("row_stride", ctypes.c_int64),
                ("channels", ctypes.c_int32), ("dtype", ctypes.c_int32)]


class Stack:
    """One narrow network on the CPU device."""

    widths = (ctypes.c_int32 * 9)(8, 8, 16, 24, 32, 32, 24, 16, 16)

    def __init__(self, library):
        self.library = library
        self.handles = []
        options = ContextOptions(ctypes.sizeof(ContextOptions), disable_disk_cache=1)
        context = self.make("context", ctypes.byref(options))
        device = self.make("device", context, b"cpu", None, function="minuet_device_open")
        network = NetworkOptions(ctypes.sizeof(NetworkOptions), name=b"minkunet42", dtype=0, channels=self.widths,
                                 channel_count=9)
        self.network = self.make("plan", context, ctypes.byref(network), function="minuet_plan_create_network")
        self.check(library.minuet_plan_compile(self.network, b"cpu", None, None))
        self.check(library.minuet_plan_load(self.network, device))
        self.execution = self.make("execution", self.network, device, None)

    def check(self, status):
        if status != 0:
            text = ctypes.create_string_buffer(512)
            self.library.minuet_last_error(text, ctypes.c_size_t(512))
            raise RuntimeError(text.value.decode())

    def make(self, kind, *arguments, function=None):
        handle = ctypes.c_void_p()
        self.check(getattr(self.library, function or f"minuet_{kind}_create")(*arguments, ctypes.byref(handle)))
        self.handles.append((kind, handle))
        return handle

    def run(self):
        coordinates = (ctypes.c_int32 * 12)(0, 0, 0, 0, 0, 1, 0, 0, 0, -7, 2, 5)
        self.check(self.library.minuet_execution_prepare(self.execution, coordinates, ctypes.c_int64(3), None))
        rows, channels = ctypes.c_int64(), ctypes.c_int32()
        self.check(self.library.minuet_execution_output_shape(self.execution, ctypes.byref(rows),
                                                              ctypes.byref(channels)))
        room = ctypes.create_string_buffer(rows.value * channels.value * 4 + 1024)
        aligned = (ctypes.addressof(room) + 255) // 256 * 256  # the features, then the output
        ctypes.memset(aligned, 0, 48)
        features = Tensor(aligned, 3, 0, 4, 0)
        output = Tensor(aligned + 256, rows.value, 0, channels.value, 0)
        self.check(self.library.minuet_execution_run(self.execution, ctypes.byref(features), ctypes.c_int32(1),
                                                     ctypes.byref(output), ctypes.c_int32(1), None))

    def close(self):
        for kind, handle in reversed(self.handles):
            destroy = getattr(self.library, f"minuet_{kind}_destroy")
            destroy.restype = None
            destroy(handle)


def run_for_ever(stack):
    while True:
        stack.run()


def main():
    path, command = sys.argv[1:]
    if command == "torch":
        try:
            import torch  # noqa: F401
        except ImportError:
            return NOT_HERE
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL if command == "torch" else ctypes.RTLD_LOCAL)
    stack = Stack(library)
    stack.run()
    if command == "atexit":
        atexit.register(stack.close)
    elif command == "thread":
        threading.Thread(target=run_for_ever, args=(stack,), daemon=True).start()
    elif command == "torch":
        stack.close()
    elif command != "leave":
        return 2
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
