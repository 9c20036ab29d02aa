"""Two ranks of torch.distributed: statistics of a batch norm, DistributedDataParallel, and steps that both skip."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
from fused_problems import UNet, cloud, pair, step  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from torch_problems import expect_close  # noqa: E402

#: Voxels of the clouds of both ranks. The second one may have none.
VOXELS = ((30, 50), (30, 0))


def join(rank, folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)


class Network(torch.nn.Module):
    """A convolution and a batch norm with a residual."""

    def __init__(self, group):
        super().__init__()
        torch.manual_seed(1)
        self.weight = torch.nn.Parameter(torch.randn(27, 4, 4) / 4)
        self.norm = sparse.BatchNorm(4, relu=True, group=group)
        torch.nn.init.normal_(self.norm.weight)
        torch.nn.init.normal_(self.norm.bias)

    def forward(self, x):
        return self.norm(F.convolution(x, self.weight, kernel_size=3, submanifold=True), x).features


def inputs(numbers, voxels):
    """The clouds of these ranks, each with its number as the batch index."""
    features, coordinates = [], []
    for number in numbers:
        generator = torch.Generator().manual_seed(number)
        cells = torch.cartesian_prod(*[torch.arange(5)] * 3)
        cells = cells[torch.randperm(len(cells), generator=generator)[: voxels[number]]]
        coordinates.append(torch.nn.functional.pad(cells, (1, 0), value=number).int())
        features.append(torch.randn(len(cells), 4, generator=generator))
    return torch.cat(features).requires_grad_(), torch.cat(coordinates)


def run(network, numbers, voxels, fixed=False):
    """Runs a step; `fixed`: in capacity mode, with rows past the count."""
    features, coordinates = inputs(numbers, voxels)
    rows, options = len(features), {}
    given = features
    if fixed:
        more = (0, 0, 0, 64 - rows)
        given, coordinates = (torch.nn.functional.pad(tensor, more) for tensor in (features, coordinates))
        options = {"count": torch.tensor([rows], dtype=torch.int32), "capacities": []}
    output = network(sparse.SparseTensor.of(given, coordinates, **options))[:rows]
    output.square().sum().backward()
    inner = getattr(network, "module", network)
    return {
        "output": output.detach(),
        "input": features.grad,
        **{f"gradient of {name}": value.grad for name, value in inner.named_parameters()},
        **dict(inner.named_buffers()),
    }


def work(rank, folder, fixed):
    join(rank, folder)
    results = []
    for voxels in VOXELS:
        network = torch.nn.parallel.DistributedDataParallel(Network(torch.distributed.group.WORLD))
        results.append(run(network, [rank], voxels, fixed))
    torch.save(results, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("fixed", [False, True], ids=["exact", "capacity"])
def test_two_ranks(tmp_path, fixed):
    """Two ranks give what one gives for the clouds of both; gradients of parameters are averaged."""
    torch.multiprocessing.spawn(work, (str(tmp_path), fixed), nprocs=2)
    saved = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for voxels, *ranks in zip(VOXELS, *saved, strict=True):
        expected = run(Network(None), [0, 1], voxels)
        for name, want in expected.items():
            if name in ("output", "input"):
                expect_close(torch.cat([rank[name] for rank in ranks]), want, torch.float32)
            else:
                for rank in ranks:
                    got = rank[name] * 2 if name.startswith("gradient") else rank[name]
                    expect_close(got, want, torch.float32)
                    assert torch.equal(rank[name], ranks[0][name])


def levels_work(rank, folder):
    join(rank, folder)
    torch.manual_seed(3)
    network = torch.nn.parallel.DistributedDataParallel(UNet(), broadcast_buffers=False)
    network.module = torch.nn.SyncBatchNorm.convert_sync_batchnorm(network.module)
    results = step(network, cloud(80 * (1 - rank), 0))
    torch.optim.SGD(network.parameters(), lr=0.1).step()
    results.update(network.named_parameters())
    torch.save({name.replace("module.", ""): value for name, value in results.items()}, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_a_rank_without_voxels(tmp_path):
    """It gives zeros to all gradients, and both ranks learn from the cloud of the other one."""
    torch.multiprocessing.spawn(levels_work, (str(tmp_path),), nprocs=2)
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    torch.manual_seed(3)
    network = UNet()
    wanted = step(network, cloud(80, 0))
    for parameter in network.parameters():
        parameter.grad /= 2  # DistributedDataParallel takes the mean.
    torch.optim.SGD(network.parameters(), lr=0.1).step()
    wanted.update(network.named_parameters())
    assert ranks[1].pop("result 0").shape == (0, 5) and ranks[1].pop("gradient of features").shape == (0, 4)
    assert ranks[0].keys() == wanted.keys()
    for name, got in ranks[0].items():
        expect_close(got, wanted[name], torch.float32)
    for name, got in ranks[1].items():
        assert torch.equal(got, ranks[0][name]), name


FUSED_VOXELS = ((80, 120), (80, 0))


def fused_work(rank, folder):
    join(rank, folder)
    results = []
    for voxels in FUSED_VOXELS:
        _, fused = pair("unet")
        found = step(torch.nn.parallel.DistributedDataParallel(fused.train()), cloud(voxels[rank], rank))
        results.append({name.replace("module.", ""): value for name, value in found.items()})
    torch.save(results, f"{folder}/{rank}.pt")
    shared = torch.nn.SyncBatchNorm.convert_sync_batchnorm(fused.module)
    refused = sparse.fuse(shared, cloud(60, 5))
    with pytest.raises(ValueError, match="statistics of all ranks"):
        refused(cloud(80, 1))
    torch.distributed.destroy_process_group()


def test_a_fused_module_on_two_ranks(tmp_path):
    """Gradients of parameters are averaged, and each rank has its own statistics. A rank may have no voxels."""
    torch.multiprocessing.spawn(fused_work, (str(tmp_path),), nprocs=2)
    saved = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for number, voxels in enumerate(FUSED_VOXELS):
        wanted = [step(pair("unet")[0].train(), cloud(voxels[rank], rank)) for rank in range(2)]
        for rank in range(2):
            got = saved[rank][number]
            assert got.keys() == wanted[rank].keys()
            for name, want in wanted[rank].items():
                if name.startswith("gradient of") and name != "gradient of features":
                    assert voxels[rank] or not want.any()
                    want = (wanted[0][name] + wanted[1][name]) / 2
                if want.numel() or got[name].numel():
                    expect_close(got[name], want, torch.float32)


def skipping_work(rank, folder):
    join(rank, folder)
    alone = [torch.distributed.new_group([each]) for each in range(2)]
    torch.manual_seed(3)
    network = torch.nn.parallel.DistributedDataParallel(UNet())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, fused=True)
    results = []
    for voxels, group in ((10, 80), None), ((10, 10), None), ((10, 80), alone[rank]):
        x = cloud(voxels[rank], 0, rows=100, capacities=[30])
        network(x).features.square().sum().backward()
        assert bool(x.level.geometry.status()) == (voxels[rank] == 80)
        with sparse.skip_unless_fits(optimizer, x, group=group):
            optimizer.step()
        results.append([parameter.detach().clone() for parameter in network.parameters()])
    torch.save(results, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_all_ranks_skip_a_step(tmp_path):
    """They do if the cloud of one of them does not fit, unless each is a group of its own."""
    torch.multiprocessing.spawn(skipping_work, (str(tmp_path),), nprocs=2)
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    torch.manual_seed(3)
    before = list(UNet().parameters())
    for skipped, fitting, _ in ranks:
        assert all(map(torch.equal, skipped, before))
        assert not any(map(torch.equal, fitting, before))
        assert all(map(torch.equal, fitting, ranks[0][1]))
    (_, fitting, moved), (_, _, kept) = ranks
    assert not any(map(torch.equal, moved, fitting))
    assert all(map(torch.equal, kept, fitting))
