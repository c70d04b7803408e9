"""Lines to the standard error: `from mindspore import log as logger`. GLOG_v says from which level, 0 to 4, warnings are 2."""

import logging
import os
import sys

from ._missing import missing

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def _level_asked_for() -> int:
    said = os.environ.get("GLOG_v", "2")
    if said not in ("0", "1", "2", "3", "4"):
        raise ValueError(f"GLOG_v is {said!r}: it is a level from 0 (debug) to 4 (critical)")
    return int(said)


def _made() -> logging.Logger:
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter(
        "[%(levelname)s] ME(%(process)d,%(processName)s):%(asctime)s.%(msecs)03d [%(pathname)s:%(lineno)d] %(message)s",
        "%Y-%m-%d-%H:%M:%S"))
    logger = logging.getLogger("MindSpore")
    logger.handlers[:] = [lines]
    logger.setLevel(_LEVELS[_level_asked_for()])
    logger.propagate = False
    return logger


_logger = _made()
debug, info, warning = _logger.debug, _logger.info, _logger.warning
error, critical = _logger.error, _logger.critical


def get_level() -> str:
    """As GLOG_v says it."""
    return str(_LEVELS.index(_logger.level))


__getattr__ = missing("mindspore.log", globals())
