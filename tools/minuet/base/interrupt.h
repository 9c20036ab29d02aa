// Ctrl-C for commands that keep what is done.
#pragma once

namespace minuet::tool {

/// From here on the first SIGINT or SIGTERM is noted, and the second one ends the process, without unfinished
/// files.
void watch_interrupts();
bool is_interrupted();

}  // namespace minuet::tool
