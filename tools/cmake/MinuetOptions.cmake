# Defines the target minuet_options with the compile options that every target of Minuet links PRIVATE.
#
# It has these options:
#   MINUET_WERROR makes warnings errors. It is on if Minuet is the top-level project.
#   MINUET_SANITIZE is empty, "address,undefined" or "thread".
#   MINUET_SANITIZE_TRAP makes clang's reports of undefined behaviour give the source location only.
#   MINUET_BUILD_FUZZERS builds the fuzz targets of tests/fuzz. It is on with clang and AddressSanitizer, which the
#     fuzz targets need.
#   MINUET_FUZZ_COMPARES makes fuzz targets learn from comparisons too. It is on in the preset fuzz.
# The environment variable MINUET_SHARED names the folder with golden problems (inputs with reference results) and point
# clouds. Only tests and the quickstart read this folder.

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

# Replaces CMake's default -O3, which makes the code a fifth larger and not faster, because loops that must be
# vectorized are marked explicitly (runtime/cpu).
foreach(language IN ITEMS C CXX)
  if(CMAKE_${language}_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
    set(CMAKE_${language}_FLAGS_RELEASE "-O2 -DNDEBUG")
  endif()
endforeach()

# The compiler cache ccache caches compiles that use precompiled headers only with this CCACHE_SLOPPINESS. With
# CCACHE_DEPEND it takes the included files from the compiler's dependency list, so that a miss does not run the
# preprocessor twice.
find_program(MINUET_CCACHE ccache)
if(MINUET_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
                                  ${MINUET_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# The program ccache needs these compiler options to cache compiles that use precompiled headers.
set(MINUET_PCH_FOR_CCACHE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
                          "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(minuet_options INTERFACE)
target_include_directories(minuet_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(minuet_options INTERFACE -Wall -Wextra $<$<BOOL:${MINUET_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Disables warnings of g++ 12 that are false alarms in inlined code of system headers: llvm/Support/FormatProviders.h,
  # in which clang's analysis finds no problem, and operator+ of std::string (gcc bug 105651).
  target_compile_options(minuet_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>
                         $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
# The LLVM of a distribution does not abort on an unchecked Error, so an ignored Error is a compile error here.
target_compile_options(minuet_options INTERFACE -Werror=unused-result)
# Disables contraction to fused multiply-add, which would make results differ between compilers and devices.
target_compile_options(minuet_options INTERFACE -ffp-contract=off)
# Separate sections let the linker drop unreachable code, such as most of LLVM Support with its signal handlers.
target_compile_options(minuet_options INTERFACE -ffunction-sections -fdata-sections)
target_link_libraries(minuet_options INTERFACE Threads::Threads)
# Precompiles codegen/base/error.h, which includes most headers of LLVM and of the standard library. This saves about a
# third of the library's compile time. The call is minuet_precompile(<target> [FROM <other target>]). With FROM, the
# target uses the precompiled header of the other target, which must have the same flags.
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
  if(MINUET_BUILD_FUZZERS)
    # These options instrument the library's code for the fuzzers. Coverage of comparisons guides them too, but takes a
    # fifth of the compile time, so only the preset fuzz enables it.
    set(coverage -fsanitize-coverage=inline-8bit-counters,pc-table)
    if(MINUET_FUZZ_COMPARES)
      set(coverage -fsanitize=fuzzer-no-link)
    endif()
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${coverage}>")
  endif()
endfunction()

if(MINUET_SANITIZE)
  # The sanitizer flags are global, because all linked code needs them, including third-party test libraries.
  set(MINUET_SANITIZE_FLAGS -fsanitize=${MINUET_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(MINUET_SANITIZE_TRAP AND MINUET_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # The messages of UndefinedBehaviorSanitizer take a tenth of the compile time. Without them a failed check executes
    # an illegal instruction, whose location AddressSanitizer prints (handle_sigill). The checks vptr and function keep
    # their messages, because only the code that prints them compares types by name, so that a type that two libraries
    # define counts as one type.
    list(APPEND MINUET_SANITIZE_FLAGS -fsanitize-trap=undefined -fno-sanitize-trap=vptr,function)
  endif()
  add_compile_options(${MINUET_SANITIZE_FLAGS})
  add_link_options(-fsanitize=${MINUET_SANITIZE})
  # The linker lld shortens linking, which takes long because each of a hundred test programs contains the whole
  # library.
  find_program(MINUET_LLD ld.lld)
  if(MINUET_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# Optimizes one target in sanitizer builds. It is for targets that compute much. All other targets use -O0 in these
# builds, which halves clang's compile time.
function(minuet_optimize target)
  if(MINUET_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
    # The target's flags differ from those with which the headers were precompiled, so it cannot use them.
    set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# Compiles one target for size in release builds, because the library has a limit of size
# (tools/lint/check_library.py). It is for targets that work once per file, network or call, not once per layer.
function(minuet_compile_for_size target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -Os)
    set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # as above
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
