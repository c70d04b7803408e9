"""Settings: of the device, and of how programs are split over devices."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Any, Iterator

from shardwright import _core

from ._missing import missing, near

GRAPH_MODE = 0
PYNATIVE_MODE = 1


class ParallelMode:
    """Who decides how a program is split."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"
    MODE_LIST = [STAND_ALONE, DATA_PARALLEL, HYBRID_PARALLEL, SEMI_AUTO_PARALLEL, AUTO_PARALLEL]


_settings: dict[str, Any] = {
    "mode": PYNATIVE_MODE, "device_target": "CPU", "device_id": 0, "max_device_memory": None, "save_graphs": False,
    "save_graphs_path": None}
# What says how another system compiles, allocates or looks for faults has no effect here.
_without_effect = {
    "memory_offload", "jit_config", "jit_level", "deterministic", "variable_memory_max_size", "mempool_block_size",
    "enable_graph_kernel", "graph_kernel_flags", "reserve_class_name_in_scope", "check_bprop", "max_call_depth",
    "enable_compile_cache", "compile_cache_path", "precompile_only", "pynative_synchronize", "inter_op_parallel_num",
    "runtime_num_threads", "memory_optimize_level", "ascend_config", "gpu_config", "grad_for_scalar", "debug_level",
    "env_config_path", "print_file_path", "auto_tune_mode", "op_timeout", "jit_syntax_level", "exec_order",
    "enable_mem_reuse", "enable_reduce_precision", "max_device_memory_ratio", "save_dump_path",
    "jit_enable_inplace_ops"}

_parallel_defaults: dict[str, Any] = {
    "device_num": 1, "global_rank": 0, "parallel_mode": "stand_alone", "search_mode": "recursive_programming",
    "auto_parallel_search_mode": None, "gradients_mean": False, "gradient_fp32_sync": True,
    "loss_repeated_mean": True, "parameter_broadcast": False, "dataset_strategy": "data_parallel", "full_batch": None,
    "enable_parallel_optimizer": False, "parallel_optimizer_config": None, "enable_alltoall": False,
    "pipeline_stages": 1, "pipeline_config": None, "pipeline_result_broadcast": False, "auto_pipeline": False,
    "force_fp32_communication": False, "comm_fusion": None, "all_reduce_fusion_config": None,
    "strategy_ckpt_config": None, "strategy_ckpt_load_file": "", "strategy_ckpt_save_file": "",
    "op_strategy_save_file": "", "op_strategy_load_file": "",
    "group_ckpt_save_file": "", "grad_accumulation_step": 1, "communi_parallel_mode": "all_group_parallel",
    "optimizer_weight_shard_size": -1, "optimizer_weight_shard_aggregated_save": False, "sharding_propagation": False}
_parallel = dict(_parallel_defaults)
_algorithm: dict[str, Any] = {}
_algorithm_keys = {  # and the options that they are
    "fully_use_devices": "fully_use_devices", "elementwise_op_strategy_follow": "elementwise_follow",
    "enable_algo_approxi": "approximate", "algo_approxi_epsilon": "approximation",
    "tensor_slice_align_enable": "align_slices", "tensor_slice_align_size": "slice_size"}
_of_all_searches = {"fully_use_devices", "elementwise_follow"}
_configs = {  # settings that are dicts, and their keys
    "strategy_ckpt_config": {"load_file", "save_file", "only_trainable_params"},
    "pipeline_config": {"pipeline_interleave", "pipeline_scheduler"},
    "parallel_optimizer_config": {"gradient_accumulation_shard", "parallel_optimizer_threshold",
                                  "optimizer_weight_shard_size", "optimizer_level"}}
_schedules = ("1f1b", "gpipe")
_levels = {"level1": 1, "level2": 2, "level3": 3}
_where_to_write = {"strategy_ckpt_save_file", "op_strategy_save_file", "group_ckpt_save_file"}  # which nothing is compiled anew for
_epoch = 0
_results_are_for_all = False  # whatever pipeline_result_broadcast is
_told: set[str] = set()


