#include "runtime/weights/pickle.h"

#include <algorithm>

#include "llvm/ADT/StringExtras.h"
#include "runtime/weights/pickle_machine.h"

namespace minuet {
namespace {

constexpr std::size_t kLongestShownName = 100;

/// Runs the opcodes of a pickle.
class PickleReader : private PickleMachine {
 public:
  explicit PickleReader(llvm::StringRef bytes) : PickleMachine(bytes) {}

  llvm::Expected<Pickle> run() {
    for (bool is_over = false; !is_over;) {
      const std::size_t begin = bytes_.size() - rest_.size();
      const llvm::StringRef opcode = take(1);
      is_over = opcode == ".";  // STOP
      if (is_over) {
        pickle_.root = pop();
      } else if (!opcode.empty()) {
        step(opcode[0]);
      }
      if (wrong_ != nullptr) {
        return make_error(
            StatusCode::InvalidArgument,
            "its pickle cannot be read at byte {0}: {1}; the file is damaged, or torch.save did not write it",
            begin, wrong_);
      }
    }
    pickle_.bytes = bytes_.size() - rest_.size();
    return std::move(pickle_);
  }

 private:
  /// Runs one opcode, all bytes of which but the first are still to be read.
  void step(char opcode) {
    const bool is_known = number(opcode) || text(opcode) || collection(opcode) || change(opcode) ||
                          object(opcode) || machine(opcode) || memo(opcode);
    if (!is_known) fail("no opcode of a file of torch.save begins here");
  }

  // Each of the following functions runs some of the opcodes, and returns false for any other opcode.
  bool number(char opcode) {
    switch (opcode) {
      case 'N':  // NONE
        return push(kNone), true;
      case '\x88':  // NEWTRUE
        return push(kTrue), true;
      case '\x89':  // NEWFALSE
        return push(kFalse), true;
      case 'I':  // INT, which protocols 0 and 1 use for True and False too
        if (rest_.substr(0, 3) == "01\n" || rest_.substr(0, 3) == "00\n")
          return push(take_line() == "01" ? kTrue : kFalse), true;
        return push(integer_of(take_decimal())), true;
      case 'L':  // LONG
        return push(integer_of(take_decimal())), true;
      case 'J':  // BININT
        return push(integer_of(static_cast<std::int32_t>(take_integer(4)))), true;
      case 'K':  // BININT1
        return push(integer_of(static_cast<std::int64_t>(take_integer(1)))), true;
      case 'M':  // BININT2
        return push(integer_of(static_cast<std::int64_t>(take_integer(2)))), true;
      case '\x8a':  // LONG1
        return push_long(take(take_integer(1))), true;
      case '\x8b':  // LONG4
        return push_long(take(take_integer(4))), true;
      case 'F':  // FLOAT
        return take_line(), push(kReal), true;
      case 'G':  // BINFLOAT
        return take(8), push(kReal), true;
      default:
        return false;
    }
  }
  void push_long(llvm::StringRef digits) {
    if (digits.size() > sizeof(std::int64_t)) return push(text_of(PickleKind::LongInteger, digits));
    std::uint64_t value = !digits.empty() && digits.back() < 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(digits[i]);
    push(integer_of(static_cast<std::int64_t>(value)));
  }

  bool text(char opcode) {
    switch (opcode) {
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
        return push(text_of(PickleKind::Text, take(take_integer(4)))), true;
      case 'U':     // SHORT_BINSTRING
      case '\x8c':  // SHORT_BINUNICODE
        return push(text_of(PickleKind::Text, take(take_integer(1)))), true;
      case '\x8d':  // BINUNICODE8
        return push(text_of(PickleKind::Text, take(take_integer(8)))), true;
      case 'S':  // STRING, which is in quotes
      case 'V':  // UNICODE
        return push(text_of(PickleKind::Text, take_text_line(opcode == 'S'))), true;
      case 'B':  // BINBYTES
        return push(text_of(PickleKind::Bytes, take(take_integer(4)))), true;
      case 'C':  // SHORT_BINBYTES
        return push(text_of(PickleKind::Bytes, take(take_integer(1)))), true;
      case '\x8e':  // BINBYTES8
      case '\x96':  // BYTEARRAY8
        return push(text_of(PickleKind::Bytes, take(take_integer(8)))), true;
      default:
        return false;
    }
  }
  llvm::StringRef take_text_line(bool is_quoted) {
    llvm::StringRef line = take_line();
    if (line.contains('\\')) fail("a text has escape sequences, which torch.save does not write");
    if (!is_quoted) return line;
    if (line.size() < 2 || line.front() != line.back()) fail("a text is not in quotes");
    return line.drop_front(std::min<std::size_t>(1, line.size())).drop_back(line.size() < 2 ? 0 : 1);
  }

