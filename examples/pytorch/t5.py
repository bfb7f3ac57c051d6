"""T5 translates: the encoder is a graph, and each step of the decoder is one; `generate` of transformers
is the loop around them."""
import torch
from transformers import T5Config, T5ForConditionalGeneration

from prony import accelerate, remote_profile

torch.manual_seed(0)
model = T5ForConditionalGeneration(T5Config(
    vocab_size=200, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
    decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)).eval()


def translate(ids):
    return model.generate(ids, max_new_tokens=6, min_new_tokens=6, do_sample=False, use_cache=False)


ids = torch.randint(2, 200, (1, 9))
here = translate(ids)
model.encoder = accelerate(model.encoder)
model.decoder = accelerate(model.decoder, dynamic=True)
with remote_profile(backends=["local/onnxrt-cpu", "local/openvino-cpu"]):
    for _ in range(2):
        assert translate(ids).equal(here)
print(f"the same {here.shape[1] - 1} tokens as without profiling")
