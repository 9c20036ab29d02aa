# Finds the static archives Support and Demangle of LLVM 14 to 19 and defines the target minuet_llvm.
#
# LLVMConfig.cmake is not used, because it requires every component of LLVM with its dependencies, and two archives
# suffice here. The linker option --exclude-libs hides their symbols.

set(minuet_llvm_versions 14 15 16 17 18 19)
if(MINUET_LLVM_VERSION)
  if(NOT MINUET_LLVM_VERSION IN_LIST minuet_llvm_versions)
    message(FATAL_ERROR "Minuet builds with LLVM 14 to 19, and MINUET_LLVM_VERSION is '${MINUET_LLVM_VERSION}': "
                        "configure with -DMINUET_LLVM_VERSION=14.")
  endif()
  set(minuet_llvm_versions ${MINUET_LLVM_VERSION})
endif()

function(minuet_read_llvm_version root result)
  set(${result} "" PARENT_SCOPE)
  if(EXISTS ${root}/include/llvm/Config/llvm-config.h AND EXISTS ${root}/lib/libLLVMSupport.a)
    file(STRINGS ${root}/include/llvm/Config/llvm-config.h line REGEX "define LLVM_VERSION_MAJOR ")
    string(REGEX MATCH "[0-9]+" major "${line}")
    set(${result} "${major}" PARENT_SCOPE)
  endif()
endfunction()

set(minuet_llvm_roots ${MINUET_LLVM_ROOT})
foreach(version IN LISTS minuet_llvm_versions)
  list(APPEND minuet_llvm_roots /usr/lib/llvm-${version} ${MINUET_SYSROOT}/usr/lib/llvm-${version})
  # NO_CACHE makes CMake search anew for each version, instead of reusing a cached program of another one.
  find_program(minuet_llvm_config llvm-config-${version} NO_CACHE)
  if(minuet_llvm_config)
    execute_process(COMMAND ${minuet_llvm_config} --prefix OUTPUT_VARIABLE prefix
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    list(APPEND minuet_llvm_roots ${prefix})
  endif()
  unset(minuet_llvm_config)
endforeach()
list(APPEND minuet_llvm_roots /usr /usr/local)

set(MINUET_LLVM_FOUND_ROOT "")
foreach(root IN LISTS minuet_llvm_roots)
  minuet_read_llvm_version(${root} version)
  if(version IN_LIST minuet_llvm_versions)
    set(MINUET_LLVM_FOUND_ROOT ${root})
    set(MINUET_LLVM_FOUND_VERSION ${version})
    break()
  endif()
endforeach()
if(NOT MINUET_LLVM_FOUND_ROOT)
  string(REPLACE ";" ", " minuet_llvm_versions "${minuet_llvm_versions}")
  message(FATAL_ERROR "LLVM's static Support library is missing (versions looked for: ${minuet_llvm_versions}): run "
                      "'apt-get install llvm-14-dev' or tools/setup, or name its prefix with -DMINUET_LLVM_ROOT.")
endif()
message(STATUS "LLVM Support ${MINUET_LLVM_FOUND_VERSION}: ${MINUET_LLVM_FOUND_ROOT}")

# The linker takes from this archive what the objects and LLVM's archives before it leave undefined.
add_library(minuet_portable_symbols STATIC ${CMAKE_CURRENT_LIST_DIR}/portable_symbols.cc)
target_link_libraries(minuet_portable_symbols PRIVATE minuet_options)

add_library(minuet_llvm INTERFACE)
target_include_directories(minuet_llvm SYSTEM INTERFACE ${MINUET_LLVM_FOUND_ROOT}/include)
target_link_libraries(minuet_llvm INTERFACE ${MINUET_LLVM_FOUND_ROOT}/lib/libLLVMSupport.a
                      ${MINUET_LLVM_FOUND_ROOT}/lib/libLLVMDemangle.a minuet_portable_symbols Threads::Threads
                      ${CMAKE_DL_LIBS} rt m)

# LLVM's Support may need zlib. --as-needed drops it if no linked archive member uses it. A missing one is a link error.
find_library(MINUET_ZLIB NAMES z libz.so.1)
if(MINUET_ZLIB)
  target_link_libraries(minuet_llvm INTERFACE -Wl,--push-state,--as-needed ${MINUET_ZLIB} -Wl,--pop-state)
endif()
if(MINUET_LLVM_FOUND_VERSION GREATER_EQUAL 15)
  find_library(MINUET_LLVM_ZSTD NAMES libzstd.a zstd libzstd.so.1)
  if(MINUET_LLVM_ZSTD)
    target_link_libraries(minuet_llvm INTERFACE ${MINUET_LLVM_ZSTD})
  endif()
endif()

# In C++20 mode, clang cannot compile JSON.h of older LLVMs with libstdc++'s constexpr vector, because member functions
# of the class Array instantiate the vector with a type that is still incomplete there. So a copy of JSON.h comes first
# on the include path. It uses a vector with the same layout and without constexpr (late_vector.h). All compilers get
# the copy, because clang-tidy reads the files that g++ compiles.
file(READ ${MINUET_LLVM_FOUND_ROOT}/include/llvm/Support/JSON.h minuet_json_text)
string(FIND "${minuet_json_text}" "  Value &operator[](size_t I) { return V[I]; }" minuet_json_body)
if(NOT minuet_json_body EQUAL -1)
  string(REPLACE "std::vector<Value> V;" "::minuet::LateVector<Value> V;" minuet_json_text "${minuet_json_text}")
  set(minuet_json_folder ${CMAKE_BINARY_DIR}/generated/llvm_json)
  file(CONFIGURE OUTPUT ${minuet_json_folder}/llvm/Support/JSON.h @ONLY CONTENT
       "#pragma once\n#include \"@PROJECT_SOURCE_DIR@/tools/cmake/late_vector.h\"\n@minuet_json_text@")
  target_include_directories(minuet_llvm SYSTEM BEFORE INTERFACE ${minuet_json_folder})
endif()
