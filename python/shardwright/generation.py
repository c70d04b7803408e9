"""Decoders that write."""

from __future__ import annotations

from typing import Sequence

from . import _core

__all__ = ["generate"]


def generate(model: str, checkpoint: str, prompts: Sequence[Sequence[int]], tokens: int = 20, *, temperature: float = 0.0,
             top_k: int = 0, top_p: float = 1.0, seed: int = 1, stop: Sequence[int] = (), devices: int = 1,
             stages: int = 1) -> list[list[int]]:
    """At most so many tokens behind each prompt, by the decoder `model` with the weights of a checkpoint or file.

    Prompts may have different lengths. temperature 0 takes the largest score; else what is drawn is a function of seed,
    place and sequence: the number of devices changes nothing.
    Raises: ShardwrightError if the model is no decoder, a token is unknown or there is no room.
    """
    room = max((len(p) for p in prompts), default=0) + tokens
    generator = _core.Generator(model, len(prompts), room, devices, stages)
    generator.load(checkpoint)
    return generator([list(p) for p in prompts], tokens, temperature, top_k, top_p, seed, list(stop))
