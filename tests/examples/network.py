"""A whole network from Python: three voxels in, 96 features per voxel out, on whatever device there is."""

import minuet
import numpy as np

# Coordinates are (batch, x, y, z); row i of the features belongs to row i of the coordinates.
coordinates = np.array([[0, 0, 0, 0], [0, 1, 0, 0], [0, -7, 2, 5]], np.int32)
features = np.array([[0.1, 0.2, 0.3, 1], [0.4, 0.5, 0.6, 1], [0.7, 0.8, 0.9, 1]], np.float32)

context = minuet.Context()
device = minuet.Device(context)  # cuda:0 where it is usable, else cpu
network = minuet.Plan.network(context, "minkunet42", dtype="float32")
network.load(device)  # cold: compiles; warm: from the cache

execution = minuet.Execution(network, device)
execution.prepare(device.to_device(coordinates))  # coordinates: maps, counts
output = execution.run(device.to_device(features))  # features: only enqueues
result = device.to_host(output)  # waits

rows, channels = result.shape
print(f"{device.name}: {rows} rows of {channels} features, the first is {result[0, 0]:g}")