def tell(line: str) -> None:
    """On stderr, once, by rank 0."""
    if line not in _told and _core.own_rank() == 0:
        _told.add(line)
        print(line, file=sys.stderr, flush=True)


def touch() -> None:
    """What was compiled before is compiled anew."""
    global _epoch
    _epoch += 1


def epoch() -> int:
    return _epoch


def _check(name: str, known) -> None:
    if name not in known:
        raise ValueError(f"context key '{name}' is unknown{near(name, known)}; there are {', '.join(sorted(known))}")


def set_context(**settings) -> None:
    """mode, max_device_memory, save_graphs, ...; what belongs to another system's compiler has no effect."""
    before = dict(_settings)
    for name, value in settings.items():
        _check(name, _settings.keys() | _without_effect)
        if name == "mode" and value not in (GRAPH_MODE, PYNATIVE_MODE):
            raise ValueError(f"mode is GRAPH_MODE (0) or PYNATIVE_MODE (1), not {value!r}")
        if name == "device_target" and value not in ("CPU", "GPU", "Ascend", "Davinci"):
            raise ValueError(f"device_target is CPU, GPU or Ascend, not {value!r}")
        _settings[name] = value
    if _settings != before:  # a loop may say it each time
        touch()


def set_device(device_target: str, device_id: int | None = None) -> None:
    """The kind of device, and which: no effect, as those of set_context."""
    set_context(device_target=device_target, **({} if device_id is None else {"device_id": device_id}))


def get_context(name: str) -> Any:
    _check(name, _settings.keys() | _without_effect)
    return _settings.get(name)


def _check_parallel(name: str, value) -> None:
    _check(name, _parallel_defaults)
    if name == "parallel_mode" and value not in ParallelMode.MODE_LIST:
        raise ValueError(f"parallel_mode '{value}' is unknown{near(str(value), ParallelMode.MODE_LIST)}; there are "
                         + ", ".join(ParallelMode.MODE_LIST))
    if name in ("search_mode", "auto_parallel_search_mode") and value not in _searches:
        raise ValueError(f"search_mode '{value}' is unknown{near(str(value), _searches)}; there are "
                         + ", ".join(_searches))
    if name in ("device_num", "pipeline_stages") and (not isinstance(value, int) or not 1 <= value <= 4096):
        raise ValueError(f"{name} is a whole number from 1 to 4096, not {value!r}")
    if name == "dataset_strategy":
        _check_dataset_strategy(value)
    if name in _where_to_write | {"strategy_ckpt_load_file", "op_strategy_load_file"} and not isinstance(value, str):
        raise TypeError(f"{name} is the name of a file, not {value!r}")
    if name in _configs and value is not None:
        if not isinstance(value, dict):
            raise TypeError(f"{name} is a dict, not {value!r}")
        for key in value:
            _check(key, _configs[name])
    if name == "pipeline_config":
        _check_schedule(**(value or {}))
    if name == "parallel_optimizer_config" and (value or {}).get("optimizer_level", "level1") not in _levels:
        raise ValueError(f"optimizer_level is {', '.join(_levels)}, not {value['optimizer_level']!r}")


def _check_schedule(pipeline_interleave: bool = False, pipeline_scheduler: str = "1f1b") -> None:
    if not isinstance(pipeline_interleave, bool):
        raise TypeError(f"pipeline_interleave is True or False, not {pipeline_interleave!r}")
    if pipeline_scheduler not in _schedules:
        raise ValueError(f"pipeline_scheduler {pipeline_scheduler!r} is not in this front end; there are "
                         + ", ".join(_schedules))


def _check_dataset_strategy(value) -> None:
    if isinstance(value, str):
        if value not in ("data_parallel", "full_batch"):
            raise ValueError(f"dataset_strategy is data_parallel, full_batch or a tuple, not '{value}'")
        return
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"dataset_strategy is a word or a tuple, not {value!r}")
    for cut in value:
        is_cut = isinstance(cut, (tuple, list)) and all(isinstance(p, int) and not isinstance(p, bool) for p in cut)
        if not is_cut:
            raise TypeError("dataset_strategy has a tuple of parts per dim for each input, as in ((1, 1, 1, 4), (1,)), "
                            f"not {cut!r}")
        if any(p < 1 for p in cut):
            raise ValueError(f"dataset_strategy {cut}: parts are 1 or more")


