#include "shardwright/runtime/launch/build.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <span>

namespace shardwright {
namespace {

/// Of a segment of notes, that with the build's number.
std::string number_in(std::span<const std::byte> notes) {
  const auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header{};
    std::memcpy(&header, notes.data(), sizeof header);
    const std::size_t name = sizeof header, text = name + padded(header.n_namesz);
    const std::size_t end = text + padded(header.n_descsz);
    if (end > notes.size()) return "";
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
        std::memcmp(&notes[name], "GNU", 4) == 0) {
      std::string out;
      for (std::byte b : notes.subspan(text, header.n_descsz))
        out += fmt::format("{:02x}", static_cast<unsigned>(b));
      return out;
    }
    notes = notes.subspan(end);
  }
  return "";
}

/// The first object that is asked about is the program.
int take_number(dl_phdr_info* program, std::size_t, void* out) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const auto& segment = program->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const std::byte*>(program->dlpi_addr + segment.p_vaddr);
    std::string number = number_in({begin, segment.p_memsz});
    if (number.empty()) continue;
    *static_cast<std::string*>(out) = std::move(number);
    break;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string out;
  dl_iterate_phdr(take_number, &out);
  return out;
}

}  // namespace shardwright
