"""A text classifier: words become numbers in Python, the rest is a graph. Sentences have any length,
and with `dynamic=True` one graph serves them all."""
import re

import torch
from torch import nn

from prony import accelerate, remote_profile

SENTENCES = ["The film was a delight from beginning to end.",
             "Dull, long, and badly acted!",
             "I would see it again tomorrow, and the day after, and take my friends along.",
             "Not for me."]


class Classifier(nn.Module):
    """Embeddings, two encoder blocks, and a mean over the words that there are."""

    def __init__(self, words=1000, width=64):
        super().__init__()
        self.table = nn.Embedding(words, width, padding_idx=0)
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, ids):
        there = (ids != 0).unsqueeze(-1)
        states = self.encoder(self.table(ids), src_key_padding_mask=~there.squeeze(-1))
        return self.head((states * there).sum(1) / there.sum(1))


@torch.compiler.disable  # stays Python, and isn't compiled for each sentence
def tokenize(sentence, words=1000):
    """A word's number is a checksum of it, from 1 up; a trained model would have a vocabulary."""
    found = re.findall(r"\w+", sentence.lower())
    return torch.tensor([[1 + sum(word.encode()) * 31 % (words - 1) for word in found]])


torch.manual_seed(0)
classifier = Classifier().eval()


@accelerate(dynamic=True)
def classify(sentence):
    scores = torch.softmax(classifier(tokenize(sentence)), dim=-1)
    return dict(zip(("negative", "positive"), scores[0].tolist()))


with remote_profile(backends=["local/onnxrt-cpu", "local/torch-eager-cpu[threads=1]"]) as handle:
    for sentence in SENTENCES * 3:
        classify(sentence)

profile = handle.report().profiles[0]
print(f"{profile.num_runs} sentences of {len({len(s.split()) for s in SENTENCES})} lengths, "
      f"{len(profile.footprint)} graph")
