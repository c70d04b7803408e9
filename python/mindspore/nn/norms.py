"""Norms: cells that bring values to a mean and a variance."""

from __future__ import annotations

from .. import _calls, context
from ..common import dtype as mstype
from ..common.initializer import initializer
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..ops import functional as F
from .cell import Cell


class LayerNorm(Cell):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta over the dims from `begin_norm_axis` on, which the shape is of."""

    def __init__(self, normalized_shape, begin_norm_axis: int = -1, begin_params_axis: int = -1, gamma_init="ones",
                 beta_init="zeros", epsilon: float = 1e-7, dtype=mstype.float32):
        super().__init__()
        if begin_norm_axis != begin_params_axis:
            raise ValueError(f"begin_params_axis {begin_params_axis} of a LayerNorm is its begin_norm_axis, {begin_norm_axis}, "
                             "in this front end")
        self.epsilon, self.first = epsilon, begin_norm_axis
        self.gamma = Parameter(initializer(gamma_init, list(normalized_shape), dtype), name="gamma")
        self.beta = Parameter(initializer(beta_init, list(normalized_shape), dtype), name="beta")

    def construct(self, x):
        own = tuple(self.gamma.shape)
        if tuple(x.shape[self.first:]) != own:
            raise ValueError(f"LayerNorm of shape {own} from dim {self.first} on takes no input of shape {tuple(x.shape)}")
        operands = [x, self.gamma, self.beta]
        if len(own) > 1:
            operands = [F.reshape(t, (*t.shape[:len(t.shape) - len(own)], -1)) for t in operands]
        y = Tensor.of(_calls.call("layer_norm", [t.array for t in operands], epsilon=self.epsilon))
        return F.reshape(y, x.shape) if len(own) > 1 else y


class _BatchNorm(Cell):
    """The same for each channel (dim 1) over all other dims: by the batch while training, else by what was seen then.

    moving = momentum * moving + (1 - momentum) * batch
    """

    dims: int | None = 0  # of its inputs, any number if None

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.9, affine: bool = True,
                 gamma_init="ones", beta_init="zeros", moving_mean_init="zeros", moving_var_init="ones",
                 use_batch_statistics: bool | None = None, data_format: str = "NCHW", dtype=mstype.float32):
        super().__init__()
        if data_format != "NCHW":
            raise ValueError(f"data_format of a {type(self).__name__} is NCHW in this front end, not {data_format!r}")
        if num_features < 1 or not 0 <= momentum <= 1:
            raise ValueError(f"num_features {num_features} is 1 or more, and momentum {momentum} from 0 to 1")
        self.eps, self.momentum, self.use_batch_statistics = eps, momentum, use_batch_statistics

        def values(init, name: str, is_trained: bool) -> Parameter:
            return Parameter(initializer(init, [num_features], dtype), name=name, requires_grad=is_trained)

        self.moving_mean = values(moving_mean_init, "mean", False)  # until a cell holds it, it is called so
        self.moving_variance = values(moving_var_init, "variance", False)
        self.gamma = values(gamma_init, "gamma", affine)
        self.beta = values(beta_init, "beta", affine)

    def construct(self, x):
        if self.dims is not None and len(x.shape) != self.dims:
            raise ValueError(f"{type(self).__name__} takes inputs of {self.dims} dims, not of shape {x.shape}")
        is_of_batch = self.training if self.use_batch_statistics is None else self.use_batch_statistics
        return self._by_batch(x) if is_of_batch else self._by_known_moments(x)

    def _by_batch(self, x):
        moving = [self.moving_mean.array, self.moving_variance.array]
        moments = _calls.call("batch_moments", [x.array])
        mean, variance = _calls.call("running_moments", [*moving, moments], momentum=1 - self.momentum,
                                     count=x.size // x.shape[1])
        F.assign(self.moving_mean, Tensor.of(mean))
        F.assign(self.moving_variance, Tensor.of(variance))
        arrays = [x.array, self.gamma.array, self.beta.array, moments]
        return Tensor.of(_calls.call("batch_norm", arrays, epsilon=self.eps))

    def _by_known_moments(self, x):
        """x scale + shift: the gradient of the operator `batch_norm` is that through the batch's moments."""
        scale = self.gamma * F.rsqrt(self.moving_variance + self.eps)
        shift = self.beta - self.moving_mean * scale
        channels = (-1,) + (1,) * (len(x.shape) - 2)
        return x * F.reshape(scale, channels) + F.reshape(shift, channels)


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    dims = 2


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    dims = 4


class _AnyBatchNorm(_BatchNorm):
    dims = None


class BatchNorm3d(Cell):
    __doc__ = _BatchNorm.__doc__

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.9, affine: bool = True, gamma_init="ones",
                 beta_init="zeros", moving_mean_init="zeros", moving_var_init="ones", use_batch_statistics: bool | None = None,
                 dtype=mstype.float32):
        super().__init__()
        self.bn2d = _AnyBatchNorm(num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init, moving_var_init,
                                  use_batch_statistics, "NCHW", dtype)

    def construct(self, x):
        if len(x.shape) != 5:
            raise ValueError(f"BatchNorm3d takes inputs of 5 dims, not of shape {x.shape}")
        return self.bn2d(x)


class SyncBatchNorm(_BatchNorm):
    """The same over the batch of all ranks, which in the automatic modes every batch norm is over."""

    dims = None

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.9, affine: bool = True, gamma_init="ones",
                 beta_init="zeros", moving_mean_init="zeros", moving_var_init="ones", use_batch_statistics: bool | None = None,
                 process_groups=None, dtype=mstype.float32):
        if process_groups is not None:
            raise ValueError("SyncBatchNorm with process_groups is not in this front end: it is over all ranks")
        if context.device_count() > 1 and not context.is_auto():
            raise ValueError("SyncBatchNorm of ranks that are programs of their own is not in this front end: say a parallel_mode "
                             "semi_auto_parallel or auto_parallel, in which each BatchNorm2d is over the whole batch")
        super().__init__(num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init, moving_var_init,
                         use_batch_statistics, "NCHW", dtype)


class GroupNorm(Cell):
    """gamma (x - mean) / sqrt(variance + eps) + beta over each of num_groups groups of channels."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, gamma_init="ones",
                 beta_init="zeros", dtype=mstype.float32):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_groups {num_groups} of a GroupNorm does not divide {num_channels} channels")
        self.num_groups, self.eps = num_groups, eps
        self.gamma = Parameter(initializer(gamma_init, [num_channels], dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, [num_channels], dtype), name="beta", requires_grad=affine)

    def construct(self, x):
        return F.group_norm(x, self.num_groups, self.gamma, self.beta, self.eps)


class _InstanceNorm(GroupNorm):
    """The same for each channel."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, gamma_init="ones",
                 beta_init="zeros", dtype=mstype.float32):
        super().__init__(num_features, num_features, eps, affine, gamma_init, beta_init, dtype)


kinds = (LayerNorm, _BatchNorm, GroupNorm)  # what O2 of mixed precision leaves in f32
InstanceNorm1d, InstanceNorm2d, InstanceNorm3d = (
    type(f"InstanceNorm{rank}d", (_InstanceNorm,), {"__doc__": _InstanceNorm.__doc__}) for rank in (1, 2, 3))
