"""Arrays of every protocol, and clear refusals of what does not fit."""

import ctypes
import gc
import os
import subprocess
import sys
import weakref

import minuet
import numpy as np
import pytest
from conftest import HERE, run_python
from minuet import _arrays, _dlpack, _library
from minuet._arrays import stream_handle, view


class OnlyDlpack:
    """What torch and jax show of an array on the CPU: __dlpack__, and no buffer."""

    def __init__(self, array, readonly=False, is_old=False):
        self.array, self.is_old = array, is_old

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **arguments):
        if self.is_old and "max_version" in arguments:
            raise TypeError("got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**arguments)


class OnlyCuda:
    def __init__(self, address, shape=(4, 8), typestr="<f4", **more):
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": typestr,
            "version": 3,
            **more,
        }


def test_buffers_of_all_kinds():
    for kind in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"):
        array = np.zeros((2, 3), kind)
        found = view(array, None, 0, "x")
        assert (found.kind, found.shape, found.is_contiguous) == (kind, (2, 3), True)
        assert found.address == array.ctypes.data
    assert view(bytearray(12), None, 0, "x").kind == "uint8"
    assert view(memoryview(bytes(12)), None, 0, "x").readonly
    assert view((ctypes.c_float * 5)(), None, 0, "x").kind == "float32"


@pytest.mark.parametrize("is_old", [False, True])
def test_dlpack(is_old):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    found = view(OnlyDlpack(array[:, :4], is_old=is_old), None, 0, "x")
    assert found.address == array.ctypes.data
    assert (found.shape, found.strides, found.kind) == ((4, 4), (6, 1), "float32")
    assert found.device == (_dlpack.CPU, 0)
    np.testing.assert_array_equal(_arrays.as_numpy(found), array[:, :4])


def test_dlpack_keeps_the_producer_only_as_long_as_needed():
    array = np.zeros(4, np.float32)
    before = sys.getrefcount(array)
    found = view(OnlyDlpack(array), None, 0, "x")
    numbers = _arrays.as_numpy(found)
    del found
    gc.collect()
    assert sys.getrefcount(array) > before
    del numbers
    gc.collect()
    assert sys.getrefcount(array) == before


def test_readonly_dlpack():
    array = np.zeros((2, 2), np.float32)
    array.flags.writeable = False
    found = view(OnlyDlpack(array), None, 0, "x")
    with pytest.raises(ValueError, match="read-only"):
        found.require_writable("the output", 0)


def test_cuda_interface():
    found = view(OnlyCuda(4096, typestr="<f2"), None, 0, "x")
    assert (found.address, found.kind, found.strides) == (4096, "float16", None)
    found = view(OnlyCuda(4096, strides=(64, 4)), None, 0, "x")
    assert found.strides == (16, 1)
    assert not found.is_contiguous
    with pytest.raises(ValueError, match="mask"):
        view(OnlyCuda(4096, mask=object()), None, 0, "x")
    with pytest.raises(TypeError, match="byte order"):
        view(OnlyCuda(4096, typestr=">f4"), None, 0, "x")


def test_bfloat16_bits():
    bits = np.zeros((2, 4), np.uint16)
    view(bits, None, 0, "x").require("x", "bfloat16", (None, 4))
    view(OnlyCuda(4096, typestr="<V2"), None, 0, "x").require("x", "bfloat16", (4, 8))
    view(np.zeros((2, 4), "V2"), None, 0, "x").require("x", "bfloat16", (2, 4))
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert minuet.bfloat16 == ml_dtypes.bfloat16
    view(np.zeros((2, 4), ml_dtypes.bfloat16), None, 0, "x").require("x", "bfloat16", (2, 4))
    with pytest.raises(TypeError, match="bits as uint16"):
        view(np.zeros((2, 4), np.float16), None, 0, "x").require("x", "bfloat16", (2, 4))


@pytest.mark.parametrize(
    "given, message",
    [
        (3.5, "is of the type float"),
        (np.zeros((2, 2), ">f4"), "other byte order"),
        (np.zeros((2, 2), np.float64), "float64, and float32 is needed"),
        (np.zeros((2, 3), np.float32), r"the shape \[2, 3\], and \[any, 2\] is needed"),
        (np.zeros(2, np.float32), r"the shape \[2\]"),
        (np.zeros((4, 2), np.float32)[::-1], "negative stride"),
    ],
)
def test_refusals(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        view(given, None, 0, "x").require("x", "float32", (None, 2))


def test_wrong_devices(cpu):
    with pytest.raises(ValueError, match="memory of a GPU, and the device is cpu"):
        _arrays.device_view(OnlyCuda(4096), cpu, 0, "x")

    class OnGpu:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **arguments):
            raise AssertionError("nothing may be exported before the device is checked")

    with pytest.raises(ValueError, match="memory of a GPU"):
        _arrays.device_view(OnGpu(), cpu, 0, "x")


