"""Embeddings of sentences as MiniLM makes them: an encoder, then the mean over the words that there are,
of length one. Sentences have any length; with `dynamic=True` one graph serves them all."""
import torch
from torch.nn.functional import normalize
from transformers import BertConfig, BertModel

from prony import accelerate, remote_profile

torch.manual_seed(0)
model = BertModel(BertConfig(vocab_size=1000, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                             intermediate_size=96)).eval()


@accelerate(dynamic=True)
def embed(ids, mask):
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state
    there = mask.unsqueeze(-1).to(states.dtype)
    return normalize((states * there).sum(1) / there.sum(1).clamp(min=1e-9), dim=1)


with remote_profile(backends=["local/onnxrt-cpu", "local/torch-eager-cpu[threads=1]"]) as handle:
    for words in (12, 7, 12, 30, 7, 19):
        ids = torch.randint(0, 1000, (3, words))
        mask = (torch.arange(words) < torch.tensor([[words], [words // 2], [3]])).long()
        sentences = embed(ids, mask)
graphs = {graph for profile in handle.report().profiles for graph in profile.footprint}
print(f"sentences of 4 lengths, {len(graphs)} graph; how alike they are:", (sentences @ sentences.T).shape)
