# Defines the rules that install the library, the public headers, the tool, the documents, the CMake package and the
# pkg-config file, and defines the target `uninstall`. The link options of the shared library are here too, because they
# decide what it exports. The CMake package and the pkg-config file use relative paths, so an installed tree may be
# moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(minuet_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/minuet)

# The host process may have its own LLVM, so the library exports only minuet_*. --gc-sections drops the unused parts of
# LLVM Support, among them RemoveFileOnSignal, which installs signal handlers. tools/lint/check_library.py checks the
# exports and the absence of this function.
set(minuet_version_script ${PROJECT_SOURCE_DIR}/runtime/abi/libminuet.map)
target_link_options(minuet PRIVATE -Wl,--version-script=${minuet_version_script} -Wl,--exclude-libs,ALL
                    -Wl,--gc-sections -Wl,--as-needed)
if(NOT MINUET_SANITIZE)
  target_link_options(minuet PRIVATE -Wl,-z,defs)
endif()
set_target_properties(minuet PROPERTIES LINK_DEPENDS ${minuet_version_script} VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(minuet INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(minuet INTERFACE cxx_std_17)  # The header minuet.hpp needs C++17.
if(NOT TARGET minuet::minuet)
  add_library(minuet::minuet ALIAS minuet)
endif()
install(TARGETS minuet EXPORT minuet_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The library looks for the program minuet-compile in its own folder.
install(TARGETS minuet_compile RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT minuet_targets NAMESPACE minuet:: FILE minuetTargets.cmake DESTINATION ${minuet_cmake_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/minuet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Installs the pages for users, which the public headers and the help texts of the tool cite (tests/install checks this).
# An installation has them in one folder, so the links between them lose their folders.
set(minuet_doc_dir ${CMAKE_INSTALL_DATADIR}/doc/minuet)
function(minuet_install_page page name)
  file(READ ${PROJECT_SOURCE_DIR}/${page} text)
  string(REGEX REPLACE "\\]\\([^() ]*networks/([A-Z]+[.]md)" "](<networks>\\1" text "${text}")
  string(REGEX REPLACE "\\]\\([^() ]*python/README[.]md" "](PYTHON.md" text "${text}")
  string(REGEX REPLACE "\\]\\([^() ]*/([A-Z]+[.]md)" "](\\1" text "${text}")
  string(REPLACE "](<networks>" "](networks/" text "${text}")
  file(WRITE ${PROJECT_BINARY_DIR}/pages/${name} "${text}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${page})
  install(FILES ${PROJECT_BINARY_DIR}/pages/${name} DESTINATION ${minuet_doc_dir})
endfunction()
foreach(page IN ITEMS README.md codegen/ahead/FARM.md codegen/cache/CACHING.md runtime/abi/COMPILERS.md
        runtime/abi/ENVIRONMENT.md runtime/abi/FEATURES.md runtime/abi/GRADIENTS.md runtime/abi/LIMITS.md
        runtime/abi/LINKING.md runtime/abi/TRAINING.md
        runtime/execution/CAPACITY.md runtime/tuning/TUNING.md tools/bench/RESULTS.md tools/minuet/FILES.md
        tools/minuet/JSON.md tools/minuet/REFERENCE.md)
  get_filename_component(name ${page} NAME)
  minuet_install_page(${page} ${name})
endforeach()
minuet_install_page(runtime/bindings/python/README.md PYTHON.md)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${minuet_doc_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tests/examples/linking ${PROJECT_SOURCE_DIR}/tests/examples/farm
                  ${PROJECT_SOURCE_DIR}/tests/examples/compiler
        DESTINATION ${minuet_doc_dir}/examples PATTERN "*.py" EXCLUDE)
# README.md, WEIGHTS.md and schema.json must be in one folder, because they cite each other. The descriptions of the
# shipped networks and their weights maps are beside them, as examples that users may copy and change.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/network/networks/ DESTINATION ${minuet_doc_dir}/networks
        FILES_MATCHING PATTERN "*.json" PATTERN "*.md")
if(TARGET minuet_cli)
  file(RELATIVE_PATH minuet_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(minuet_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${minuet_bin_to_lib}")
  install(TARGETS minuet_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/minuetConfig.cmake.in ${CMAKE_BINARY_DIR}/minuetConfig.cmake
                              INSTALL_DESTINATION ${minuet_cmake_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/minuetConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/minuetConfig.cmake ${CMAKE_BINARY_DIR}/minuetConfigVersion.cmake
        DESTINATION ${minuet_cmake_dir})

file(RELATIVE_PATH minuet_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/minuet.pc.in ${CMAKE_BINARY_DIR}/minuet.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/minuet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
                                      -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake VERBATIM)
endif()