  bool collection(char opcode) {
    switch (opcode) {
      case ')':  // EMPTY_TUPLE
        return push(node_of(PickleKind::Tuple, {})), true;
      case ']':     // EMPTY_LIST
      case '\x8f':  // EMPTY_SET
        return push(node_of(PickleKind::List, {})), true;
      case '}':  // EMPTY_DICT
        return push(node_of(PickleKind::Dict, {})), true;
      case 't':  // TUPLE
        return push(node_of(PickleKind::Tuple, pop_marked())), true;
      case 'l':     // LIST
      case '\x91':  // FROZENSET
        return push(node_of(PickleKind::List, pop_marked())), true;
      case 'd':  // DICT
        return push_dict(pop_marked()), true;
      case '\x85':  // TUPLE1
      case '\x86':  // TUPLE2
      case '\x87':  // TUPLE3
        return push(node_of(PickleKind::Tuple, pop_several(static_cast<std::size_t>(opcode - '\x84')))), true;
      default:
        return false;
    }
  }
  void push_dict(const std::vector<NodeIndex>& items) {
    push(node_of(PickleKind::Dict, {}));
    set_items(items);
  }

  bool change(char opcode) {
    switch (opcode) {
      case 'a':  // APPEND
        return append(pop_several(1)), true;
      case 'e':     // APPENDS
      case '\x90':  // ADDITEMS
        return append(pop_marked()), true;
      case 's':  // SETITEM
        return set_items(pop_several(2)), true;
      case 'u':  // SETITEMS
        return set_items(pop_marked()), true;
      case 'b':  // BUILD
        pop();
        pickle_.nodes[top()].has_state = true;
        return true;
      default:
        return false;
    }
  }
  void append(const std::vector<NodeIndex>& items) {
    PickleNode& node = pickle_.nodes[top()];
    // The elements of objects that behave like lists are not kept, because nothing understands such objects.
    if (node.kind == PickleKind::List) {
      node.parts.insert(node.parts.end(), items.begin(), items.end());
    } else if (node.kind != PickleKind::Call) {
      fail("it appends to an object that is not a list");
    }
  }
  void set_items(const std::vector<NodeIndex>& items) {
    PickleNode& node = pickle_.nodes[top()];
    if (node.kind != PickleKind::Dict && node.kind != PickleKind::Call)
      fail("it sets an item of an object that is not a dict");
    if (items.size() % 2 != 0) fail("a key of a dict has no value");
    if (wrong_ == nullptr) node.parts.insert(node.parts.end(), items.begin(), items.end());
  }

  bool object(char opcode) {
    switch (opcode) {
      case 'c':  // GLOBAL
        return push(take_global()), true;
      case '\x93':  // STACK_GLOBAL
        return push_global(pop_several(2)), true;
      case 'R':     // REDUCE
      case '\x81':  // NEWOBJ
        return push(node_of(PickleKind::Call, pop_several(kPartsOfCall))), true;
      case '\x92':  // NEWOBJ_EX, whose arguments by name are not kept
        pop();
        return push(node_of(PickleKind::Call, pop_several(kPartsOfCall))), true;
      case 'i': {  // INST
        const NodeIndex global = add(take_global());
        return push_instance(global, pop_marked()), true;
      }
      case 'o': {  // OBJ
        std::vector<NodeIndex> parts = pop_marked();
        if (parts.empty()) return fail("an object has no class"), true;
        const NodeIndex global = parts.front();
        parts.erase(parts.begin());
        return push_instance(global, std::move(parts)), true;
      }
      case 'Q':  // BINPERSID
        return push(node_of(PickleKind::Persistent, pop_several(1))), true;
      default:
        return false;
    }
  }
  PickleNode take_global() {
    const NodeIndex module = add(text_of(PickleKind::Text, take_line()));
    return node_of(PickleKind::Global, {module, add(text_of(PickleKind::Text, take_line()))});
  }
  void push_global(std::vector<NodeIndex> parts) {
    for (const NodeIndex part : parts) {
      if (pickle_.nodes[part].kind != PickleKind::Text) fail("a class has no name");
    }
    push(node_of(PickleKind::Global, std::move(parts)));
  }
  void push_instance(NodeIndex global, std::vector<NodeIndex> arguments) {
    push(node_of(PickleKind::Call, {global, add(node_of(PickleKind::Tuple, std::move(arguments)))}));
  }

