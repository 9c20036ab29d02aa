// `minuet report` shows result files as an HTML page.
#include <algorithm>

#include "codegen/base/number_text.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/cloud/readers/wrong_file.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/library/report.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

namespace fs = llvm::sys::fs;

/// Returns all .json files in the folder and its subfolders, sorted by path.
llvm::Expected<std::vector<std::string>> result_files(const std::string& folder) {
  if (!fs::is_directory(folder))
    return bad_input(
        "'{0}' is not a folder of result files: name a folder with JSON files of minuet bench or minuet run",
        folder);
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; at != end && !error; at.increment(error)) {
    if (extension_of(at->path()) == ".json" && !fs::is_directory(at->path())) files.push_back(at->path());
  }
  if (error) return bad_input("the folder '{0}' cannot be read: {1}", folder, system_text(error));
  if (files.empty())
    return bad_input("'{0}' has no .json file: write one with minuet bench --output", folder);
  std::sort(files.begin(), files.end());
  return files;
}

llvm::Expected<llvm::json::Object> read_document(const std::string& path, llvm::StringRef name) {
  MINUET_ASSIGN(const llvm::json::Value value, read_json(path, "a result file"));
  return in_file(path, document_of(name, value));
}

}  // namespace

llvm::Error report_command(const Arguments& arguments) {
  MINUET_TRY(check_page(arguments));
  MINUET_ASSIGN(const std::vector<std::string> files, result_files(arguments.results));
  std::vector<NamedFile> inputs;
  inputs.reserve(files.size());
  for (const std::string& path : files) inputs.push_back({"a result file", path});
  MINUET_TRY(check_distinct({{"--output", arguments.output}}, inputs));
  MINUET_ASSIGN(OutputFile output, OutputFile::open(arguments.output));
  llvm::json::Array documents;
  for (const std::string& path : files) {
    const llvm::StringRef name = llvm::StringRef(path).drop_front(arguments.results.size()).ltrim('/');
    MINUET_ASSIGN(llvm::json::Object document, read_document(path, llvm::json::fixUTF8(name)));
    documents.push_back(std::move(document));
  }
  const std::string title = arguments.title.empty()
                                ? "Results: " + llvm::sys::path::filename(resolved(arguments.results)).str()
                                : arguments.title;
  MINUET_ASSIGN(const std::string page, report_page(title, version_text(), std::move(documents)));
  MINUET_TRY(output.write(page));
  llvm::outs() << llvm::formatv("{0}: {1} result files, {2:f1} MB\n", arguments.output, files.size(),
                                real(static_cast<double>(page.size()) / 1e6));
  return llvm::Error::success();
}

}  // namespace minuet::tool
