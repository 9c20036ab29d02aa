#!/usr/bin/env python3
"""Saves the checkpoints of make_checkpoints.py with PyTorch itself. Ends with status 77 where there is no PyTorch.

usage: save_with_torch.py FOLDER
"""

import collections
import pathlib
import sys

try:
    import torch
except ImportError:
    sys.exit(77)


def layer_sizes():
    sizes = {"first.conv.weight": (27, 2, 2), "second.conv.weight": (1, 2, 2)}
    for block in ("first", "second"):
        for part in ("weight", "bias", "running_mean", "running_var"):
            sizes[f"{block}.bn.{part}"] = (2,)
    return sizes


def values_of(name, size):
    count = 1
    for axis in size:
        count *= axis
    return torch.tensor([(1 + (7 * i + 3 * len(name)) % 32) / 16 for i in range(count)]).reshape(size)


def main():
    folder = pathlib.Path(sys.argv[1])
    state = collections.OrderedDict((name, values_of(name, size)) for name, size in layer_sizes().items())
    types = [torch.float16, torch.bfloat16, torch.float64, torch.float32]
    views = {name: torch.nn.Parameter(value.to(types[i % 4])) for i, (name, value) in enumerate(state.items())}
    views["first.conv.weight"] = state["first.conv.weight"].permute(2, 1, 0).contiguous().permute(2, 1, 0)
    views["first.bn.bias"] = torch.stack([state["first.bn.bias"], state["first.bn.bias"]], 1)[:, 1]
    module = collections.OrderedDict(("module." + name, value) for name, value in state.items())
    module["module.first.bn.num_batches_tracked"] = torch.tensor(7)
    bias = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(bias.parameters())
    bias(torch.zeros(1, 2)).sum().backward()
    optimizer.step()
    detector = {"epoch": 80, "model_state": module, "optimizer_state": optimizer.state_dict(), "version": "pcdet+0.6"}
    for name, root in (("state", state), ("views", views), ("detector", detector)):
        torch.save(root, folder / f"{name}_zip.pth")
        torch.save(root, folder / f"{name}_old.pth", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
