// A folder for one test's files, texts of errors, JSON, and the tool run as a user runs it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/json_text.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Program.h"
#include "tests/support/contents.h"

namespace minuet::tool {

class Folder {
 public:
  Folder() {
    llvm::SmallString<128> made;
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("minuet-tool-test", made));
    folder_ = made.str().str();
  }
  ~Folder() { llvm::sys::fs::remove_directories(folder_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  /// Writes the file and gives its path.
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::string folder_;
};

/// The error's text, or "" of a success.
template <class T>
std::string error_of(llvm::Expected<T> result) {
  return result ? std::string() : llvm::toString(result.takeError());
}

/// The object of a JSON text, or a failed test and an empty object.
inline llvm::json::Object json_of(const std::string& text) {
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  if (value && value->getAsObject()) return std::move(*value->getAsObject());
  ADD_FAILURE() << "no JSON object: " << text;
  if (!value) llvm::consumeError(value.takeError());
  return {};
}
inline llvm::json::Object json_in(const std::string& path) { return json_of(contents(path)); }

#ifdef MINUET_CLI
struct Finished {
  int code = -1;  ///< negative: it crashed
  std::string out, err;
};

/// MINUET_CLI of the environment, else the tool that was built.
inline std::string tool_under_test() {
  const char* const named = std::getenv("MINUET_CLI");
  return named && *named ? named : MINUET_CLI;
}

/// Runs the program with these arguments, its stdout to the file.
inline Finished run_to(const std::string& out, const std::string& program,
                       const std::vector<std::string>& arguments) {
  const Folder folder;
  const std::string err = folder.path("err");
  llvm::SmallVector<llvm::StringRef, 16> all = {program};
  for (const std::string& argument : arguments) all.push_back(argument);
  const llvm::StringRef streams[] = {"", out, err};
  std::string failure;
  Finished finished;
  // {} stands for no environment of its own in LLVM's old and new spelling of optional.
  finished.code =
      llvm::sys::ExecuteAndWait(program, all, {}, {streams[0], streams[1], streams[2]}, 0, 0, &failure);
  EXPECT_EQ(failure, "");
  finished.err = contents(err);
  return finished;
}

inline Finished run_program(const std::string& program, const std::vector<std::string>& arguments) {
  const Folder folder;
  Finished finished = run_to(folder.path("out"), program, arguments);
  finished.out = contents(folder.path("out"));
  return finished;
}

/// Runs the tool with these arguments, its stdout to the file.
inline Finished minuet_to(const std::string& out, const std::vector<std::string>& arguments) {
  return run_to(out, tool_under_test(), arguments);
}

/// Runs the tool with these arguments, and `more`.
inline Finished minuet(std::vector<std::string> arguments, const std::vector<std::string>& more = {}) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(tool_under_test(), arguments);
}
#endif

}  // namespace minuet::tool
