// The helper's side: jobs in, answers out, one after the other.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "codegen/compiler.h"
#include "codegen/helper/pch_folder.h"
#include "codegen/helper/protocol.h"

namespace minuet {

/// Makes the kernel kill this process with its parent, for which it takes the thread that started it. False
/// where `parent` is not the parent any more.
bool follow_parent(pid_t parent);

/// Where memory runs out the system ends this process first: it is started again, and its parent is not.
void end_before_the_host();

/// Compiles or identifies in this process. Not thread-safe.
class JobCompiler {
 public:
  HelperAnswer answer(const HelperJob& job);

 private:
  static llvm::Expected<std::string> identify(const HelperJob& job);
  llvm::Expected<std::string> compile_entry(const HelperJob& job, PchUse& pch_use);
  std::string pch_directory();

  std::unique_ptr<PchFolder> pch_folder_;  // made for the first job that wants one
  bool has_no_pch_folder_ = false;
};

/// Answers every job with `answer_job` until `input` ends. An error is a broken stream.
llvm::Error serve(int input, int output, const std::function<HelperAnswer(const HelperJob&)>& answer_job);

}  // namespace minuet
