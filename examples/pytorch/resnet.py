"""ResNet for images: pictures are prepared in Python, the network is a graph, and labels are Python again."""
import torch
from transformers import ResNetConfig, ResNetForImageClassification

from prony import accelerate, remote_profile

torch.manual_seed(0)
model = ResNetForImageClassification(ResNetConfig(
    embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2], layer_type="basic", num_labels=10)).eval()


@torch.compiler.disable  # stays Python
def prepare(picture):
    return ((picture.float() / 255 - 0.5) / 0.25).unsqueeze(0)


@accelerate
def recognise(picture):
    scores = model(prepare(picture)).logits
    return model.config.id2label[scores.argmax(-1).item()]


with remote_profile(backends=["local/onnxrt-cpu", "local/openvino-cpu"]) as handle:
    for _ in range(6):
        label = recognise(torch.randint(0, 256, (3, 64, 64)))
handle.report().print(layout="segments")
print("one of", len(model.config.id2label), "labels:", label in model.config.id2label.values())
