"""Modules of flax over minuet.jax: they compute what the functions do, learn, and give their parameters away."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
nnx = pytest.importorskip("flax.nnx")
sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

import jax.numpy as jnp  # noqa: E402
from conftest import run_python  # noqa: E402
from jax_problems import cells, expect_close, in_double, normal, poisoned, same_bits  # noqa: E402

GEOMETRY = sparse.Geometry(
    [sparse.Level(64), sparse.Level(60, 0, 2)],
    {"same": sparse.conv_map(0, 0, 3), "down": sparse.conv_map(0, 1, 2)},
    batch_size=2,
)


class Classifier(nnx.Module):
    """A convolution with a batch norm, one down, one up again, and a number for each class of each cloud."""

    def __init__(self, rngs):
        self.first = sparse.nn.Conv(GEOMETRY, "same", 4, 8, groups=2, rngs=rngs)
        self.norm = sparse.nn.BatchNorm(0, 8, relu=True, rngs=rngs)
        self.down = sparse.nn.Conv(GEOMETRY, "down", 8, 8, use_bias=False, rngs=rngs)
        self.up = sparse.nn.Conv(GEOMETRY, "down", 8, 8, transposed=True, rngs=rngs)
        self.head = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, cloud, x):
        x = self.norm(cloud, self.first(cloud, x))
        x = x + self.up(cloud, self.down(cloud, x))
        return self.head(sparse.global_pool(cloud, 0, x, "average"))


def train(model, cloud, x, wanted, steps, rate=0.1):
    """Returns the losses of some steps of gradient descent, which change the model."""

    @nnx.jit
    def step(model, cloud, x, wanted):
        def loss(model):
            return ((model(cloud, x) - wanted) ** 2).mean()

        value, gradients = nnx.value_and_grad(loss)(model)
        parameters = nnx.state(model, nnx.Param)
        nnx.update(model, jax.tree.map(lambda p, g: p - rate * g, parameters, gradients))
        return value

    return [float(step(model, cloud, x, wanted)) for _ in range(steps)]


def test_a_model_of_ops_learns():
    generator = np.random.default_rng(0)  # The bound of the loss holds for usual draws, not for all.
    points = cells(generator, 50)
    cloud = sparse.pyramid(GEOMETRY, points)
    sparse.check(cloud)
    x = poisoned(normal(generator, 50, 4), 64)
    model = Classifier(nnx.Rngs(int(generator.integers(1 << 30))))
    before = nnx.to_pure_dict(nnx.state(model, nnx.BatchStat))
    losses = train(model, cloud, x, normal(generator, 2, 3), 30)
    assert losses[-1] < 0.5 * losses[0]
    after = nnx.to_pure_dict(nnx.state(model, nnx.BatchStat))
    assert not same_bits(before, after)
    # Inference by the running statistics leaves them as they are.
    model.eval()
    model(cloud, x)
    assert same_bits(after, nnx.to_pure_dict(nnx.state(model, nnx.BatchStat)))


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution(generator, transposed):
    """The module is the function with its kernel and bias."""
    cloud = sparse.pyramid(GEOMETRY, cells(generator, 50))
    source, target = (1, 0) if transposed else (0, 1)
    x = normal(generator, cloud.capacity(source), 6)
    bias = jax.nn.initializers.normal()
    module = sparse.nn.Conv(GEOMETRY, "down", 6, 4, groups=2, transposed=transposed, bias_init=bias, rngs=nnx.Rngs(3))
    state = nnx.to_pure_dict(nnx.state(module))
    assert {name: value.shape for name, value in state.items()} == {"kernel": (8, 3, 4), "bias": (4,)}
    expected = sparse.conv(cloud, "down", x, state["kernel"], state["bias"], groups=2, transposed=transposed)
    assert same_bits(module(cloud, x), expected)
    assert expected.shape == (cloud.capacity(target), 4)
    bare = sparse.nn.Conv(GEOMETRY, "down", 6, 4, transposed=transposed, use_bias=False, rngs=nnx.Rngs(3))
    assert list(nnx.to_pure_dict(nnx.state(bare))) == ["kernel"]
    assert same_bits(bare(cloud, x), sparse.conv(cloud, "down", x, bare.kernel[...], transposed=transposed))
    with pytest.raises(ValueError, match="cannot be divided into 4 groups"):
        sparse.nn.Conv(GEOMETRY, "down", 6, 4, groups=4, rngs=nnx.Rngs(3))
    with pytest.raises(ValueError, match="has no map 'up'"):
        sparse.nn.Conv(GEOMETRY, "up", 6, 4, rngs=nnx.Rngs(3))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("has_residual", "relu"), [(False, False), (True, True)])
def test_batch_norm(generator, dtype, has_residual, relu):
    """In training it is the function; at inference, a scale and a shift by the running statistics."""
    rows = 50
    cloud = sparse.pyramid(GEOMETRY, cells(generator, rows))
    x, residual = (normal(generator, rows, 5, dtype=dtype) for _ in range(2))
    given = poisoned(x, 64), poisoned(residual, 64) if has_residual else None
    module = sparse.nn.BatchNorm(0, 5, momentum=0.8, epsilon=1e-3, relu=relu, rngs=nnx.Rngs(0))
    values = {"scale": normal(generator, 5), "bias": normal(generator, 5), "mean": normal(generator, 5)}
    values["var"] = normal(generator, 5) ** 2 + 0.1
    nnx.update(module, values)
    made, new = sparse.batch_norm(
        cloud, 0, given[0], values["scale"], values["bias"], sparse.Statistics(values["mean"], values["var"]),
        momentum=1 - 0.8, eps=1e-3, residual=given[1], relu=relu,
    )  # fmt: skip
    assert same_bits(module(cloud, *given), made)
    state = nnx.to_pure_dict(nnx.state(module))
    assert same_bits((state["mean"], state["var"]), (new.mean, new.variance))

    nnx.update(module, values)
    module.eval()
    result = module(cloud, *given)

    def reference(x, residual, scale, bias, mean, var):
        normalized = (x - mean) / jnp.sqrt(var + 1e-3) * scale + bias + (residual if has_residual else 0)
        return jnp.where(normalized > 0, normalized, 0) if relu else normalized

    expected, _ = in_double(reference, x, residual, *values.values(), out=jnp.ones_like(x))
    assert result.dtype == x.dtype
    expect_close(result[:rows], expected, dtype)
    assert not result[rows:].any()
    assert same_bits(nnx.to_pure_dict(nnx.state(module)), values)


@pytest.mark.parametrize("is_inference", [False, True])
def test_what_batch_norm_refuses(generator, is_inference):
    """In both modes alike."""
    cloud = sparse.pyramid(GEOMETRY, cells(generator, 50))
    module = sparse.nn.BatchNorm(0, 5, use_running_average=is_inference)
    x = normal(generator, 64, 5)
    for residual in (x[:, :1], x.astype(jnp.float16)):
        with pytest.raises(ValueError, match="the residual is"):
            module(cloud, x, residual)
    with pytest.raises(ValueError, match=r"weight has the shape \[5\], and \[1\] is needed"):
        module(cloud, x[:, :1])


def test_a_momentum_of_one_keeps_the_statistics(generator):
    """No share of a batch goes into them, and the outputs are those of another momentum."""
    points, x = cells(generator, 50), normal(generator, 64, 5)
    cloud = sparse.pyramid(GEOMETRY, points)
    modules = [sparse.nn.BatchNorm(0, 5, momentum=momentum) for momentum in (1.0, 0.5)]
    values = {"mean": normal(generator, 5), "var": normal(generator, 5) ** 2}
    nnx.update(modules[0], values)
    kept, other = (module(cloud, x) for module in modules)
    assert same_bits(kept, other)
    assert same_bits((modules[0].mean[...], modules[0].var[...]), (values["mean"], values["var"]))

    seed = int(generator.integers(1 << 30))
    kept, other = (minkunet(np.random.default_rng(seed), momentum=momentum) for momentum in (1.0, 0.5))
    before, x = kept.get_parameters(), normal(generator, 64, 4)
    outputs = [model(model.pyramid(points), x) for model in (kept, other)]
    assert same_bits(*outputs)
    assert same_bits(kept.get_parameters(), before)
    assert not same_bits(other.get_parameters(), before)


def test_an_epsilon_of_zero():
    with pytest.raises(ValueError, match="eps is 0, and it must be above 0"):
        sparse.nn.BatchNorm(0, 5, epsilon=0)


@pytest.mark.parametrize("momentum", [-0.5, 1.5])
def test_a_momentum_out_of_range(generator, momentum):
    cloud = sparse.pyramid(GEOMETRY, cells(generator, 50))
    with pytest.raises(ValueError, match="momentum is"):
        sparse.nn.BatchNorm(0, 5, momentum=momentum)(cloud, normal(generator, 64, 5))
    with pytest.raises(ValueError, match="momentum is"):
        minkunet(generator, momentum=momentum)


@pytest.mark.parametrize(("version", "is_taken"), [("0.11.2", False), ("0.12.0", True), ("1.0.0", True)])
def test_the_import_checks_the_version_of_flax(version, is_taken):
    done = run_python(f"import flax; flax.__version__ = {version!r}; import minuet.jax.nn")
    assert (done.returncode == 0) == is_taken, done.stderr
    if not is_taken:
        assert "minuet.jax.nn needs flax 0.12 or newer, and this is flax 0.11.2" in done.stderr.splitlines()[-1]


def minkunet(generator, **options):
    seed = int(generator.integers(1 << 30))
    return sparse.nn.MinkUNet(4, 6, [64] * 5, channels=[8] * 9, rngs=nnx.Rngs(seed), **options)


def test_minkunet_learns():
    generator = np.random.default_rng(0)  # As in test_a_model_of_ops_learns.
    model = minkunet(generator)
    cloud = model.pyramid(cells(generator, 50))
    sparse.check(cloud)
    x, wanted = poisoned(normal(generator, 50, 4), 64), jnp.zeros((64, 6)).at[:50].set(normal(generator, 50, 6))
    before = model.get_parameters()
    losses = train(model, cloud, x, wanted, 12)
    assert losses[-1] < 0.7 * losses[0]
    after = model.get_parameters()
    assert all(not same_bits(before[name], after[name]) for name in before)
    model.eval()
    assert same_bits(model(cloud, x), model.network(after, cloud, x))
    assert same_bits(after, model.get_parameters())


def test_a_step_of_minkunet_is_that_of_the_network(generator):
    """Gradients of the state are those of the parameters by their names."""
    model = minkunet(generator, momentum=0.75)
    cloud = model.pyramid(cells(generator, 50))
    x, out = normal(generator, 64, 4), normal(generator, 64, 6)
    parameters = model.get_parameters()

    def loss(parameters):
        output, statistics = model.network.train(parameters, cloud, x)
        return (output * out).sum(), statistics

    (value, statistics), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(parameters)
    step = nnx.jit(nnx.value_and_grad(lambda model, cloud, x, out: (model(cloud, x) * out).sum()))
    found, of_state = step(model, cloud, x, out)
    assert same_bits(found, value)
    of_state = nnx.to_pure_dict(of_state)["parameters"]
    assert same_bits(of_state, {name: gradients[name] for name in parameters if name not in statistics})
    assert same_bits(model.get_parameters(), {**parameters, **statistics})


def test_state_and_parameters_go_both_ways(generator):
    """The state of nnx has the names of the parameters, which a weights file has too."""
    model, other = minkunet(generator), minkunet(generator, use_running_average=True)
    cloud = model.pyramid(cells(generator, 50))
    x = normal(generator, 64, 4)
    train(model, cloud, x, jnp.zeros((64, 6)), 2)
    parameters = model.get_parameters()
    assert {name: value.shape for name, value in parameters.items()} == {
        name: kind.shape for name, kind in model.network.parameters.items()
    }
    assert "head.weight" in parameters
    assert same_bits(nnx.to_pure_dict(nnx.state(model))["parameters"], dict(sorted(parameters.items())))
    statistics = nnx.to_pure_dict(nnx.state(model, nnx.BatchStat))["parameters"]
    assert set(statistics) == set(model.network.statistics)

    clouds = other.pyramid(cells(generator, 50))
    expected = other.network(parameters, clouds, x)
    assert not same_bits(other(clouds, x), expected)
    other.set_parameters({name: np.asarray(value) for name, value in parameters.items()})
    assert same_bits(other(clouds, x), expected)
    # The same by the state of nnx, and by a new module.
    again = minkunet(generator, use_running_average=True)
    nnx.update(again, {"parameters": parameters})
    assert same_bits(again.get_parameters(), parameters)
    new = sparse.nn.Network(other.network, parameters=parameters, use_running_average=True)
    assert same_bits(new(clouds, x), expected)
    definition, state = nnx.split(new)
    assert same_bits(nnx.merge(definition, state)(clouds, x), expected)


def test_first_values(generator):
    """Kernels have a variance of 2 / fan-in, batch norms are the identity, and rngs repeat them."""
    networks = [sparse.nn.MinkUNet(4, 6, [64] * 5, channels=[32] * 9, rngs=nnx.Rngs(seed)) for seed in (5, 5, 6)]
    one, same, other = (model.get_parameters() for model in networks)
    assert same_bits(one, same)
    assert not same_bits(one, other)
    kernel = np.asarray(one["encoder.2.down.conv.weight"], np.float64)
    deviation = np.sqrt(2 / np.prod(kernel.shape[:2]))
    assert abs(kernel.std() / deviation - 1) < 0.05
    assert abs(kernel.mean()) < 0.05 * deviation
    for name, value in one.items():
        if value.ndim == 1:
            is_one = name.endswith((".weight", ".running_var"))
            assert (np.asarray(value) == (1 if is_one else 0)).all(), name


def test_what_is_refused(generator):
    model = minkunet(generator)
    parameters = model.get_parameters()
    with pytest.raises(ValueError, match=r"are missing: head\.weight; are not known: head\.kernel"):
        model.set_parameters({"head.kernel" if n == "head.weight" else n: v for n, v in parameters.items()})
    with pytest.raises(ValueError, match=r"head\.bias has the shape \[7\], and \[6\] is needed"):
        model.set_parameters({**parameters, "head.bias": np.zeros(7)})
    assert same_bits(model.get_parameters(), parameters)
    with pytest.raises(ValueError, match="give rngs, with which parameters are drawn"):
        sparse.nn.Network(model.network)
    with pytest.raises(ValueError, match="no shipped MinkUNet 'spunet34': use one of minkunet42"):
        sparse.nn.MinkUNet(4, 6, [64] * 5, name="spunet34", rngs=nnx.Rngs(0))
    inference = minkunet(generator, is_trained=False)
    cloud = inference.pyramid(cells(generator, 50))
    assert inference(cloud, normal(generator, 64, 4)).shape == (64, 6)
    inference.train()
    with pytest.raises(ValueError, match="for inference only"):
        inference(cloud, normal(generator, 64, 4))
