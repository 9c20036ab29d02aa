#include "codegen/keys.h"

#include <algorithm>

#include "codegen/arch.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

/// Digest of either LLVM's return type: a StringRef (14) or an array of bytes (19).
template <class Digest>
std::string hex_of(const Digest& digest) {
  return llvm::toHex(llvm::StringRef(reinterpret_cast<const char*>(digest.data()), digest.size()),
                     /*LowerCase=*/true);
}

bool changes_no_code(llvm::StringRef option) {
  static constexpr const char* kPrefixes[] = {
      "--frandom-seed", "-frandom-seed", "--no-cache",           "-no-cache",          "--pch", "-pch",
      "--create-pch",   "--use-pch",     "--fdevice-time-trace", "-fdevice-time-trace"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](llvm::StringRef prefix) { return option.take_front(prefix.size()) == prefix; });
}

}  // namespace

std::vector<std::string> compile_options(llvm::StringRef arch) {
  return {"--std=c++20", ("-arch=" + arch).str(),
          "--no-source-include",  // headers come from memory or not at all (R3)
          // As on the CPU device: a fused multiply-add in one place and not the next would make them differ.
          "--fmad=false", "--ptxas-options=-v"};  // registers and spills in the log
}

FieldHasher& FieldHasher::add(llvm::StringRef label, llvm::StringRef value) {
  hash_.update(std::to_string(label.size()) + ":");
  hash_.update(label);
  hash_.update(std::to_string(value.size()) + ":");
  hash_.update(value);
  return *this;
}

std::string FieldHasher::hex() { return hex_of(hash_.result()); }

std::string sha256_hex(llvm::StringRef bytes) {
  llvm::SHA256 hash;
  hash.update(bytes);
  return hex_of(hash.final());
}

std::string request_key(const KernelSource& source, llvm::StringRef header_digest,
                        const std::vector<std::string>& options, llvm::StringRef arch) {
  FieldHasher hasher;
  hasher.add("schema", std::to_string(kKeySchema))
      .add("name", source.display_name)
      .add("source", source.text)
      .add("headers", header_digest)
      .add("arch", arch)
      .add("output", is_ptx(arch) ? "ptx" : "cubin")
      .add("expression", source.name_expression);
  for (const std::vector<std::string>* list : {&options, &source.options}) {
    for (const std::string& option : *list) {
      if (!changes_no_code(option)) hasher.add("option", option);
    }
  }
  return hasher.hex();
}

std::string build_key(llvm::StringRef request, llvm::StringRef compiler_id) {
  return FieldHasher().add("request", request).add("compiler", compiler_id).hex();
}

}  // namespace minuet
