"""What only a GPU shows: graphs, streams, and the memory of torch's allocator. Other files run on the CPU device."""

from __future__ import annotations

import copy
import gc

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
from conftest import skip_or_fail  # noqa: E402
from minuet.torch import _places  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from torch_problems import GEOMETRIES, cloud, expect_close, normal, padded  # noqa: E402


@pytest.fixture(autouse=True)
def gpu():
    if not torch.cuda.is_available():
        skip_or_fail("gpu", "torch sees no GPU")


class Network(torch.nn.Module):
    """A small U-Net with all kinds of maps."""

    def __init__(self):
        super().__init__()
        shapes = [(27, 8, 16), (8, 16, 16), (27, 16, 16), (8, 16, 16), (1, 32, 16)]
        self.weights = torch.nn.ParameterList(torch.randn(shape) / 4 for shape in shapes)
        self.bias = torch.nn.Parameter(torch.randn(16))
        self.norm = sparse.BatchNorm(16, relu=True)

    def forward(self, x):
        w = self.weights
        a = self.norm(F.convolution(x, w[0], kernel_size=3, submanifold=True))
        b = F.convolution(a, w[1], kernel_size=2, stride=2)
        c = F.add(F.convolution(b, w[2], kernel_size=3, submanifold=True), F.pooling(b, "max", kernel_size=3, stride=1))
        d = F.convolution(c, w[3], kernel_size=2, stride=2, transposed=True)
        return F.convolution(F.cat([a, F.sigmoid(d)]), w[4], self.bias, submanifold=True)


def step(network, features, coordinates, count, capacities):
    """Returns the output, the status, and the gradients of a step."""
    x = sparse.SparseTensor.of(features, coordinates, count=count, capacities=capacities)
    y = network(x)
    parameters = list(network.parameters())
    return y.features, x.geometry.status(), torch.autograd.grad(y.features.square().sum(), parameters)


def inputs(generator, count, rows):
    coordinates = padded(cloud(generator, GEOMETRIES["submanifold"], count), rows - count)
    features = padded(normal(generator, count, 8), rows - count)
    return features.cuda(), coordinates.cuda(), torch.tensor([count], dtype=torch.int32).cuda()


