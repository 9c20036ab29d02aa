"""The network that is trained on generated rooms, and its training."""

from __future__ import annotations

from typing import Any

import peer_networks
import torch
from scenes import CLASSES, SHAPE, draw_batch
from torch.nn import functional as F  # noqa: N812


def make_network(s: Any, seed: int, width: int) -> torch.nn.Module:
    """Returns a U-Net of 18 layers in the encoder, as MinkUNet18 has, with the parameters of a seed."""
    network = peer_networks.sp_unet(s, 4, CLASSES, width, [width * n for n in (1, 2, 3, 4, 4, 3, 2, 2)], [2] * 8)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                fan = parameter.shape[1:].numel()
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * (2 / fan) ** 0.5)
    torch.nn.init.zeros_(network.final.bias)
    return network


def train(network: torch.nn.Module, steps: int, rooms: int) -> list[float]:
    """Trains for some steps with this many rooms each, and returns the loss of each step."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        features, indices, labels = draw_batch(rooms, step)
        optimizer.zero_grad()
        loss = F.cross_entropy(network(features, indices, SHAPE, rooms).features, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
