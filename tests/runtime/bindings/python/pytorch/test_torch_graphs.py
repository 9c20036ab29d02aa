"""torch.compile, opcheck, autocast, threads and forks."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
import oracle  # noqa: E402
from conftest import run_python  # noqa: E402
from minuet.torch import _places  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from torch_problems import GEOMETRIES, cloud, expect_close, normal, padded  # noqa: E402

CAPACITIES = [90, 60]


class Network(torch.nn.Module):
    """A small U-Net with all kinds of maps."""

    def __init__(self):
        super().__init__()
        shapes = [
            (27, 4, 8),
            (8, 8, 16),
            (27, 16, 16),
            (8, 16, 8),
            (1, 16, 8),
            (27, 8, 8),
        ]
        self.weights = torch.nn.ParameterList(torch.randn(shape) / 4 for shape in shapes)
        self.bias = torch.nn.Parameter(torch.randn(8))
        self.norms = torch.nn.ModuleList([sparse.BatchNorm(8, relu=True), sparse.BatchNorm(16, relu=True)])

    def forward(self, x):
        w = self.weights
        a = self.norms[0](F.convolution(x, w[0], kernel_size=3, submanifold=True))
        b = F.convolution(a, w[1], kernel_size=2, stride=2)
        b = self.norms[1](F.convolution(b, w[2], kernel_size=3, submanifold=True), b)
        c = F.convolution(b, w[3], kernel_size=2, stride=2, transposed=True)
        d = F.convolution(F.cat([a, F.sigmoid(c)]), w[4], submanifold=True)
        e = F.convolution(d, w[5], self.bias, kernel_size=3, stride=2, padding=1)
        e = F.pooling(e, "max", kernel_size=3, submanifold=True)
        return e, F.global_pooling(e, "average"), F.to_dense(e)


def step(network, features, coordinates, count, capacities):
    x = sparse.SparseTensor.of(
        features,
        coordinates,
        shape=(6, 6, 6),
        batch_size=2,
        count=count,
        capacities=capacities,
    )
    e, pooled, dense = network(x)
    loss = e.features.square().sum() + pooled.sum() + dense.mean()
    return loss, e.features, pooled, dense, e.geometry.status()


def inputs(generator, count=60, more=30):
    drawn = torch.from_numpy(generator.integers(0, 6, (count, 4))) % torch.tensor([2, 6, 6, 6])
    coordinates = torch.unique(drawn, dim=0).int()
    features = normal(generator, len(coordinates), 4)
    number = torch.tensor([len(coordinates)], dtype=torch.int32)
    more += count - len(coordinates)
    return padded(features, more), padded(coordinates, more), number


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compile_has_no_graph_breaks(generator, backend):
    torch.manual_seed(0)
    torch._dynamo.reset()
    given = inputs(generator)
    expected, networks = None, [Network(), Network()]
    networks[1].load_state_dict(networks[0].state_dict())
    compiled = torch.compile(step, fullgraph=True, backend=backend)
    for network, function in zip(networks, (step, compiled), strict=True):
        features = given[0].clone().requires_grad_()
        result = function(network, features, *given[1:], CAPACITIES)
        result[0].backward()
        result = (
            *result,
            features.grad,
            *[p.grad for p in network.parameters()],
            *network.buffers(),
        )
        if expected is None:
            expected = result
            continue
        for got, want in zip(result, expected, strict=True):
            expect_close(got, want, torch.float32)
    # Other clouds of the same capacity need no other graph.
    with torch._dynamo.config.patch(error_on_recompile=True):
        features, coordinates, count = inputs(generator, 45, 45)
        features.requires_grad_()  # as before, which is a part of what a graph is made for
        got = compiled(networks[1], features, coordinates, count, CAPACITIES)
    want = step(networks[0], features, coordinates, count, CAPACITIES)
    assert not int(want[4])
    for one, two in zip(got, want, strict=True):
        expect_close(one, two, torch.float32)


def test_compile_with_other_capacities(generator):
    """Each number of rows has a graph of its own, because keys have the number."""
    torch._dynamo.reset()
    network = Network().eval()
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for more in (30, 40, 55):
        given = inputs(generator, 60, more)
        for got, want in zip(compiled(network, *given, CAPACITIES), step(network, *given, CAPACITIES), strict=True):
            expect_close(got, want, torch.float32)


def test_compile_of_what_follows(generator):
    """A graph takes a tensor whose level and maps are there already."""
    torch._dynamo.reset()
    weights = [normal(generator, 27, 4, 8).requires_grad_(), normal(generator, 8, 8, 8).requires_grad_()]
    features, coordinates, count = inputs(generator)
    x = sparse.SparseTensor.of(features, coordinates, count=count, capacities=CAPACITIES)
    F.convolution(x, weights[0], kernel_size=3, submanifold=True)

    def follow(x):
        y = F.convolution(x, weights[0], kernel_size=3, submanifold=True)
        return F.convolution(y, weights[1], kernel_size=2, stride=2).features

    got, want = torch.compile(follow, fullgraph=True, backend="aot_eager")(x), follow(x)
    expect_close(got, want, torch.float32)
    for one, two in zip(torch.autograd.grad(got.sum(), weights), torch.autograd.grad(want.sum(), weights), strict=True):
        expect_close(one, two, torch.float32)


def test_exact_mode_breaks_the_graph_and_says_why(generator):
    torch._dynamo.reset()
    features, coordinates, count = inputs(generator)
    features, coordinates = features[:count], coordinates[:count]
    network = Network()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="exact mode reads the number of rows"):
        torch.compile(step, fullgraph=True, backend="eager")(network, features, coordinates, None, None)
    compiled = torch.compile(step, backend="eager")
    for cut in (0, 7, 15):  # Numbers of rows that change are variables of a graph, and ops need them as they are.
        given = (features[cut:], coordinates[cut:], None, None)
        for got, want in zip(compiled(network, *given), step(network, *given), strict=True):
            expect_close(got, want, torch.float32)


def test_breaks_in_capacity_mode(generator):
    """Behind a break that is the caller's, numbers that change are variables of a graph too."""
    torch._dynamo.reset()
    weight = normal(generator, 27, 4, 8)

    def broken(features, coordinates, count, kernel_size, capacity):
        x = sparse.SparseTensor.of(features, coordinates, count=count, capacities=[capacity])
        torch._dynamo.graph_break()
        return F.convolution(x, weight[: kernel_size**3], kernel_size=kernel_size, stride=2).features

    compiled = torch.compile(broken, backend="eager")
    given = inputs(generator)
    for numbers in ((3, 60), (2, 70), (3, 80), (2, 90)):
        expect_close(compiled(*given, *numbers), broken(*given, *numbers), torch.float32)


