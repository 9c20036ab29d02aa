// Makes the source of one kernel from its Spec (compile-time parameters). The source consists of the
// translation unit and the name expression. All functions are pure.
//
// A Spec names its own fields (Spec::visit), and kernels.inc names its kernel, header and Params (run-time
// parameters). A new kernel therefore needs no line here, except the include of a new file in
// kernels_templates/shared.
#pragma once

#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "codegen/source/params_fields.h"
#include "kernels_templates/shared/batch_norm_kernels.h"
#include "kernels_templates/shared/dense_kernels.h"
#include "kernels_templates/shared/depthwise_kernels.h"
#include "kernels_templates/shared/fused_kernels.h"
#include "kernels_templates/shared/global_pool_kernels.h"
#include "kernels_templates/shared/gmas_kernels.h"
#include "kernels_templates/shared/gradient_kernels.h"
#include "kernels_templates/shared/listed_kernels.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/parameter_kernels.h"
#include "kernels_templates/shared/point_kernels.h"
#include "kernels_templates/shared/pointwise_kernels.h"
#include "kernels_templates/shared/pool_kernels.h"
#include "kernels_templates/shared/row_gradient_kernels.h"
#include "kernels_templates/shared/select_kernels.h"
#include "kernels_templates/shared/space_kernels.h"
#include "kernels_templates/shared/view_kernels.h"
#include "kernels_templates/shared/voxel_index.h"
#include "kernels_templates/shared/word_kernels.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

// A kernel that is compiled for an older compute capability than this does not wait for the launch before it,
// so it must not start early by programmatic dependent launch.
constexpr int kLeastProgrammatic = 90;

/// Holds what a kernel needs for its compile and its launch. These are the values that follow the least SM in
/// a row of kernels.inc. Clusters require sm_90.
struct KernelNeeds {
  i32 threads = 0;               // Counts the threads of a block; 0 means the Spec's `threads`.
  i32 dynamic_shared_bytes = 0;  // A block uses this many bytes of dynamic shared memory.
  i32 cluster = 1;               // Counts the blocks of a cluster, at most 8. The grid is a multiple of it.
  // This is true if the kernel may start before the preceding launch has ended, and then waits for it. It
  // requires the compute capability kLeastProgrammatic.
  bool programmatic = false;
  /// Names the only possible architecture, for example "sm_90a". If it is empty, any architecture is
  /// possible.
  const char* exact_arch = "";
  /// Lists options of NVRTC in addition to those of compile_options(), separated by spaces.
  const char* options = "";
  /// Replaces the least SM in the kernel's row of kernels.inc if it is higher than that.
  i32 least_sm = 0;
};

template <class Spec>
struct KernelRow;  // KernelRow has a specialization for each row of kernels.inc, or of a test's list.

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

/// Returns the needs of the kernel for `spec`, including its threads.
template <class Spec>
constexpr KernelNeeds kernel_needs(const Spec& spec) {
  KernelNeeds needs = KernelRow<Spec>::needs(spec);
  if constexpr (requires { spec.threads; }) {
    if (needs.threads == 0) needs.threads = spec.threads;
  }
  return needs;
}

/// Holds the input of the compiler for one kernel. Equal Specs have equal sources.
struct KernelSource {
  /// Names the kernel in reports and among loaded kernels, for example "gather-f16-c64-t8-v16-n128".
  std::string display_name;
  std::string text;             // This translation unit includes the kernel's header and asserts sizes.
  std::string name_expression;  // An example is "minuet::gather<minuet::GatherSpec{...}>".
  int least_sm = 80;
  /// Names the only possible architecture. If it is empty, any architecture from least_sm on is possible.
  std::string exact_arch = {};
  /// Lists options of NVRTC in addition to those of every kernel (compile_options()).
  std::vector<std::string> options = {};
};

/// If the kernel cannot be compiled for `arch`, returns the architecture that it needs, such as "sm_90 or
/// newer" or "sm_90a and no other". Otherwise returns an empty string.
std::string missing_arch(const KernelSource& source, llvm::StringRef arch);

/// Returns true if a kernel may use this option of NVRTC. Allowed options change code and name no file,
/// because requests may come from files of other users.
bool is_kernel_option(llvm::StringRef option);

/// Describes one field of a Spec, as text for the source and as a short tag for the display name.
struct SpecField {
  std::string name;
  std::string value;  // This is a C++ expression.
  std::string tag;    // This has only letters and digits.
};

SpecField spec_field(const char* name, DType value);
SpecField spec_field(const char* name, KeyType value);
SpecField spec_field(const char* name, Activation value);
SpecField spec_field(const char* name, ScanInput value);
SpecField spec_field(const char* name, WeightRoad value);
SpecField spec_field(const char* name, FusedType value);
SpecField spec_field(const char* name, MmaUnit value);
SpecField spec_field(const char* name, Reduction value);
SpecField spec_field(const char* name, PointReduction value);
SpecField spec_field(const char* name, SelectRule value);
SpecField spec_field(const char* name, SelectSource value);
SpecField spec_field(const char* name, ReluMask value);
SpecField spec_field(const char* name, const PointwiseSteps& steps);
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

/// Returns the source of the kernel for `spec`.
template <class Spec>
KernelSource emit(const Spec& spec) {
  using Row = KernelRow<Spec>;
  return emit_fields(Row::name, Row::header, Row::spec_type, Row::params_type, sizeof(typename Row::Params),
                     Row::least_sm, spec_fields(spec), kernel_needs(spec));
}

/// Returns the kernel's name followed by every field of the Spec. This name is unique for each Spec.
template <class Spec>
std::string display_name(const Spec& spec) {
  return display_name(KernelRow<Spec>::name, spec_fields(spec));
}

/// Describes the launch of one kernel.
struct KernelLaunch {
  std::string display_name;
  KernelNeeds needs;
  GridRule grid;
  i32 params_bytes = 0;
  /// Returns the fields of the Params. It is null if params_fields.h has no list of them, because the kernel
  /// computes no layer.
  std::vector<ParamsField> (*fields)() = nullptr;
};

/// Collects the sources of kernels, and their launches. A kernel that is added again is kept only once.
class SourceList {
 public:
  template <class Spec>
  void add(const Spec& spec) {
    using Row = KernelRow<Spec>;
    using Params = typename Row::Params;
    KernelLaunch launch{{}, kernel_needs(spec), grid_rule(spec), static_cast<i32>(sizeof(Params))};
    if constexpr (requires { sizeof(FieldsOf<Params>); }) launch.fields = params_fields<Params>;
    add({Row::name, Row::header, Row::spec_type, Row::params_type, Row::least_sm}, spec_fields(spec),
        std::move(launch));
  }
  std::vector<KernelSource> take() { return std::move(sources_); }
  std::vector<KernelLaunch> take_launches() { return std::move(launches_); }

 private:
  /// Holds the texts of a KernelRow.
  struct RowTexts {
    const char *name, *header, *spec_type, *params_type;
    int least_sm;
  };
  void add(const RowTexts& row, const std::vector<SpecField>& fields, KernelLaunch launch);

  std::set<std::string> names_;
  std::vector<KernelSource> sources_;
  std::vector<KernelLaunch> launches_;
};

/// Returns the sources of every kernel of a choice, for which the function add_sources() must have an
/// overload.
template <class Choice>
std::vector<KernelSource> sources_of(const Choice& choice) {
  SourceList list;
  add_sources(list, choice);
  return list.take();
}

}  // namespace minuet
