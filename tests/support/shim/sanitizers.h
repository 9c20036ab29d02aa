// Which sanitizer the build has, and what it must be told. The shim's own.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define MINUET_SHIM_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define MINUET_SHIM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MINUET_SHIM_ASAN 1
#elif __has_feature(thread_sanitizer)
#define MINUET_SHIM_TSAN 1
#endif
#endif
#ifdef MINUET_SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef MINUET_SHIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif
