"""A causal transformer in plain torch, every operation in the dtype that is asked for: libraries' models keep norms,
rotary angles or softmax in float32, which hides anything below 1e-7."""
import torch
from torch import nn

VOCAB, WIDTH, HEADS, LAYERS, LONGEST = 4096, 32, 4, 2, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        length = len(x)
        q, k, v = self.qkv(self.norm1(x)).view(length, 3, HEADS, -1).permute(1, 2, 0, 3)
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(0, 1).reshape(length, WIDTH))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def logps(self, ids):
        """log p(ids[t] | ids[:t]) for t >= 1, of one sequence without padding. The last step is in float64 always: at
        -8 a float32 log-prob has no seventh digit, and its exponential would have no sixth."""
        ids = torch.tensor(ids)
        x = self.tokens(ids) + self.places(torch.arange(len(ids)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).double().log_softmax(-1)[:-1].gather(1, ids[1:, None])[:, 0]


def build(dtype, seed=0):
    torch.manual_seed(seed)
    return Tiny().to(dtype)