def living_tensors():
    """Returns weak references: the number of a tensor that is gone is given to a new one."""
    gc.collect()
    return [weakref.ref(item) for item in gc.get_objects() if issubclass(type(item), torch.Tensor)]


def test_caches_keep_no_tensors(generator):
    """What a call makes belongs to its results. A graph of torch.compile takes back all other memory of its pool."""
    network, given = Network(), inputs(generator)
    features = given[0].requires_grad_()
    torch.autograd.grad(step(network, *given, CAPACITIES)[0], features)
    torch._dynamo.reset()
    for cache in _places._caches:
        if cache is not _places._places:
            cache.clear()
    before = living_tensors()
    torch.autograd.grad(step(network, *given, CAPACITIES)[0], [features, *network.parameters()])
    step(network, features[:40], given[1][:40], None, None)
    known = {id(found()) for found in before}
    assert not [found() for found in living_tensors() if id(found()) not in known]


def operands(generator):
    """Returns the ops with arguments, as a network calls them."""
    ops = torch.ops.minuet
    coordinates = cloud(generator, GEOMETRIES["submanifold"], 30)
    x = sparse.SparseTensor.of(normal(generator, 30, 4), coordinates)
    weight, bias = (given.requires_grad_() for given in (normal(generator, 8, 4, 8), normal(generator, 8)))
    calls = {}

    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.namespace == "minuet":
                calls.setdefault(func._opname, (func, args))
            return func(*args, **(kwargs or {}))

    features = normal(generator, 30, 4).requires_grad_()
    points = torch.from_numpy(generator.uniform(-2, 2, (20, 4)).astype("float32")).requires_grad_()
    with Recorder():
        x = sparse.SparseTensor.of(features, coordinates, batch_size=2)
        y = F.convolution(x, weight, bias, kernel_size=2, stride=2)
        assert y.level.coordinates.shape[1] == 4
        z = F.pooling(
            F.convolution(y, weight.mT.contiguous(), kernel_size=2, stride=2, transposed=True),
            "max",
        )
        normed, _ = F.batch_norm(z, residual=z, relu=True)
        around = F.devoxelize(normed, points.detach(), [1.0, 1.0, 1.0])
        voxels = F.voxelize(points, [1.0, 1.0, 1.0])
        loss = F.gather_rows(around, torch.tensor([0, 3, -1], dtype=torch.int32)).sum() + voxels.features.sum()
        (loss + F.global_pooling(normed, "max").sum()).backward()
        plain = normal(generator, 30, 4)
        moments = ops.batch_norm_moments(plain, None)
        made = ops.batch_norm_apply(plain, moments[None], *[None] * 7, 0.0, 1e-5, False, True)
        sums = ops.batch_norm_sums(plain, plain, None, made[1], None, None, None, 1e-5, False, True)
        read = (None, None, None, 1e-5, False, True)
        ops.batch_norm_apply_gradients(plain, plain, made[1], sums[3], None, *read)
    assert len(calls) == len([name for name in dir(ops) if not name.startswith("_") and name != "name"])
    return calls


