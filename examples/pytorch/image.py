"""An image model with what stands around it: scaling and normalising before, labels after. Which part
of a request is the model, and what would another runtime change?"""
import torch
from torch import nn
from torch.nn.functional import interpolate

from prony import accelerate, remote_profile

LABELS = [f"class {i}" for i in range(10)]


def block(inputs, outputs, stride):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class Vision:
    """Preparing is code of its own; `label` is the request that is measured."""

    def __init__(self):
        self.net = nn.Sequential(block(3, 16, 2), block(16, 32, 2), block(32, 64, 2),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                 nn.Linear(64, len(LABELS))).eval()

    @torch.compiler.disable  # stays Python, as a decoder of images would
    def prepare(self, pixels):
        image = pixels.permute(2, 0, 1).unsqueeze(0).float() / 255
        image = interpolate(image, size=(64, 64), mode="bilinear", antialias=True)
        return (image - 0.45) / 0.225

    @accelerate
    def label(self, pixels):
        scores = self.net(self.prepare(pixels)).softmax(-1)[0]
        best = scores.topk(3)
        return [(LABELS[i], round(p, 3)) for p, i in zip(best.values.tolist(), best.indices.tolist())]


torch.manual_seed(0)
vision = Vision()
photo = torch.randint(0, 256, (120, 160, 3), dtype=torch.uint8)
with remote_profile(backends=["local/onnxrt-cpu", "local/openvino-cpu"]) as handle:
    for _ in range(10):
        answer = vision.label(photo)
print(answer[0][0])
handle.report().print(layout="segments")
