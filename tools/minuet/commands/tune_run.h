// `minuet tune run` and `minuet tune show`, beside the commands of commands/tune.cc.
#pragma once

#include "tools/minuet/options.h"

namespace minuet::tool {

void add_tune_run(CLI::App& tune, TuneOptions& options);
llvm::Error tune_run(const TuneOptions& options);
llvm::Error tune_show(const TuneOptions& options);

}  // namespace minuet::tool