def test_opcheck(generator):
    calls = operands(generator)
    # Memory that no call writes (pairs past the count, bytes of a buffer between its parts) is the same in each run.
    torch.use_deterministic_algorithms(True)
    try:
        for name, (op, arguments) in calls.items():
            is_backward = name.endswith("_backward")
            given = [
                item.detach().clone().requires_grad_(item.requires_grad and not is_backward)
                if isinstance(item, torch.Tensor)
                else item
                for item in arguments
            ]
            tests = [
                "test_schema",
                "test_autograd_registration",
                "test_faketensor",
                "test_aot_dispatch_dynamic",
            ]
            torch.library.opcheck(op, tuple(given), test_utils=tests)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_casts_features_only(generator, dtype):
    coordinates = cloud(generator, GEOMETRIES["submanifold"], 50)
    features, weight = (
        normal(generator, 50, 4),
        normal(generator, 27, 4, 8).requires_grad_(),
    )
    x = sparse.SparseTensor.of(features.requires_grad_(), coordinates)
    with torch.autocast("cpu", dtype=dtype):
        y = F.convolution(x, weight, kernel_size=3, submanifold=True)
    assert y.features.dtype == dtype
    y.features.float().square().sum().backward()
    assert weight.grad.dtype == torch.float32
    assert features.grad.dtype == torch.float32
    got = weight.grad.clone()
    weight.grad = None
    z = F.convolution(x, weight, kernel_size=3, submanifold=True)
    z.features.square().sum().backward()
    expect_close(got, weight.grad, dtype)
    # The sums were not rounded to the features' dtype.
    assert not torch.equal(got, got.to(dtype).float())


