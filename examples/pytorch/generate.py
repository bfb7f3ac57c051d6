"""A generation loop: one step of a small language model is a graph, sampling and stopping are Python.
The first step reads the prompt; with `dynamic=True` it and all others are the same graph."""
import torch
from torch import nn

from prony import accelerate, remote_inference, remote_profile

END = 0


class Model(nn.Module):
    """Predicts the next token from all that there are."""

    def __init__(self, tokens=64, width=32, longest=64):
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.places = nn.Embedding(longest, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True,
                                                norm_first=True)
        self.head = nn.Linear(width, tokens)

    def forward(self, ids):
        n = ids.shape[1]
        x = self.tokens(ids) + self.places(torch.arange(n))
        mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        return self.head(self.block(x, src_mask=mask)[:, -1])


torch.manual_seed(0)
model = Model().eval()


@accelerate(dynamic=True)
def step(ids):
    return model(ids).argmax(-1)


def generate(prompt, most=12):
    ids = torch.tensor([prompt])
    while ids.shape[1] < len(prompt) + most:
        token = step(ids)
        if token.item() == END:
            break
        ids = torch.cat([ids, token.unsqueeze(0)], dim=1)
    return ids[0].tolist()


here = generate([3, 14, 15])
with remote_profile(backends=["local/onnxrt-cpu", "local/torch-eager-cpu[threads=1]"]):
    assert generate([3, 14, 15]) == here
with remote_inference(backend="local/onnxrt-cpu"):
    assert generate([3, 14, 15]) == here
print("the same tokens here, there, and while profiling")
