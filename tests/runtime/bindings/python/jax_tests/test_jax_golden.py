"""The golden problems in JAX: computed in float64 by an independent program, and the same bits as by the C ABI."""

from __future__ import annotations

import json

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import minuet  # noqa: E402
import oracle  # noqa: E402
from conftest import skip_or_fail  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax_problems import same_bits  # noqa: E402

FOLDER = oracle.shared_folder() / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*.safetensors") if not path.stem.startswith("network_"))
# A pyramid has neither outputs of the caller's nor those of a generative layer.
LAYERS = [name for name in NAMES if not name.startswith(("given_", "generative_"))]


@pytest.fixture(autouse=True)
def golden():
    if not LAYERS:
        skip_or_fail("golden", f"no golden problems in '{FOLDER.parent}'; MINUET_SHARED names the folder")


class Problem:
    """A golden problem on a geometry of one or two levels, with the rows of its coordinates in them."""

    def __init__(self, name):
        self.metadata, self.tensors = oracle.read_safetensors(FOLDER / f"{name}.safetensors")
        ndim = int(self.metadata["ndim"])
        self.kind, self.groups = self.metadata["kind"], int(self.metadata["groups"])
        self.is_transposed = self.kind in ("transposed", "inverse")
        self.is_pooling = self.kind.endswith("_pool")
        self.stride = self.numbers("stride") or [1] * ndim
        is_reached = self.metadata.get("output_rule") == "reached"
        kernel = {"kernel_size": self.numbers("kernel_size") or 1, "dilation": self.numbers("dilation") or 1}
        padding = self.numbers("padding") if is_reached else None
        self.geometry = {**kernel, "padding": padding}
        if "offsets" in self.tensors:
            self.geometry = {"offsets": self.tensors["offsets"].tolist()}
        fine_name, coarse_name = ("out", "in") if self.is_transposed else ("in", "out")
        tensor_stride = np.array([1, *self.numbers("fine_tensor_stride")], np.int32)
        self.fine_points, remainder = np.divmod(self.tensors[f"{fine_name}_coordinates"], tensor_stride)
        assert not remainder.any()
        self.fine_rows = len(self.fine_points)
        levels = [sparse.Level(self.fine_rows + 5)]
        coarse = 0
        if self.metadata["submanifold"] != "true" and (is_reached or max(self.stride) > 1):
            coarse = 1
            reached = {}
            if is_reached:
                shape = self.numbers("out_spatial_shape") or 0
                reached = {**kernel, "padding": padding, "shape": shape}
            most = 4 * (len(self.tensors[f"{coarse_name}_coordinates"]) + self.fine_rows) + 64
            levels.append(sparse.Level(most, 0, self.stride, **reached))
        make = sparse.pool_map if self.is_pooling else sparse.conv_map
        self.description = sparse.Geometry(levels, {"map": make(0, coarse, **self.geometry)}, ndim=ndim)
        count = jnp.array([self.fine_rows], jnp.int32)
        points = sparse.padded(self.fine_points, levels[0].capacity)
        self.cloud = jax.jit(lambda: sparse.pyramid(self.description, points, count))()
        sparse.check(self.cloud)
        self.coarse = coarse
        self.coarse_rows = np.arange(self.fine_rows)
        if coarse:
            found = np.asarray(self.cloud.coordinates(1))[: int(self.cloud.count(1)[0])]
            at = {tuple(point): row for row, point in enumerate(found.tolist())}
            stride = np.array([1, *self.stride])
            coarse_points = self.tensors[f"{coarse_name}_coordinates"] // (tensor_stride * stride) * stride
            self.coarse_rows = np.array([at[tuple(point)] for point in coarse_points.tolist()])

    def numbers(self, name):
        return json.loads(self.metadata[name]) if name in self.metadata else None

    def features(self, name, is_output=False):
        """Features in the rows of the level; rows of a coarser level that the problem has not are 0."""
        given = self.tensors[name].astype(np.float32)
        is_coarse = is_output != self.is_transposed
        level = self.coarse if is_coarse else 0
        placed = np.zeros((self.cloud.capacity(level), given.shape[1]), np.float32)
        placed[self.coarse_rows if is_coarse else np.arange(self.fine_rows)] = given
        placed[int(self.cloud.count(level)[0]) :] = np.nan
        return jnp.asarray(placed)

    def taken(self, features, is_output):
        """The rows of the problem."""
        return np.asarray(features)[self.coarse_rows if is_output != self.is_transposed else np.arange(self.fine_rows)]

    def run(self, cloud, features, weight):
        if self.is_pooling:
            return sparse.pool(cloud, "map", features, self.kind[: -len("_pool")], transposed=self.is_transposed)
        return sparse.conv(cloud, "map", features, weight, groups=self.groups, transposed=self.is_transposed)


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    problem = Problem(name)
    tensors = problem.tensors
    features = problem.features("in_features")
    weight = jnp.asarray(tensors["weight"]) if "weight" in tensors else None
    output = jax.jit(problem.run)(problem.cloud, features, weight)
    expected = tensors["out_features"]
    magnitude = np.abs(expected) + 1
    if weight is not None:
        wide = oracle.spread_groups(tensors["weight"], problem.groups)
        _, magnitude = oracle.convolve(tensors["pairs"], tensors["in_features"], wide, len(expected))
    oracle.expect_close(problem.taken(output, True), expected, magnitude, "float32")
    if "out_gradient" not in tensors:
        return
    gradient = problem.features("out_gradient", True)

    def back(features, weight, gradient):
        return jax.vjp(lambda *operands: problem.run(problem.cloud, *operands), features, weight)[1](gradient)

    of_features, of_weight = jax.jit(back)(features, weight, gradient)
    size = np.abs(tensors["in_gradient"]).max()
    oracle.expect_close(problem.taken(of_features, False), tensors["in_gradient"], size, "float32")
    size = np.abs(tensors["weight_gradient"]).max()
    oracle.expect_close(np.asarray(of_weight), tensors["weight_gradient"], size, "float32")
    expect_bits_of_the_abi(problem, [features, weight, gradient], [output, of_features, of_weight])


