#include "tests/support/torch_writer.h"

#include <cstring>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"

namespace minuet::torch {
namespace {

template <class Integer>
std::string raw(Integer value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string joined(const std::vector<std::string>& items) {
  std::string all;
  for (const std::string& item : items) all += item;
  return all;
}

std::string set_items(const Items& items) {
  std::string all = "(";
  for (const auto& [key, value] : items) all += text(key) + value;
  return items.empty() ? "" : all + "u";
}

std::vector<std::int64_t> contiguous(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) strides[axis] = stride;
  return strides;
}

}  // namespace

std::string none() { return "N"; }
std::string boolean(bool value) { return value ? "\x88" : "\x89"; }

std::string integer(std::int64_t value) {
  if (value >= 0 && value < 256) return "K" + raw(static_cast<std::uint8_t>(value));
  if (value >= 0 && value < 65536) return "M" + raw(static_cast<std::uint16_t>(value));
  if (value >= INT32_MIN && value <= INT32_MAX) return "J" + raw(static_cast<std::int32_t>(value));
  return "\x8a\x08" + raw(value);
}

std::string real() { return "G" + std::string("\x3f\xf0\0\0\0\0\0\0", 8); }

std::string text(const std::string& value) {
  return "X" + raw(static_cast<std::uint32_t>(value.size())) + value;
}

std::string tuple(const std::vector<std::string>& items) {
  if (items.empty()) return ")";
  if (items.size() > 3) return "(" + joined(items) + "t";
  return joined(items) + static_cast<char>(0x84 + static_cast<int>(items.size()));
}

std::string tuple_of(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(integer(value));
  return tuple(items);
}

std::string list(const std::vector<std::string>& items) { return "](" + joined(items) + "e"; }

std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

std::string call(const std::string& function, const std::vector<std::string>& arguments) {
  return function + tuple(arguments) + "R";
}

std::string dict(const Items& items) { return "}" + set_items(items); }

std::string ordered_dict(const Items& items) {
  const std::string empty = call(global("collections", "OrderedDict"), {});
  return empty + set_items(items) + dict({{"_metadata", empty}}) + "b";
}

std::string storage(const std::string& type, const std::string& key, std::int64_t elements,
                    bool is_old_form) {
  const std::string module = type == "UntypedStorage" ? "torch.storage" : "torch";
  std::vector<std::string> name{text("storage"), global(module, type), text(key), text("cpu"),
                                integer(elements)};
  if (is_old_form) name.push_back(none());
  return tuple(name) + "Q";
}

std::string tensor(const std::string& storage, std::int64_t offset, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {storage, integer(offset), tuple_of(shape), tuple_of(strides), boolean(false),
               call(global("collections", "OrderedDict"), {})});
}

std::string parameter(const std::string& tensor) {
  return call(global("torch._utils", "_rebuild_parameter"),
              {tensor, boolean(true), call(global("collections", "OrderedDict"), {})});
}

std::string pickle(const std::string& object) { return "\x80\x02" + object + "."; }

