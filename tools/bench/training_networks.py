"""MinkUNet42 with a head for classes, written once for every module that has spconv's names, and its training step."""

import torch
from torch import nn

ENCODER, DECODER = (32, 64, 128, 256), (256, 128, 96, 96)
STEM, BLOCKS = 32, 2
IGNORED = -100  # The label of rows past the count, which cross_entropy leaves out.


def minkunet42(spconv, in_channels, classes, **options):
    """Makes the network.

    Args:
        spconv: minuet.torch.spconv, or spconv.pytorch.
        options: of every convolution, for example algo=.
    """
    options = {"bias": False, **options}

    def unit(convolution, width, relu=True):
        activation = [nn.ReLU(inplace=True)] if relu else []
        return spconv.SparseSequential(convolution, nn.BatchNorm1d(width), *activation)

    def within(before, width, key, relu=True):
        layer = spconv.SubMConv3d(before, width, 3, padding=1, indice_key=key, **options)
        return unit(layer, width, relu)

    class Residual(spconv.SparseModule):
        def __init__(self, before, width, key):
            super().__init__()
            self.first = within(before, width, key)
            self.second = within(width, width, key, relu=False)
            self.shortcut = None
            if before != width:
                self.shortcut = unit(spconv.SubMConv3d(before, width, 1, **options), width, relu=False)

        def forward(self, x):
            y = self.second(self.first(x))
            skip = x if self.shortcut is None else self.shortcut(x)
            return y.replace_feature(torch.relu_(y.features + skip.features))

    def stage(before, width, key):
        return spconv.SparseSequential(*(Residual(width if n else before, width, key) for n in range(BLOCKS)))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = spconv.SparseSequential(within(in_channels, STEM, "level0"), within(STEM, STEM, "level0"))
            self.down, self.encoder, self.up, self.decoder = (nn.ModuleList() for _ in range(4))
            width, widths = STEM, [STEM, *ENCODER]
            for level, wide in enumerate(ENCODER, 1):
                down = spconv.SparseConv3d(width, width, 2, stride=2, indice_key=f"down{level}", **options)
                self.down.append(unit(down, width))
                self.encoder.append(stage(width, wide, f"level{level}"))
                width = wide
            for level, wide in zip((3, 2, 1, 0), DECODER, strict=True):
                up = spconv.SparseInverseConv3d(width, wide, 2, indice_key=f"down{level + 1}", **options)
                self.up.append(unit(up, wide))
                self.decoder.append(stage(wide + widths[level], wide, f"level{level}"))
                width = wide
            self.head = spconv.SubMConv3d(width, classes, 1, **{**options, "bias": True})

        def forward(self, x):
            x = self.stem(x)
            skips = [x]
            for down, stage in zip(self.down, self.encoder, strict=True):
                x = stage(down(x))
                skips.append(x)
            skips.pop()
            for up, stage in zip(self.up, self.decoder, strict=True):
                x, skip = up(x), skips.pop()
                x = stage(x.replace_feature(torch.cat((x.features, skip.features), 1)))
            return self.head(x)

    network = Network()
    _set_values(network)
    return network


