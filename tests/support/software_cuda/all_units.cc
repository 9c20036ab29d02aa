// What may stand in a kernel's host code besides the library's own headers; never compiled, only preprocessed
// for the digest of it (digest.cmake).
#include "tests/support/software_cuda/kernel_unit.h"
// The shim comes first: kernels use the names it defines.
#include "kernels_templates/map/radix_histogram.h"
#include "kernels_templates/map/radix_pass.h"
#include "kernels_templates/map/scan.h"
