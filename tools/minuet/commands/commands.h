// The commands. Each returns an error of one sentence, or success after it has done all its work.
#pragma once

#include "llvm/Support/Error.h"
#include "tools/minuet/options.h"

namespace minuet::tool {

llvm::Error run_command(const Arguments& arguments);
llvm::Error view_command(const Arguments& arguments);
llvm::Error report_command(const Arguments& arguments);
llvm::Error info_command(const Arguments& arguments);
llvm::Error bench_command(const Arguments& arguments);
llvm::Error precompile_command(const Arguments& arguments);
llvm::Error cache_command(const Arguments& arguments);
llvm::Error tune_command(const Arguments& arguments);
llvm::Error study_command(const Arguments& arguments);
llvm::Error weights_command(const Arguments& arguments);

/// The flag's dtype, or fp16 on a GPU and fp32 on the CPU where the flag is empty.
llvm::Expected<minuet_dtype> dtype_for(const std::string& flag, bool is_cpu);

}  // namespace minuet::tool