def _set_values(network):
    """Gives the parameters the same values for every engine, with which activations keep their size."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() > 1:
                fan = parameter.shape[1:].numel() / (3 if "head" not in name else 1)  # of 27 offsets, a third are there
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * (2 / fan) ** 0.5)
            elif name == "head.bias":
                parameter.zero_()


class Step:
    """A training step: maps from coordinates, forward pass, cross entropy, backward pass, and SGD with momentum.

    Args:
        shape: the cells along each axis.
        batch_size: how many clouds the coordinates hold.
        half: the network itself is float16, without autocast and without a loss scale; else it is float32 under
            autocast to float16, with a GradScaler.
    """

    def __init__(self, spconv, network, shape, device, half=False, batch_size=1):
        self.spconv, self.shape, self.kind, self.half = spconv, shape, torch.device(device).type, half
        self.batch_size = batch_size
        self.network = network.to(device).train()
        if half:
            self.network.half()
        # The fused form reads the loss scale and the finding of infinities on the device, so that nothing waits.
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3, momentum=0.9, fused=True)
        # It leaves its buffers as they were allocated if the first gradients are infinite, so that they begin as zeros.
        for parameter in self.network.parameters():
            self.optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self.scaler = torch.amp.GradScaler(self.kind, enabled=not half)
        self.compute_loss = self.loss

    def save(self):
        """Returns the parameters, the statistics and the loss scale, in memory of the host."""
        values = [value.cpu().clone() for value in self.network.state_dict().values()]
        return values, self.scaler.state_dict()

    def restore(self, saved):
        """Begins anew from what save() returned before the first step. All memory stays where it is."""
        values, scale = saved
        with torch.no_grad():
            for own, value in zip(self.network.state_dict().values(), values, strict=True):
                own.copy_(value)
            for state in self.optimizer.state.values():
                state["momentum_buffer"].zero_()
        self.scaler.load_state_dict(scale)

    def loss(self, coordinates, features, labels, **capacity):
        """Returns the loss, and in capacity mode the status of the cloud."""
        with torch.autocast(self.kind, dtype=torch.float16, enabled=not self.half):
            x = self.spconv.SparseConvTensor(features, coordinates, self.shape, self.batch_size, **capacity)
            logits = self.network(x).features
            # torch computes the mean of all rows in one block, which makes the step longer with every engine.
            losses = nn.functional.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="none")
            loss = losses.sum() / (labels != IGNORED).sum()
        return loss, x.level.geometry.status() if capacity else None

    def __call__(self, coordinates, features, labels, **capacity):
        """Trains on one cloud. Returns what loss() does."""
        self.optimizer.zero_grad(set_to_none=True)
        loss, status = self.compute_loss(coordinates, features, labels, **capacity)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach(), status


class GraphStep:
    """A whole step in capacity mode as one CUDA graph, which is replayed for each cloud.

    Args:
        warm_up: the steps before the capture.
        stream: on which these and the capture run; None: any.

    Attributes:
        peak_of_capture: the most bytes that torch's tensors had while it was captured. Replays do not count in torch.
    """

    def __init__(self, step, capacities, rows, given, warm_up=3, stream=None):
        self.held, self.rows, self.capacities = pad_to(rows, *given), rows, capacities
        self.step = step  # The graph reads the memory of its parameters.
        saved = step.save()
        side = stream or torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warm_up):
                self._enqueue()
            step.restore(saved)  # The first replay is the first step, as that of the other engines.
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.reset_peak_memory_stats()
        with torch.cuda.graph(self.graph, stream=stream):
            self.results = self._enqueue()
        self.peak_of_capture = torch.cuda.max_memory_allocated()

    def _enqueue(self):
        coordinates, features, labels, count = self.held
        return self.step(coordinates, features, labels, count=count, capacities=self.capacities)

    def __call__(self, coordinates, features, labels):
        """Copies a cloud into the graph's memory, and replays it."""
        held_coordinates, held_features, held_labels, count = self.held
        number = len(coordinates)
        held_coordinates[:number].copy_(coordinates)
        held_features[:number].copy_(features)
        held_labels[:number].copy_(labels)
        held_labels[number:].fill_(IGNORED)
        count.fill_(number)
        self.graph.replay()
        return self.results


def pad_to(rows, coordinates, features, labels):
    """Returns the three with so many rows, and the number of rows in use, int32 [1]."""
    number = len(coordinates)
    count = torch.full((1,), number, dtype=torch.int32, device=coordinates.device)
    pad = nn.functional.pad
    coordinates, features = (pad(array, (0, 0, 0, rows - number)) for array in (coordinates, features))
    return coordinates, features, pad(labels, (0, rows - number), value=IGNORED), count
