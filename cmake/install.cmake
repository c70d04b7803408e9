# What `cmake --install` copies: the program with its manual page and completions, the library with its headers.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/shardwright)

install(TARGETS shardwright)
install(TARGETS shardwright_library settings EXPORT shardwrightTargets)
install(EXPORT shardwrightTargets NAMESPACE shardwright:: DESTINATION ${config_folder})
configure_file(cmake/shardwrightConfig.cmake.in shardwrightConfig.cmake COPYONLY)
write_basic_package_version_file(shardwrightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/shardwrightConfig.cmake ${CMAKE_BINARY_DIR}/shardwrightConfigVersion.cmake
  DESTINATION ${config_folder})
install(DIRECTORY shardwright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)

# Written by the program, from its table of verbs.
function(install_description what folder name)
  set(file ${CMAKE_BINARY_DIR}/described/${name})
  install(CODE "file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/described)
    execute_process(COMMAND $<TARGET_FILE:shardwright> describe ${what} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${file} DESTINATION ${folder})
endfunction()
install_description(man ${CMAKE_INSTALL_MANDIR}/man1 shardwright.1)
install_description(bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions shardwright)
install_description(zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions _shardwright)
