#!/usr/bin/env python3
"""Times minuet_voxelize beside spconv's PointToVoxel on one GPU, compares their voxels, and prints JSON.

usage: points_peers.py CLOUD.bin COLUMNS COMMIT > points_peers.json

CLOUD.bin has float32 rows of COLUMNS numbers, of which the first four are x, y, z and a feature. Both engines are called
from Python on tensors of torch, with a range of 120 x 120 x 40 m at 0.1 m, and write the means of 1 or 5 points a voxel,
or, in spconv's case, the points themselves. Each timed call gets a random 98 % of the points.
"""

import json
import sys

import minuet
import numpy as np
import torch
from spconv.pytorch.utils import PointToVoxel

LOW, HIGH, SIZE, MOST_VOXELS = [-60.0, -60.0, -20.0], [60.0, 60.0, 20.0], 0.1, 150_000


def timed(call, points):
    times = []
    for seed in range(-10, 60):
        generator = torch.Generator(device="cuda").manual_seed(seed + 100)
        kept = torch.randperm(len(points), generator=generator, device="cuda")[: int(len(points) * 0.98)]
        given = points[kept].contiguous()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        call(given)
        end.record()
        torch.cuda.synchronize()
        if seed >= 0:
            times.append(begin.elapsed_time(end))
    return {name: float(np.percentile(times, at)) for name, at in (("median", 50), ("p10", 10), ("p90", 90))}


def main():
    path, columns, commit = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    rows = np.fromfile(path, np.float32).reshape(-1, columns)[:, :4]
    points = torch.from_numpy(np.ascontiguousarray(rows)).cuda()
    context = minuet.Context()
    device = minuet.Device(context, "cuda:0")
    stream = torch.cuda.current_stream()
    results = []
    for most in (1, 5):
        ours = minuet.Voxelizer(context, 4, SIZE, low=LOW, high=HIGH, most_points_per_voxel=most, most_voxels=MOST_VOXELS)
        ours.load(device)
        workspace = torch.empty(ours.bytes(device.arch, len(points)), dtype=torch.uint8, device="cuda")
        voxels = ours.run(device, points, workspace=workspace, stream=stream)
        count = int(device.to_host(voxels.counts)[0])
        cells = set(map(tuple, device.to_host(voxels.coordinates)[:count, 1:].tolist()))
        made = {len(points): voxels}

        def run(given, ours=ours, made=made, workspace=workspace):
            made[len(given)] = ours.run(device, given, out=made.get(len(given)), workspace=workspace, stream=stream)

        theirs = PointToVoxel([SIZE] * 3, LOW + HIGH, 4, MOST_VOXELS, most, torch.device("cuda"))
        found = set(map(tuple, theirs(points)[1].cpu().numpy()[:, ::-1].tolist()))
        results.append({"points_per_voxel": most, "voxels": count, "same_voxels": cells == found,
                        "minuet_ms": timed(run, points), "spconv_ms": timed(theirs, points)})  # fmt: skip
    print(json.dumps({"device": torch.cuda.get_device_name(), "commit": commit, "pytorch": torch.__version__,
                      "peer": "spconv 2.3.8 PointToVoxel", "points": len(points), "results": results}, indent=1))  # fmt: skip


main()
