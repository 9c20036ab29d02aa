"""The schema of descriptions and the library agree: what the library takes or prints is valid, and what the schema
refuses, the library refuses with the place.

usage: schema_test.py LIBRARY FOLDER_OF_NETWORKS
"""

import copy
import ctypes
import json
import pathlib
import random
import re
import sys

CHANGES = 1500

GOOD = [
    {"name": "chain", "ndim": 3, "in_channels": 4, "channels": [8, 16], "layers": [
        {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "x"},
        {"op": "residual", "name": "b", "width": 1, "stride": [2, 2, 1], "conv1": {"bias": True},
         "conv2": {"norm": "none"}, "shortcut": {"affine": False}},
        {"op": "up", "name": "c", "width": 0, "kernel_size": [2, 2, 1], "stride": [2, 2, 1], "onto": "x"},
        {"op": "concat", "with": "x"},
        {"op": "linear", "name": "l", "out_channels": 5, "activation": "gelu_tanh"},
        {"op": "head", "name": "h", "classes": 5, "activation": "leaky_relu", "slope": 0.5}]},
    {"name": "graph", "ndim": 3, "shape": [32, 32, 16], "outputs": ["z", "y"], "batch_norm_epsilon": 0.001,
     "inputs": [{"name": "points", "channels": 4}, {"name": "more", "channels": 8, "level": "y"}], "layers": [
         {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "activation": "none"},
         {"op": "block", "name": "b", "out_channels": 8, "kernel_size": 3, "stride": 2, "dilation": 1, "output": "y"},
         {"op": "bottleneck", "name": "c", "input": "more", "out_channels": 8, "inner_channels": 2,
          "conv3": {"epsilon": 0.1}, "track_running_stats": True},
         {"op": "max_pool", "name": "d", "kernel_size": 2, "stride": 2},
         {"op": "inverse", "name": "e", "of": "d", "out_channels": 6, "bias": True, "norm": "none"},
         {"op": "concat", "with": "y", "output": "z"},
         {"op": "linear", "name": "f", "out_channels": 4, "bias": False},
         {"op": "unpool", "name": "g", "of": "b", "reduction": "max", "output": "u"},
         {"op": "upsample", "name": "h", "input": "z", "onto": "u"}]},
    {"name": "dense", "ndim": 3, "in_channels": 4, "shape": [32, 32, 16], "outputs": ["y", "x"], "layers": [
        {"op": "sum_pool", "name": "a", "kernel_size": 2, "stride": 2, "output": "x"},
        {"op": "to_dense", "format": "channels_last", "output": "z"},
        {"op": "from_dense", "input": "z", "onto": "x"},
        {"op": "birds_eye", "image_axes": [1, 0], "output": "y"},
        {"op": "collapse", "name": "b", "input": "x", "axis": 2},
        {"op": "space_to_channel", "name": "f", "input": "x", "stride": [2, 1, 3], "output": "wide"},
        {"op": "channel_to_space", "name": "g", "onto": "x"},
        {"op": "union", "name": "c", "input": "x", "with": "input"},
        {"op": "union", "name": "d", "input": "x", "with": "input", "combine": "concat"},
        {"op": "intersection", "name": "e", "input": "x", "with": "input", "combine": "add"}]},
    {"name": "quantized", "ndim": 3, "in_channels": 4, "layers": [
        {"op": "block", "name": "a", "out_channels": 8, "output_range": 2.5},
        {"op": "residual", "name": "b", "out_channels": 16, "precision": "int8", "output_range": 1e30,
         "conv1": {"output_range": 0.125, "precision": "float"}, "conv2": {"precision": "float"},
         "shortcut": {"output_range": 3, "precision": "int8"}},
        {"op": "bottleneck", "name": "c", "out_channels": 16, "inner_channels": 4, "output_range": 1,
         "conv1": {"precision": "int8", "output_range": 1}, "conv2": {"output_range": 1}},
        {"op": "linear", "name": "d", "out_channels": 5, "precision": "int8", "output_range": 6},
        {"op": "head", "name": "e", "classes": 3, "precision": "int8"}]},
    {"name": "generative", "ndim": 3, "in_channels": 4, "shape": [32, 32, 16], "layers": [
        {"op": "max_pool", "name": "a", "kernel_size": 4, "stride": 4},
        {"op": "generative_up", "name": "b", "out_channels": 8, "kernel_size": [3, 2, 3], "stride": 2,
         "rule": "reached", "padding": 1, "output_padding": [0, 1, 0]},
        {"op": "generative_up", "name": "c", "out_channels": 8, "kernel_size": 2, "stride": [2, 1, 2],
         "norm": "none", "groups": 2}]},
    {"name": "shapes", "ndim": 3, "in_channels": 4, "layers": [
        {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "kernel_shape": "cross", "output": "x"},
        {"op": "residual", "name": "b", "out_channels": 8, "kernel_shape": "custom", "offsets": [[0, 0, 0], [0, -5, 2]]},
        {"op": "max_pool", "name": "c", "stride": 2, "kernel_shape": "custom", "offsets": [[1, 0, 0], [0, 1, 0]]},
        {"op": "up", "name": "d", "out_channels": 4, "kernel_size": [3, 1, 5], "stride": 2, "kernel_shape": "cross",
         "dilation": 2, "onto": "x"}]},
    {"name": "items", "ndim": 3, "in_channels": 4, "shape": [32, 32, 16], "outputs": ["y", "z"], "layers": [
        {"op": "collapse", "name": "a", "axis": 2},
        {"op": "block", "name": "b", "out_channels": 8, "kernel_size": [3, 1], "stride": 2, "rule": "reached",
         "padding": [1, 0]},
        {"op": "global_pool", "name": "c", "reduction": "max", "output": "y"},
        {"op": "linear", "name": "d", "out_channels": 3}, {"op": "softmax", "output": "z"}]},
    {"name": "pointwise", "ndim": 2, "in_channels": 4, "outputs": ["y", "z"], "layers": [
        {"op": "relu", "output": "x"}, {"op": "leaky_relu", "slope": 0.5}, {"op": "add", "with": "x"},
        {"op": "gelu", "approximate": "tanh"}, {"op": "silu"}, {"op": "multiply", "with": "x"}, {"op": "softmax",
                                                                                               "output": "y"},
        {"op": "batch_norm", "name": "n", "epsilon": 0.5}, {"op": "scale_shift", "name": "s"},
        {"op": "layer_norm", "name": "l", "affine": False},
        {"op": "sigmoid"}, {"op": "tanh"}, {"op": "argmax", "save": "z"}]},
    {"name": "points", "ndim": 3, "inputs": [{"name": "points", "channels": 5},
                                             {"name": "more", "channels": 2, "level": "points"}],
     "outputs": ["y", "z"], "layers": [
         {"op": "voxelize", "voxel_size": [0.5, 0.25, 1], "range": [[-4, -4, -2], [4, 4, 2.5]], "feature": "max",
          "first_column": 1, "channels": 3, "most_points_per_voxel": 8, "most_voxels": 1000, "save": "v"},
         {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 2, "stride": 2, "output": "x"},
         {"op": "devoxelize", "blend": "centres", "output": "u"}, {"op": "concat", "with": "more", "output": "z"},
         {"op": "devoxelize", "input": "v", "output": "y"}]},
    {"name": "voxels", "ndim": 2, "inputs": [{"name": "points", "channels": 2}], "layers": [
        {"op": "voxelize", "voxel_size": [0.5, 0.25], "low": [-1, 0.5]}, {"op": "linear", "name": "a", "out_channels": 4},
        {"op": "devoxelize", "blend": "corners"}]},
    {"name": "pruned", "ndim": 3, "in_channels": 4, "outputs": ["y", "z", "w"], "layers": [
        {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 2, "stride": [2, 2, 1], "output": "x"},
        {"op": "linear", "name": "s", "out_channels": 4, "output": "of_children"},
        {"op": "linear", "name": "t", "input": "x", "out_channels": 1, "output": "score"},
        {"op": "prune", "input": "x", "by": "score", "top_k": 30, "output": "y"},
        {"op": "prune", "input": "x", "by": "score", "threshold": -0.5, "output": "w"},
        {"op": "subdivide", "input": "x", "by": "of_children", "stride": [2, 2, 1], "features": "channel_to_space",
         "threshold": 0.5, "output": "z"}]},
    {"name": "masked", "ndim": 3, "inputs": [{"name": "x", "channels": 4, "type": "features"},
                                             {"name": "keep", "channels": 1, "level": "x", "type": "mask"},
                                             {"name": "children", "channels": 8, "level": "half", "type": "mask"}],
     "outputs": ["y", "z"], "layers": [
         {"op": "prune", "input": "x", "by": "keep", "output": "y"},
         {"op": "max_pool", "name": "a", "input": "x", "kernel_size": 2, "stride": 2, "output": "half"},
         {"op": "subdivide", "by": "children", "output": "z"}]},
    {"name": "cells", "ndim": 3, "in_channels": 4, "shape": [8, 8, 4], "outputs": ["y", "again"], "layers": [
        {"op": "to_dense", "format": "channels_last", "output": "z"},
        {"op": "from_dense", "input": "z", "new_level": True, "output": "fed"},
        {"op": "from_dense", "input": "z", "new_level": True, "output": "again"},
        {"op": "max_pool", "name": "a", "input": "fed", "kernel_size": 2, "stride": 2, "output": "y"}]},
]

