// Bundles that lie in the caller's memory, through the C ABI.
#include <algorithm>
#include <memory>
#include <thread>

#include "codegen/base/sha256.h"
#include "tests/runtime/abi/planted_fixture.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class BundleMemory : public Planted {
 protected:
  /// The bytes of a bundle with all that the convolution needs. Their number is in kernels_.
  std::string planted(const std::string& compiler = "nvrtc 13.0 a b") {
    kernels_ = plant(path("a.bundle"), compiler);
    return contents(path("a.bundle"));
  }
  Handle<minuet_context> strict(const std::function<void(minuet_context_options&)>& change = {}) {
    return context(nullptr, [&](minuet_context_options& options) {
      strictly(options);
      if (change) change(options);
    });
  }
  /// Adds the bytes from memory that has no byte more, so that AddressSanitizer sees a read past them, and
  /// that is overwritten and freed before this returns.
  static minuet_status add(minuet_context* context, const std::string& bytes, const char* sha256 = nullptr) {
    const auto callers = std::make_unique<char[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), callers.get());
    const minuet_status status =
        minuet_context_add_bundle_memory(context, callers.get(), bytes.size(), sha256);
    std::fill_n(callers.get(), bytes.size(), '\xff');
    return status;
  }
  /// Name, origin and size of each kernel of the convolution.
  std::vector<std::string> compiled(minuet_context* context) {
    std::vector<std::string> kernels;
    const auto note = [](const minuet_kernel_info* kernel, void* user) {
      static_cast<std::vector<std::string>*>(user)->push_back(std::string(kernel->name) + " " + kernel->arch +
                                                              " " + kernel->origin + " " +
                                                              std::to_string(kernel->cubin_bytes));
    };
    check(minuet_plan_compile(convolution(context).get(), kArch, note, &kernels));
    return kernels;
  }

  int64_t kernels_ = 0;
};

TEST_F(BundleMemory, R22_GivesTheSameKernelsAsTheFile) {
  const std::string bytes = planted();
  const std::string digest = sha256_hex(bytes);
  const auto by_file = strict(), by_memory = strict(), by_digest = strict();
  check(minuet_context_add_bundle(by_file.get(), path("a.bundle").c_str(), nullptr));
  check(add(by_memory.get(), bytes));
  check(add(by_digest.get(), bytes, digest.c_str()));
  const std::vector<std::string> expected = compiled(by_file.get());
  EXPECT_EQ(std::ssize(expected), kernels_);
  EXPECT_EQ(compiled(by_memory.get()), expected);
  EXPECT_EQ(compiled(by_digest.get()), expected);
  for (minuet_context* const context : {by_memory.get(), by_digest.get()}) {
    EXPECT_EQ(counters(context).bundle_hits, kernels_);
    EXPECT_EQ(counters(context).compiled, 0);
    EXPECT_EQ(counters(context).cubin_bytes, counters(by_file.get()).cubin_bytes);
  }
}

TEST_F(BundleMemory, R21_WhichCompilersItMayBeOf) {
  const std::string newer = planted("nvrtc 14.0 a b");
  const auto same_major = strict();
  check(add(same_major.get(), newer));
  EXPECT_EQ(compile(same_major.get()), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(),
              AllOf(HasSubstr("the bundle of " + std::to_string(newer.size()) +
                              " bytes in memory has it for sm_90a, but its compiler, nvrtc 14.0"),
                    Not(HasSubstr("a.bundle"))));
  const auto any = strict([](minuet_context_options& options) { options.bundle_policy = MINUET_BUNDLE_ANY; });
  check(add(any.get(), newer));
  EXPECT_EQ(compile(any.get()), MINUET_OK) << last_error();
  // The one that was added last is asked first.
  check(add(same_major.get(), planted("nvrtc 13.0 a b")));
  EXPECT_EQ(compile(same_major.get()), MINUET_OK) << last_error();
}

