"""How fused modules are called, and what they take over from their modules besides numbers."""

from __future__ import annotations

import contextlib
import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

import minuet.torch  # noqa: E402
from export_problems import expect_near  # noqa: E402
from fused_problems import UNet, Written, cloud, expect_same, pair, step, sub  # noqa: E402
from minuet.torch import spconv  # noqa: E402
from minuet.torch._places import Place  # noqa: E402
from spconv_problems import BATCH, SHAPE  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import poisoned  # noqa: E402

__all__ = ["poisoned"]

# ---- arguments -------------------------------------------------------------------------------------------------------


class WithMore(nn.Module):
    """Reads more than the example may have."""

    def __init__(self):
        super().__init__()
        self.conv = sub(4, 8)

    def forward(self, batch, more=None):
        y = self.conv(batch["x"] if isinstance(batch, dict) else batch[0])
        weight = batch.get("weight") if isinstance(batch, dict) else None
        y = y if weight is None else y.replace_feature(y.features * weight)
        return y if more is None else y.replace_feature(y.features + more)


def test_arguments_that_the_example_did_not_have():
    x = cloud(60, 5)
    module = WithMore()
    fused = minuet.torch.fuse(module, {"x": x})
    expect_near(fused({"x": x}).features, module({"x": x}).features, 5e-6)
    with pytest.raises(TypeError, match=r"2 arguments are given, and the example of fuse.* had 1"):
        fused({"x": x}, torch.ones(8))
    with pytest.raises(TypeError, match="0 arguments are given"):
        fused()
    with pytest.raises(TypeError, match="'more' is given by its name"):
        fused({"x": x}, more=torch.ones(8))
    with pytest.raises(TypeError, match=r"argument \[0\]\['weight'\] was not in the example"):
        fused({"x": x, "weight": 2.0})
    with pytest.raises(TypeError, match=r"argument \[0\]\['x'\] is missing"):
        fused({"weight": 2.0})
    with pytest.raises(TypeError, match=r"argument \[0\] is SparseConvTensor, and the example of fuse.* had a dict"):
        fused(x)
    fused = minuet.torch.fuse(module, ([x, 1], None))
    fused([x, 1], None)
    with pytest.raises(TypeError, match=r"argument \[0\] has 1 items, and the example of fuse.* had 2"):
        fused([x], None)
    with pytest.raises(TypeError, match=r"argument \[0\] is int, and the example of fuse.* had a list"):
        fused(3, None)
    with pytest.raises(ValueError, match=r"argument \[1\] is tensor.* fused for None"):
        fused([x, 1], torch.ones(8))
    with pytest.raises(ValueError, match=r"argument \[0\]\[1\] is tensor"):
        fused([x, torch.ones(8)], None)


def test_coordinates_on_another_device():
    _, fused = pair("unet")
    x = cloud(60, 5)
    for is_first in (True, False):
        if not is_first:
            fused(x)
        with pytest.raises(ValueError, match="a tensor is on meta"):
            fused(spconv.SparseConvTensor(x.features, x.indices.to("meta"), SHAPE, BATCH))
    x = cloud(60, 5, rows=80, capacities=[60])
    x.level.count = x.level.count.to("meta")
    with pytest.raises(ValueError, match="a tensor is on meta"):
        fused(x)


# ---- what the module does itself -------------------------------------------------------------------------------------


class KeepsNorms(UNet):
    """Keeps its batch norms in eval mode, loads names of old checkpoints, and keeps a number of its own."""

    def train(self, mode=True):
        super().train(mode)
        for part in self.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.eval()
        return self

    def _load_from_state_dict(self, state, prefix, *rest):
        for name in [name for name in state if name.startswith(f"{prefix}trunk.")]:
            state[prefix + name.removeprefix(f"{prefix}trunk.")] = state.pop(name)
        super()._load_from_state_dict(state, prefix, *rest)

    def get_extra_state(self):
        return 3

    def set_extra_state(self, value):
        self.loaded = value


def test_modes_of_the_module():
    torch.manual_seed(0)
    module = KeepsNorms().train()
    fused = minuet.torch.fuse(copy.deepcopy(module), cloud(60, 5))
    for whole in (lambda each: each, nn.Sequential):
        for training in (True, False, True):
            whole(fused).train(training)
            assert fused.training is training and not fused.stem[1].training
            expect_same(step(fused, cloud(90, 1)), step(module.train(training), cloud(90, 1)))
    assert fused.eval() is fused and fused.train() is fused


def test_state_dicts_of_the_module():
    module = KeepsNorms()
    module.register_state_dict_post_hook(lambda module, state, prefix, _: state.update({f"{prefix}hook": 1}))
    fused = minuet.torch.fuse(module, cloud(60, 5))
    state = fused.state_dict()
    assert state.keys() == module.state_dict().keys() and state["_extra_state"] == 3 and state.pop("hook") == 1
    old = {f"trunk.{name}": value + 1 for name, value in state.items()}
    for prefix, each in (("", fused), ("0.", nn.Sequential(fused))):
        assert list(each.state_dict()) == [f"{prefix}{name}" for name in module.state_dict()]
        seen = []
        handle = fused.register_load_state_dict_post_hook(lambda *_, seen=seen: seen.append(1))
        module.loaded = 0
        module.head.bias.data.zero_()
        each.load_state_dict({f"{prefix}{name}": value for name, value in copy.copy(old).items()})
        assert module.loaded == 4 and torch.equal(module.head.bias, old["trunk.head.bias"]) and seen == [1]
        handle.remove()


