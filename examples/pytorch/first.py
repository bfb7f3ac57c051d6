"""A model and a function around it: what a call takes on every runtime that is found here."""
import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import softmax

from prony import RemoteInferenceSession, accelerate, remote_profile

net = Sequential(Linear(100, 200), ReLU(), Linear(200, 10))


@accelerate
def predict(x):
    return softmax(net(x), dim=-1)


with remote_profile(RemoteInferenceSession()):
    for _ in range(10):
        predict(torch.randn(1, 100))
