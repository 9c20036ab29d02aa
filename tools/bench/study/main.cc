// The program minuet-study repeats the measurements of the Minuet paper on this machine and compares them
// with the paper's claims.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "codegen/base/number_text.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/program.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {
namespace {

std::string study_footer() {
  std::string footer = "\nNAME is 'all', which runs every study, or one of:\n";
  for (const Study& study : all_studies())
    footer += llvm::formatv("  {0,-12} {1}\n", study.name, study.help).str();
  return footer +
         R"(
Each study writes DIR/NAME.json: device, driver, toolkit, commit, medians and spread, what the paper reports,
and whether the shape of that result, such as which method is faster, is the same here.
`minuet report DIR` shows these files as plots and tables.

With --size full, studies measure as the paper does, on generated clouds and on those in the --data folder.
With --size small, minuet-study takes a minute or two on a CPU.
With --size tiny, which is for tests, the networks are narrow and the numbers mean nothing.
On a GPU at full size, the tuning in the study 'specs' takes six minutes.

Examples:
  minuet-study all --output studies && minuet report studies --output studies.html
  minuet-study search padding --output studies --device cuda:0)";
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
    return bad_input("the study '{0}' is not one of {1}", name, all);
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
  if (bench.size() == StudySize::Tiny)
    document.note(
        "The study ran with --size tiny, which is for tests: the numbers and the claims about them mean "
        "nothing.");
  const double seconds = milliseconds_since(start) / 1000;
  llvm::json::Object made = std::move(document).json(bench, seconds);
  llvm::outs() << llvm::formatv("{0}, {1:f1} s: {2}\n", study.title, real(seconds), path);
  print_claims(made);
  llvm::outs().flush();
  return file.write(json_text(std::move(made)));
}

void add_flags(CLI::App& app, StudyOptions& options) {
  app.name("minuet-study");
  app.footer(study_footer());
  app.add_option("NAME", options.names, "names of studies, or all")->required();
  add_value(app, "--output", options.output, "DIR", "folder for the NAME.json files; created if missing")
      ->required();
  add_value(app, "--size", options.size, "NAME",
            "how much to measure: tiny, small or full; default: full on a GPU, small on the CPU")
      ->check(CLI::IsMember({"tiny", "small", "full"}));
  add_dtype(app, options.dtype);
  add_data(app, options.data);
  add_commit(app, options.commit);
  add_device(app, options.device);
  add_value(app, "--cache", options.cache, "DIR", "kernel cache folder");
}

llvm::Error run_studies(int count, const char* const* values) {
  StudyOptions options;
  CLI::App app{"Repeat the measurements of the Minuet paper on this machine"};
  add_flags(app, options);
  MINUET_ASSIGN(const bool is_parsed, parse_flags(app, count, values));
  if (!is_parsed) return llvm::Error::success();
  MINUET_ASSIGN(const std::vector<const Study*> studies, chosen_studies(options.names));
  if (const std::error_code error = llvm::sys::fs::create_directories(options.output))
    return bad_input("cannot create the folder '{0}': {1}", options.output, system_text(error));
  if (!llvm::sys::fs::is_directory(options.output))
    return bad_input("--output '{0}' is not a folder: name a folder, or a path that does not exist yet",
                     options.output);
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

}  // namespace
}  // namespace minuet::tool

int main(int count, char** values) {
  return minuet::tool::run_program(minuet::tool::run_studies, count, values);
}
