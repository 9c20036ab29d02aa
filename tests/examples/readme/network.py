"""Runs a network over three voxels, on the GPU if there is one, otherwise on the CPU."""

import minuet
import numpy as np

context = minuet.Context()
device = minuet.Device(context)  # cuda:0 if it is usable, otherwise cpu
network = minuet.Plan.network(context, "minkunet42", dtype="float32")
network.load(device)
execution = minuet.Execution(network, device)
voxels = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [0, -7, 2, 5]], np.int32)  # batch, x, y, z
execution.prepare(device.to_device(voxels))
result = device.to_host(execution.run(device.to_device(np.ones((3, 4), np.float32))))
print(f"{device.name}: {len(result)} rows, the first of 96 features is {result[0, 0]:g}")
