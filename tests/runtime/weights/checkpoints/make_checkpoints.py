#!/usr/bin/env python3
"""Writes small checkpoints byte by byte as torch.save does, with Python's own pickler and without torch.

usage: make_checkpoints.py FOLDER

The modules and classes below have the names of PyTorch's, so the pickler writes the same opcodes for them. The zip
archives have the layout of PyTorch's writer: sizes behind the bytes, padding to 64 bytes, a 64-bit end record.
"""

import argparse
import collections
import pathlib
import pickle
import struct
import sys
import types
import zipfile
import zlib

MAGIC = 0x1950a86a20f9469cfc6c
PROTOCOL = 1001


def module(name, **members):
    made = types.ModuleType(name)
    for key, member in members.items():
        member.__module__ = name
        member.__qualname__ = member.__name__ = key
        setattr(made, key, member)
    sys.modules[name] = made
    return made


STORAGES = {"FloatStorage": "f", "DoubleStorage": "d", "HalfStorage": "e", "LongStorage": "q", "BFloat16Storage": "H"}
torch = module("torch", **{name: type(name, (), {}) for name in STORAGES})
utils = module("torch._utils", _rebuild_tensor_v2=lambda: None, _rebuild_parameter=lambda: None)
torch._utils = utils


class Storage:
    def __init__(self, kind, values):
        self.kind, self.values = kind, list(values)

    def bytes(self):
        if self.kind == "BFloat16Storage":  # the upper half of a float32
            return b"".join(struct.pack("<f", value)[2:] for value in self.values)
        return struct.pack(f"<{len(self.values)}{STORAGES[self.kind]}", *self.values)


class Tensor:
    def __init__(self, storage, offset, size, stride):
        self.arguments = (storage, offset, size, stride, False, collections.OrderedDict())

    def __reduce_ex__(self, protocol):
        return utils._rebuild_tensor_v2, self.arguments


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce_ex__(self, protocol):
        return utils._rebuild_parameter, (self.tensor, True, collections.OrderedDict())


def tensor(size, values, kind="FloatStorage"):
    stride = [1] * len(size)
    for axis in range(len(size) - 2, -1, -1):
        stride[axis] = stride[axis + 1] * size[axis + 1]
    return Tensor(Storage(kind, values), 0, tuple(size), tuple(stride))


class Pickler(pickle.Pickler):
    """Pickles storages by their keys, which count up in the zip form and are addresses in the older one."""

    def __init__(self, file, is_zip, protocol):
        super().__init__(file, protocol)
        self.is_zip, self.storages = is_zip, {}

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        known = next((key for key, storage in self.storages.items() if storage is obj), None)
        key = known or str(len(self.storages) if self.is_zip else 94600000000 + 64 * len(self.storages))
        self.storages[key] = obj
        name = ("storage", getattr(torch, obj.kind), key, "cpu", len(obj.values))
        return name if self.is_zip else (*name, None)


def dump(obj, is_zip, protocol=2):
    class File(list):
        write = list.append
    file = File()
    pickler = Pickler(file, is_zip, protocol)
    pickler.dump(obj)
    return b"".join(file), pickler.storages


def zip_archive(entries):
    data, directory = b"", b""
    for name, content in entries:
        begin, name = len(data), name.encode()
        padding = (64 - (begin + 30 + len(name) + 4) % 64) % 64
        common = struct.pack("<HHHH", 0x0808, 0, 0, 0)
        sums = struct.pack("<III", zlib.crc32(content), len(content), len(content))
        data += (b"PK\x03\x04" + struct.pack("<H", 0) + common + bytes(12) + struct.pack("<HH", len(name), padding + 4)
                 + name + b"FB" + struct.pack("<H", padding) + b"Z" * padding + content + b"PK\x07\x08" + sums)
        directory += (b"PK\x01\x02" + struct.pack("<HH", 0, 0) + common + sums + struct.pack("<HHHHHII", len(name), 0, 0,
                      0, 0, 0, begin) + name)
    count, begin, size = len(entries), len(data), len(directory)
    end = (b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 0x002d, 0x002d, 0, 0, count, count, size, begin)
           + b"PK\x06\x07" + struct.pack("<IQI", 0, begin + size, 1)
           + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, size, begin, 0))
    return data + directory + end


def entries_of(obj, folder, protocol=2):
    content, storages = dump(obj, is_zip=True, protocol=protocol)
    return [(f"{folder}/data.pkl", content), (f"{folder}/byteorder", b"little"),
            *((f"{folder}/data/{key}", storage.bytes()) for key, storage in storages.items()),
            (f"{folder}/version", b"3\n"), (f"{folder}/.data/serialization_id", b"1" * 40)]


