"""The golden problems in PyTorch: computed in float64 by an independent program, and the same bits as by the C ABI."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import minuet.torch as sparse  # noqa: E402
import oracle  # noqa: E402
from conftest import skip_or_fail  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from minuet.torch._pyramids import pyramid_of  # noqa: E402
from torch_problems import poisoned, rows  # noqa: E402, F401

FOLDER = oracle.shared_folder() / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*.safetensors") if not path.stem.startswith("network_"))
# A pyramid has neither outputs of the caller's nor those of a generative layer.
LAYERS = [name for name in NAMES if not name.startswith(("given_", "generative_"))]


@pytest.fixture(autouse=True)
def golden():
    if not LAYERS:
        skip_or_fail(
            "golden",
            f"no golden problems in '{FOLDER.parent}'; MINUET_SHARED names the folder",
        )


class Problem:
    """A golden problem on a geometry, with the rows of its coordinates in the library's levels."""

    def __init__(self, name):
        self.metadata, self.tensors = oracle.read_safetensors(FOLDER / f"{name}.safetensors")
        ndim = int(self.metadata["ndim"])
        self.kind, self.groups = self.metadata["kind"], int(self.metadata["groups"])
        self.is_transposed = self.kind in ("transposed", "inverse")
        self.is_submanifold = self.metadata["submanifold"] == "true"
        self.stride = self.numbers("stride") or [1] * ndim
        self.geometry = {
            "kernel_size": self.numbers("kernel_size") or 1,
            "dilation": self.numbers("dilation") or 1,
        }
        if "offsets" in self.tensors:
            self.geometry["offsets"] = self.tensors["offsets"].tolist()
        self.padding = self.numbers("padding") if self.metadata.get("output_rule") == "reached" else None
        fine_name, coarse_name = ("out", "in") if self.is_transposed else ("in", "out")
        tensor_stride = np.array([1, *self.numbers("fine_tensor_stride")], np.int32)
        fine, remainder = np.divmod(self.tensors[f"{fine_name}_coordinates"], tensor_stride)
        assert not remainder.any()
        self.fine = sparse.Geometry(torch.from_numpy(fine), shape=self.numbers("spatial_shape"), batch_size=4).level
        self.coarse = self.fine
        if not self.is_submanifold:
            reached = {}
            if self.padding is not None:
                reached = {**self.geometry, "padding": self.padding}
            self.coarse = self.fine.coarser(self.stride, **reached)
        assert self.coarse.shape == (tuple(self.numbers("out_spatial_shape") or ()) or None)
        at = {point: row for row, point in enumerate(rows(self.coarse.coordinates))}
        coarse = self.tensors[f"{coarse_name}_coordinates"] // (tensor_stride * np.array([1, *self.stride]))
        self.coarse_rows = torch.tensor([at[tuple(point)] for point in coarse.tolist()])
        if not self.is_transposed:
            assert len(at) == len(coarse)

    def numbers(self, name):
        return json.loads(self.metadata[name]) if name in self.metadata else None

    def features(self, name, is_output=False):
        """Features in the rows of the level; rows of a coarser level that the problem has not are 0."""
        given = torch.from_numpy(self.tensors[name]).float()
        if is_output == self.is_transposed:
            return given
        placed = torch.zeros(self.coarse.rows, given.shape[1])
        placed[self.coarse_rows] = given
        return placed

    def taken(self, features, is_output):
        """The rows of the problem."""
        return (features if is_output == self.is_transposed else features[self.coarse_rows]).detach().numpy()

    def run(self, features, weight):
        x = sparse.SparseTensor(features, self.coarse if self.is_transposed else self.fine)
        options = {
            **self.geometry, "stride": self.stride, "padding": self.padding, "submanifold": self.is_submanifold,
            "transposed": self.is_transposed,
        }  # fmt: skip
        if self.kind.endswith("_pool"):
            return F.pooling(x, self.kind[: -len("_pool")], **options)
        return F.convolution(x, weight, groups=self.groups, **options)


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    problem = Problem(name)
    tensors = problem.tensors
    features = problem.features("in_features").requires_grad_()
    weight = torch.from_numpy(tensors["weight"]).requires_grad_() if "weight" in tensors else None
    y = problem.run(features, weight)
    expected = tensors["out_features"]
    magnitude = np.abs(expected) + 1
    pairs = tensors["pairs"]
    if weight is not None:
        wide = oracle.spread_groups(tensors["weight"], problem.groups)
        _, magnitude = oracle.convolve(pairs, tensors["in_features"], wide, len(expected))
    oracle.expect_close(problem.taken(y.features, True), expected, magnitude, "float32")
    if "out_gradient" not in tensors:
        return
    gradient = problem.features("out_gradient", True)
    y.features.backward(gradient)
    size = np.abs(tensors["in_gradient"]).max()
    oracle.expect_close(problem.taken(features.grad, False), tensors["in_gradient"], size, "float32")
    size = np.abs(tensors["weight_gradient"]).max()
    oracle.expect_close(weight.grad.numpy(), tensors["weight_gradient"], size, "float32")
    expect_bits_of_the_abi(problem, features, weight, gradient, y.features)


def expect_bits_of_the_abi(problem, features, weight, gradient, output):
    """Computes the same by the package without torch, on the same pyramid."""
    made = next(iter(problem.coarse._maps.values()))
    pyramid, context = pyramid_of(made.built.key).pyramid, minuet.Context()
    device = minuet.Device(context, "cpu")
    pyramid.load(device)
    buffer = pyramid.build(device, problem.fine.coordinates.numpy())
    ndim = problem.fine.ndim
    options = {
        **problem.geometry, "stride": problem.stride, "padding": problem.padding, "ndim": ndim,
        "submanifold": problem.is_submanifold, "transposed": problem.is_transposed, "groups": problem.groups,
    }  # fmt: skip
    capacity = pyramid.capacities
    sizes = (capacity[-1], capacity[0]) if problem.is_transposed else (capacity[0], capacity[-1])
    given = np.zeros((sizes[0], features.shape[1]), np.float32)
    given[: len(features)] = features.detach().numpy()
    out_gradient = np.zeros((sizes[1], gradient.shape[1]), np.float32)
    out_gradient[: len(gradient)] = gradient.numpy()
    values = weight.detach().numpy()
    for is_back, source, rows_out, expected in (
        (False, given, sizes[1], output),
        (True, out_gradient, sizes[0], features.grad),
    ):
        plan = minuet.Plan.convolution(context, values, **options, dataflow="fused", input_gradient=is_back)
        plan.load(device)
        got = pyramid.run(plan, device, buffer, source, output_rows=rows_out)
        assert got[: len(expected)].tobytes() == expected.detach().numpy().tobytes()
        assert not got[len(expected) :].any()
    op = minuet.ParameterGradients(context, features.shape[1], gradient.shape[1], **options)
    op.load(device)
    listed, total = made.pairs()
    pairs = listed[: int(total)].numpy()
    if not made.is_identity:
        pairs, count = pyramid.export_pairs(device, buffer, 0, int(total))
        assert count[0] == len(pairs)
        assert (pairs == listed[: len(pairs)].numpy()).all()
    got = np.full_like(values, np.nan)
    op.compute(
        device, gradient.numpy(), input=features.detach().numpy(), pairs=pairs, weight_gradient=got,
        swapped=problem.is_transposed,
    )  # fmt: skip
    assert got.tobytes() == weight.grad.numpy().tobytes()
