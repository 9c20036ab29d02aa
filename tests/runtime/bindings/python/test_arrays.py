"""Arrays of every protocol, and clear refusals of what does not fit."""

import ctypes
import gc
import sys

import minuet
import numpy as np
import pytest
from minuet import _arrays, _dlpack
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
        found.require_writable("the output")


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

    assert [stream_handle(s) for s in (None, 5, Torch(), Cupy(), Core(), Numba())] == [0, 5, 77, 78, 79, 80]
    with pytest.raises(TypeError, match="no CUDA stream"):
        stream_handle("0")


def test_empty_is_aligned(cpu):
    for shape in (3, (2, 5), (1, 1, 7)):
        assert cpu.empty(shape, "float16").ctypes.data % 256 == 0
    for dtype in ("bf16", "bfloat16", minuet.DType.BFLOAT16):
        assert cpu.empty(4, dtype).dtype == minuet.bfloat16
    for dtype in (np.float16, np.dtype(np.float16), "fp16"):
        assert cpu.empty(4, dtype).dtype == np.float16
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
    exported = len(_dlpack._exported)
    assert exported == 1
    del imported
    gc.collect()
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
    gc.collect()
    assert pointer in _dlpack._exported
    managed = _dlpack._Managed.from_address(pointer)
    managed.deleter(pointer)
    assert pointer not in _dlpack._exported
