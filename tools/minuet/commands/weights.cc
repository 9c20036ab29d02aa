// `minuet weights convert` converts another engine's weights into a file with Minuet's order of the weights
// and names of the tensors.
#include <optional>

#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/commands/commands.h"

namespace minuet::tool {

llvm::Error weights_command(const Arguments& arguments) {
  const NetworkChoice& choice = arguments.network;
  MINUET_TRY(
      check_distinct({{"OUT", arguments.output}},
                     {{"IN", choice.weights}, {"--map", choice.weights_map}, {"--network", choice.network}}));
  if (arguments.output == "-")
    return bad_input("OUT is '-', but weights convert cannot write to stdout: name a file");
  MINUET_ASSIGN(OutputFile file, OutputFile::open(arguments.output));
  if (!file.is_regular())
    return bad_input("'{0}' is not a regular file, so it cannot store weights: name another file",
                     arguments.output);
  NetworkOptions filled;
  MINUET_TRY(fill_network_options(choice, MINUET_F32, filled));
  std::optional<Progress> progress("converting the weights");
  llvm::Error error = check_writing(minuet_weights_convert(&filled.options, file.temporary_path().c_str()));
  progress.reset();
  MINUET_TRY(in_network(choice, about_file(file.temporary_path(), arguments.output, std::move(error))));
  MINUET_TRY(file.keep());
  llvm::outs() << arguments.output << "\n";
  return llvm::Error::success();
}

}  // namespace minuet::tool
