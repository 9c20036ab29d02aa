// `minuet weights convert`: another engine's weights into a file of Minuet's order and names.
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/error.h"

namespace minuet::tool {

llvm::Error weights_command(const Arguments& arguments) {
  NetworkOptions filled;
  MINUET_TRY(fill_network_options(arguments.network, MINUET_F32, filled));
  MINUET_TRY(in_network(arguments.network,
                        check(minuet_weights_convert(&filled.options, arguments.output.c_str()))));
  llvm::outs() << arguments.output << "\n";
  return llvm::Error::success();
}

}  // namespace minuet::tool