# Wrong kernels of a layer "block", which the library and the schema both refuse, and the field that the library names.
WRONG_KERNELS = [
    ({"kernel_shape": "star"}, "kernel_shape"),
    ({"kernel_shape": 1}, "kernel_shape"),
    ({"kernel_shape": "custom"}, "offsets"),
    ({"kernel_shape": "custom", "offsets": []}, "offsets"),
    ({"kernel_shape": "custom", "offsets": [0, 0, 1]}, "offsets"),
    ({"kernel_shape": "custom", "offsets": [[0, 0, 0.5]]}, "offsets[0]"),
    ({"kernel_shape": "custom", "offsets": [[0, 0, 1 << 29]]}, "offsets[0]"),
    ({"kernel_shape": "custom", "offsets": [[0, 0, 1], [0, 0, 1]]}, "offsets"),
    ({"kernel_shape": "custom", "offsets": [[0, 0, 1]], "kernel_size": 3}, "kernel_size"),
    ({"kernel_shape": "custom", "offsets": [[0, 0, 1]], "dilation": 2}, "dilation"),
    ({"kernel_shape": "cross", "kernel_size": 3, "offsets": [[0, 0, 1]]}, "offsets"),
    ({"kernel_size": 3, "offsets": [[0, 0, 1]]}, "offsets"),
    ({"kernel_shape": "cross", "kernel_size": 3, "rule": "reached"}, "kernel_shape"),
    ({"kernel_shape": "custom", "offsets": [[0, 0, 1]], "rule": "reached"}, "kernel_shape"),
    ({"op": "generative_up", "kernel_shape": "cross", "kernel_size": 3}, "kernel_shape"),
    ({"op": "max_pool", "out_channels": None, "kernel_shape": "cross", "kernel_size": 3, "rule": "reached"}, "kernel_shape"),
]


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.minuet_plan_description.restype = ctypes.c_size_t
        self.context = ctypes.c_void_p()
        self.check(self.library.minuet_context_create(None, ctypes.byref(self.context)))

    def error(self):
        text = ctypes.create_string_buffer(4096)
        self.library.minuet_last_error(text, ctypes.c_size_t(4096))
        return text.value.decode()

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.error())

    def printed(self, description):
        """The description that the library prints of a network, or None where it refuses it."""

        class Options(ctypes.Structure):
            _fields_ = [("struct_size", ctypes.c_size_t), ("ext", ctypes.c_void_p), ("name", ctypes.c_char_p),
                        ("description", ctypes.c_char_p)]

        options = Options(ctypes.sizeof(Options), None, None, json.dumps(description).encode())
        plan = ctypes.c_void_p()
        if self.library.minuet_plan_create_network(self.context, ctypes.byref(options), ctypes.byref(plan)) != 0:
            return None
        size = self.library.minuet_plan_description(plan, None, ctypes.c_size_t(0))
        text = ctypes.create_string_buffer(size)
        self.library.minuet_plan_description(plan, text, ctypes.c_size_t(size))
        self.library.minuet_plan_destroy(plan)
        return json.loads(text.value)