TEST_F(BundleMemory, R24_WrongArgumentsAddNothing) {
  const std::string bytes = planted();
  const auto owner = strict();
  const auto refused = [&](minuet_status status, minuet_status expected, const std::string& reason) {
    EXPECT_EQ(status, expected) << reason;
    EXPECT_THAT(last_error(), AllOf(HasSubstr("minuet_context_add_bundle_memory: "), HasSubstr(reason)));
    EXPECT_EQ(compile(owner.get()), MINUET_FAILED_PRECONDITION);
    EXPECT_THAT(last_error(), HasSubstr("in no bundle (no bundle is open)"));
  };
  const auto add_raw = [&](minuet_context* context, const void* data, size_t size) {
    return minuet_context_add_bundle_memory(context, data, size, nullptr);
  };
  refused(add_raw(nullptr, bytes.data(), bytes.size()), MINUET_INVALID_ARGUMENT, "context is null");
  refused(add_raw(owner.get(), nullptr, bytes.size()), MINUET_INVALID_ARGUMENT, "bytes is null");
  refused(add_raw(owner.get(), nullptr, 0), MINUET_INVALID_ARGUMENT, "bytes is null");
  refused(add_raw(owner.get(), bytes.data(), 0), MINUET_INVALID_ARGUMENT,
          "the bundle of 0 bytes in memory: it is not a bundle");
  refused(add(owner.get(), std::string(500, '\xfe')), MINUET_INVALID_ARGUMENT,
          "the bundle of 500 bytes in memory: it is not a bundle");
  refused(add(owner.get(), "version https://git-lfs.github.com/spec/v1\noid sha256:26d0\nsize 381\n"),
          MINUET_INVALID_ARGUMENT, "git lfs pull");
  refused(add(owner.get(), bytes + "x"), MINUET_INVALID_ARGUMENT, "its size does not match its header");
  const std::string other = sha256_hex("other");
  refused(add(owner.get(), bytes, other.c_str()), MINUET_FAILED_PRECONDITION, other + " was expected");
  refused(add(owner.get(), bytes, "12"), MINUET_INVALID_ARGUMENT, "sha256 is '12'");
  refused(add(owner.get(), "text", other.c_str()), MINUET_INVALID_ARGUMENT, "not a bundle");
}

TEST_F(BundleMemory, R20_EveryTruncationIsRefused) {
  const std::string bytes = planted();
  const auto owner = strict();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(add(owner.get(), bytes.substr(0, size)), MINUET_INVALID_ARGUMENT) << size;
  }
  EXPECT_EQ(compile(owner.get()), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("no bundle is open"));
}

/// A flipped byte is found when the bundle is added, or by the kernels that it damages.
TEST_F(BundleMemory, R20_AnyFlippedByteIsFound) {
  std::string bytes = planted();
  const std::string digest = sha256_hex(bytes);
  // No look-up needs the digest at the end.
  const size_t used = bytes.size() - 32;
  for (size_t at = 0; at < bytes.size(); ++at) {
    const auto owner = strict();
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    const minuet_status pinned = add(owner.get(), bytes, digest.c_str());
    EXPECT_THAT(pinned, testing::AnyOf(MINUET_INVALID_ARGUMENT, MINUET_FAILED_PRECONDITION)) << at;
    const minuet_status added = add(owner.get(), bytes);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    EXPECT_EQ(added == MINUET_OK, pinned == MINUET_FAILED_PRECONDITION) << at;
    if (added != MINUET_OK) {
      EXPECT_EQ(added, MINUET_INVALID_ARGUMENT) << at;
    } else if (at % 97 == 0 || at >= used) {
      EXPECT_EQ(compile(owner.get()), at < used ? MINUET_FAILED_PRECONDITION : MINUET_OK) << at;
      EXPECT_EQ(counters(owner.get()).bundle_hits == kernels_, at >= used) << at;
    }
  }
}

TEST_F(BundleMemory, R21_ThreadsAddAndCompileAtOnce) {
  const std::string bytes = planted();
  const auto owner = strict();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      EXPECT_EQ(add(owner.get(), bytes), MINUET_OK);
      EXPECT_EQ(compile(owner.get()), MINUET_OK) << last_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters(owner.get()).bundle_hits, kernels_);
}

}  // namespace
}  // namespace minuet::abi
