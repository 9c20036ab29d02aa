"""Poolings and broadcasts under MinkowskiEngine's names."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
from torch import nn

from .. import functional as F  # noqa: N812
from .._clouds import of_clouds
from .convolution import output_key, require_input
from .kernels import KernelGenerator
from .tensor import SparseTensor, require_same_manager


class PoolingMode(Enum):
    """Names of MinkowskiEngine's poolings. The variants of a global pooling give the same here."""

    LOCAL_SUM_POOLING = 0
    LOCAL_AVG_POOLING = 1
    LOCAL_MAX_POOLING = 2
    GLOBAL_SUM_POOLING_DEFAULT = 3
    GLOBAL_AVG_POOLING_DEFAULT = 4
    GLOBAL_MAX_POOLING_DEFAULT = 5
    GLOBAL_SUM_POOLING_KERNEL = 6
    GLOBAL_AVG_POOLING_KERNEL = 7
    GLOBAL_MAX_POOLING_KERNEL = 8
    GLOBAL_SUM_POOLING_PYTORCH_INDEX = 9
    GLOBAL_AVG_POOLING_PYTORCH_INDEX = 10
    GLOBAL_MAX_POOLING_PYTORCH_INDEX = 11


def _reduction(mode: PoolingMode) -> str:
    return {"SUM": "sum", "AVG": "average", "MAX": "max"}[mode.name.split("_")[1]]


class _Pooling(nn.Module):
    """What all local poolings share.

    A kernel as large as the stride takes all voxels of a cell. Any other is that of a convolution: an odd one is
    centred on the cell's first corner, and an even one begins there. An output that the kernel finds no voxel for is 0.

    Args:
        kernel_size, stride, dilation: one number, or one for each axis.
        kernel_generator: the kernel, instead of the three.
        dimension: the number of axes.
    """

    pooling_mode: PoolingMode
    is_transpose = False

    def __init__(
        self,
        kernel_size: Any = -1,
        stride: Any = 1,
        dilation: Any = 1,
        kernel_generator: KernelGenerator | None = None,
        dimension: int = -1,
    ) -> None:
        super().__init__()
        self.kernel_generator = kernel_generator or KernelGenerator(kernel_size, stride, dilation, dimension=dimension)
        self.dimension = self.kernel_generator.dimension

    def forward(self, input: SparseTensor, coordinates: Any = None) -> SparseTensor:
        """Pools a tensor; `coordinates` are as of MinkowskiConvolution."""
        input = require_input(input, self.dimension, self)
        generator, back = self.kernel_generator, self.is_transpose
        expands = back and generator.expand_coordinates
        key = output_key(input, generator, coordinates, transposed=back, expands=expands)
        sets = (key, input.coordinate_map_key) if back else (input.coordinate_map_key, key)
        link = input.coordinate_manager.link(*sets)
        arguments = generator.arguments(mirrored=True) if back and link.is_within else generator.pool_arguments()
        features = link.pool(input.F, _reduction(self.pooling_mode), transposed=back, **arguments)
        return input._on(key, features)

    def extra_repr(self) -> str:
        """Returns the arguments, for repr()."""
        generator = self.kernel_generator
        return (
            f"kernel_size={generator.kernel_size}, stride={generator.kernel_stride}, "
            f"dilation={generator.kernel_dilation}"
        )


class MinkowskiSumPooling(_Pooling):
    """The sum of the voxels that the kernel finds."""

    pooling_mode = PoolingMode.LOCAL_SUM_POOLING


class MinkowskiAvgPooling(_Pooling):
    """The average of the voxels that the kernel finds."""

    pooling_mode = PoolingMode.LOCAL_AVG_POOLING


class MinkowskiMaxPooling(_Pooling):
    """The maximum of the voxels that the kernel finds."""

    pooling_mode = PoolingMode.LOCAL_MAX_POOLING


