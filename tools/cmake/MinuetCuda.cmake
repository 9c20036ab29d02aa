# Finds the headers of CUDA 13.0. Defines the target minuet_cuda_headers and the variables MINUET_CUDA_INCLUDE_DIR and
# MINUET_CCCL_INCLUDE_DIR.
#
# Only headers are needed: the driver, NVRTC and cuBLASLt are opened with dlopen. The headers are embedded for NVRTC and
# are part of every cache key, so exactly CUDA 13.0 with CCCL 3.0.1 is accepted. A toolkit of another version is
# ignored, and the pinned wheels of tools/setup are used instead.

set(MINUET_CCCL_VERSION 3000001)  # CCCL's headers write the version 3.0.1 as this number.
set(MINUET_CUDA_VERSION 13000)

# Sets <result> to the folder of the CUDA headers below <root> if they have the pinned version, else to "".
function(minuet_probe_cuda root result)
  set(${result} "" PARENT_SCOPE)
  foreach(folder IN ITEMS ${root}/include ${root}/targets/x86_64-linux/include)
    if(EXISTS ${folder}/cuda.h AND EXISTS ${folder}/cublasLt.h AND EXISTS ${folder}/nvrtc.h
       AND EXISTS ${folder}/cuda_fp16.h AND EXISTS ${folder}/cccl/cuda/std/__cccl/version.h)
      file(STRINGS ${folder}/cuda.h cuda REGEX "^#define CUDA_VERSION ${MINUET_CUDA_VERSION}$")
      file(STRINGS ${folder}/cccl/cuda/std/__cccl/version.h cccl REGEX "^#define CCCL_VERSION ${MINUET_CCCL_VERSION}$")
      if(cuda AND cccl)
        set(${result} ${folder} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

set(minuet_cuda_roots "")
if(NOT MINUET_HIDE_TOOLKIT)
  list(APPEND minuet_cuda_roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH}
       /usr/local/cuda /usr/local/cuda-13.0 /opt/cuda)
endif()
list(APPEND minuet_cuda_roots ${MINUET_WHEEL_DIR}/nvidia/cu13)

set(MINUET_CUDA_INCLUDE_DIR "")
foreach(root IN LISTS minuet_cuda_roots)
  minuet_probe_cuda("${root}" MINUET_CUDA_INCLUDE_DIR)
  if(MINUET_CUDA_INCLUDE_DIR)
    break()
  endif()
endforeach()
if(NOT MINUET_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "The headers of CUDA 13.0 are missing: run tools/setup, which brings them as pip wheels, or name "
                      "a toolkit of 13.0 with -DCUDAToolkit_ROOT.")
endif()
set(MINUET_CCCL_INCLUDE_DIR ${MINUET_CUDA_INCLUDE_DIR}/cccl)
message(STATUS "CUDA 13.0 headers: ${MINUET_CUDA_INCLUDE_DIR}")

# NVTX is a single header, which comes with the toolkit or from the wheel nvidia-nvtx.
set(MINUET_NVTX_HEADER "")
if(EXISTS ${MINUET_CUDA_INCLUDE_DIR}/nvtx3/nvToolsExt.h)
  set(MINUET_NVTX_HEADER ${MINUET_CUDA_INCLUDE_DIR}/nvtx3/nvToolsExt.h)
else()
  message(STATUS "NVTX's header is missing, so that MINUET_NVTX does nothing: remove build/wheels and run tools/setup.")
endif()

add_library(minuet_cuda_headers INTERFACE)
target_include_directories(minuet_cuda_headers SYSTEM INTERFACE ${MINUET_CUDA_INCLUDE_DIR})