def parts_of(value, found):
    """All objects and lists in a value."""
    if isinstance(value, (dict, list)):
        found.append(value)
        for part in value.values() if isinstance(value, dict) else value:
            parts_of(part, found)
    return found


def change(description, draw):
    """Changes, adds or removes one value."""
    changed = copy.deepcopy(description)
    part = draw.choice(parts_of(changed, []))
    keys = list(part) if isinstance(part, dict) else list(range(len(part)))
    value = draw.choice([0, 1, 2, -1, 70000, 0.5, "", "x", "y", "cells", "reached", "none", True, None, [], {}, [1, 2, 2],
                         "box", "cross", "custom", [[0, 1, 0], [0, 0, 0]]])
    if keys and draw.random() < 0.3:
        del part[draw.choice(keys)]
    elif keys and draw.random() < 0.6:
        part[draw.choice(keys)] = value
    elif isinstance(part, dict):
        part[draw.choice(["rule", "kernel_shape", "offsets", "padding", "output", "save", "width", "out_channels", "input", "shape", "knel",
                          "level", "of", "bias", "slope", "channels", "in_channels", "classes", "onto", "format", "image_axes", "with",
                          "approximate", "by", "threshold", "top_k", "features", "stride", "new_level", "range", "low", "blend",
                          "feature", "first_column", "voxel_size", "most_voxels", "type"])] = value
    else:
        part.append(value)
    return changed


