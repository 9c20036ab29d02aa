// What a machine may lack: golden problems, NVRTC, a GPU. Here it is decided whether a test that needs it
// skips or fails.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace minuet {

/// Why `what` (golden, nvrtc or gpu) has to be here: the environment's MINUET_EXPECT, a comma list, names it,
/// or it is a GPU and the machine has one. Empty: a test that lacks it may skip.
std::string why_expected(const std::string& what);

/// How a GPU is seen with none of our code: nodes of devices in `device_folder`, or a driver that shows one.
/// A driver that is there and broken beside such a node is what this is for. Empty: there is none.
std::string gpu_seen(const std::string& device_folder, const std::string& driver);

/// Whether this is a sanitizer's build.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitized = true, kThreadSanitized = false;
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool kAddressSanitized = false, kThreadSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitized = __has_feature(address_sanitizer);
inline constexpr bool kThreadSanitized = __has_feature(thread_sanitizer);
#else
inline constexpr bool kAddressSanitized = false, kThreadSanitized = false;
#endif
/// Which makes everything many times dearer: suites that take long are smaller there.
inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

/// Whether MINUET_LONG_TESTS is 1: the long lists of the tests too.
bool long_tests_wanted();

/// Whether libcuda here is the software device (tests/support/software_cuda): suites made for a GPU are
/// smaller there.
bool on_software_device();

}  // namespace minuet

/// Ends the test: skipped with the reason, or failed with it where `what` is expected. Once for SetUp and
/// tests alike.
#define MINUET_SKIP_OR_FAIL(what, reason)                                         \
  do {                                                                            \
    const std::string minuet_reason = (reason);                                   \
    const std::string minuet_why = ::minuet::why_expected(what);                  \
    if (!minuet_why.empty()) GTEST_FAIL() << minuet_reason << "\n" << minuet_why; \
    GTEST_SKIP() << minuet_reason;                                                \
  } while (false)