def test_streams():
    class Torch:
        cuda_stream = 77

    class Cupy:
        ptr = 78

    class Core:
        def __cuda_stream__(self):
            return (0, 79)

    class Numba:
        class handle:  # noqa: N801
            value = 80

    given = (None, 5, np.uint64(6), Torch(), Cupy(), Core(), Numba())
    assert [stream_handle(s) for s in given] == [0, 5, 6, 77, 78, 79, 80]
    with pytest.raises(TypeError, match="no CUDA stream"):
        stream_handle("0")


def test_empty_is_aligned(cpu):
    for shape in (3, np.int64(3), (2, np.int32(5)), (1, 1, 7)):
        assert cpu.empty(shape, "float16").ctypes.data % 256 == 0
    for dtype in ("bf16", "bfloat16", minuet.DType.BFLOAT16):
        assert cpu.empty(4, dtype).dtype == minuet.bfloat16
    for dtype in (np.float16, np.dtype(np.float16), "fp16"):
        assert cpu.empty(4, dtype).dtype == np.float16
    with pytest.raises(ValueError, match="lengths are 0 or more"):
        cpu.empty((2, -1))
    with pytest.raises(TypeError):
        cpu.empty((2, 1.5))
    with pytest.raises(ValueError, match="dtype 'float9' is not known"):
        cpu.empty(4, "float9")


def test_copies(device):
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    copy = device.to_device(array)
    assert copy.shape == (3, 4)
    np.testing.assert_array_equal(device.to_host(copy), array)
    with pytest.raises(ValueError, match="not contiguous"):
        device.to_device(array[:, ::2])
    assert device.to_host(device.to_device(np.zeros((0, 3), np.float32))).shape == (0, 3)


def test_device_arrays(device):
    if device.is_cpu:
        assert isinstance(device.empty((2, 3)), np.ndarray)
        return
    array = device.to_device(np.arange(6, dtype=np.float16).reshape(2, 3))
    assert (array.shape, array.ndim, len(array), array.nbytes, array.dtype) == ((2, 3), 2, 2, 12, np.float16)
    assert "float16" in repr(array)
    interface = array.__cuda_array_interface__
    assert interface["typestr"] == "<f2"
    assert interface["stream"] == 1
    assert array.__dlpack_device__() == (2, 0)
    imported = _dlpack.Imported(array, 1)
    assert (imported.address, imported.shape, imported.kind) == (interface["data"][0], (2, 3), "float16")
    assert imported.device == (2, 0)
    with pytest.raises(BufferError):
        array.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError):
        array.__dlpack__(copy=True)
    # The capsule keeps the memory, whether a consumer takes it or not.
    _dlpack.sweep()
    assert [export.owner for export in _dlpack._exported.values()] == [array]
    del imported
    _dlpack.sweep()
    assert len(_dlpack._exported) == 0
    with pytest.raises(ValueError, match="is in host memory"):
        _arrays.device_view(np.zeros(3), device, 0, "x")
    with pytest.raises(ValueError, match="dtype"):
        device.empty(3, "complex64")


def test_consumed_capsules_are_released_by_the_consumer(device):
    if device.is_cpu:
        pytest.skip("arrays of the CPU device are numpy's")
    array = device.to_device(np.zeros(3, np.float32))
    capsule = array.__dlpack__()
    pointer = _dlpack._pointer_of(id(capsule), b"dltensor")
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
    rename(capsule, b"used_dltensor")
    del capsule
    _dlpack.sweep()
    assert pointer in _dlpack._exported
    managed = _dlpack._Managed.from_address(pointer)
    managed.deleter(pointer)
    _dlpack.sweep()
    assert pointer not in _dlpack._exported
    there = weakref.ref(array)
    del array, managed
    gc.collect()
    assert there() is None


class HostTensor:
    """A tensor of the host that only DLPack gives, of any kind, such as bfloat16."""

    def __init__(self, array, kind, device=(1, 0)):
        self.array, self.kind, self.device = array, kind, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **arguments):
        return _dlpack.export(self, self.array.ctypes.data, self.array.shape, self.kind, self.device)


