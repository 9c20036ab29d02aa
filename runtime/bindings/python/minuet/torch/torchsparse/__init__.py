"""TorchSparse's names on Minuet: write `import minuet.torch.torchsparse as torchsparse` for `import torchsparse`.

Layers have the arguments, defaults, weights and names in a state dict that TorchSparse 2.1 has. PEERS.md in the folder
above lists what is covered, and what is refused or different.
"""

from . import nn, utils
from .tensor import SparseTensor, TensorCache, cat, generative_add

__all__ = ["SparseTensor", "TensorCache", "cat", "generative_add", "nn", "utils"]
