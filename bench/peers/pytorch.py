"""Sets Debian's PyTorch up as well as it can be on a CPU; import it before torch, it starts Python again.

Out of the box it would be a hollow peer: OpenBLAS 0.3.21 takes new CPUs for a Prescott (18 % of what the core
can do) unless OPENBLAS_CORETYPE names a core that it knows, and glibc gives every large tensor back to the
system after each step.
"""
import os
import sys

OPENMP_BLAS = '/usr/lib/x86_64-linux-gnu/openblas-openmp'


def environment(threads):
    out = {'OMP_NUM_THREADS': str(threads), 'OPENBLAS_NUM_THREADS': str(threads)}
    flags = open('/proc/cpuinfo').read()
    if 'avx512f' in flags:
        out.update(OPENBLAS_CORETYPE='SkylakeX', ATEN_CPU_CAPABILITY='avx512')
    elif 'avx2' in flags:
        out.update(OPENBLAS_CORETYPE='Haswell', ATEN_CPU_CAPABILITY='avx2')
    if os.path.exists(OPENMP_BLAS):
        out['LD_LIBRARY_PATH'] = OPENMP_BLAS + ':' + os.environ.get('LD_LIBRARY_PATH', '')
    out.update(MALLOC_MMAP_THRESHOLD_='4294967296', MALLOC_TRIM_THRESHOLD_='17179869184',
               MALLOC_TOP_PAD_='67108864')
    return out


def set_up(threads=1):
    """The environment must stand before the libraries are loaded."""
    if not os.environ.get('SHARDWRIGHT_PEER_IS_SET_UP'):
        os.execve(sys.executable, [sys.executable] + sys.argv,
                  dict(os.environ, SHARDWRIGHT_PEER_IS_SET_UP='1', **environment(threads)))
    import torch
    torch.set_num_threads(threads)
    return torch