@pytest.mark.parametrize("kind, device", [("bfloat16", (1, 0)), ("float32", (2, 0))])
def test_refused_exports_are_released(kind, device):
    """A consumer that refuses our tensor raises its own error, and the memory goes."""
    tensor = HostTensor(np.ones((2, 3), np.float32), kind, device)
    with pytest.raises((RuntimeError, BufferError), match="nsupported"):
        np.from_dlpack(tensor)
    there = weakref.ref(tensor)
    del tensor
    _dlpack.sweep()
    gc.collect()
    assert there() is None


def test_exports_live_as_long_as_their_consumer():
    tensor = HostTensor(np.arange(6, dtype=np.float32).reshape(2, 3), "float32")
    there = weakref.ref(tensor)
    taken = np.from_dlpack(tensor)
    del tensor
    _dlpack.sweep()
    gc.collect()
    np.testing.assert_array_equal(taken, [[0, 1, 2], [3, 4, 5]])
    del taken
    gc.collect()
    _dlpack.sweep()
    gc.collect()
    assert there() is None


def test_a_deleter_after_the_end_of_the_interpreter(tmp_path):
    """A consumer of C deletes the tensor when the process ends, where Python is gone."""
    source = tmp_path / "late.c"
    source.write_text(
        """
#include <stdio.h>
typedef struct managed { char tensor[48]; void* context; void (*deleter)(struct managed*); } managed;
static managed* kept;
void keep(managed* tensor) { kept = tensor; }
__attribute__((destructor)) static void end(void) { kept->deleter(kept); puts("deleted"); }
"""
    )
    library = tmp_path / "liblate.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = run_python(
        f"""
import ctypes, numpy as np
from minuet import _dlpack
late = ctypes.CDLL({str(library)!r})
array = np.ones(8, np.float32)
capsule = _dlpack.export(array, array.ctypes.data, (8,), "float32", (1, 0))
late.keep(ctypes.c_void_p(_dlpack._pointer_of(id(capsule), b"dltensor")))
name = ctypes.create_string_buffer(b"used_dltensor")
ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), name)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "deleted\n", "")


@pytest.mark.parametrize("form", ["uint16", "V2", "dlpack", "ml_dtypes"])
def test_bfloat16_weights_on_the_host(form):
    """Bits of bfloat16 are read as the numbers that they stand for, with ml_dtypes and without."""
    numbers = np.array([[1.0, -2.5, 0.0], [3.0e38, 2.0**-130, -0.0]], np.float32)
    bits = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    expected = (bits.astype(np.uint32) << 16).view(np.float32)
    if form == "ml_dtypes":
        given = bits.view(pytest.importorskip("ml_dtypes").bfloat16)
    else:
        given = {"uint16": bits, "V2": bits.view("V2"), "dlpack": HostTensor(bits, "bfloat16")}[form]
    found = _arrays.host_floats(given, "weight")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    if form == "uint16":
        np.testing.assert_array_equal(_arrays.host_floats(given[:, ::2], "weight"), expected[:, ::2])


def test_without_ml_dtypes():
    """These tests and those of single ops, where ml_dtypes is not installed."""
    if "ml_dtypes" in os.environ.get("MINUET_TEST_WITHOUT", ""):
        assert minuet.bfloat16 == np.uint16
        return
    environment = {**os.environ, "MINUET_TEST_WITHOUT": "ml_dtypes"}
    environment.pop("MINUET_SKIPS", None)
    files = [HERE / "test_arrays.py", HERE / "test_ops.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", "cpu or not cuda"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_masks_are_refused():
    masked = np.ma.masked_array(np.ones((2, 3), np.float32), mask=[[0, 0, 1], [0, 0, 0]])
    for read in (lambda: view(masked, None, 0, "x"), lambda: _arrays.host_floats(masked, "x")):
        with pytest.raises(TypeError, match="x is a masked array"):
            read()


def test_producers_that_refuse(context):
    class Refusing:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **arguments):
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    with pytest.raises(ValueError, match=r"x cannot be read by DLPack: .* use tensor.detach"):
        view(Refusing(), None, 0, "x")
    with pytest.raises(ValueError, match=r"weight cannot be read by DLPack: .* use tensor.detach"):
        minuet.Plan.convolution(context, Refusing())


class Elsewhere:
    """A tensor on another GPU, which may not be exported."""

    def __dlpack_device__(self):
        return (2, 3)

    def __dlpack__(self, **arguments):
        raise AssertionError("nothing may be exported before the device is checked")


def test_memory_of_another_device(device, context):
    """No call takes an address that is not of its device."""
    plan = minuet.Plan.convolution(context, np.ones((1, 8, 8)))
    plan.load(device)
    parameters = minuet.Parameters(plan, device)
    parameters.set({0: np.ones((1, 8, 8), np.float32)})
    elsewhere = [Elsewhere()]
    if device.is_cpu:
        elsewhere.append(OnlyCuda(0x7F0000000000, (1, 8, 8)))
    for array in elsewhere:
        message = (
            "memory of a GPU, and the device is cpu" if device.is_cpu else "is on cuda:3, and the device is cuda:0"
        )
        for act in (
            lambda array=array: parameters.set({"weight": array}),
            lambda array=array: parameters.get("weight", out=array),
            lambda array=array: device.to_host(array),
        ):
            with pytest.raises(ValueError, match=message):
                act()
    if not device.is_cpu:
        with pytest.raises(ValueError, match="is in host memory"):
            device.to_host(np.ones((2, 2), np.float32))
    host = np.empty((1, 8, 8), np.float32)
    assert parameters.get(np.int64(0), out=host) is host
    np.testing.assert_array_equal(host, np.ones((1, 8, 8), np.float32))


def without_streams(monkeypatch, name):
    """Has a function of the library work on the default stream, whatever stream it is given last."""
    real = getattr(_library.library, name)
    monkeypatch.setattr(_library.library, name, lambda *arguments: real(*arguments[:-1], 0))


def test_outputs_note_their_stream(device, context, monkeypatch):
    """Whatever writes to a DeviceArray says on which stream, so that reads wait for it."""
    if device.is_cpu:
        pytest.skip("arrays of the CPU device are numpy's")
    cloud = device.to_device(np.array([[0, 0, 0, 0], [0, 1, 0, 0]], np.int32))
    coordinates = minuet.Coordinates(device, cloud)
    plan = minuet.Plan.convolution(context, np.ones((1, 8, 8)), dataflow="fused")
    plan.load(device)
    parameters = minuet.Parameters(plan, device)
    parameters.set({0: np.ones((1, 8, 8), np.float32)})
    pyramid = minuet.Pyramid(context, [minuet.Level(4)], [minuet.Map(0, 0, 1)], keep_coordinates=[0])
    pyramid.load(device)
    buffer, workspace = (device.empty(size, "uint8") for size in pyramid.bytes(device.arch))
    counts, status = device.empty(2, "int32"), device.empty(1, "int32")
    for name in ("coordinates_export", "parameters_get", "pyramid_build", "pyramid_coordinates"):
        without_streams(monkeypatch, f"minuet_{name}")
    rows, value, level = device.empty((2, 4), "int32"), device.empty((1, 8, 8)), device.empty((4, 4), "int32")
    coordinates.export(out=rows, stream=4711)
    parameters.get(0, out=value, stream=4711)
    pyramid.build(device, cloud, buffer=buffer, workspace=workspace, counts=counts, status=status, stream=4711)
    assert cloud._written == 0
    assert cloud._used == {0, 4711}
    pyramid.coordinates(device, buffer, 0, out=level, stream=4712)
    assert [item._written for item in (rows, value, buffer, counts, status, level)] == [4711] * 5 + [4712]
    assert buffer._used == {0, 4711, 4712}


def test_memory_of_an_allocator_goes_back_after_the_work(device, context, monkeypatch):
    """The array waits for every stream that it was used on, also as an input, and by a taker of DLPack."""
    if device.is_cpu:
        pytest.skip("arrays of the CPU device are numpy's")
    blocks = {}

    class Pool:
        def allocate(self, size, stream):
            memory = plain.empty(size, "uint8")
            blocks[memory._address] = memory
            return memory._address

        def free(self, memory, size, stream):
            assert memory in blocks

    plain = device
    pooled = minuet.Device(context, device.name, allocator=Pool())
    log = []
    real = _library.library.minuet_device_free
    monkeypatch.setattr(_library.library, "minuet_device_synchronize", lambda _, stream: log.append(stream) or 0)
    monkeypatch.setattr(_library.library, "minuet_device_free", lambda *given: log.append("free") or real(*given))
    array = pooled.empty((4, 8), stream=11)
    _arrays.device_view(array, pooled, 12, "x")
    _arrays.device_view(array, pooled, 13, "x").require_writable("x", 13)
    capsule = array.__dlpack__(stream=14)
    assert log == [13]
    del capsule
    _dlpack.sweep()
    log.clear()
    del array
    gc.collect()
    assert sorted(log[:-1]) == [11, 12, 13, 14]
    assert log[-1] == "free"
