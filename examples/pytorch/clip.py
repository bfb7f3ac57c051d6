"""CLIP tells which text fits a picture: both encoders and the comparison are one graph."""
import torch
from transformers import CLIPConfig, CLIPModel

from prony import accelerate, remote_profile

torch.manual_seed(0)
model = CLIPModel(CLIPConfig(
    text_config={"vocab_size": 200, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                 "num_attention_heads": 4, "max_position_embeddings": 16, "bos_token_id": 198, "eos_token_id": 199},
    vision_config={"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "image_size": 32, "patch_size": 8},
    projection_dim=24)).eval()


@accelerate
def match(ids, picture):
    return model(input_ids=ids, pixel_values=picture).logits_per_image.softmax(-1)


ids = torch.randint(0, 199, (3, 16))
ids[:, -1] = 199
with remote_profile(backends=["local/onnxrt-cpu", "local/openvino-cpu"]):
    for _ in range(6):
        chances = match(ids, torch.randn(1, 3, 32, 32))
print(f"{chances.shape[1]} texts, chances that add up to {chances.sum():.2f}")
