"""An optimizer skips the step of a cloud that did not fit, with and without a GradScaler."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
from fused_problems import UNet, cloud  # noqa: E402
from minuet.torch import spconv  # noqa: E402
from spconv_problems import BATCH, SHAPE  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import poisoned  # noqa: E402, F401

ROWS, CELLS = 100, 30
#: Voxels of clouds; the coarser cells of the last one are more than CELLS.
SMALL, OTHER, LARGE = 10, 14, 80

OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda values: torch.optim.SGD(values, lr=0.1, momentum=0.9, weight_decay=0.1),
    "fused SGD": lambda values: torch.optim.SGD(values, lr=0.1, momentum=0.9, weight_decay=0.1, fused=True),
    "AdamW": lambda values: torch.optim.AdamW(values, lr=0.1),
    "fused AdamW": lambda values: torch.optim.AdamW(values, lr=0.1, fused=True),
}


class Network(nn.Module):
    """Sparse layers and a dense one behind them, whose bias has a gradient for a cloud without rows, too."""

    def __init__(self, is_fused: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        layers = UNet()
        self.layers = sparse.fuse(layers, cloud(60, 5)) if is_fused else layers
        self.head = nn.Linear(5, 3)

    def forward(self, x: Any) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.layers(x).features)
        return logits


def draw(kind: str, voxels: int) -> spconv.SparseConvTensor:
    """Returns a cloud in capacity mode."""
    x = cloud(voxels, voxels, rows=ROWS, capacities=[CELLS])
    features, indices, count = x.features.detach().to(kind), x.indices.to(kind), x.level.count.to(kind)
    return spconv.SparseConvTensor(features, indices, SHAPE, BATCH, count=count, capacities=[CELLS])


class Loop:
    """A training loop on a network."""

    def __init__(self, kind: str, optimizer: str, *, is_fused: bool = False, is_scaled: bool = False) -> None:
        self.kind = kind
        self.network = Network(is_fused).to(kind)
        self.optimizer = OPTIMIZERS[optimizer](self.network.parameters())
        self.scaler = torch.amp.GradScaler(kind, enabled=is_scaled)

    def backward(self, voxels: int) -> spconv.SparseConvTensor:
        x = draw(self.kind, voxels)
        loss = nn.functional.cross_entropy(self.network(x), torch.ones(ROWS, dtype=torch.int64, device=self.kind))
        self.scaler.scale(loss).backward()
        return x

    def step(self, voxels: int, *, skips: bool = True) -> None:
        self.optimizer.zero_grad()
        x = self.backward(voxels)
        assert bool(x.level.geometry.status()) == (voxels == LARGE)
        assert any(parameter.grad.any() for parameter in self.network.parameters())
        with sparse.skip_unless_fits(self.optimizer, x) if skips else contextlib.nullcontext():
            self.scaler.step(self.optimizer)
        self.scaler.update()

    def values(self) -> list[torch.Tensor]:
        """Returns copies of the parameters and of what the optimizer keeps."""
        parameters = list(self.network.parameters())
        states = [value for each in parameters for value in self.optimizer.state[each].values()]
        return [value.detach().clone() for value in (*parameters, *states)]


def are_same(got: list[torch.Tensor], want: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, two) for one, two in zip(got, want, strict=True))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("is_scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("is_fused", [False, True], ids=["ops", "fused"])
def test_a_cloud_that_does_not_fit(kind, is_fused, is_scaled, optimizer):
    """All values keep their bits, and from then on they are those of a loop without this cloud."""
    loop, other = (Loop(kind, optimizer, is_fused=is_fused, is_scaled=is_scaled) for _ in range(2))
    loop.step(SMALL)
    before, scale = loop.values(), loop.scaler.get_scale()
    loop.step(LARGE)
    assert are_same(loop.values(), before)
    assert loop.scaler.get_scale() == scale
    loop.step(OTHER)
    for voxels in (SMALL, OTHER):
        other.step(voxels, skips=False)
    assert not are_same(loop.values(), before)
    assert are_same(loop.values(), other.values())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_first_step(kind, optimizer):
    """A skipped first step leaves no garbage in the momentum, which torch allocates in it: new memory is NaN here."""
    loop, other = (Loop(kind, optimizer) for _ in range(2))
    loop.step(LARGE)
    for each in (loop, other):
        each.step(SMALL)
        each.step(OTHER)
    assert are_same(loop.values(), other.values())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("voxels", [SMALL, LARGE])
def test_infinite_gradients(kind, optimizer, voxels):
    """A GradScaler skips their steps as before, and the scale shrinks, also where the cloud did not fit either."""
    loop = Loop(kind, optimizer, is_scaled=True)
    loop.step(SMALL)
    before, scale = loop.values(), loop.scaler.get_scale()
    hook = loop.network.head.bias.register_hook(lambda gradient: gradient * torch.inf)
    loop.step(voxels)
    hook.remove()
    assert are_same(loop.values(), before)
    assert loop.scaler.get_scale() == scale / 2
    loop.step(OTHER)
    assert not are_same(loop.values(), before)


@pytest.mark.parametrize("optimizer", ["SGD", "fused SGD"])
@pytest.mark.parametrize("clouds", [(LARGE, SMALL), (SMALL, LARGE), (SMALL, OTHER)])
def test_accumulated_gradients(kind, optimizer, clouds):
    """One cloud that did not fit is enough. A status may be given for a tensor."""
    loop = Loop(kind, optimizer)
    loop.step(SMALL)
    before = loop.values()
    one, two = (loop.backward(voxels) for voxels in clouds)
    with sparse.skip_unless_fits(loop.optimizer, one, two.level.geometry.status()):
        loop.optimizer.step()
    assert are_same(loop.values(), before) == (LARGE in clouds)


def test_unscaled_gradients(kind):
    """Gradients may be unscaled and clipped before the step."""
    loop = Loop(kind, "fused SGD", is_scaled=True)
    loop.step(SMALL)
    before = loop.values()
    for voxels in (LARGE, SMALL):
        x = loop.backward(voxels)
        loop.scaler.unscale_(loop.optimizer)
        nn.utils.clip_grad_norm_(loop.network.parameters(), 1.0)
        with sparse.skip_unless_fits(loop.optimizer, x.level.geometry):
            loop.scaler.step(loop.optimizer)
        loop.scaler.update()
        assert are_same(loop.values(), before) == (voxels == LARGE)


@pytest.mark.parametrize("optimizer", ["SGD", "fused SGD"])
def test_the_optimizer_is_left_as_it_was(optimizer):
    """After the statement, also where an error ended it, each step is taken. Schedulers see the steps."""
    loop = Loop("cpu", optimizer)
    x = loop.backward(LARGE)
    before = set(vars(loop.optimizer))
    with pytest.raises(ZeroDivisionError), sparse.skip_unless_fits(loop.optimizer, x):
        raise ZeroDivisionError
    assert set(vars(loop.optimizer)) == before
    scheduler = torch.optim.lr_scheduler.StepLR(loop.optimizer, 1)
    wrapped = loop.optimizer.step
    with sparse.skip_unless_fits(loop.optimizer, draw("cpu", SMALL)), warnings.catch_warnings(action="error"):
        loop.optimizer.step()
        scheduler.step()  # It would warn if it had seen no step.
    with sparse.skip_unless_fits(loop.optimizer, x):
        loop.optimizer.step()
    assert loop.optimizer.step is wrapped
    values = loop.values()
    loop.optimizer.step()
    assert not are_same(loop.values(), values)


def test_an_optimizer_that_a_state_dict_made_unfused():
    """Its step does not read found_inf, which the attribute that GradScaler asks for does not tell."""
    loop, saved = Loop("cpu", "fused SGD"), Loop("cpu", "SGD")
    saved.step(SMALL)
    loop.optimizer.load_state_dict(saved.optimizer.state_dict())
    before = loop.values()
    loop.step(LARGE)
    assert are_same(loop.values(), before)


def test_clouds_of_exact_mode_fit():
    loop = Loop("cpu", "fused SGD")
    x = cloud(LARGE, 0)
    sparse.check(x)
    loop.network(x).square().sum().backward()
    bias = loop.network.head.bias.detach().clone()
    with sparse.skip_unless_fits(loop.optimizer, x):
        loop.optimizer.step()
    assert not torch.equal(loop.network.head.bias, bias)


@pytest.mark.parametrize("optimizer", ["SGD", "fused SGD"])
@pytest.mark.parametrize("voxels", [SMALL, LARGE])
def test_forward_passes_inside_of_the_statement(optimizer, voxels):
    """Their levels and maps are not in the status that was read before, so that the step is refused."""
    loop, fitting = Loop("cpu", optimizer), draw("cpu", SMALL)
    loop.step(SMALL)
    x, before = draw("cpu", voxels), loop.values()
    with sparse.skip_unless_fits(loop.optimizer, fitting, fitting.level.geometry.status(), x):
        loop.network(x).square().sum().backward()
        with pytest.raises(RuntimeError, match="after all forward passes"):
            loop.optimizer.step()
    assert are_same(loop.values(), before)
    with sparse.skip_unless_fits(loop.optimizer, fitting, x):
        loop.optimizer.step()
    assert are_same(loop.values(), before) == (voxels == LARGE)


@pytest.mark.parametrize("optimizer", ["SGD", "fused SGD"])
@pytest.mark.parametrize("is_scaled", [False, True], ids=["plain", "scaled"])
def test_closures(optimizer, is_scaled):
    """A closure would run the network, and the status of that cloud is not known before."""
    loop = Loop("cpu", optimizer, is_scaled=is_scaled)
    loop.step(SMALL)
    x, before = loop.backward(SMALL), loop.values()
    with sparse.skip_unless_fits(loop.optimizer, x):
        with pytest.raises(ValueError, match="closure"):
            loop.scaler.step(loop.optimizer, lambda: pytest.fail("it ran"))
        if not is_scaled:
            with pytest.raises(ValueError, match="closure"):
                loop.optimizer.step(closure=lambda: pytest.fail("it ran"))
        assert are_same(loop.values(), before)
        loop.optimizer.step(None)
    assert not are_same(loop.values(), before)


@pytest.mark.parametrize("optimizer", ["SGD", "fused SGD"])
def test_a_scheduler_that_is_made_inside_of_the_statement(optimizer):
    """It wraps the step there, and the optimizer is left as it was."""
    loop = Loop("cpu", optimizer)
    x, before = loop.backward(LARGE), loop.values()[:1]
    with sparse.skip_unless_fits(loop.optimizer, x), warnings.catch_warnings(action="error"):
        scheduler = torch.optim.lr_scheduler.StepLR(loop.optimizer, 1)
        loop.optimizer.step()
        scheduler.step()
    assert are_same(loop.values()[:1], before)
    assert "step" not in vars(loop.optimizer)


@pytest.mark.parametrize("voxels", [SMALL, LARGE])
def test_groups_of_which_one_is_fused(voxels):
    """The host decides for both, because only one of them would read found_inf."""
    loop = Loop("cpu", "SGD")
    halves = [{"params": half.parameters()} for half in (loop.network.layers, loop.network.head)]
    loop.optimizer = torch.optim.SGD([halves[0], {**halves[1], "fused": False}], lr=0.1, momentum=0.9, fused=True)
    loop.step(SMALL)
    before = loop.values()
    loop.step(voxels)
    same = [torch.equal(*pair) for pair in zip(loop.values(), before, strict=True)]
    assert all(same) if voxels == LARGE else not any(same)


@pytest.mark.parametrize("optimizer", ["SGD", "fused SGD"])
@pytest.mark.parametrize("sizes", [(SMALL, LARGE), (LARGE, SMALL), (SMALL, OTHER)])
def test_nested_statements(optimizer, sizes):
    """Each optimizer skips the steps of its own cloud."""
    loops = [Loop("cpu", optimizer) for _ in sizes]
    for loop in loops:
        loop.step(SMALL)
    before = [loop.values() for loop in loops]
    one, two = (loop.backward(voxels) for loop, voxels in zip(loops, sizes, strict=True))
    with sparse.skip_unless_fits(loops[0].optimizer, one), sparse.skip_unless_fits(loops[1].optimizer, two):
        for loop in loops:
            loop.optimizer.step()
    for loop, values, voxels in zip(loops, before, sizes, strict=True):
        assert are_same(loop.values(), values) == (voxels == LARGE)