def set_auto_parallel_context(**settings) -> None:
    """How programs are split. Raises: ValueError of an unknown key or value."""
    for name, value in settings.items():
        _check_parallel(name, value)
    _parallel.update(settings)
    if "full_batch" in settings:
        _parallel["dataset_strategy"] = "full_batch" if settings["full_batch"] else "data_parallel"
    if settings.get("auto_parallel_search_mode"):
        _parallel["search_mode"] = settings["auto_parallel_search_mode"]
    if settings.get("sharding_propagation"):
        _parallel["search_mode"] = "sharding_propagation"
    if settings.get("auto_pipeline"):
        tell("mindspore: auto_pipeline has no effect: stages are those of pipeline_stages and pipeline_stage")
    if not settings.keys() <= _where_to_write:
        touch()


def get_auto_parallel_context(name: str) -> Any:
    _check(name, _parallel_defaults)
    if name == "full_batch":
        return _parallel["dataset_strategy"] == "full_batch"
    return device_count() if name == "device_num" else _parallel[name]


def auto_parallel_keys() -> list[str]:
    """Of `set_auto_parallel_context`."""
    return sorted(_parallel_defaults)


def reset_auto_parallel_context() -> None:
    _parallel.clear()
    _parallel.update(_parallel_defaults)
    touch()


@contextmanager
def bound(settings: dict[str, Any]) -> Iterator[None]:
    """Within it these settings count, and otherwise the defaults; nothing is compiled anew."""
    own = dict(_parallel)
    _parallel.clear()
    _parallel.update({**_parallel_defaults, "device_num": own["device_num"], **settings})
    try:
        yield
    finally:
        _parallel.clear()
        _parallel.update(own)


@contextmanager
def eagerly() -> Iterator[None]:
    """Within it cells are no programs of their own."""
    mode = _settings["mode"]
    _settings["mode"] = PYNATIVE_MODE
    try:
        yield
    finally:
        _settings["mode"] = mode


def _check_algorithm(name: str, value) -> None:
    _check(name, _algorithm_keys)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "algo_approxi_epsilon":
        if not is_number:
            raise TypeError(f"{name} is a number, not {value!r}")
        if not 0 < value <= 1:
            raise ValueError(f"{name} is above 0 and at most 1, not {value!r}")
    elif name == "tensor_slice_align_size":
        if not is_number or isinstance(value, float):
            raise TypeError(f"{name} is a whole number, not {value!r}")
        if not 1 <= value <= 1024:
            raise ValueError(f"{name} is from 1 to 1024, not {value!r}")
    elif not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {value!r}")


def set_algo_parameters(**settings) -> None:
    """Of the search: fully_use_devices, elementwise_op_strategy_follow, of dynamic programming the others, too."""
    for name, value in settings.items():
        _check_algorithm(name, value)
    _algorithm.update(settings)
    touch()


def get_algo_parameters(name: str) -> Any:
    _check(name, _algorithm_keys)
    return _algorithm.get(name)


def reset_algo_parameters() -> None:
    _algorithm.clear()
    touch()


def set_ps_context(**settings) -> None:
    if settings.get("enable_ps"):
        tell("mindspore: there is no parameter server here; training goes on without one")


_offloaded: set[str] = set()  # in the words of --offload
_offload_keys = {"offload_param", "offload_path", "offload_checkpoint", "offload_ddr_size", "offload_disk_size",
                 "offload_cpu_size", "hbm_ratio", "cpu_ratio", "auto_offload", "enable_pinned_mem", "enable_aio",
                 "aio_block_size", "aio_queue_depth"}


