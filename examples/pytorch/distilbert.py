"""DistilBERT for classification, from a configuration and random weights: the whole model is a graph."""
import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification

from prony import accelerate, remote_profile

torch.manual_seed(0)
model = DistilBertForSequenceClassification(DistilBertConfig(
    vocab_size=1000, dim=64, hidden_dim=128, n_layers=2, n_heads=4, num_labels=2)).eval()


@accelerate
def classify(ids, mask):
    return model(input_ids=ids, attention_mask=mask).logits.softmax(-1)


ids = torch.randint(0, 1000, (4, 24))
mask = torch.ones_like(ids)
with remote_profile(backends=["local/onnxrt-cpu", "local/torch-eager-cpu[threads=1]"]):
    for _ in range(6):
        scores = classify(ids, mask)
print(f"{len(scores)} texts, {scores.shape[1]} labels")