  bool machine(char opcode) {
    switch (opcode) {
      case '\x80':  // PROTO
        if (take_integer(1) > 5) fail("its protocol is newer than 5");
        return true;
      case '\x95':  // FRAME
        if (take_integer(8) > rest_.size()) fail("a frame is longer than the file");
        return true;
      case '(':  // MARK
        if (marks_.size() >= kMostMarks) fail("it nests too deep");
        return marks_.push_back(stack_.size()), true;
      case '0':  // POP, which removes a mark too
        if (!marks_.empty() && stack_.size() == floor()) return marks_.pop_back(), true;
        return pop(), true;
      case '1':  // POP_MARK
        return pop_marked(), true;
      case '2':  // DUP
        return push(top()), true;
      default:
        return false;
    }
  }

  bool memo(char opcode) {
    switch (opcode) {
      case 'p':  // PUT
        return put(static_cast<std::uint64_t>(take_decimal())), true;
      case 'q':  // BINPUT
        return put(take_integer(1)), true;
      case 'r':  // LONG_BINPUT
        return put(take_integer(4)), true;
      case '\x94':  // MEMOIZE
        return put(remembered_), true;
      case 'g':  // GET
        return get(static_cast<std::uint64_t>(take_decimal())), true;
      case 'h':  // BINGET
        return get(take_integer(1)), true;
      case 'j':  // LONG_BINGET
        return get(take_integer(4)), true;
      default:
        return false;
    }
  }
  void put(std::uint64_t key) {
    if (key >= kMostNodes) return fail("it remembers too many objects");
    if (key >= memo_.size()) memo_.resize(key + 1, kNoNode);
    if (memo_[key] == kNoNode) ++remembered_;
    memo_[key] = top();
  }
  void get(std::uint64_t key) {
    if (key >= memo_.size() || memo_[key] == kNoNode) return fail("an object that it repeats is missing");
    push(memo_[key]);
  }

  std::vector<NodeIndex> memo_;  // Holds the remembered objects by their keys.
  std::size_t remembered_ = 0;
};

}  // namespace

llvm::Expected<Pickle> read_pickle(llvm::StringRef bytes) { return PickleReader(bytes).run(); }

std::string global_name(const Pickle& pickle, const PickleNode& node) {
  if (node.kind != PickleKind::Global) return "";
  std::string name = (pickle.part(node, 0).text.take_front(kLongestShownName) + "." +
                      pickle.part(node, 1).text.take_front(kLongestShownName))
                         .str();
  for (char& character : name) {
    if (!llvm::isAlnum(character) && character != '_' && character != '.') character = '?';
  }
  return name.substr(0, kLongestShownName);
}

std::string describe(const Pickle& pickle, const PickleNode& node) {
  switch (node.kind) {
    case PickleKind::None:
      return "None";
    case PickleKind::Bool:
    case PickleKind::Integer:
    case PickleKind::LongInteger:
    case PickleKind::Real:
      return "a number";
    case PickleKind::Text:
    case PickleKind::Bytes:
      return "a text";
    case PickleKind::Tuple:
    case PickleKind::List:
      return "a list";
    case PickleKind::Dict:
      return "a dict";
    case PickleKind::Global:
      return "the Python name " + global_name(pickle, node);
    case PickleKind::Call:
      return "the Python object " + global_name(pickle, pickle.part(node, 0));
    case PickleKind::Persistent:
      return "a storage without a tensor";
  }
  return "";
}

}  // namespace minuet