# ---- children that are replaced, and hooks ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", ["head", "stem.1", "stem.2", "deep"])
def test_children_that_are_replaced(name, is_first):
    """Those without parameters too. Copies have their own children."""
    for copied in (lambda fused: fused, copy.deepcopy, lambda fused: pickle.loads(pickle.dumps(fused))):
        _, fused = pair("unet")
        if not is_first:
            fused(cloud(60, 5))
        fused = copied(fused)
        fused(cloud(60, 5)) if not is_first else None
        owner, _, leaf = name.rpartition(".")
        old = fused.get_submodule(name)
        fused.get_submodule(owner)._modules[leaf] = copy.deepcopy(old)
        with pytest.raises(ValueError, match=f"'{name}' was replaced behind fuse.*: fuse the module again"):
            fused(cloud(60, 5))
        fused.get_submodule(owner)._modules[leaf] = old
        fused(cloud(60, 5))


def test_batch_norms_that_torch_replaces():
    _, fused = pair("unet")
    fused(cloud(60, 5))
    other = nn.SyncBatchNorm.convert_sync_batchnorm(fused)
    with pytest.raises(ValueError, match=r"'stem\.1' was replaced"):
        other.eval()(cloud(60, 5))


def test_modules_that_do_more_than_their_ops():
    for register in ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"):
        module = UNet()
        getattr(module.deep, f"register_{register}")(lambda *_: None)
        with pytest.raises(minuet.torch.ExportError, match="'deep' has hooks"):
            minuet.torch.fuse(module, cloud(60, 5))
    counting = spconv.SparseSequential(spconv.SparseConv3d(4, 8, 2, 2, record_voxel_count=True))
    with pytest.raises(minuet.torch.ExportError, match="'0' has record_voxel_count"):
        minuet.torch.fuse(counting, cloud(60, 5))
    assert counting[0].get_max_num_voxels() == 0
    for name in ("module", "lay_out"):
        with pytest.raises(minuet.torch.ExportError, match=f"called '{name}'"):
            minuet.torch.fuse(Written(lambda m, x, name=name: getattr(m, name)(x), **{name: sub(4, 8)}), cloud(60, 5))


# ---- inside of other modules and modes -------------------------------------------------------------------------------


def test_a_fused_module_is_recorded_op_by_op():
    module, fused = pair("unet")
    want = minuet.torch.export(module, cloud(60, 5))
    for each in (fused, nn.Sequential(fused)):
        made = minuet.torch.export(each, cloud(60, 5))
        assert [layer["op"] for layer in made.description["layers"]] == [
            layer["op"] for layer in want.description["layers"]
        ]
        again = minuet.torch.fuse(copy.deepcopy(each), cloud(60, 5))
        got = list(step(again.train(), cloud(100, 1)).values())
        expected = step(copy.deepcopy(module).train(), cloud(100, 1))
        expect_same(dict(zip(expected, got, strict=True)), expected)


def test_fuse_and_export_in_inference_mode():
    module, other = pair("unet")[0], UNet()
    other.load_state_dict(module.state_dict())
    with torch.inference_mode():
        fused = minuet.torch.fuse(other, cloud(60, 5))
        exported = minuet.torch.export(module, cloud(60, 5))
    assert exported.description["layers"]
    expect_same(step(fused.train(), cloud(90, 1)), step(module.train(), cloud(90, 1)))


@pytest.mark.parametrize("capacity", [{}, {"rows": 200, "capacities": [180, 180]}])
def test_inference_mode_and_then_training(capacity):
    """Levels that were made in inference mode serve a training step."""
    _, fused = pair("several results")
    x = cloud(150, 1, **dict(capacity))
    with torch.inference_mode():
        kept = fused.eval()(x)[1]["coarse"]  # It keeps its level alive.
        assert len(kept.indices)
    more = spconv.SparseSequential(spconv.SubMConv3d(8, 4, 3), nn.BatchNorm1d(4))
    y = more.train()(fused.train()(x)[1]["coarse"])
    y.features.sum().backward()
    assert all(each.grad is not None for each in [*more.parameters(), *fused.parameters()])


def test_parameters_of_two_names():
    module = Written(lambda m, x: m.b(m.a(x)), a=sub(4, 4), b=sub(4, 4))
    module.b.weight = module.a.weight
    fused = minuet.torch.fuse(copy.deepcopy(module), cloud(60, 5))
    expect_same(step(fused, cloud(90, 1)), step(module, cloud(90, 1)))
    fused.b.weight = nn.Parameter(torch.ones_like(fused.a.weight))
    with pytest.raises(ValueError, match=r"a\.weight and b\.weight were one tensor"):
        fused(cloud(90, 1))


@pytest.mark.parametrize("index", [0, 1])
def test_a_capture_on_another_device_than_the_current_one(index, monkeypatch):
    """torch knows only whether the stream of its current device records a graph, so that must be the module's."""
    current = [0]

    @contextlib.contextmanager
    def on(device):
        current[0] = device.index
        yield
        current[0] = 0

    place = Place.__new__(Place)
    place.is_cpu, place.index, place.device = False, index, torch.device("cuda", index)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", on)
    for captured in (0, 1):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda captured=captured: current[0] == captured)
        assert place.is_capturing() is (captured == index) and current == [0]