def main():
    try:
        import jsonschema
    except ImportError:
        print("left out: schema_test: the Python package jsonschema is not installed")
        return 0
    library = Library(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    schema = json.loads((folder / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    descriptions = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if path.name != "schema.json"]
    networks = [description for description in descriptions if "layers" in description]
    assert networks, f"no networks in {folder}"
    for description in networks + GOOD:
        printed = library.printed(description)
        assert printed is not None, f"{description['name']}: {library.error()}"
        validator.validate(description)
        validator.validate(printed)
        assert library.printed(printed) == printed, description["name"]
    for fields, place in WRONG_KERNELS:
        layer = {"op": "block", "name": "a", "out_channels": 8, **fields}
        layer = {name: value for name, value in layer.items() if value is not None}
        description = {"name": "wrong", "ndim": 3, "in_channels": 4, "layers": [layer]}
        assert library.printed(description) is None, f"the library takes {fields}"
        assert f"layers[0].{place}" in library.error(), f"{fields}: {library.error()}"
        assert not validator.is_valid(description), f"the schema takes {fields}"
    draw, refused, taken = random.Random(7), 0, 0
    for _ in range(CHANGES):
        description = change(draw.choice(GOOD), draw)
        printed, is_valid = library.printed(description), validator.is_valid(description)
        if printed is None:
            refused += 1
            place = re.match(r"minuet_plan_create_network: (network description: )?[a-z_]+[\[\].a-z_0-9]*: ", library.error())
            assert place, f"no place in: {library.error()}"
        else:
            taken += 1
            assert is_valid, f"the library takes what the schema refuses: {json.dumps(description)}"
            validator.validate(printed)
    assert refused > CHANGES // 5 and taken > CHANGES // 20, (refused, taken)
    print(f"{len(networks)} networks, {taken} changes taken, {refused} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