def expect_same(got, want, dtype=torch.float32):
    for one, two in zip([got[0], *got[2]], [want[0], *want[2]], strict=True):
        expect_close(one.cpu(), two.cpu(), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_as_on_the_cpu(generator, dtype):
    torch.manual_seed(0)
    network = Network()
    features, coordinates, _ = inputs(generator, 80, 80)
    want = step(network, features.cpu(), coordinates.cpu(), None, None)
    with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
        got = step(network.cuda(), features, coordinates, None, None)
    for one, two in zip([got[0], *got[2]], [want[0], *want[2]], strict=True):
        # Ties of a maximum, and signs in front of a ReLU, fall out differently where features are rounded.
        if dtype == torch.float32:
            expect_close(one.cpu(), two, dtype)
        else:
            assert torch.linalg.norm(one.cpu().float() - two) <= 0.1 * torch.linalg.norm(two)


def test_repeats_bit_by_bit(generator):
    network = Network().cuda()
    given = inputs(generator, 80, 100)
    first = step(network, *given, [130])
    for _ in range(3):
        again = step(network, *given, [130])
        assert torch.equal(first[0], again[0])
        assert all(torch.equal(one, two) for one, two in zip(first[2], again[2], strict=True))


def test_a_whole_step_in_a_graph(generator):
    """One graph serves other clouds and other weights."""
    network = Network().cuda()
    held = inputs(generator, 90, 120)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step(network, *held, [130])
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step(network, *held, [130])
    for count in (90, 40, 110):
        given = inputs(generator, count, 120)
        with torch.no_grad():
            for target, source in zip(held, given, strict=True):
                target.copy_(source)
            for parameter in network.parameters():
                parameter.mul_(0.9)
        graph.replay()
        torch.cuda.synchronize()
        assert not int(results[1])
        expect_same(results, step(network, *given, [130]))


def fused_pair(generator):
    """Returns a network, and the same as one op. Both are in training mode."""
    torch.manual_seed(0)
    network = Network().cuda()
    features, coordinates, _ = inputs(generator, 80, 80)
    return network, sparse.fuse(copy.deepcopy(network), sparse.SparseTensor.of(features, coordinates))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_fused_modules(generator, dtype):
    """An eager step in both modes gives what single ops give, and so does inference."""
    network, fused = fused_pair(generator)
    for count, capacities in ((80, None), (300, None), (110, [130]), (50, [130])):
        rows = count if capacities is None else 120
        features, coordinates, number = inputs(generator, count, rows)
        number = None if capacities is None else number
        with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
            want, got = (step(each, features, coordinates, number, capacities) for each in (network, fused))
        assert got[0].dtype == want[0].dtype and not int(got[1])
        for one, two in zip([got[0], *got[2]], [want[0], *want[2]], strict=True):
            assert one.shape == two.shape
            # Signs in front of a ReLU, and ties of a maximum, fall out differently where features are rounded.
            bound = 1e-4 if dtype == torch.float32 else 0.1
            assert torch.linalg.norm(one.double() - two.double()) <= bound * torch.linalg.norm(two.double())
        for one, two in zip(fused.buffers(), network.buffers(), strict=True):
            assert torch.allclose(one.double(), two.double(), rtol=1e-2 if dtype != torch.float32 else 1e-4, atol=1e-3)
    fused.load_state_dict(network.state_dict())
    x = sparse.SparseTensor.of(features[:50], coordinates[:50])
    with torch.no_grad(), torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
        want, got = (each.eval()(x).features.double() for each in (network, fused))
    assert torch.linalg.norm(got - want) <= (1e-4 if dtype == torch.float32 else 0.1) * torch.linalg.norm(want)


def test_fused_modules_in_a_graph(generator):
    """One graph serves other clouds and other weights, and counts the batches. It does not wait for the device."""
    network, fused = fused_pair(generator)
    held = inputs(generator, 90, 120)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step(fused, *held, [130])
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step(fused, *held, [130])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step(fused, *held, [130])
    before = int(fused.norm.num_batches_tracked)
    for count in (90, 40, 110):
        given = inputs(generator, count, 120)
        with torch.no_grad():
            for target, source in zip(held, given, strict=True):
                target.copy_(source)
            for parameter in fused.parameters():
                parameter.mul_(0.9)
        graph.replay()
        torch.cuda.synchronize()
        assert not int(results[1])
        network.load_state_dict(fused.state_dict())
        with torch.no_grad():  # Inference sees what the replay changed.
            x = sparse.SparseTensor.of(*given[:2], count=given[2], capacities=[130])
            expect_close(fused.eval()(x).features, network.eval()(x).features, torch.float32)
            fused.train(), network.train()
        expect_same(results, step(network, *given, [130]))
    assert int(fused.norm.num_batches_tracked) == before + 3
    held[2].fill_(121)  # More than the coordinates have: nothing fits.
    state = copy.deepcopy(fused.state_dict())
    graph.replay()
    torch.cuda.synchronize()
    assert int(results[1]) and not results[0].any() and not any(one.any() for one in results[2])
    assert all(torch.equal(one, two) for one, two in zip(state.values(), fused.state_dict().values(), strict=True))
    with pytest.raises(RuntimeError, match="exact mode"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        step(fused, *given[:2], None, None)


@pytest.mark.parametrize("is_fused", [False, True], ids=["ops", "fused"])
def test_a_graph_that_skips_steps(generator, is_fused):
    """A graph of a whole training step with a GradScaler leaves out clouds that do not fit. Nothing waits."""
    network = fused_pair(generator)[is_fused]
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
    held = inputs(generator, 10, 120)

    def train():
        optimizer.zero_grad(set_to_none=True)
        x = sparse.SparseTensor.of(*held[:2], count=held[2], capacities=[30])
        scaler.scale(network(x).features.square().mean()).backward()
        with sparse.skip_unless_fits(optimizer, x):
            scaler.step(optimizer)
        scaler.update()
        return x.geometry.status()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            train()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        train()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        status = train()
    for count in (10, 110, 12):
        for target, source in zip(held, inputs(generator, count, 120), strict=True):
            target.copy_(source)
        momentum = [optimizer.state[parameter]["momentum_buffer"] for parameter in network.parameters()]
        values = [*network.parameters(), *momentum]
        before = [value.detach().clone() for value in values]
        graph.replay()
        torch.cuda.synchronize()
        assert bool(status) == (count == 110)
        assert all(map(torch.equal, values, before)) == (count == 110)
    assert scaler.get_scale() == 256
    waiting = torch.optim.SGD(network.parameters(), lr=1e-3)
    with pytest.raises(RuntimeError, match=r"fused=True.*capturable=True"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        with sparse.skip_unless_fits(waiting, status):
            waiting.step()


def test_fused_modules_keep_no_memory(generator):
    """What a step allocates goes when its results and gradients go."""
    _, fused = fused_pair(generator)
    given = inputs(generator, 90, 120)
    for _ in range(2):  # The first one counts the rows of the levels, by ops with memory of their own.
        step(fused, *given, [130])
        gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        step(fused, *given, [130])
        gc.collect()
        assert torch.cuda.memory_allocated() == before


def test_another_gpu_than_the_current_one(generator):
    if torch.cuda.device_count() < 2:
        pytest.skip("two GPUs are needed")
    network, given = Network().cuda(), inputs(generator, 90, 120)
    other = copy.deepcopy(network).to("cuda:1")
    wanted, got = step(network, *given, [130]), step(other, *[tensor.to("cuda:1") for tensor in given], [130])
    assert torch.cuda.current_device() == 0
    for one, two in zip([got[0], *got[2]], [wanted[0], *wanted[2]], strict=True):
        assert one.device.index == 1 and torch.equal(one.cpu(), two.cpu())


def test_streams(generator):
    """Work on another stream waits for torch's work on it, and layers of one plan do not mix up their weights."""
    given = inputs(generator, 90, 120)
    networks = [Network().cuda() for _ in range(2)]
    wanted = [step(network, *given, [130]) for network in networks]
    streams = [torch.cuda.Stream() for _ in networks]
    torch.cuda.synchronize()
    got = []
    for network, stream in zip(networks, streams, strict=True):
        with torch.cuda.stream(stream):
            features = torch.full_like(given[0], torch.nan)
            torch.cuda._sleep(20_000_000)
            features.copy_(given[0])
            got.append(step(network, features, *given[1:], [130]))
    torch.cuda.synchronize()
    for one, two in zip(got, wanted, strict=True):
        expect_same(one, two)


def test_capacity_mode_does_not_wait(generator):
    network = Network().cuda()
    given = inputs(generator, 90, 120)
    step(network, *given, [130])
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step(network, *given, [130])
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_compile(generator):
    torch._dynamo.reset()
    network = Network().cuda()

    def forward(features, coordinates, count):
        x = sparse.SparseTensor.of(features, coordinates, count=count, capacities=[130])
        return network(x).features

    compiled = torch.compile(forward, fullgraph=True, mode="reduce-overhead")
    for count in (90, 60, 110):
        given = inputs(generator, count, 120)
        with torch.no_grad():
            for _ in range(3):
                got = compiled(*given).clone()
            expect_close(got, forward(*given), torch.float32)


def test_caches_keep_no_memory_of_torch(generator):
    """What a call leaves in the allocator's memory would belong to a pool of torch.compile's graphs, which goes."""
    network, given = Network().cuda(), inputs(generator, 90, 120)
    step(network, *given, [130])
    for cache in _places._caches:
        if cache is not _places._places:
            cache.clear()
    gc.collect()
    before = torch.cuda.memory_allocated()
    step(network, *given, [130])
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_tensors_on_two_devices(generator):
    features, coordinates, _ = inputs(generator, 20, 20)
    x = sparse.SparseTensor.of(features, coordinates)
    with pytest.raises(ValueError, match="one device"):
        F.convolution(x, torch.randn(27, 8, 8), kernel_size=3, submanifold=True)