def expect_bits_of_the_abi(problem, operands, results):
    """Computes the same by the package without jax, on the same pyramid."""
    features, weight, gradient = (np.asarray(array) for array in operands)
    context = minuet.Context()
    device = minuet.Device(context, "cpu")
    description = problem.description
    pyramid = minuet.Pyramid(
        context, description.levels, [item for _, item in description.maps], ndim=description.ndim,
        keep_coordinates=range(len(description.levels)),
    )  # fmt: skip
    pyramid.load(device)
    buffer = pyramid.build(device, problem.fine_points)
    options = {
        **problem.geometry, "stride": problem.stride, "ndim": description.ndim, "groups": problem.groups,
        "submanifold": problem.metadata["submanifold"] == "true", "transposed": problem.is_transposed,
    }  # fmt: skip
    rows = [len(features), len(gradient)]
    for is_back, source in ((False, features), (True, gradient)):
        plan = minuet.Plan.convolution(context, weight, **options, dataflow="fused", input_gradient=is_back)
        plan.load(device)
        got = pyramid.run(plan, device, buffer, source, output_rows=rows[not is_back])
        assert same_bits(got, results[is_back])
    op = minuet.ParameterGradients(context, features.shape[1], gradient.shape[1], **options)
    op.load(device)
    pairs, count = (np.asarray(array) for array in problem.cloud.pairs["map"])
    if description.volume("map") > 1:
        listed, number = pyramid.export_pairs(device, buffer, 0, len(pairs))
        assert number[0] == count[0]
        assert same_bits(listed[: count[0]], pairs[: count[0]])
    got = np.full_like(weight, np.nan)
    op.compute(
        device, gradient, input=features, pairs=pairs[: count[0]], weight_gradient=got, swapped=problem.is_transposed
    )
    assert same_bits(got, results[2])
