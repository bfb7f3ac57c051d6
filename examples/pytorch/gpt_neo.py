"""GPT-Neo writes on: the model is a graph that takes texts of any length, `generate` of transformers is
the loop around it."""
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from prony import RemoteInferenceSession, accelerate, remote_inference, remote_profile

torch.manual_seed(0)
model = GPTNeoForCausalLM(GPTNeoConfig(
    vocab_size=200, hidden_size=32, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4,
    intermediate_size=64, max_position_embeddings=64, window_size=16, bos_token_id=0, eos_token_id=1)).eval()


def write(ids):
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, min_new_tokens=6,
                          do_sample=False, use_cache=False, pad_token_id=1)


ids = torch.randint(2, 200, (1, 5))
here = write(ids)
model.transformer = accelerate(model.transformer, dynamic=True)
with RemoteInferenceSession("local/onnxrt-cpu") as session:
    with remote_profile(session):
        for _ in range(2):
            assert write(ids).equal(here)
    with remote_inference(session):
        assert write(ids).equal(here)
print(f"the same {here.shape[1]} tokens here, there, and while profiling")