def set_offload_context(offload_config: dict | None = None) -> None:
    """What lies in memory of the host where the device is none and memory_offload is "ON": offload_param "cpu" are the
    parameters. What other keys say of disks and sizes has no effect."""
    for key, value in (offload_config or {}).items():
        _check(key, _offload_keys)
        if key == "offload_param":
            if value not in ("cpu", "disk"):
                raise ValueError(f"offload_param is cpu or disk, not {value!r}")
            _offloaded.add("parameters")
            if value == "disk":
                tell("mindspore: offload_param disk: they lie in memory of the host")
        else:
            tell(f"mindspore: set_offload_context {key} has no effect")
    touch()


def offload_activations() -> None:
    _offloaded.add("activations")
    touch()


def _offload(hosted: list[str]) -> str:
    """A host is another place only where the device is none."""
    if _settings["device_target"] == "CPU":
        return ""
    words = _offloaded | {f"host({name})" for name in hosted}
    if "parameters" in words and _settings.get("memory_offload", "OFF") != "ON":
        tell('mindspore: set_offload_context has an effect only after set_context(memory_offload="ON")')
        words -= {"parameters"}
    return ",".join(sorted(words))


# ---- what programs are compiled with ----

_searches = {"recursive_programming": "recursive", "sharding_propagation": "propagation",
             "dynamic_programming": "dynamic"}


def device_count() -> int:
    """Ranks that mpirun has started; else virtual devices: as `shardwright.run --devices` says, the context, or 1."""
    if _core.rank_count() > 1:
        return _core.rank_count()
    said = os.environ.get("SHARDWRIGHT_DEVICES")
    return int(said) if said else _parallel["device_num"]


def is_rank_view() -> bool:
    """Each rank is a process, and this is one of them."""
    return _core.rank_count() > 1


def is_data_parallel() -> bool:
    """Each rank computes on its own, and gradients meet where the program says so."""
    return _parallel["parallel_mode"] == ParallelMode.DATA_PARALLEL


def is_graph_mode() -> bool:
    return _settings["mode"] == GRAPH_MODE


def is_auto() -> bool:
    """Programs are split by annotations and searches."""
    return _parallel["parallel_mode"] in (ParallelMode.SEMI_AUTO_PARALLEL, ParallelMode.AUTO_PARALLEL)


def is_interleaved() -> bool:
    """Stages may have several chunks of the network."""
    return bool((_parallel["pipeline_config"] or {}).get("pipeline_interleave"))


def is_broadcasting() -> bool:
    """Ranks begin with the parameters of rank 0."""
    if not (_parallel["parameter_broadcast"] and is_rank_view()):
        return False
    if is_auto():
        tell("mindspore: parameter_broadcast has no effect in the automatic modes: initial values are the same on all "
             "ranks where they come from initializers")
    return is_data_parallel()


