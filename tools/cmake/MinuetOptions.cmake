# What every target of ours is compiled with: target minuet_options, linked PRIVATE by each of them.
#
# Options:
#   MINUET_WERROR     warnings are errors; on where Minuet is the top project
#   MINUET_SANITIZE   empty, "address,undefined" or "thread"
#   MINUET_SANITIZE_TRAP   undefined behaviour is reported by its place alone (clang)
#   MINUET_BUILD_FUZZERS   the fuzz targets of tests/fuzz; on with clang and AddressSanitizer, which they need
#   MINUET_FUZZ_COMPARES   they learn from comparisons too; on in the preset fuzz
#   MINUET_SHARED     folder with golden problems and clouds; only tests and the quickstart read it

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(MINUET_LEAST_COMPILER 12)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(MINUET_LEAST_COMPILER 14)
else()
  message(FATAL_ERROR "Minuet is built with g++ 12 or newer or clang 14 or newer, and ${CMAKE_CXX_COMPILER} "
                      "is ${CMAKE_CXX_COMPILER_ID}: run 'apt-get install g++' and configure with "
                      "-DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++.")
endif()
if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS ${MINUET_LEAST_COMPILER})
  message(FATAL_ERROR "Minuet needs ${CMAKE_CXX_COMPILER_ID} ${MINUET_LEAST_COMPILER} or newer, and "
                      "${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_VERSION}: run 'apt-get install g++-12' and "
                      "configure with -DCMAKE_C_COMPILER=gcc-12 -DCMAKE_CXX_COMPILER=g++-12.")
endif()

option(MINUET_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
set(MINUET_SANITIZE "" CACHE STRING "Sanitizers: empty, 'address,undefined' or 'thread'")
set_property(CACHE MINUET_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")
option(MINUET_SANITIZE_TRAP "Undefined behaviour is reported by its place alone; OFF: with a sentence (clang)" ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

# -O3, which CMake has in its place, makes a fifth more code, and nothing of ours faster: loops that are to be vectors
# say so (runtime/cpu).
foreach(language IN ITEMS C CXX)
  if(CMAKE_${language}_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
    set(CMAKE_${language}_FLAGS_RELEASE "-O2 -DNDEBUG")
  endif()
endforeach()

# ccache: with precompiled headers it keeps results only where it is told not to mind the clock and macros; and it
# takes what a file includes from the compiler's own list, so that a miss costs no second run of the preprocessor.
find_program(MINUET_CCACHE ccache)
if(MINUET_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
                                  ${MINUET_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# What lets ccache keep results of files that read precompiled headers.
set(MINUET_PCH_FOR_CCACHE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
                          "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(minuet_options INTERFACE)
target_include_directories(minuet_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(minuet_options INTERFACE -Wall -Wextra $<$<BOOL:${MINUET_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms of g++ 12 at -O3 inside system headers once they are inlined: llvm/Support/FormatProviders.h
  # (which clang's analysis, still on, finds sound) and std::string's operator+ (gcc bug 105651).
  target_compile_options(minuet_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>
                         $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
# LLVM of a distribution does not abort on an unchecked Error, so this is the guard, also without Werror.
target_compile_options(minuet_options INTERFACE -Werror=unused-result)
# A fused multiply-add in one place and not in the next would make devices and compilers disagree.
target_compile_options(minuet_options INTERFACE -ffp-contract=off)
# Sections of their own let the link drop what nobody reaches: most of LLVM Support, its signal handlers first.
target_compile_options(minuet_options INTERFACE -ffunction-sections -fdata-sections)
target_link_libraries(minuet_options INTERFACE Threads::Threads)
# codegen/base/error.h brings most of LLVM's and of the standard library's headers: read once for targets of the same
# flags, a third of the time that the library takes to compile.
#   minuet_precompile(<target> [FROM <target of the same flags>])
function(minuet_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 pch "" "FROM" "")
  if(pch_FROM)
    target_precompile_headers(${target} REUSE_FROM ${pch_FROM})
  else()
    target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/codegen/base/error.h>)
  endif()
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_compile_options(${target} PRIVATE ${MINUET_PCH_FOR_CCACHE})
  endif()
  if(MINUET_BUILD_FUZZERS)  # what is reached in these, the library's own code, leads the fuzzers
    # What it compares leads them too, and takes a fifth of the time to compile: in the preset fuzz.
    set(coverage -fsanitize-coverage=inline-8bit-counters,pc-table)
    if(MINUET_FUZZ_COMPARES)
      set(coverage -fsanitize=fuzzer-no-link)
    endif()
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${coverage}>")
  endif()
endfunction()

if(MINUET_SANITIZE)
  # Everything that is linked needs them, third-party test libraries included, so these are global.
  set(MINUET_SANITIZE_FLAGS -fsanitize=${MINUET_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(MINUET_SANITIZE_TRAP AND MINUET_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # A tenth of the time that these builds take to compile is the sentences of undefined behaviour. A check that
    # fails without one is an illegal instruction, whose place AddressSanitizer prints (handle_sigill). vptr and function
    # keep theirs: with them comes the comparison by name of what two libraries have one each of.
    list(APPEND MINUET_SANITIZE_FLAGS -fsanitize-trap=undefined -fno-sanitize-trap=vptr,function)
  endif()
  add_compile_options(${MINUET_SANITIZE_FLAGS})
  add_link_options(-fsanitize=${MINUET_SANITIZE})
  # A hundred programs, each with the whole library in it.
  find_program(MINUET_LLD ld.lld)
  if(MINUET_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# The sanitizers' presets optimize nothing, which clang compiles in half the time, but for what computes on much.
function(minuet_optimize target)
  if(MINUET_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
    set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # others' are read without
  endif()
endfunction()

set(can_fuzz OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND MINUET_SANITIZE MATCHES "address")
  set(can_fuzz ON)
endif()
option(MINUET_BUILD_FUZZERS "Build the fuzz targets" ${can_fuzz})
option(MINUET_FUZZ_COMPARES "Fuzz targets learn from comparisons too" OFF)
if(MINUET_BUILD_FUZZERS AND NOT can_fuzz)
  message(FATAL_ERROR "libFuzzer comes with clang, and needs a sanitizer: run 'cmake --preset fuzz'.")
endif()
