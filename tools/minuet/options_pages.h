// Flags of the commands that write pages.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/minuet/options.h"

namespace minuet::tool {

void add_view(CLI::App& view, Arguments& arguments);
llvm::Error check_view(const Arguments& arguments);
void add_report(CLI::App& report, Arguments& arguments);
/// The page's name.
llvm::Error check_page(const Arguments& arguments);

}  // namespace minuet::tool
