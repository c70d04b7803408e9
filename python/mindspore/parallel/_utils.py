"""What programs ask of ranks that look behind the functions."""

from __future__ import annotations

from .. import context


def _get_device_num() -> int:
    return context.device_count()


def _get_global_rank() -> int:
    from ..communication.management import get_rank  # which needs the context
    return get_rank()


def _get_parallel_mode() -> str:
    return context.get_auto_parallel_context("parallel_mode")


def _get_gradients_mean() -> bool:
    return context.get_auto_parallel_context("gradients_mean")


def _get_parameter_broadcast() -> bool:
    return context.get_auto_parallel_context("parameter_broadcast")


def _get_enable_parallel_optimizer() -> bool:
    return context.get_auto_parallel_context("enable_parallel_optimizer")


def _get_full_batch() -> bool:
    return context.get_auto_parallel_context("full_batch")


def _get_pipeline_stages() -> int:
    return context.get_auto_parallel_context("pipeline_stages")


def _get_stage_device_num() -> int:
    return context.devices_of_stage()


def _is_in_auto_parallel_mode() -> bool:
    return context.is_auto()


def _is_in_data_parallel_mode() -> bool:
    return _get_parallel_mode() == "data_parallel"