def test_refuses(generator):
    coordinates = cloud(generator, GEOMETRIES["submanifold"], 20)
    features, weight = (
        normal(generator, 20, 4).requires_grad_(),
        normal(generator, 27, 4, 8).requires_grad_(),
    )
    x = sparse.SparseTensor.of(features, coordinates)
    y = F.convolution(x, weight, kernel_size=3, submanifold=True)
    (gradient,) = torch.autograd.grad(y.features.square().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()
    made = next(iter(x.level._maps.values()))
    key = '{"kernel":{"size":[3,3,3],"dilation":[1,1,1]},"stride":[1,1,1],"submanifold":true}'

    def one(rows):
        op = torch.ops.minuet.convolution
        return op(rows, weight, None, made.built.buffer, None, None, None, key, made.built.key, 0, 20)

    with pytest.raises(RuntimeError, match=r"torch\.func"):
        torch.func.grad(lambda given: one(given).sum())(features.detach())
    with pytest.raises(RuntimeError, match="forward-mode"):
        torch.func.jvp(one, (features.detach(),), (features.detach(),))
    with pytest.raises(RuntimeError, match="vmap"):
        torch.vmap(one)(torch.stack([features, features]))
    with pytest.raises(TypeError, match="float64"):
        F.convolution(x.replace(features.double()), weight, kernel_size=3, submanifold=True)
    with pytest.raises(ValueError, match="4 channels"):
        F.convolution(x, normal(generator, 27, 5, 8), kernel_size=3, submanifold=True)
    with pytest.raises(ValueError, match="27 offsets"):
        F.convolution(x, normal(generator, 8, 4, 8), kernel_size=3, submanifold=True)
    with pytest.raises(ValueError, match="layout"):
        F.convolution(x, weight, kernel_size=3, submanifold=True, layout="torch")
    with pytest.raises(ValueError, match="was made from"):
        F.convolution(x, normal(generator, 8, 4, 8), kernel_size=2, stride=2, transposed=True)
    with pytest.raises(ValueError, match="DUPLICATE"):
        twice = sparse.SparseTensor.of(normal(generator, 40, 4), torch.cat([coordinates, coordinates]))
        F.convolution(twice, weight, kernel_size=3, submanifold=True)
    with pytest.raises(TypeError, match="int32"):
        sparse.Geometry(coordinates.long())
    with pytest.raises(ValueError, match="rows"):
        sparse.SparseTensor(normal(generator, 3, 4), x.level)
    with pytest.raises(TypeError, match="CPU and on CUDA"):
        F.convolution(
            sparse.SparseTensor.of(normal(generator, 20, 4).to("meta"), coordinates.to("meta"), capacities=[]),
            weight.to("meta"), kernel_size=3, submanifold=True,
        )  # fmt: skip


def test_a_cloud_that_does_not_fit(generator):
    """What does not fit has no rows, and the status says so; nothing is read or written outside."""
    coordinates = cloud(generator, GEOMETRIES["submanifold"], 50)
    weight = normal(generator, 8, 4, 8).requires_grad_()
    for capacities, pairs, is_good in (
        ([60], None, True),
        ([3], None, False),
        ([60], 0.1, False),
    ):
        geometry = sparse.Geometry(coordinates, capacities=capacities, pairs_per_row=pairs)
        x = sparse.SparseTensor(normal(generator, 50, 4), geometry.level)
        y = F.convolution(x, weight, kernel_size=2, stride=2)
        weight.grad = None
        y.features.sum().backward()
        assert (int(geometry.status()) == 0) == is_good
        assert bool(weight.grad.any()) == is_good
        assert bool(y.features.any()) == (is_good or pairs is not None)


def test_threads_with_the_same_layer(generator):
    """Layers with the same plan share memory for their values, which threads may not mix up."""
    coordinates = cloud(generator, GEOMETRIES["submanifold"], 40)
    features = normal(generator, 40, 8)
    weights = [normal(generator, 27, 8, 8) for _ in range(4)]

    def run(weight):
        x = sparse.SparseTensor.of(features, coordinates)
        given = weight.clone().requires_grad_()
        y = F.convolution(x, given, kernel_size=3, submanifold=True).features
        y.square().sum().backward()
        return y.detach(), given.grad

    expected = [run(weight) for weight in weights]
    wrong = []

    def work(number):
        for _ in range(15):
            got = run(weights[number])
            if not all(torch.equal(one, two) for one, two in zip(got, expected[number], strict=True)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_child_begins_anew():
    done = run_python(
        """
import os, torch
import minuet.torch as sparse
from minuet.torch import functional as F
coordinates = torch.zeros(1, 4, dtype=torch.int32)
def run():
    x = sparse.SparseTensor.of(torch.ones(1, 4), coordinates)
    return F.convolution(x, torch.ones(27, 4, 4), kernel_size=3, submanifold=True).features.sum().item()
assert run() == 16
child = os.fork()
if child == 0:
    os._exit(0 if run() == 16 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    )
    assert done.returncode == 0, done.stderr


def test_the_page():
    """The example of the page runs as it stands."""
    page = (oracle.pathlib.Path(sparse.__file__).parent / "README.md").read_text()
    examples = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})
