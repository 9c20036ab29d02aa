# Finds the libraries that Minuet is built with. All of them come from Debian or PyPI, and tools/setup installs those
# that are missing.
#
# This file defines the targets minuet_llvm (LLVM's static Support and Demangle), minuet_zstd, minuet_eigen and
# minuet_cuda_headers. It also defines these variables:
#   MINUET_CUDA_INCLUDE_DIR is the folder of cuda.h, nvrtc.h, cublasLt.h and cuda_fp16.h of CUDA 13.0.
#   MINUET_CCCL_INCLUDE_DIR is the folder of cub/ and cuda/std/ of CCCL 3.0.1.
# It has these options:
#   MINUET_LLVM_VERSION is the version of LLVM to use, from 14 to 19. If it is empty, the oldest one found is used.
#   MINUET_LLVM_ROOT is the prefix of an LLVM in an unusual place.
#   MINUET_HIDE_TOOLKIT configures as if no CUDA toolkit were installed.
#   MINUET_WHEEL_DIR and MINUET_SYSROOT are the folders into which tools/setup unpacks wheels and .deb files.

set(MINUET_LLVM_VERSION "" CACHE STRING "Major version of LLVM, 14 to 19; empty: the oldest found")
set(MINUET_LLVM_ROOT "" CACHE PATH "Prefix of an LLVM in an unusual place")
set(MINUET_WHEEL_DIR ${PROJECT_SOURCE_DIR}/build/wheels CACHE PATH "Where tools/setup unpacks wheels")
set(MINUET_SYSROOT ${PROJECT_SOURCE_DIR}/build/sysroot CACHE PATH "Where tools/setup unpacks .deb files")
option(MINUET_HIDE_TOOLKIT "Behave as if no CUDA toolkit were installed" "$ENV{MINUET_HIDE_TOOLKIT}")

if(EXISTS ${MINUET_SYSROOT}/usr)
  list(APPEND CMAKE_PREFIX_PATH ${MINUET_SYSROOT}/usr)
  list(APPEND CMAKE_INCLUDE_PATH ${MINUET_SYSROOT}/usr/include)
  list(APPEND CMAKE_LIBRARY_PATH ${MINUET_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} ${MINUET_SYSROOT}/usr/lib)
endif()

include(MinuetLlvm)
include(MinuetCuda)

# The library zstd is linked statically if its archive can be linked into a shared library. Debian builds the archive
# for executables, but with --exclude-libs it also links into a shared library. The probe below finds out whether it
# does on this machine.
find_path(MINUET_ZSTD_INCLUDE_DIR zstd.h)
find_library(MINUET_ZSTD_STATIC libzstd.a)
find_library(MINUET_ZSTD_SHARED NAMES zstd libzstd.so.1)
if(NOT MINUET_ZSTD_INCLUDE_DIR OR NOT (MINUET_ZSTD_STATIC OR MINUET_ZSTD_SHARED))
  message(FATAL_ERROR "zstd is missing: run 'apt-get install libzstd-dev' or tools/setup.")
endif()
if(MINUET_ZSTD_STATIC AND NOT DEFINED MINUET_ZSTD_STATIC_WORKS)
  set(minuet_probe ${CMAKE_BINARY_DIR}/CMakeFiles/minuet_zstd_probe)
  file(WRITE ${minuet_probe}/CMakeLists.txt "cmake_minimum_required(VERSION 3.22)\nproject(probe C)\n"
       "add_library(probe SHARED probe.c)\ntarget_link_libraries(probe PRIVATE \"${MINUET_ZSTD_STATIC}\")\n"
       "target_link_options(probe PRIVATE -Wl,--exclude-libs,libzstd.a)\n")
  file(WRITE ${minuet_probe}/probe.c
       "unsigned ZSTD_isError(unsigned long);\nunsigned long ZSTD_compress(void*, unsigned long, const void*, "
       "unsigned long, int);\nint probe(void) { return (int)ZSTD_isError(ZSTD_compress(0, 0, 0, 0, 1)); }\n")
  try_compile(MINUET_ZSTD_STATIC_WORKS ${minuet_probe}/build ${minuet_probe} probe)
endif()
add_library(minuet_zstd INTERFACE)
target_include_directories(minuet_zstd SYSTEM INTERFACE ${MINUET_ZSTD_INCLUDE_DIR})
if(MINUET_ZSTD_STATIC AND MINUET_ZSTD_STATIC_WORKS)
  target_link_libraries(minuet_zstd INTERFACE ${MINUET_ZSTD_STATIC})
  target_link_options(minuet_zstd INTERFACE -Wl,--exclude-libs,libzstd.a)
else()
  target_link_libraries(minuet_zstd INTERFACE ${MINUET_ZSTD_SHARED})
endif()

find_path(MINUET_EIGEN_INCLUDE_DIR Eigen/Core PATH_SUFFIXES eigen3)
if(NOT MINUET_EIGEN_INCLUDE_DIR)
  message(FATAL_ERROR "Eigen is missing: run 'apt-get install libeigen3-dev' or tools/setup.")
endif()
add_library(minuet_eigen INTERFACE)
target_include_directories(minuet_eigen SYSTEM INTERFACE ${MINUET_EIGEN_INCLUDE_DIR})
# Eigen must start no threads, because Minuet has its own, and must not take its fp16 type from the CUDA headers.
target_compile_definitions(minuet_eigen INTERFACE EIGEN_DONT_PARALLELIZE EIGEN_NO_CUDA EIGEN_MPL2_ONLY)

if(MINUET_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest_main OR NOT TARGET GTest::gmock)
    message(FATAL_ERROR "GoogleTest is missing: run 'apt-get install libgtest-dev libgmock-dev' or tools/setup, "
                        "or configure with -DMINUET_BUILD_TESTS=OFF.")
  endif()
endif()
