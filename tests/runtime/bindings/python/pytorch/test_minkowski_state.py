"""State dicts and weights under MinkowskiEngine's names: what they are called, their shapes, and what they mean."""

from __future__ import annotations

import io

import pytest

torch = pytest.importorskip("torch")

import minkowski_networks  # noqa: E402
import minuet.torch.minkowski as ME  # noqa: E402, N812
from torch import nn  # noqa: E402


def test_checkpoints_load_both_ways():
    """A file with hand-made weights under the engine's names gives what these weights mean, and comes back the same."""
    network = nn.Sequential(
        ME.MinkowskiConvolution(1, 1, 3, bias=True, dimension=2), ME.MinkowskiBatchNorm(1), ME.MinkowskiLinear(1, 1)
    )
    state = {
        "0.kernel": torch.arange(9.0).view(9, 1, 1),
        "0.bias": torch.tensor([[0.5]]),
        "1.bn.weight": torch.tensor([2.0]),
        "1.bn.bias": torch.tensor([1.0]),
        "1.bn.running_mean": torch.tensor([3.0]),
        "1.bn.running_var": torch.tensor([4.0 - 1e-5]),
        "1.bn.num_batches_tracked": torch.tensor(7),
        "2.linear.weight": torch.tensor([[10.0]]),
        "2.linear.bias": torch.tensor([-1.0]),
    }
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    network.load_state_dict(torch.load(file))
    for name, value in network.state_dict().items():
        assert torch.equal(value, state.pop(name)), name
    assert not state
    # The second voxel is one step along the first axis: weight 5 of the first output, and weight 3 of the second one.
    x = ME.SparseTensor(torch.tensor([[1.0], [100.0]]), torch.tensor([[0, 4, 4], [0, 5, 4]]))
    sums = torch.tensor([[4.0 + 500], [3 + 400]]) + 0.5
    torch.testing.assert_close(network.eval()(x).F, ((sums - 3) + 1) * 10 - 1)


def test_state_dicts_have_the_names_and_shapes_of_the_engine():
    network = minkowski_networks.mink_unet14(ME, 3, 20, 32, [32, 64, 128, 256, 128, 128, 96, 96], 3)
    state = {name: list(value.shape) for name, value in network.state_dict().items()}
    assert state["conv0p1s1.kernel"] == [125, 3, 32]
    assert state["bn0.bn.running_mean"] == [32]
    assert state["conv1p1s2.kernel"] == [8, 32, 32]
    assert state["block4.0.conv1.kernel"] == [27, 128, 256]
    assert state["block4.0.downsample.0.kernel"] == [128, 256]
    assert state["convtr4p16s2.kernel"] == [8, 256, 128]
    assert state["final.kernel"] == [96, 20]
    assert state["final.bias"] == [1, 20]
    own = ME.modules.resnet_block.Bottleneck(16, 4, 2, dimension=3).state_dict()
    assert {name: list(value.shape) for name, value in own.items() if "kernel" in name} == {
        "conv1.kernel": [16, 4], "conv2.kernel": [27, 4, 4], "conv3.kernel": [4, 16],
    }  # fmt: skip
    assert list(ME.MinkowskiConvolution(3, 4, 1, 2, dimension=3).kernel.shape) == [1, 3, 4]


def test_the_weight_of_an_offset():
    """A kernel with one weight that is not 0 moves features by its offset: the first axis is fastest."""
    x = ME.SparseTensor(torch.ones(1, 1), torch.tensor([[0, 5, 6, 7]], dtype=torch.int32))
    grid = ME.SparseTensor(
        torch.zeros(27, 1),
        torch.nn.functional.pad(torch.cartesian_prod(*[torch.arange(n - 1, n + 2) for n in (5, 6, 7)]), (1, 0)).int(),
        coordinate_manager=x.coordinate_manager,
    )
    for size, number, offset in ((3, 1, (0, -1, -1)), (3, 9, (-1, -1, 0)), (2, 1, (1, 0, 0)), (2, 4, (0, 0, 1))):
        layer = ME.MinkowskiConvolution(1, 1, size, dimension=3)
        with torch.no_grad():
            layer.kernel.zero_()
            layer.kernel[number] = 1
        made = layer(x, grid)
        (row,) = made.F[:, 0].nonzero().tolist()
        at = made.C[row[0], 1:]
        # The output at p reads the input at p + offset.
        assert (at + torch.tensor(offset)).tolist() == [5, 6, 7]
