"""Voxels of points under spconv's names."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import functional as F  # noqa: N812


class PointToVoxel:
    """Groups the points of one cloud by voxels.

    Args:
        vsize_xyz: the size of a voxel along x, y and z.
        coors_range_xyz: the least x, y and z, then the greatest. A point on the upper border is outside.
        num_point_features: the columns of a point, with its position.
        max_num_voxels: at most so many voxels are made; those whose first point comes first.
        max_num_points_per_voxel: of the points of a voxel, the first ones are kept.
        device: where points are.
    """

    def __init__(
        self,
        vsize_xyz: Sequence[float],
        coors_range_xyz: Sequence[float],
        num_point_features: int,
        max_num_voxels: int,
        max_num_points_per_voxel: int,
        device: torch.device | str = "cpu",
    ) -> None:
        ndim = self.ndim = len(vsize_xyz)
        if len(coors_range_xyz) != 2 * ndim:
            raise ValueError(f"coors_range_xyz has {len(coors_range_xyz)} numbers, and {2 * ndim} are needed")
        self.vsize = [float(size) for size in vsize_xyz]
        self.coors_range = [float(value) for value in coors_range_xyz]
        low, high = self.coors_range[:ndim], self.coors_range[ndim:]
        #: How many voxels there are along z, y and x.
        self.grid_size = [round((end - begin) / size) for begin, end, size in zip(low, high, self.vsize, strict=True)][
            ::-1
        ]
        self.num_point_features, self.max_num_voxels = num_point_features, max_num_voxels
        self.max_num_points_per_voxel, self.device = max_num_points_per_voxel, torch.device(device)

    def __call__(
        self, pc: torch.Tensor, clear_voxels: bool = True, empty_mean: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the first three results of generate_voxel_with_id()."""
        return self.generate_voxel_with_id(pc, clear_voxels, empty_mean)[:3]

    def generate_voxel_with_id(
        self, pc: torch.Tensor, clear_voxels: bool = True, empty_mean: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Groups points.

        Args:
            pc: float32 [points, num_point_features], the position first.
            clear_voxels: taken, and without effect: places without a point are 0.
            empty_mean: places without a point have the mean of the voxel's points instead of 0.

        Returns:
            voxels: the points of each voxel, [voxels, max_num_points_per_voxel, num_point_features].
            indices: the voxel's cell along z, y and x, int32 [voxels, axes].
            num_per_voxel: how many points it has, int32 [voxels].
            pc_voxel_id: the voxel of each point, or -1, int64 [points].
        """
        if pc.dim() != 2 or pc.shape[1] != self.num_point_features:
            raise ValueError(
                f"points have the shape {list(pc.shape)}, and [points, {self.num_point_features}] is needed"
            )
        if pc.device.type != self.device.type:
            raise ValueError(f"points are on {pc.device}, and this object was made for {self.device}")
        low = self.coors_range[: self.ndim]
        with torch.no_grad():
            made = F.voxelize(
                pc.float(),
                self.vsize,
                low=low,
                high=[
                    begin + cells * size
                    for begin, cells, size in zip(low, reversed(self.grid_size), self.vsize, strict=True)
                ],
                most_points_per_voxel=self.max_num_points_per_voxel,
                most_voxels=self.max_num_voxels,
            )
            rows = made.point_rows.long()
            counts = made.voxel_points
            voxels = pc.new_zeros((len(counts), self.max_num_points_per_voxel, self.num_point_features))
            # Sorted by voxel, and in a voxel by their number, the points have their places in it one after the other.
            order = torch.argsort(rows, stable=True)
            sorted_rows = rows[order]
            place = torch.arange(len(rows), device=rows.device) - torch.searchsorted(sorted_rows, sorted_rows)
            is_kept = (sorted_rows >= 0) & (place < self.max_num_points_per_voxel)
            voxels[sorted_rows[is_kept], place[is_kept]] = pc[order[is_kept]]
            if empty_mean:
                mean = voxels.sum(1, keepdim=True) / counts.clamp(min=1).view(-1, 1, 1)
                places = torch.arange(self.max_num_points_per_voxel, device=rows.device)
                voxels = torch.where((places < counts[:, None])[..., None], voxels, mean)
            return voxels, made.coordinates[:, 1:].flip(1), counts, rows


def gather_features_by_pc_voxel_id(
    seg_res_features: torch.Tensor, pc_voxel_id: torch.Tensor, invalid_value: float = 0
) -> torch.Tensor:
    """Returns the row of its voxel for each point, and invalid_value for points without a voxel (-1)."""
    rows = pc_voxel_id.to(seg_res_features.device)
    shape = (-1, *[1] * (seg_res_features.dim() - 1))
    if not len(seg_res_features):
        return seg_res_features.new_full((len(rows), *seg_res_features.shape[1:]), invalid_value)
    return seg_res_features[rows.clamp(min=0)].masked_fill((rows < 0).view(shape), invalid_value)
