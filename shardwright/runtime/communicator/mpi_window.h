// Memory of a host that its MPI ranks share.
#pragma once

#include <mpi.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwright {

/// Memory shared by the ranks of a host.
struct MpiWindow {
  MPI_Win window = MPI_WIN_NULL;
  std::vector<std::byte*> begins;  // by rank on the host
};

/// Up to the next page. All processes agree, because they see shared memory at whole pages' distances.
constexpr std::size_t page = 4096;
inline std::byte* aligned(std::byte* begin) {
  return begin + (page - reinterpret_cast<std::uintptr_t>(begin) % page) % page;
}

inline MpiWindow make_window(MPI_Comm host, std::size_t bytes) {
  const std::size_t rounded = (bytes + page - 1) / page * page + page;
  MpiWindow out;
  std::byte* own = nullptr;
  MPI_Win_allocate_shared(static_cast<MPI_Aint>(rounded), 1, MPI_INFO_NULL, host, &own, &out.window);
  madvise(aligned(own), bytes, MADV_HUGEPAGE);  // a wish; refusing it is fine
  int ranks = 0;
  MPI_Comm_size(host, &ranks);
  for (int r = 0; r < ranks; ++r) {
    MPI_Aint size = 0;
    int unit = 0;
    std::byte* begin = nullptr;
    MPI_Win_shared_query(out.window, r, &size, &unit, &begin);
    out.begins.push_back(aligned(begin));
  }
  return out;
}

}  // namespace shardwright
