"""A script of Hugging Face's: a model, data and arguments; where `Trainer(...).train()` stood, three lines are others.

    python3 hf_trainer.py
"""

import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

import shardwright.torch as st  # shardwright

config = LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=32, use_cache=False)


def dataset(count):
    """Sequences that count on from somewhere in steps of one to three."""
    start, stride = torch.randint(0, 64, (count, 1)), torch.randint(1, 4, (count, 1))
    ids = (start + stride * torch.arange(32)) % 64
    return [{"input_ids": row, "labels": row} for row in ids]


if __name__ == "__main__":
    torch.manual_seed(1)
    model = LlamaForCausalLM(config)
    loader = DataLoader(dataset(1280), batch_size=32, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 5, len(loader))
    step = st.train_step(model, optimizer, devices=4)  # shardwright
    for i, batch in enumerate(loader):
        loss = step(**batch).item()  # shardwright: instead of loss, backward, step and zero_grad
        optimizer.step()  # which changes nothing, as there are no gradients: the schedule asks for it
        schedule.step()
        if i % 10 == 0 or i + 1 == len(loader):
            print(f"step {i + 1}: loss {loss:.3f}, rate {optimizer.param_groups[0]['lr']:.1e}")
    step.write_back()  # shardwright
    words = model.eval().generate(torch.tensor([[5, 7, 9, 11]]), max_new_tokens=8, do_sample=False, pad_token_id=0)
    print("5 7 9 11 ->", *words[0, 4:].tolist())
