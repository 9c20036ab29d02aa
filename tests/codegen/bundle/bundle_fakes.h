// Kernels for tests of bundles.
#pragma once

#include <string>
#include <vector>

#include "codegen/bundle/bundle.h"
#include "codegen/compile/entry.h"
#include "tests/codegen/fakes.h"

namespace minuet {

constexpr const char* kHost = "nvrtc 13.0 1234 5678";

/// For make_kernel's `name`.
KernelRequest fake_request(const std::string& name, llvm::StringRef arch = "sm_90a");

/// A kernel called `name` with a small valid cubin.
Entry make_kernel(const std::string& name, const std::string& arch = "sm_90a",
                  const std::string& compiler_id = kHost);
std::vector<Entry> make_kernels(int count, const std::string& arch = "sm_90a");

/// Writes a bundle of `entries` to `path`, and gives its SHA-256.
std::string put_bundle(const std::string& path, const std::vector<Entry>& entries,
                       const std::string& arch = "sm_90a");

/// `bytes` with all digests made right again, as somebody would who damages a bundle with intent. Of any
/// bytes: what lies outside of them is left out.
std::string with_right_digests(std::string bytes);

std::string error_of(llvm::Error error);

/// The kernel of that key, where the bundle has it whole; else the error.
llvm::Expected<Entry> read_kernel(const Bundle& bundle, const std::string& request_key);

}  // namespace minuet
