// `minuet study`: the paper's measurements on this machine, beside what the paper says.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "codegen/base/number_text.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/clock.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/error.h"
#include "tools/minuet/options_caches.h"
#include "tools/minuet/options_rules.h"
#include "tools/minuet/output_file.h"
#include "tools/minuet/progress.h"
#include "tools/minuet/studies/studies.h"

namespace minuet::tool {
namespace {

std::string study_footer() {
  std::string footer = "\nNAME, or all for every one:\n";
  for (const Study& study : all_studies())
    footer += llvm::formatv("  {0,-12} {1}\n", study.name, study.help).str();
  return footer +
         R"(
Each writes DIR/NAME.json: device, driver, toolkit, commit, medians and spread, what the paper's text reports,
and whether the shape holds here. `minuet report DIR` shows them as plots and tables. --size full is the
paper's, with the real clouds where their folder is there; small takes a CPU a minute or two; tiny is for
tests, with narrow networks, and its numbers mean nothing. On a GPU, specs tunes for six minutes at full size.

Examples:
  minuet study all --output studies && minuet report studies --output studies.html
  minuet study search padding --output studies --device cuda:0)";
}

llvm::Expected<std::vector<const Study*>> chosen_studies(const std::vector<std::string>& names) {
  std::vector<const Study*> chosen;
  for (const std::string& name : names) {
    bool is_known = name == "all";
    for (const Study& study : all_studies()) {
      if (name != "all" && name != study.name) continue;
      is_known = true;
      if (std::find(chosen.begin(), chosen.end(), &study) == chosen.end()) chosen.push_back(&study);
    }
    if (is_known) continue;
    std::string all = "all";
    for (const Study& study : all_studies()) all += std::string(", ") + study.name;
    return bad_input("the study '{0}' is none of {1}", name, all);
  }
  return chosen;
}

void print_claims(const llvm::json::Object& document) {
  for (const llvm::json::Value& value : *document.getArray("claims")) {
    const llvm::json::Object& claim = *value.getAsObject();
    llvm::outs() << llvm::formatv("  paper: {0}\n  here:  {1}\n  shape: {2}", *claim.getString("paper"),
                                  *claim.getString("here"), *claim.getString("shape"));
    if (!claim.getString("why")->empty()) llvm::outs() << " (" << *claim.getString("why") << ")";
    llvm::outs() << "\n";
  }
}

llvm::Error run_study(const Study& study, StudyBench& bench, OutputFile& file, const std::string& path) {
  const Clock::time_point start = Clock::now();
  StudyDocument document(study.name, study.title);
  bench.begin(std::string("study ") + study.name);
  llvm::Error error = study.run(bench, document);
  bench.end();
  if (error) return in_file(study.name, std::move(error));
  if (bench.size() == StudySize::Tiny) document.note("Of the tests' size: numbers and shapes mean nothing.");
  const double seconds = milliseconds_since(start) / 1000;
  llvm::json::Object made = std::move(document).json(bench, seconds);
  llvm::outs() << llvm::formatv("{0}, {1:f1} s: {2}\n", study.title, real(seconds), path);
  print_claims(made);
  llvm::outs().flush();
  return file.write(json_text(std::move(made)));
}

}  // namespace

void add_study(CLI::App& study, StudyOptions& options) {
  study.footer(study_footer());
  study.add_option("NAME", options.names, "studies, or all")->required();
  study.add_option("--output", options.output, "folder for NAME.json each; made where it is not there")
      ->required()
      ->type_name("DIR");
  study
      .add_option("--size", options.size,
                  "tiny, small or full: how much is measured; default: full on a GPU, small on the CPU")
      ->check(CLI::IsMember({"tiny", "small", "full"}))
      ->type_name("NAME");
  study
      .add_option("--dtype", options.dtype,
                  "fp32, tf32, fp16 or bf16; default: fp16 on a GPU, fp32 on the CPU")
      ->type_name("TYPE");
  study
      .add_option("--data", options.data,
                  "folder of the real clouds; default: MINUET_SHARED/data, ../shared/data")
      ->type_name("DIR");
  study.add_option("--commit", options.commit, "commit to note in the JSON; default: none")->type_name("ID");
  add_device(study, options.device);
  study.add_option("--cache", options.cache, "kernel cache folder")->type_name("DIR");
}

llvm::Error study_command(const Arguments& arguments) {
  const StudyOptions& options = arguments.study;
  MINUET_ASSIGN(const std::vector<const Study*> studies, chosen_studies(options.names));
  if (const std::error_code error = llvm::sys::fs::create_directories(options.output))
    return bad_input("the folder '{0}' cannot be made: {1}", options.output, system_text(error));
  if (!llvm::sys::fs::is_directory(options.output)) return bad_input("'{0}' is no folder", options.output);
  std::optional<Progress> progress("opening the device");
  MINUET_ASSIGN(const std::unique_ptr<StudyBench> bench, StudyBench::open(options));
  progress.reset();
  for (const Study* study : studies) {
    llvm::SmallString<128> path(options.output);
    llvm::sys::path::append(path, std::string(study->name) + ".json");
    MINUET_ASSIGN(OutputFile file, OutputFile::open(path));
    MINUET_TRY(run_study(*study, *bench, file, path.str().str()));
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
