#include "codegen/source/emit.h"

#include <algorithm>
#include <iterator>

#include "codegen/base/arch.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

namespace minuet {
namespace {

/// Returns the letters that stand for a field in a display name. They are those of the table, or the whole
/// name of a field that the table lacks, so that a new Spec needs no line here.
std::string short_name(llvm::StringRef field) {
  static constexpr struct {
    const char* field;
    const char* letters;
  } kShort[] = {{"io", ""},
                {"key", ""},
                {"input", ""},
                {"activation", ""},
                {"channels", "c"},
                {"tile", "t"},
                {"vector_bytes", "v"},
                {"threads", "n"},
                {"ndim", "d"},
                {"items_per_thread", "i"},
                {"source_block", "b"},
                {"query_block", "q"},
                {"scale_shift", "s"},
                {"residual", "r"},
                {"values", "values"},
                {"raking_scan", "raking"},
                {"in_channels", "i"},
                {"out_channels", "o"},
                {"volume", "k"},
                {"step", "s"},
                {"columns", "c"},
                {"row_tiles", "t"},
                {"warps", "w"},
                {"split", "x"},
                {"cluster", "y"},
                {"prefetch", "p"},
                {"stages", "g"},
                {"blocks", "b"},
                {"weights", ""},
                {"unit", ""},
                {"early_loads", "e"},
                {"staged_rows", "staged"},
                {"programmatic", "l"},
                {"input_bytes", "vi"},
                {"output_bytes", "vo"},
                {"second_output", "second"},
                {"second_activation", "then"},
                {"output_type", "to"},
                {"residual_type", "tr"},
                {"second_type", "ts"},
                {"shortcut_type", "tc"},
                {"rows", "rows"}};
  for (const auto& entry : kShort) {
    if (field == entry.field) return entry.letters;
  }
  std::string letters;
  std::copy_if(field.begin(), field.end(), std::back_inserter(letters), llvm::isAlnum);
  return letters;
}

/// Returns the name of an enumerator. An enumerator without a name yields source that does not compile.
template <std::size_t N>
const char* name_at(const char* const (&names)[N], std::size_t value) {
  return value < N ? names[value] : "HasNoNameInEmit";
}

// Names the enumerators of PointwiseKind. Those of Activation come first.
constexpr const char* kStepNames[] = {"None",
                                      "ReLU",
                                      "LeakyReLU",
                                      "Gelu",
                                      "GeluTanh",
                                      "Silu",
                                      "Sigmoid",
                                      "Tanh",
                                      "Add",
                                      "Multiply",
                                      "Affine",
                                      "LayerNorm",
                                      "Softmax",
                                      "Argmax",
                                      "ReLUGradient",
                                      "LeakyReLUGradient",
                                      "GeluGradient",
                                      "GeluTanhGradient",
                                      "SiluGradient",
                                      "SigmoidGradient",
                                      "TanhGradient",
                                      "LayerNormGradient",
                                      "SoftmaxGradient"};
static_assert(std::size(kStepNames) == kPointwiseKinds);

SpecField enumerator(const char* name, const char* type, llvm::StringRef value) {
  return {name, ("minuet::" + llvm::Twine(type) + "::" + value).str(), short_name(name) + value.lower()};
}

/// Returns an expression such as "minuet::GatherSpec{.io = minuet::DType::F16, .channels = 64}". The
/// initializers are designated, so that a visit() in another order than the fields does not compile.
std::string spec_expression(const char* spec_type, const std::vector<SpecField>& fields) {
  std::string text = std::string("minuet::") + spec_type + "{";
  for (const SpecField& field : fields) {
    if (&field != &fields.front()) text += ", ";
    text += "." + field.name + " = " + field.value;
  }
  return text + "}";
}

/// Returns code that splits the Spec into as many parts as visit() names. It does not compile if visit()
/// omits a field, because two different Specs would then have the same kernel.
std::string spec_assertion(llvm::StringRef spec_type, const std::vector<SpecField>& fields,
                           llvm::StringRef expression) {
  std::string parts;
  std::string equal;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string part = "f" + std::to_string(i);
    if (i != 0) parts += ", ", equal += " && ";
    parts += part;
    equal += part + " == " + fields[i].value;
  }
  return ("MINUET_HD constexpr bool minuet_spec_is_whole() {\n  const auto [" + llvm::Twine(parts) +
          "] = " + expression + ";\n  return " + equal + ";\n}\nstatic_assert(minuet_spec_is_whole(), \"" +
          spec_type + "::visit must name every field in the order of declaration\");\n")
      .str();
}

}  // namespace

std::string missing_arch(const KernelSource& source, llvm::StringRef arch) {
  if (!source.exact_arch.empty()) return arch == source.exact_arch ? "" : source.exact_arch + " and no other";
  if (capability(arch) >= source.least_sm) return "";
  return "sm_" + std::to_string(source.least_sm) + " or newer";
}

bool is_kernel_option(llvm::StringRef option) {
  static constexpr const char* kPrefixes[] = {
      "--maxrregcount=", "--define-macro=", "--ptxas-options=--register-usage-level="};
  static constexpr const char* kWhole[] = {"--use_fast_math", "--extra-device-vectorization"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](llvm::StringRef prefix) { return option.take_front(prefix.size()) == prefix; }) ||
         std::find(std::begin(kWhole), std::end(kWhole), option) != std::end(kWhole);
}

SpecField spec_field(const char* name, DType value) {
  return enumerator(name, "DType", kDTypeEnumerators[static_cast<int>(value)]);
}

