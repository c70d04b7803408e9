# The files of a package that the library writes, as text in it. As a script: cmake -D OUT=FILE -D ENGINE=torch -D FOLDER=FOLDER -D "NAMES=a.py,..."
# -P embed_package.cmake writes OUT. Included, it defines embed_package(ENGINE OUT): the file to compile, written again when one changes.
if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "," ";" NAMES "${NAMES}")
  foreach(name IN LISTS NAMES)
    file(READ ${FOLDER}/${name} text)
    string(APPEND rows "  if (name == \"${name}\") return R\"package(${text})package\";\n")
  endforeach()
  file(WRITE ${OUT} "// Written by CMake from the files in ${FOLDER}.
#include \"shardwright/exchange/${ENGINE}/package_text.h\"

#include \"shardwright/base/error.h\"

namespace shardwright::${ENGINE} {

std::string_view package_text(std::string_view name) {
${rows}  require(false, \"a package has no file {}\", name);
  return {};
}

}  // namespace shardwright::${ENGINE}
")
  return()
endif()

function(embed_package engine out)
  set(folder ${PROJECT_SOURCE_DIR}/shardwright/exchange/${engine}/package)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*.py)
  list(TRANSFORM files PREPEND ${folder}/ OUTPUT_VARIABLE paths)
  list(JOIN files "," joined)
  set(written ${CMAKE_CURRENT_BINARY_DIR}/${engine}_package_text.cpp)
  set(embed ${PROJECT_SOURCE_DIR}/cmake/embed_package.cmake)
  add_custom_command(OUTPUT ${written} DEPENDS ${embed} ${paths} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D OUT=${written} -D ENGINE=${engine} -D FOLDER=${folder} -D "NAMES=${joined}" -P ${embed})
  set(${out} ${written} PARENT_SCOPE)
endfunction()
