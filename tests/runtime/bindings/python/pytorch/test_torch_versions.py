"""Versions of torch, and what the package does because older ones cannot do it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import minuet.torch.minkowski as ME  # noqa: E402, N812
import minuet.torch.spconv as spconv  # noqa: E402
import minuet.torch.torchsparse as torchsparse  # noqa: E402
from conftest import run_python  # noqa: E402
from minuet.torch import _torch_version  # noqa: E402

CELLS = torch.cartesian_prod(torch.arange(2), *[torch.arange(4)] * 3).int()
FEATURES = torch.arange(4.0 * len(CELLS)).reshape(len(CELLS), 4)


@pytest.mark.parametrize("version", ["2.10.1+cu128", "1.13.1", "1.99", "0.4.0a0", "unknown"])
def test_older_versions_are_refused(version):
    with pytest.raises(ImportError, match=r"needs torch 2\.11 or newer, and this is torch ") as caught:
        _torch_version.require(version)
    assert version in str(caught.value)


@pytest.mark.parametrize("version", ["2.11.0", "2.11.0a0+git1234", "2.15.1+cpu", "3.0", torch.__version__])
def test_newer_versions_are_taken(version):
    _torch_version.require(version)


@pytest.mark.parametrize("module", ["minuet.torch", "minuet.torch.spconv"])
def test_the_import_refuses_an_older_version(module):
    done = run_python(f"import torch; torch.__version__ = '2.10.0'; import {module}")
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("ImportError: minuet.torch needs torch 2.11 or newer")


def tensors_of_engines():
    """Returns tensors with all attributes that the package gives them."""
    field = ME.TensorField(FEATURES, CELLS.float())
    x = spconv.SparseConvTensor(FEATURES, CELLS, [4, 4, 4], 2)
    made = [
        ME.SparseTensor(FEATURES, CELLS),
        ME.SparseTensor(FEATURES, CELLS, capacities=[]),
        field,
        field.sparse(),
        x,
        spconv.SparseConv3d(4, 4, 2, 2)(x),
        torchsparse.SparseTensor(FEATURES, CELLS),
        torchsparse.SparseTensor(FEATURES, CELLS, spatial_range=(2, 4, 4, 4), capacities=[]),
    ]
    made.append(ME.MinkowskiConvolution(4, 4, 2, 2, dimension=3)(made[0]))
    made.append(torchsparse.nn.Conv3d(4, 4, 2, 2)(made[6]))
    return made


def test_copies_have_all_attributes():
    """torch.compile copies the attributes that a class names, because it cannot list them in all versions."""
    for one in tensors_of_engines():
        assert set(vars(one)) <= set(one._ATTRIBUTES)


@pytest.mark.parametrize("number", range(4))
def test_copies_under_the_compiler(number):
    torch._dynamo.reset()
    one = [tensors_of_engines()[place] for place in (0, 2, 4, 6)][number]

    def double(one):
        if isinstance(one, spconv.SparseConvTensor):
            return one.shadow_copy()._replaced(2 * one.features)
        return one._replace(2 * (one.feats if isinstance(one, torchsparse.SparseTensor) else one.F))

    got, want = torch.compile(double, backend="eager", fullgraph=True)(one), double(one)
    assert type(got) is type(want)
    assert vars(got).keys() == vars(want).keys()
    features = {"_F", "_features", "feats"}
    for name, value in vars(want).items():
        own = getattr(got, name)
        assert torch.equal(own, value) if name in features else own is value or own == value


def test_attributes_of_the_caller_are_copied():
    for one in tensors_of_engines():
        one.note = "kept"
        copied = one.shadow_copy() if isinstance(one, spconv.SparseConvTensor) else one._replace(FEATURES)
        assert copied.note == "kept"