def zip_form(obj, folder="archive", protocol=2):
    return zip_archive(entries_of(obj, folder, protocol))


def old_form(obj):
    content, storages = dump(obj, is_zip=False)
    system = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    keys = sorted(storages)
    return b"".join([*(pickle.dumps(value, 2) for value in (MAGIC, PROTOCOL, system)), content, pickle.dumps(keys, 2),
                     *(struct.pack("<q", len(storages[key].values)) + storages[key].bytes() for key in keys)])


def layer_sizes():
    """The network of checkpoint_files_test.cc."""
    sizes = {"first.conv.weight": (27, 2, 2), "second.conv.weight": (1, 2, 2)}
    for block in ("first", "second"):
        for part in ("weight", "bias", "running_mean", "running_var"):
            sizes[f"{block}.bn.{part}"] = (2,)
    return sizes


def values_of(name, size):
    """Numbers that every type holds, and that are positive as variances must be."""
    count = 1
    for axis in size:
        count *= axis
    return [(1 + (7 * i + 3 * len(name)) % 32) / 16 for i in range(count)]


def state_dict(prefix=""):
    made = collections.OrderedDict()
    for name, size in layer_sizes().items():
        made[prefix + name] = tensor(size, values_of(name, size))
        if name.endswith("running_var"):
            made[prefix + name.replace("running_var", "num_batches_tracked")] = tensor((), [7], "LongStorage")
    made._metadata = collections.OrderedDict({"": {"version": 1}, "first.bn": {"version": 2}})
    return made


def views():
    """The same values in other types, transposed, sliced, and out of one storage."""
    made = {}
    shared = Storage("FloatStorage", [0.0] * 3)
    for name, size in layer_sizes().items():
        values = values_of(name, size)
        if name == "first.conv.weight":  # [27, 2, 2] of a storage in the order of its last axes
            turned = [values[(o * 2 + i) * 2 + c] for c in range(2) for i in range(2) for o in range(27)]
            made[name] = Parameter(Tensor(Storage("FloatStorage", turned), 0, size, (1, 27, 54)))
        elif name == "second.conv.weight":
            made[name] = Parameter(tensor(size, values, "HalfStorage"))
        elif name.endswith("running_mean"):
            made[name] = Tensor(shared, len(shared.values), size, (1,))
            shared.values += values + [0.0]
        elif name.endswith("running_var"):
            made[name] = tensor(size, values, "DoubleStorage")
        elif name.endswith("bias"):
            made[name] = Tensor(Storage("FloatStorage", [values[0], 0.0, 0.0, values[1]]), 0, size, (3,))
        else:
            made[name] = tensor(size, values, "BFloat16Storage")
    return made


def detector():
    """What OpenPCDet saves, with objects that only its Python has."""
    easy = module("easydict", EasyDict=type("EasyDict", (dict,), {}))
    module("numpy")
    module("numpy.core")
    scalar = module("numpy.core.multiarray", scalar=lambda: None)

    class Loss:
        def __reduce_ex__(self, protocol):
            return scalar.scalar, (easy.EasyDict, b"\x00\x00\x80\x3f")

    config = easy.EasyDict(NAME="SECOND")
    return {"epoch": 80, "it": 37120, "model_state": state_dict("module."), "best": Loss(),
            "optimizer_state": {"state": {0: {"step": 5, "exp_avg": tensor((2,), [1, 2])}}, "param_groups": [{"lr": 1e-3}]},
            "config": argparse.Namespace(model=config, lr=0.01, names=("a", None)), "version": "pcdet+0.6.0+8caccce"}


def deflated(obj, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries_of(obj, "archive"):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def stored_by_python(obj, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries_of(obj, "state"):
            archive.writestr(zipfile.ZipInfo(name), content)


def main():
    folder = pathlib.Path(sys.argv[1])
    files = {"state_zip.pth": zip_form(state_dict(), "state_zip"), "state_old.pth": old_form(state_dict()),
             "views_zip.pth": zip_form(views()), "views_old.pth": old_form(views()),
             "detector_zip.pth": zip_form(detector(), "checkpoint_epoch_80"), "detector_old.pth": old_form(detector()),
             "state_protocol_4.pth": zip_form(state_dict(), protocol=4)}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    stored_by_python(state_dict(), folder / "state_zipfile.pth")
    deflated(state_dict(), folder / "deflated.pth")


if __name__ == "__main__":
    main()
