#include "codegen/base/arch.h"

#include <algorithm>
#include <iterator>

namespace minuet {
namespace {

constexpr int kFirstFamily = 100;  // Family code (suffix 'f') exists from this compute capability on.
constexpr int kFirstPtx = 75;      // NVRTC 13 supports no compute capability below this one.

bool is_tegra(int number) {
  constexpr int kTegra[] = {53, 62, 72, 87, 88, 101, 110};
  return std::find(std::begin(kTegra), std::end(kTegra), number) != std::end(kTegra);
}

}  // namespace

std::optional<Arch> parse_arch(llvm::StringRef text) {
  Arch arch;
  llvm::StringRef rest = text;
  arch.is_virtual = rest.consume_front("compute_");
  if (!arch.is_virtual && !rest.consume_front("sm_")) return std::nullopt;
  unsigned number = 0;
  if (rest.consumeInteger(10, number) || number < 10 || number > 999) return std::nullopt;
  arch.number = static_cast<int>(number);
  if (rest == "a" || rest == "f") arch.suffix = rest[0];
  // Only the canonical spelling is accepted. The keys of kernels contain the name, so "sm_090" would give the
  // same code a second key.
  if (format_arch(arch) != text) return std::nullopt;
  return arch;
}

std::string format_arch(const Arch& arch) {
  std::string text = (arch.is_virtual ? "compute_" : "sm_") + std::to_string(arch.number);
  if (arch.suffix != '\0') text += arch.suffix;
  return text;
}

int sm_number(llvm::StringRef text) {
  const std::optional<Arch> arch = parse_arch(text);
  return arch && !arch->is_virtual ? arch->number : 0;
}

int capability(llvm::StringRef text) {
  const std::optional<Arch> arch = parse_arch(text);
  return arch ? arch->number : 0;
}

int capability_number(llvm::StringRef compute_capability) {
  const auto [major, minor] = compute_capability.split('.');
  const int number = capability(("sm_" + major + minor).str());
  const std::string text = std::to_string(number / 10) + "." + std::to_string(number % 10);
  return compute_capability == text ? number : 0;
}

llvm::Error not_an_arch(llvm::StringRef text) {
  return make_error(StatusCode::InvalidArgument, "'{0}' is not an architecture: name one such as sm_90a",
                    text);
}

std::vector<std::string> runnable_archs(llvm::StringRef target, bool ptx) {
  const std::optional<Arch> wanted = parse_arch(target);
  if (!wanted || wanted->is_virtual) return {};
  const int number = wanted->number;
  std::vector<std::string> archs;
  bool is_virtual = false;
  auto add = [&](int sm, char suffix) { archs.push_back(format_arch({sm, suffix, is_virtual})); };
  if (wanted->suffix != '\0') add(number, wanted->suffix);
  add(number, '\0');
  // Family code runs on the compute capability for which it was compiled, and on those with the same major
  // and a higher minor version.
  const int lowest = is_tegra(number) ? number : wanted->major() * 10;
  for (int sm = number; sm >= lowest; --sm) {
    const bool is_first = sm == number && wanted->suffix == 'f';
    if (sm >= kFirstFamily && !is_first && (sm == number || !is_tegra(sm))) add(sm, 'f');
  }
  for (int sm = number - 1; sm >= lowest; --sm) {
    if (!is_tegra(sm)) add(sm, '\0');
  }
  is_virtual = true;
  for (int sm = number; ptx && sm >= kFirstPtx; --sm) {
    if (sm == number && wanted->suffix == 'a') add(sm, 'a');
    if (sm >= std::max(lowest, kFirstFamily) && (sm == number || !is_tegra(sm))) add(sm, 'f');
    add(sm, '\0');
  }
  return archs;
}

}  // namespace minuet
