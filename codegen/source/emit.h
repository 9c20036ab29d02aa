// Spec -> source: the translation unit and the name expression of one kernel. Pure.
//
// A Spec names its own fields (Spec::visit), kernels.inc names its kernel, header and Params; so a
// new kernel needs no line here, but for the include of a new file in shared/.
#pragma once

#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels_templates/shared/cell_index.h"
#include "kernels_templates/shared/fused_kernels.h"
#include "kernels_templates/shared/gmas_kernels.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/pool_kernels.h"
#include "kernels_templates/shared/view_kernels.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

constexpr int kLeastProgrammatic = 90;  // code of an older capability does not wait for itself

/// What a row of kernels.inc says behind its least SM. Clusters come with sm_90.
struct KernelNeeds {
  i32 threads = 0;               // of a block; 0: the Spec's `threads`
  i32 dynamic_shared_bytes = 0;  // of a block
  i32 cluster = 1;               // blocks that run together, at most 8; a grid is whole clusters
  // May start before what it comes after has ended, and waits for that itself; from kLeastProgrammatic on.
  bool programmatic = false;
  const char* exact_arch = "";  // "sm_90a": this one and no other
  const char* options = "";     // of NVRTC, more than compile_options() has, with spaces between them
  i32 least_sm = 0;             // of this Spec, where it is more than the row's
};

template <class Spec>
struct KernelRow;  // one specialization a row of kernels.inc, or of a test's list

#define MINUET_DEFINE_KERNEL_ROW(kernel, kernel_header, KernelSpec, KernelParams, sm, ...)                \
  template <>                                                                                             \
  struct KernelRow<KernelSpec> {                                                                          \
    using Params = KernelParams;                                                                          \
    static constexpr const char* name = #kernel;                                                          \
    static constexpr const char* header = kernel_header;                                                  \
    static constexpr const char* spec_type = #KernelSpec;                                                 \
    static constexpr const char* params_type = #KernelParams;                                             \
    static constexpr int least_sm = sm;                                                                   \
    static constexpr KernelNeeds needs([[maybe_unused]] const KernelSpec& spec) { return {__VA_ARGS__}; } \
  };
#define MINUET_KERNEL_ROW MINUET_DEFINE_KERNEL_ROW
#include "kernels_templates/kernels.inc"

/// What the kernel of `spec` needs, its threads among it.
template <class Spec>
constexpr KernelNeeds kernel_needs(const Spec& spec) {
  KernelNeeds needs = KernelRow<Spec>::needs(spec);
  if constexpr (requires { spec.threads; }) {
    if (needs.threads == 0) needs.threads = spec.threads;
  }
  return needs;
}

/// What the compiler gets for one kernel. Equal requests have equal fields.
struct KernelSource {
  std::string display_name;     // "gather-f16-c64-t8-v16-n128": program name, cache prefix, NVTX name
  std::string text;             // includes the header, asserts sizes
  std::string name_expression;  // "minuet::gather<minuet::GatherSpec{...}>"
  int least_sm = 80;
  std::string exact_arch = {};            // the only one that it is for; empty: any from least_sm on
  std::vector<std::string> options = {};  // more of NVRTC's than every kernel has
};

/// What keeps the kernel from being compiled for `arch`, as what it needs: "sm_90 or newer", "sm_90a and no
/// other". Empty: nothing.
std::string missing_arch(const KernelSource& source, llvm::StringRef arch);

/// Whether a kernel may ask for this option: those that change code and name no file, for requests are read
/// from others' files too.
bool is_kernel_option(llvm::StringRef option);

/// One field of a Spec, as text for the source and as a short tag for the display name.
struct SpecField {
  std::string name;
  std::string value;  // C++ expression
  std::string tag;    // letters and digits
};

SpecField spec_field(const char* name, DType value);
SpecField spec_field(const char* name, KeyType value);
SpecField spec_field(const char* name, Activation value);
SpecField spec_field(const char* name, ScanInput value);
SpecField spec_field(const char* name, IndexStep value);
SpecField spec_field(const char* name, WeightRoad value);
SpecField spec_field(const char* name, MmaUnit value);
SpecField spec_field(const char* name, Reduction value);
SpecField spec_field(const char* name, bool value);
SpecField spec_field(const char* name, i32 value);

template <class Spec>
std::vector<SpecField> spec_fields(const Spec& spec) {
  std::vector<SpecField> fields;
  spec.visit([&](const char* name, const auto& value) { fields.push_back(spec_field(name, value)); });
  return fields;
}

std::string display_name(const char* name, const std::vector<SpecField>& fields);
KernelSource emit_fields(const char* name, const char* header, const char* spec_type, const char* params_type,
                         std::size_t params_bytes, int least_sm, const std::vector<SpecField>& fields,
                         const KernelNeeds& needs = {});

/// The source of the kernel that `spec` describes.
template <class Spec>
KernelSource emit(const Spec& spec) {
  using Row = KernelRow<Spec>;
  return emit_fields(Row::name, Row::header, Row::spec_type, Row::params_type, sizeof(typename Row::Params),
                     Row::least_sm, spec_fields(spec), kernel_needs(spec));
}

/// The kernel's name with every field of the Spec: unique per Spec.
template <class Spec>
std::string display_name(const Spec& spec) {
  return display_name(KernelRow<Spec>::name, spec_fields(spec));
}

/// The sources of kernels, each once.
class SourceList {
 public:
  template <class Spec>
  void add(const Spec& spec) {
    if (names_.insert(display_name(spec)).second) sources_.push_back(emit(spec));
  }
  std::vector<KernelSource> take() { return std::move(sources_); }

 private:
  std::set<std::string> names_;
  std::vector<KernelSource> sources_;
};

/// Every kernel of a choice, for which there is an add_sources.
template <class Choice>
std::vector<KernelSource> sources_of(const Choice& choice) {
  SourceList list;
  add_sources(list, choice);
  return list.take();
}

}  // namespace minuet
