"""A script of Hugging Face's: a model, data, arguments and a Trainer, of which two lines are others: they end with `# shardwright`.

    python3 hf_trainer.py
"""

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments, set_seed

from shardwright.torch.huggingface import Trainer  # shardwright

config = LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=32, use_cache=False)


def dataset(count):
    """Sequences that count on from somewhere in steps of one to three."""
    start, stride = torch.randint(0, 64, (count, 1)), torch.randint(1, 4, (count, 1))
    ids = (start + stride * torch.arange(32)) % 64
    return [{"input_ids": row, "labels": row} for row in ids]


if __name__ == "__main__":
    set_seed(1)
    model = LlamaForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, per_device_train_batch_size=32, num_train_epochs=1, learning_rate=3e-3, weight_decay=0.1,
                                      lr_scheduler_type="cosine", warmup_steps=5, logging_steps=10, save_strategy="no", use_cpu=True,
                                      disable_tqdm=True, report_to=[])
        trainer = Trainer(model=model, args=arguments, train_dataset=dataset(1280), plan={"devices": 4})  # shardwright
        trainer.train()
    words = model.eval().generate(torch.tensor([[5, 7, 9, 11]]), max_new_tokens=8, do_sample=False, pad_token_id=0)
    print("5 7 9 11 ->", *words[0, 4:].tolist())