std::string zip(const std::vector<ZipEntry>& entries, const ZipForm& form) {
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    const std::uint32_t checksum =
        llvm::crc32(llvm::arrayRefFromStringRef(entry.bytes)) ^ entry.checksum_error;
    const auto size =
        static_cast<std::uint64_t>(static_cast<std::int64_t>(entry.bytes.size()) + entry.size_error);
    const auto stored = static_cast<std::uint64_t>(static_cast<std::int64_t>(size) + entry.stored_error);
    const auto begin =
        static_cast<std::uint64_t>(static_cast<std::int64_t>(file.size()) + entry.header_error);
    const std::uint32_t short_size = entry.has_long_sizes ? 0xffffffff : static_cast<std::uint32_t>(size);
    const std::uint32_t short_stored = entry.has_long_sizes ? 0xffffffff : static_cast<std::uint32_t>(stored);
    const std::string extra =
        entry.has_long_sizes ? raw(std::uint16_t{1}) + raw(std::uint16_t{16}) + raw(size) + raw(stored) : "";
    const bool sizes_follow = (entry.flags & 8) != 0;
    const std::string local = entry.local_name.empty() ? entry.name : entry.local_name;
    const std::string common = raw(entry.flags) + raw(entry.method) + raw(std::uint32_t{0});
    // Padding in an extra field puts the bytes at a multiple of 64, as torch.save does.
    std::string padding = "FB" + raw(std::uint16_t{0});
    const std::size_t at = (file.size() + 30 + local.size() + padding.size()) % 64;
    padding = "FB" + raw(static_cast<std::uint16_t>((64 - at) % 64)) + std::string((64 - at) % 64, 'Z');
    file += "PK\x03\x04" + raw(std::uint16_t{0}) + common + raw(sizes_follow ? 0u : checksum) +
            raw(sizes_follow ? 0u : short_stored) + raw(sizes_follow ? 0u : short_size) +
            raw(static_cast<std::uint16_t>(local.size())) + raw(static_cast<std::uint16_t>(padding.size())) +
            local + padding + entry.bytes;
    if (sizes_follow) file += "PK\x07\x08" + raw(checksum) + raw(short_stored) + raw(short_size);
    directory += "PK\x01\x02" + raw(std::uint32_t{0}) + common + raw(checksum) + raw(short_stored) +
                 raw(short_size) + raw(static_cast<std::uint16_t>(entry.name.size())) +
                 raw(static_cast<std::uint16_t>(extra.size())) + std::string(10, '\0') +
                 raw(static_cast<std::uint32_t>(begin)) + entry.name + extra;
  }
  const auto count = static_cast<std::uint64_t>(static_cast<std::int64_t>(entries.size()) + form.count_error);
  const auto begin = static_cast<std::uint64_t>(static_cast<std::int64_t>(file.size()) + form.begin_error);
  const std::uint64_t size = directory.size(), end = file.size() + directory.size();
  file += directory;
  if (form.has_long_end) {
    file += "PK\x06\x06" + raw(std::uint64_t{44}) + raw(std::uint32_t{0x002d002d}) + raw(std::uint64_t{0}) +
            raw(count) + raw(count) + raw(size) + raw(begin);
    file += "PK\x06\x07" + raw(std::uint32_t{0}) + raw(end) + raw(std::uint32_t{1});
  }
  return file + "PK\x05\x06" + raw(std::uint32_t{0}) + raw(static_cast<std::uint16_t>(count)) +
         raw(static_cast<std::uint16_t>(count)) + raw(static_cast<std::uint32_t>(size)) +
         raw(static_cast<std::uint32_t>(begin)) + raw(static_cast<std::uint16_t>(form.comment.size())) +
         form.comment;
}

std::vector<ZipEntry> zip_entries(const std::string& pickle, const std::vector<Storage>& storages,
                                  const std::string& folder) {
  std::vector<ZipEntry> entries{{folder + "/data.pkl", pickle}, {folder + "/byteorder", "little"}};
  for (const Storage& storage : storages) entries.push_back({folder + "/data/" + storage.key, storage.bytes});
  entries.push_back({folder + "/version", "3\n"});
  entries.push_back({folder + "/.data/serialization_id", std::string(40, '1')});
  return entries;
}

std::string zip_form(const std::string& pickle, const std::vector<Storage>& storages) {
  return zip(zip_entries(pickle, storages));
}

std::string old_form(const std::string& pickle, const std::vector<Storage>& storages, bool is_little_endian) {
  std::string file = torch::pickle("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
  file += torch::pickle(integer(1001));
  file += torch::pickle(dict({{"protocol_version", integer(1001)},
                              {"little_endian", boolean(is_little_endian)},
                              {"type_sizes", dict({{"short", integer(2)}, {"int", integer(4)}})}}));
  std::vector<std::string> keys;
  for (const Storage& storage : storages) keys.push_back(text(storage.key));
  file += pickle + torch::pickle(list(keys));
  for (const Storage& storage : storages) file += raw(storage.elements) + storage.bytes;
  return file;
}

std::string checkpoint(const std::map<std::string, FileTensor>& tensors, Form form,
                       std::string (*wrap)(const std::string& dict)) {
  Items items;
  std::vector<Storage> storages;
  for (const auto& [name, one] : tensors) {
    const auto count = static_cast<std::int64_t>(one.values.size());
    const std::string key = std::to_string(storages.size());
    storages.push_back(
        {key, std::string(reinterpret_cast<const char*>(one.values.data()), 4 * one.values.size()), count});
    items.emplace_back(name, tensor(storage("FloatStorage", key, count, form == Form::Old), 0, one.shape,
                                    contiguous(one.shape)));
  }
  const std::string all = ordered_dict(items), object = pickle(wrap ? wrap(all) : all);
  return form == Form::Zip ? zip_form(object, storages) : old_form(object, storages);
}

}  // namespace minuet::torch
