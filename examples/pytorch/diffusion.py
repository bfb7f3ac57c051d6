"""A diffusion loop: the text encoder runs once, the UNet at each step, the decoder of pictures at the end.
The scheduler between the steps is Python."""
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

from prony import accelerate, remote_profile

torch.manual_seed(0)
text_encoder = CLIPTextModel(CLIPTextConfig(
    vocab_size=200, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=16)).eval()
unet = UNet2DConditionModel(
    sample_size=8, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), norm_num_groups=8,
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=32, attention_head_dim=8).eval()
vae = AutoencoderKL(
    block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2, norm_num_groups=8,
    up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, layers_per_block=1).eval()
scheduler = DDIMScheduler(num_train_timesteps=100)


@accelerate
def encode(ids):
    return text_encoder(ids).last_hidden_state


@accelerate
def denoise(latents, step, words):
    return unet(latents, step, encoder_hidden_states=words).sample


@accelerate
def decode(latents):
    return vae.decode(latents / vae.config.scaling_factor).sample


def draw(ids, steps=3):
    words = encode(ids)
    latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    scheduler.set_timesteps(steps)
    for step in scheduler.timesteps:
        latents = scheduler.step(denoise(latents, step, words), step, latents).prev_sample
    return decode(latents)


with remote_profile(backends=["local/onnxrt-cpu", "local/openvino-cpu"]):
    for _ in range(3):
        picture = draw(torch.randint(0, 200, (1, 16)))
print("a picture of", "×".join(map(str, picture.shape[-2:])))
