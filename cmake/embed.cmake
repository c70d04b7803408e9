# The page's style and script as text in the library. As a script: cmake -D OUT=FILE -D STYLE=FILE -D "SCRIPTS=FILE,..." -P embed.cmake
# writes FILE. Included, it defines embed_page(OUT): the file to compile, which is written again when one of them changes.
if(CMAKE_SCRIPT_MODE_FILE)
  # Text of files as a C++ literal.
  function(literal out)
    foreach(file IN LISTS ARGN)
      file(READ ${file} part)
      string(APPEND text "${part}")
    endforeach()
    set(${out} "R\"page(${text})page\"" PARENT_SCOPE)
  endfunction()
  string(REPLACE "," ";" SCRIPTS "${SCRIPTS}")
  literal(style ${STYLE})
  literal(script ${SCRIPTS})
  file(WRITE ${OUT} "// Written by CMake from the files in shardwright/frontend/page.
#include \"shardwright/frontend/page_parts.h\"

namespace shardwright {

std::string_view page_style() {
  return ${style};
}

std::string_view page_script() {
  return ${script};
}

}  // namespace shardwright
")
  return()
endif()

function(embed_page out)
  set(folder ${PROJECT_SOURCE_DIR}/shardwright/frontend/page)
  set(style ${folder}/page.css)
  foreach(name base strip timeline memory losses tables page)  # what others call stands before them
    list(APPEND scripts ${folder}/${name}.js)
  endforeach()
  list(JOIN scripts "," joined)
  set(written ${CMAKE_CURRENT_BINARY_DIR}/page_text.cpp)
  set(embed ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  add_custom_command(OUTPUT ${written} DEPENDS ${embed} ${style} ${scripts} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D OUT=${written} -D STYLE=${style} -D "SCRIPTS=${joined}" -P ${embed})
  set(${out} ${written} PARENT_SCOPE)
endfunction()
