// Writes what torch.save writes, and files that are wrong on purpose: pickles opcode by opcode, and both
// forms around them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/weights/safetensors_writer.h"

namespace minuet::torch {

// Each of these functions returns the opcodes of protocol 2 that leave one object on the stack.
std::string none();
std::string boolean(bool value);
std::string integer(std::int64_t value);
std::string real();
std::string text(const std::string& value);
std::string tuple(const std::vector<std::string>& items);
std::string tuple_of(const std::vector<std::int64_t>& values);
std::string list(const std::vector<std::string>& items);
std::string global(const std::string& module, const std::string& name);
std::string call(const std::string& function, const std::vector<std::string>& arguments);
using Items = std::vector<std::pair<std::string, std::string>>;  // keys as they are, values as opcodes
std::string dict(const Items& items);
/// With an attribute, as the dict of state_dict() has it.
std::string ordered_dict(const Items& items);
std::string storage(const std::string& type, const std::string& key, std::int64_t elements,
                    bool is_old_form = false);
std::string tensor(const std::string& storage, std::int64_t offset, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides);
std::string parameter(const std::string& tensor);
/// The whole pickle.
std::string pickle(const std::string& object);

/// An entry of a zip archive. Fields that are not those of the bytes make an archive that is wrong.
struct ZipEntry {
  std::string name, bytes;
  std::uint16_t method = 0, flags = 0x0808;  // as torch.save has them: sizes behind the bytes, names in UTF-8
  std::uint32_t checksum_error = 0;
  std::int64_t size_error = 0, stored_error = 0, header_error = 0;
  std::string local_name = {};  // empty: `name`
  bool has_long_sizes = false;
};
struct ZipForm {
  bool has_long_end = true;  // as torch.save writes it
  std::int64_t count_error = 0, begin_error = 0;
  std::string comment = {};
};
std::string zip(const std::vector<ZipEntry>& entries, const ZipForm& form = {});

struct Storage {
  std::string key, bytes;
  std::int64_t elements = 0;
};
std::vector<ZipEntry> zip_entries(const std::string& pickle, const std::vector<Storage>& storages,
                                  const std::string& folder = "archive");
/// The form of torch 1.6 and later, and the older one.
std::string zip_form(const std::string& pickle, const std::vector<Storage>& storages);
std::string old_form(const std::string& pickle, const std::vector<Storage>& storages,
                     bool is_little_endian = true);

enum class Form { Zip, Old };
/// The tensors as a dict of Python, float32, each with a storage of its own. `wrap` makes the root of it.
std::string checkpoint(const std::map<std::string, FileTensor>& tensors, Form form,
                       std::string (*wrap)(const std::string& dict) = nullptr);

}  // namespace minuet::torch
