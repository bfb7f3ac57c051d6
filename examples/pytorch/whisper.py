"""Whisper listens: the encoder of sound is a graph, each step of the decoder of words is another."""
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from prony import RemoteInferenceSession, accelerate, remote_inference, remote_profile

LANGUAGE = 3

torch.manual_seed(0)
model = WhisperForConditionalGeneration(WhisperConfig(
    vocab_size=200, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2,
    encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
    max_source_positions=50, max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=1,
    decoder_start_token_id=2)).eval()


@accelerate
def listen(sound):
    return model.model.encoder(sound).last_hidden_state


@accelerate(dynamic=True)
def step(words, heard):
    states = model.model.decoder(input_ids=words, encoder_hidden_states=heard, use_cache=False)
    return model.proj_out(states.last_hidden_state[:, -1]).argmax(-1)


def transcribe(sound, most=6):
    heard = listen(sound)
    words = torch.tensor([[model.config.decoder_start_token_id, LANGUAGE]])
    for _ in range(most):
        words = torch.cat([words, step(words, heard).unsqueeze(0)], dim=1)
    return words


sound = torch.randn(1, 16, 100)
with RemoteInferenceSession("local/onnxrt-cpu") as session:
    with remote_profile(session):
        for _ in range(3):
            here = transcribe(sound)
    with remote_inference(session):
        assert transcribe(sound).equal(here)
print(f"the same {here.shape[1] - 2} words here and there")
