"""The modules of which a fused module consists."""

from __future__ import annotations

from torch import nn

from .._export import ExportError
from ..spconv.modules import SparseModule, has_hooks


def require_plain(module: nn.Module) -> None:
    """Raises ExportError where a module does more in each call than its ops."""
    for name, part in module.named_modules():
        if has_hooks(part):
            raise ExportError(
                f"the module {name!r} has hooks, which would not run: remove them, or fuse a part without hooks"
            )
        if isinstance(part, SparseModule) and part.get_max_num_voxels() is not None:
            raise ExportError(
                f"the layer {name!r} has record_voxel_count, and a fused module does not count voxels: make it "
                "without, or fuse the parts before and behind it"
            )


class Parts:
    """The children that a module had when it was fused.

    Args:
        module: the module.
    """

    def __init__(self, module: nn.Module) -> None:
        self._children = [
            (part, name, child, f"{path}.{name}" if path else name)
            for path, part in module.named_modules()
            for name, child in part._modules.items()
        ]
        self._tied: list[tuple[nn.Module, str, nn.Module, str, str]] = []
        first: dict[int, tuple[nn.Module, str, str]] = {}
        for path, parameter in module.named_parameters(remove_duplicate=False):
            owner_name, _, leaf = path.rpartition(".")
            here = (module.get_submodule(owner_name), leaf, path)
            other = first.setdefault(id(parameter), here)
            if other is not here:
                self._tied.append((*here[:2], *other[:2], f"{other[2]} and {path}"))

    def require(self) -> None:
        """Raises ValueError where a child is another one now, since the network is that of the old one, and where two
        names of one parameter have one each now."""
        for part, name, child, path in self._children:
            if part._modules.get(name) is not child:
                raise ValueError(
                    f"the module {path!r} was replaced behind fuse(), and the network still is that of the old one: "
                    "fuse the module again"
                )
        for part, name, other, leaf, both in self._tied:
            if part._parameters.get(name) is not other._parameters.get(leaf):
                raise ValueError(f"{both} were one tensor when the module was fused, and now are two: fuse it again")
