// What the build's sanitizer must be told; CMakeLists.txt says which it is. The shim's own: its functions are
// called by their names, for the macros around them are nothing in files that no sanitizer looks at.
#pragma once

#ifdef MINUET_SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef MINUET_SHIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif
