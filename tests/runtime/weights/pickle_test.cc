// Pickles become nodes, whatever their opcodes name, and wrong ones are refused within bounds.
#include "runtime/weights/pickle.h"

#include <gmock/gmock.h>

#include "tests/support/torch_writer.h"

namespace minuet {
namespace {

using testing::HasSubstr;

std::string raw(const char* bytes, std::size_t size) { return std::string(bytes, size); }

std::string described(const std::string& bytes) {
  llvm::Expected<Pickle> pickle = read_pickle(bytes);
  if (!pickle) return llvm::toString(pickle.takeError());
  return describe(*pickle, pickle->at(pickle->root));
}

/// The integer at the root.
std::int64_t integer_of(const std::string& opcodes) {
  const std::string bytes = opcodes + ".";
  const Pickle pickle = llvm::cantFail(read_pickle(bytes));
  EXPECT_EQ(pickle.at(pickle.root).kind, PickleKind::Integer) << opcodes;
  return pickle.at(pickle.root).integer;
}

TEST(PickleReader, IntegersOfEveryOpcode) {
  EXPECT_EQ(integer_of("K\xff"), 255);
  EXPECT_EQ(integer_of("M\x01\xff"), 0xff01);
  EXPECT_EQ(integer_of("J\xfe\xff\xff\xff"), -2);
  EXPECT_EQ(integer_of("I-12\n"), -12);
  EXPECT_EQ(integer_of("L123456789012L\n"), 123456789012);
  EXPECT_EQ(integer_of(raw("\x8a\0", 2)), 0);
  EXPECT_EQ(integer_of("\x8a\x01\x80"), -128);
  EXPECT_EQ(integer_of(raw("\x8a\x02\xff\0", 4)), 255);
  EXPECT_EQ(integer_of(raw("\x8b\x02\0\0\0\x01\xff", 7)), -255);
  EXPECT_EQ(integer_of(torch::integer(-5'000'000'000)), -5'000'000'000);
}

/// What pickle.dumps({"a": [1, True, None, 2.5]}, protocol) gives for each protocol.
TEST(PickleReader, EveryProtocol) {
  const std::string pickles[] = {
      raw("(dp0\nVa\np1\n(lp2\nI1\naI01\naNaF2.5\nas.", 35),
      raw("}q\0X\x01\0\0\0aq\x01]q\x02(K\x01I01\nNG@\x04\0\0\0\0\0\0es.", 34),
      raw("\x80\x02}q\0X\x01\0\0\0aq\x01]q\x02(K\x01\x88NG@\x04\0\0\0\0\0\0es.", 33),
      raw("\x80\x03}q\0X\x01\0\0\0aq\x01]q\x02(K\x01\x88NG@\x04\0\0\0\0\0\0es.", 33),
      raw("\x80\x04\x95\x19\0\0\0\0\0\0\0}\x94\x8c\x01"
          "a\x94]\x94(K\x01\x88NG@\x04\0\0\0\0\0\0es.",
          36),
      raw("\x80\x05\x95\x19\0\0\0\0\0\0\0}\x94\x8c\x01"
          "a\x94]\x94(K\x01\x88NG@\x04\0\0\0\0\0\0es.",
          36)};
  for (const std::string& bytes : pickles) {
    SCOPED_TRACE(bytes);
    const std::string with_rest = bytes + "rest";
    llvm::Expected<Pickle> pickle = read_pickle(with_rest);
    ASSERT_TRUE(static_cast<bool>(pickle)) << llvm::toString(pickle.takeError());
    EXPECT_EQ(pickle->bytes, bytes.size());
    const PickleNode& root = pickle->at(pickle->root);
    ASSERT_EQ(root.kind, PickleKind::Dict);
    ASSERT_EQ(root.parts.size(), 2u);
    EXPECT_EQ(pickle->part(root, 0).text, "a");
    const PickleNode& items = pickle->part(root, 1);
    ASSERT_EQ(items.kind, PickleKind::List);
    ASSERT_EQ(items.parts.size(), 4u);
    EXPECT_EQ(pickle->part(items, 0).integer, 1);
    EXPECT_EQ(pickle->part(items, 1).kind, PickleKind::Bool);
    EXPECT_EQ(pickle->part(items, 1).integer, 1);
    EXPECT_EQ(pickle->part(items, 2).kind, PickleKind::None);
    EXPECT_EQ(pickle->part(items, 3).kind, PickleKind::Real);
  }
}

TEST(PickleReader, CallsBecomeNodesOfEveryOpcode) {
  const std::string system = torch::global("os", "system"),
                    arguments = torch::tuple({torch::text("rm -rf /")});
  const std::string calls[] = {system + arguments + "R.",
                               system + arguments + "\x81.",
                               system + arguments + "}\x92.",
                               "(" + torch::text("rm") + "ios\nsystem\n.",
                               "(" + system + torch::text("rm") + "o.",
                               torch::text("os") + torch::text("system") + "\x93" + arguments + "R.",
                               system + arguments + "R}b.",
                               system + arguments + "R" + torch::text("k") + "Ns.",
                               system + arguments + "R(NNe."};
  for (const std::string& bytes : calls) EXPECT_EQ(described(bytes), "the Python object os.system") << bytes;
  EXPECT_EQ(described(system + "."), "the Python name os.system");
  EXPECT_EQ(described(torch::global("a b\x01", "\xff") + "."), "the Python name a?b?.?");
  EXPECT_EQ(described(torch::global(std::string(500, 'm'), "n") + "."),
            "the Python name " + std::string(100, 'm'));
}

TEST(PickleReader, MemoAndStack) {
  EXPECT_EQ(described(raw("]r\x07\0\0\0N0j\x07\0\0\0.", 14)), "a list");
  EXPECT_EQ(described("Np12\n]0g12\n."), "None");
  EXPECT_EQ(described("N\x94]\x94h\x01."), "a list");
  EXPECT_EQ(described("K\x01(NNN1."), "a number");
  EXPECT_EQ(described("K\x01(0."), "a number");
  EXPECT_EQ(described("K\x01"
                      "2."),
            "a number");
  EXPECT_EQ(described("(NK\x01\x91."), "a list");
  EXPECT_EQ(described("\x8f(N\x90."), "a list");
  EXPECT_EQ(described("NQ."), "a storage without a tensor");
  EXPECT_EQ(described("S'text'\n."), "a text");
  // A list that has itself, and a dict that is its own key.
  EXPECT_EQ(described("]q\x01h\x01"
                      "a."),
            "a list");
  EXPECT_EQ(described("}q\x01h\x01h\x01s."), "a dict");
}

TEST(PickleReader, WrongOnesAreRefused) {
  const std::pair<std::string, const char*> pickles[] = {
      {"", "at byte 0: it ends too early"},
      {"N", "at byte 1: it ends too early"},
      {".", "an object is missing on its stack"},
      {"\x80\x06N.", "newer than 5"},
      {raw("X\xff\xff\xff\xff"
           "a",
           6),
       "it ends too early"},
      {raw("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
           "a",
           10),
       "it ends too early"},
      {raw("\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.", 11), "a frame is longer than the file"},
      {"h\x01.", "an object that it repeats is missing"},
      {"g7\n.", "an object that it repeats is missing"},
      {"Np99999999999\n.", "remembers too many objects"},
      {"Np-1\n.", "remembers too many objects"},
      {raw("Nr\xff\xff\xff\xff.", 7), "remembers too many objects"},
      {"t.", "a mark is missing"},
      {"(R.", "an object is missing"},
      {"N(0R.", "an object is missing"},
      {"NNNu.", "a mark is missing"},
      {"}(Nu.", "has no value"},
      {"N(NNu.", "an object that is not a dict"},
      {"NNa.", "an object that is not a list"},
      {"K\x01K\x02\x93.", "a class has no name"},
      {"(o.", "an object has no class"},
      {"I12", "a line has no end"},
      {"Ix\n.", "a line is not a number"},
      {"L99999999999999999999L\n.", "not a number of at most 64 bits"},
      {"S'a\\n'\n.", "escape sequences"},
      {"V\\u0061\n.", "escape sequences"},
      {"Sa\n.", "not in quotes"},
      {"S'\n.", "not in quotes"},
      {"Px\n.", "no opcode of a file of torch.save"},
      {"\x82\x01.", "no opcode"},  // an extension code
      {"\x97.", "no opcode"},      // a buffer outside the pickle
      {"\xff.", "at byte 0: no opcode"},
      {std::string(2000, '('), "it nests too deep"}};
  for (const auto& [bytes, words] : pickles) EXPECT_THAT(described(bytes), HasSubstr(words)) << bytes;
}

/// Memory and time stay in proportion, whatever the pickle repeats.
TEST(PickleReader, BoundsOfObjectsAndOfTheStack) {
  EXPECT_THAT(described(std::string(3u << 20, ']')), HasSubstr("it has too many objects"));
  EXPECT_THAT(described(std::string(5u << 20, 'N')), HasSubstr("too many objects on its stack"));
  EXPECT_THAT(described("N" + std::string(5u << 20, '2')), HasSubstr("too many objects on its stack"));
  // Numbers without a value are one object, so that a long list of them is fine.
  std::string losses = "](";
  for (int i = 0; i < 3 << 20; ++i) losses += raw("G\0\0\0\0\0\0\0\0", 9);
  EXPECT_EQ(described(losses + "e."), "a list");
  // Lists of lists of lists, each with the one before it twice: 2^1000 elements for whatever follows them.
  std::string doubled = "]q\x01";
  for (int i = 0; i < 1000; ++i)
    doubled +=
        "](h\x01h\x01"
        "eq\x01";
  EXPECT_EQ(described(doubled + "."), "a list");
}

}  // namespace
}  // namespace minuet