SpecField spec_field(const char* name, KeyType value) {
  return enumerator(name, "KeyType", value == KeyType::U64 ? "U64" : "U32");
}

SpecField spec_field(const char* name, Activation value) {
  return enumerator(name, "Activation", name_at(kStepNames, static_cast<std::size_t>(value)));
}

SpecField spec_field(const char* name, ScanInput value) {
  static constexpr const char* kNames[] = {"Heads32", "Heads64", "Hits", "Values"};
  return enumerator(name, "ScanInput", name_at(kNames, static_cast<std::size_t>(value)));
}

SpecField spec_field(const char* name, WeightRoad value) {
  static constexpr const char* kNames[] = {"Cached", "AsyncCopy", "BulkCopy", "BulkRefill", "Resident"};
  return enumerator(name, "WeightRoad", name_at(kNames, static_cast<std::size_t>(value)));
}

SpecField spec_field(const char* name, FusedType value) {
  static constexpr const char* kNames[] = {"OfInput", "F32", "F16", "BF16", "U8", "S8"};
  SpecField field = enumerator(name, "FusedType", name_at(kNames, static_cast<std::size_t>(value)));
  if (value == FusedType::OfInput) field.tag.clear();
  return field;
}

SpecField spec_field(const char* name, MmaUnit value) {
  return enumerator(name, "MmaUnit", value == MmaUnit::Warpgroup ? "Warpgroup" : "Warp");
}

SpecField spec_field(const char* name, Reduction value) {
  static constexpr const char* kNames[] = {"Max", "Average", "Sum"};
  return enumerator(name, "Reduction", name_at(kNames, static_cast<std::size_t>(value)));
}

SpecField spec_field(const char* name, PointReduction value) {
  static constexpr const char* kNames[] = {"Mean", "Max", "Sum", "First"};
  return enumerator(name, "PointReduction", name_at(kNames, static_cast<std::size_t>(value)));
}

SpecField spec_field(const char* name, SelectRule value) {
  static constexpr const char* kNames[] = {"All", "Mask", "Above", "Best", "NonZero"};
  static_assert(std::size(kNames) == kSelectRules);
  return enumerator(name, "SelectRule", name_at(kNames, static_cast<std::size_t>(value)));
}

SpecField spec_field(const char* name, SelectSource value) {
  static constexpr const char* kNames[] = {"Rows", "Cells"};
  return enumerator(name, "SelectSource", name_at(kNames, static_cast<std::size_t>(value)));
}

SpecField spec_field(const char* name, ReluMask value) {
  static constexpr const char* kNames[] = {"None", "Input", "Output"};
  return enumerator(name, "ReluMask", name_at(kNames, static_cast<std::size_t>(value)));
}

SpecField spec_field(const char* name, const PointwiseSteps& steps) {
  std::string values, tag;
  for (const PointwiseKind kind : steps.kinds) {
    if (kind == PointwiseKind::None) break;
    const llvm::StringRef kind_name = name_at(kStepNames, static_cast<std::size_t>(kind));
    values += (values.empty() ? "minuet::PointwiseKind::" : ", minuet::PointwiseKind::") + kind_name.str();
    tag += kind_name.lower();
  }
  return {name, "minuet::PointwiseSteps{{" + values + "}}", tag};
}

SpecField spec_field(const char* name, bool value) {
  return {name, value ? "true" : "false", short_name(name) + (value ? "1" : "0")};
}

SpecField spec_field(const char* name, i32 value) {
  const std::string digits = std::to_string(value);
  // A tag has only letters and digits, so "m" stands for a minus sign. No field is negative in a Spec that
  // compiles.
  return {name, digits, short_name(name) + (value < 0 ? "m" + digits.substr(1) : digits)};
}

std::string display_name(const char* name, const std::vector<SpecField>& fields) {
  std::string shown = name;
  for (const SpecField& field : fields) shown += (field.tag.empty() ? "" : "-") + field.tag;
  return shown;
}

KernelSource emit_fields(const char* name, const char* header, const char* spec_type, const char* params_type,
                         std::size_t params_bytes, int least_sm, const std::vector<SpecField>& fields,
                         const KernelNeeds& needs) {
  const std::string expression = spec_expression(spec_type, fields);
  KernelSource source;
  source.display_name = display_name(name, fields);
  const std::string bytes = std::to_string(params_bytes);
  source.text = ("#include \"" + llvm::Twine(header) + "\"\n\nstatic_assert(sizeof(minuet::" + params_type +
                 ") == " + bytes + ", \"" + params_type + " must have the host's " + bytes +
                 " bytes: host and device disagree about its layout\");\n" +
                 spec_assertion(spec_type, fields, expression))
                    .str();
  source.name_expression = ("minuet::" + llvm::Twine(name) + "<" + expression + ">").str();
  source.least_sm = std::max(least_sm, needs.least_sm);
  source.exact_arch = needs.exact_arch;
  llvm::SmallVector<llvm::StringRef, 4> options;
  llvm::StringRef(needs.options).split(options, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef option : options) source.options.push_back(option.str());
  return source;
}

void SourceList::add(const RowTexts& row, const std::vector<SpecField>& fields, KernelLaunch launch) {
  launch.display_name = minuet::display_name(row.name, fields);
  if (!names_.insert(launch.display_name).second) return;
  sources_.push_back(emit_fields(row.name, row.header, row.spec_type, row.params_type,
                                 static_cast<std::size_t>(launch.params_bytes), row.least_sm, fields,
                                 launch.needs));
  launches_.push_back(std::move(launch));
}

}  // namespace minuet
