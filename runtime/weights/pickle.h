// Reads pickles, the format in which Python stores objects, without creating any object. A pickle is a
// program for a stack machine that names Python functions and calls them. This reader runs the program, but
// it calls nothing and knows no function: a call becomes a node that has the name of the function and the
// arguments, and other code decides which of these nodes it understands (torch_tensors.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

enum class PickleKind : std::uint8_t {
  None,
  Bool,
  Integer,
  LongInteger,  ///< The integer has more than 64 bits. `text` holds its bytes, the lowest first.
  Real,         ///< The value is not kept.
  Text,
  Bytes,
  Tuple,
  List,  ///< The node is a list or a set.
  Dict,
  Global,      ///< `parts` are the module and the name of a function or class, both Text.
  Call,        ///< `parts` are those of kPartsOfCall, then keys and values that were set.
  Persistent,  ///< The node is an object outside the pickle. `parts` has its identifier.
};

/// A Call has the called node and its arguments in front of the keys and values that were set.
inline constexpr std::size_t kPartsOfCall = 2;

/// Describes one object. Other nodes are named by their indices in Pickle::nodes. Nodes may contain each
/// other, so code that follows `parts` must not do so without a limit.
struct PickleNode {
  PickleKind kind = PickleKind::None;
  bool has_state = false;  // Says whether the pickle sets attributes of the object.
  std::int64_t integer = 0;
  llvm::StringRef text;
  std::vector<std::uint32_t> parts;  // A Dict has its keys and values in turn.
};

struct Pickle {
  std::vector<PickleNode> nodes;
  std::uint32_t root = 0;
  std::size_t bytes = 0;  // Holds the size of the pickle. Other bytes may follow it.

  const PickleNode& at(std::uint32_t index) const { return nodes[index]; }
  const PickleNode& part(const PickleNode& node, std::size_t part) const { return nodes[node.parts[part]]; }
};

/// Reads the pickle, of protocol 0 to 5, at the start of `bytes`. Returns InvalidArgument if it is damaged,
/// has more than about two million objects, or uses what torch.save does not: extension codes, buffers
/// outside the pickle, or escape sequences of protocol 0. Time and memory are proportional to the size of the
/// pickle. The result points into `bytes`.
llvm::Expected<Pickle> read_pickle(llvm::StringRef bytes);

/// Returns "module.name" of a Global, or "" for another node. Other characters than those of Python names
/// become "?", and the text is cut at 100 characters.
std::string global_name(const Pickle& pickle, const PickleNode& node);
/// Describes a node for messages, for example "a number" or "the Python object argparse.Namespace".
std::string describe(const Pickle& pickle, const PickleNode& node);

}  // namespace minuet