class MinkowskiPoolingTranspose(_Pooling):
    """Gives each voxel of the finer stride the sum of the coarser voxels whose kernel reaches it, as the code of
    MinkowskiEngine does. Its description speaks of an average."""

    pooling_mode = PoolingMode.LOCAL_SUM_POOLING
    is_transpose = True

    def __init__(
        self,
        kernel_size: Any,
        stride: Any,
        dilation: Any = 1,
        kernel_generator: KernelGenerator | None = None,
        expand_coordinates: bool = False,
        dimension: int = -1,
    ) -> None:
        super().__init__(kernel_size, stride, dilation, kernel_generator, dimension)
        if kernel_generator is None:
            self.kernel_generator.expand_coordinates = expand_coordinates


class MinkowskiGlobalPooling(nn.Module):
    """Pools each cloud to one row. The rows are those of the batch indices; a cloud without voxels has 0."""

    def __init__(self, mode: PoolingMode = PoolingMode.GLOBAL_AVG_POOLING_PYTORCH_INDEX) -> None:
        super().__init__()
        if not mode.name.startswith("GLOBAL"):
            raise ValueError(f"mode is {mode}, and one of the GLOBAL modes is needed")
        self.pooling_mode = mode

    def forward(self, input: SparseTensor, coordinates: Any = None) -> SparseTensor:
        """Pools a tensor. `coordinates` must be None."""
        if coordinates is not None:
            raise ValueError("a global pooling has one row for each cloud: leave out coordinates")
        input = require_input(input, input.D, self)
        key = input.coordinate_manager.origin()
        clouds = input.coordinate_manager.size(key)
        if not clouds:
            return input._on(key, input.F)
        return input._on(key, F.global_pooling(input.rows(), _reduction(self.pooling_mode), clouds))

    def extra_repr(self) -> str:
        """Returns the arguments, for repr()."""
        return f"mode={self.pooling_mode}"


class MinkowskiGlobalSumPooling(MinkowskiGlobalPooling):
    """The sum of each cloud."""

    def __init__(self, mode: PoolingMode = PoolingMode.GLOBAL_SUM_POOLING_PYTORCH_INDEX) -> None:
        super().__init__(mode)


class MinkowskiGlobalAvgPooling(MinkowskiGlobalPooling):
    """The average of each cloud."""

    def __init__(self, mode: PoolingMode = PoolingMode.GLOBAL_AVG_POOLING_PYTORCH_INDEX) -> None:
        super().__init__(mode)


class MinkowskiGlobalMaxPooling(MinkowskiGlobalPooling):
    """The maximum of each cloud."""

    def __init__(self, mode: PoolingMode = PoolingMode.GLOBAL_MAX_POOLING_PYTORCH_INDEX) -> None:
        super().__init__(mode)


class _Broadcast(nn.Module):
    """Brings the rows of a global pooling to all voxels of their clouds."""

    def forward(self, input: SparseTensor, input_glob: SparseTensor) -> SparseTensor:
        """Takes a tensor, and the result of a global pooling of one with the same manager."""
        require_same_manager([input, input_glob])
        origin = input.coordinate_manager.origin()
        if input_glob.coordinate_map_key != origin:
            raise ValueError(
                f"the second tensor is on the set {input_glob.coordinate_map_key}, and one row for each cloud is "
                "needed: give the result of a global pooling"
            )
        return input._map(lambda features: self._combine(features, of_clouds(input_glob.F, input.level)))

    def _combine(self, features: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class MinkowskiBroadcastAddition(_Broadcast):
    """Adds to each voxel the row of its cloud."""

    def _combine(self, features: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return features + others


class MinkowskiBroadcastMultiplication(_Broadcast):
    """Multiplies each voxel with the row of its cloud."""

    def _combine(self, features: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return features * others


class MinkowskiBroadcast(_Broadcast):
    """Gives each voxel the row of its cloud."""

    def _combine(self, features: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return others


class MinkowskiBroadcastConcatenation(_Broadcast):
    """Puts the row of its cloud beside the features of each voxel."""

    def _combine(self, features: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return torch.cat([features, others], 1)
