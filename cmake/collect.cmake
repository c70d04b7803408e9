# collect(FOLDER TYPE HEADER OUT [MORE...]): each shardwright/FOLDER/NAME.cpp defines `std::vector<TYPE> NAME()` in
# the namespace shardwright::LEAF, LEAF being the folder's last name; so do the files of the folders MORE.
# This writes `all_LEAF()`, which returns them all: adding an operator, a search, a model or a verb is adding
# one file, and no list anywhere is edited.
function(collect folder type header out)
  cmake_path(GET folder FILENAME leaf)
  list(TRANSFORM ARGN APPEND /*.cpp OUTPUT_VARIABLE more)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shardwright/${folder}/*.cpp ${more})
  foreach(f IN LISTS files)
    cmake_path(GET f STEM n)
    string(APPEND decl "namespace shardwright::${leaf} { std::vector<${type}> ${n}(); }\n")
    string(APPEND rows "        ${leaf}::${n}(),\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${leaf}_table.cpp CONTENT [[
// Written by CMake from the file names in shardwright/@folder@.
#include "shardwright/@header@"

#include <vector>

@decl@
namespace shardwright {
std::span<const @type@> all_@leaf@() {
  static const std::vector<@type@> table = [] {
    std::vector<@type@> all;
    for (auto& part : {
@rows@    }) all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}
}  // namespace shardwright
]] @ONLY)
  set(${out} ${files} ${CMAKE_CURRENT_BINARY_DIR}/${leaf}_table.cpp PARENT_SCOPE)
endfunction()