def devices_of_stage() -> int:
    return max(1, device_count() // _parallel["pipeline_stages"])


def is_before_last_stage() -> bool:
    """This rank has zeros for what a network results in: it is in another stage than the last, and nothing has said that
    all ranks get results."""
    stages = _parallel["pipeline_stages"]
    is_for_last = is_rank_view() and is_auto() and not (_parallel["pipeline_result_broadcast"] or _results_are_for_all)
    return is_for_last and _core.own_rank() // devices_of_stage() < stages - 1


@contextmanager
def results_for_all() -> Iterator[None]:
    """Within it ranks of all stages get results."""
    global _results_are_for_all
    before, _results_are_for_all = _results_are_for_all, True
    try:
        yield
    finally:
        _results_are_for_all = before


def cuts_of_batch() -> list[list[int]]:
    """Into how many parts ranks cut the dims of each input, if they feed boxes of it: a dataset_strategy of numbers."""
    said = _parallel["dataset_strategy"]
    if device_count() == 1 or not (is_auto() and isinstance(said, (tuple, list))):
        return []
    return [list(cut) for cut in said]


def copies_of_batch() -> int:
    """How often a batch that is given stands in the whole batch: once for each virtual rank that reads it."""
    if device_count() == 1 or (is_rank_view() and (not is_auto() or cuts_of_batch())):
        return 1
    if not is_auto() or cuts_of_batch():
        which = "a dataset_strategy of splits" if is_auto() else f"mode {_parallel['parallel_mode']}"
        raise RuntimeError(f"with {which} each of the {device_count()} ranks is fed by a process of its own; this one "
                           f"cannot feed the others. Run: mpirun -n {device_count()} python3 {' '.join(sys.argv)}")
    return 1 if _parallel["dataset_strategy"] == "full_batch" else devices_of_stage()


def graphs_folder() -> str | None:
    """Where programs are written as text, if the program has said that and where."""
    return _settings["save_graphs_path"] if _settings["save_graphs"] and _core.own_rank() == 0 else None


def plan_options(hosted: list[str]) -> dict[str, str]:
    """Options of a program, by the names of the command's flags. `hosted`: parameters that are to lie on the host."""
    options = {"devices": str(device_count() if is_auto() else 1)}
    if _settings["max_device_memory"]:
        options["memory_cap"] = str(_settings["max_device_memory"])
    if offload := _offload(hosted):
        options["offload"] = offload
    if options["devices"] == "1":
        return options
    options["parallel"] = _parallel["parallel_mode"]
    if _parallel["parallel_mode"] == ParallelMode.AUTO_PARALLEL:
        options["search"] = _searches[_parallel["search_mode"]]
        options |= _search_options(options["search"])
    if _parallel["pipeline_stages"] > 1:
        options["stages"] = str(_parallel["pipeline_stages"])
        options["schedule"] = (_parallel["pipeline_config"] or {}).get("pipeline_scheduler", "1f1b")
    if _parallel["enable_parallel_optimizer"]:
        options["optimizer_parallel"] = _optimizer_parallel(_parallel["parallel_optimizer_config"] or {})
    fusion = _comm_fusion()
    if fusion:
        options["comm_fusion"] = fusion
    return options


def _search_options(search: str) -> dict[str, str]:
    """What set_algo_parameters has said, as far as `search` has a use for it."""
    options = {}
    for key, value in _algorithm.items():
        flag = _algorithm_keys[key]
        if flag in _of_all_searches or search == "dynamic":
            options[flag] = str(int(value)) if isinstance(value, bool) else str(value)
        elif value is not False:
            tell(f"mindspore: {key} has no effect: search {search} has no use for it")
    return options


def _optimizer_parallel(config: dict) -> str:
    level = _levels[config.get("optimizer_level", "level1")]
    if config.get("gradient_accumulation_shard"):
        level = max(level, 2)
    threshold = config.get("parallel_optimizer_threshold", 64)
    text = f"{level}:threshold={threshold}KiB" if threshold else f"{level}:threshold=0"
    group = config.get("optimizer_weight_shard_size", _parallel["optimizer_weight_shard_size"])
    return text if group == -1 else f"{text},group={group}"


def _comm_fusion() -> str:
    config = _parallel["comm_fusion"]
    if config is None:
        limits = _parallel["all_reduce_fusion_config"]
        return "index:" + ",".join(str(i) for i in limits) if limits else ""
    if not isinstance(config, dict):
        raise TypeError(f"comm_fusion is a dict, not {config!r}")
    if not config.get("openstate", True):
        return "none"
    names = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
    parts = []
    for key, said in config.items():
        if key == "openstate":
            continue
        if key not in names:
            raise KeyError(f"comm_fusion key '{key}' is unknown; there are openstate, {', '.join(names)}")
        mode, value = said["mode"], said["config"]
        if mode != "auto":
            text = ",".join(str(i) for i in value) if mode == "index" else str(value)
            parts.append(f"{names[key]}={mode}:{text}")
    return ";".join(parts)


def set_seed(seed: int) -> None:
    """Of initial values, of the order of data, and numpy's."""
    import numpy

    if not isinstance(seed, int) or seed < 0:
        raise ValueError(f"a seed is a whole number from 0 on, not {seed!r}")
    numpy.random.seed(seed)
    _core.set_seed(seed)
    _settings["seed"] = seed


def get_seed() -> int | None:
    """That of set_seed."""
    return _settings.get("seed")


__getattr__ = missing("mindspore.context", globals())
