// Lets a command notice Ctrl-C, so that it can stop early and keep the work that it has finished.
#pragma once

namespace minuet::tool {

/// After this call, the first SIGINT or SIGTERM only makes is_interrupted() return true. The second one
/// removes unfinished output files and ends the process.
void watch_interrupts();
bool is_interrupted();

}  // namespace minuet::tool
