// Handling of Ctrl-C for commands that keep the work they have finished.
#pragma once

namespace minuet::tool {

/// After this call the first SIGINT or SIGTERM only makes is_interrupted() true. The second one removes
/// unfinished files and ends the process.
void watch_interrupts();
bool is_interrupted();

}  // namespace minuet::tool
