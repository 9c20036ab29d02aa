/* Compares the rows with the headers. A function needs
 *   - a row in which it is used rightly,
 *   - for each pointer, a row in which it is NULL, whether that is refused or fine,
 *   - for each number, a row that is refused and has another argument there than the right uses (but see
 * any_value),
 *   - for each field of a struct that the caller fills in, a row that sets it: WITH(field = ...),
 *   - for each struct that the library fills in, a row with a wrong struct_size.
 * Streams are left to runtime/execution/queue_calls_test.cc, because only a queue knows which stream is
 * right. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

enum { MOST_PARAMETERS = 12 };

typedef struct text {
  const char* begin;
  const char* end;
} text;

typedef struct function {
  text name;
  text parameters[MOST_PARAMETERS];
  int count;
} function;

/* Numbers of which no value is wrong. */
static const char* const any_value[][2] = {
    {"minuet_last_error", "size"},
    {"minuet_last_error_detail", "size"},
    {"minuet_context_cache_directory", "size"},
    {"minuet_plan_description", "size"},
    {"minuet_plan_observe", "size"},
    {"minuet_plan_quantize", "size"},
    {"minuet_status_name", "status"},
    {"minuet_execution_set_profiling", "on"},
};

static int missing;

static int is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }
static int equals(text given, const char* wanted) {
  const size_t length = (size_t)(given.end - given.begin);
  return strlen(wanted) == length && memcmp(given.begin, wanted, length) == 0;
}

static text trimmed(text given) {
  while (given.begin < given.end && isspace((unsigned char)*given.begin)) ++given.begin;
  while (given.begin < given.end && isspace((unsigned char)given.end[-1])) --given.end;
  return given;
}

/* Whether `word` is in the text with no letter before or behind it. */
static int has_word(text given, const char* word) {
  const size_t length = strlen(word);
  for (const char* at = given.begin; at + length <= given.end; ++at) {
    if (memcmp(at, word, length) != 0) continue;
    if (at > given.begin && is_name(at[-1])) continue;
    if (at + length < given.end && is_name(at[length]) && is_name(word[length - 1])) continue;
    return 1;
  }
  return 0;
}

static void report(text name, const char* what, text of) {
  ++missing;
  printf("no row: %.*s: %s %.*s\n", (int)(name.end - name.begin), name.begin, what, (int)(of.end - of.begin),
         of.begin);
}

/* Splits `list` at the commas that are in no parentheses. Returns how many parts there are. */
static int split(text list, text* parts) {
  int count = 0, depth = 0;
  const char* begin = list.begin;
  for (const char* at = list.begin; at <= list.end; ++at) {
    if (at < list.end && (*at == '(' || *at == '[' || *at == '{')) ++depth;
    if (at < list.end && (*at == ')' || *at == ']' || *at == '}')) --depth;
    if (at < list.end && (*at != ',' || depth > 0)) continue;
    const text part = trimmed((text){begin, at});
    begin = at + 1;
    if (part.begin == part.end) continue;
    if (count == MOST_PARAMETERS) exit(1);
    parts[count++] = part;
  }
  return count;
}

/* Reads "name(part, part)", which may have other words before the name. */
static function read_call(text call) {
  function read = {0};
  const char* open = call.begin;
  const char* close = call.end;
  while (open < call.end && *open != '(') ++open;
  while (close > open && *close != ')') --close;
  read.name.end = read.name.begin = open;
  while (read.name.begin > call.begin && is_name(read.name.begin[-1])) --read.name.begin;
  read.count = open < close ? split((text){open + 1, close}, read.parameters) : 0;
  if (read.count == 1 && equals(read.parameters[0], "void")) read.count = 0;
  return read;
}

static text call_of(int row) { return (text){rows[row].call, rows[row].call + strlen(rows[row].call)}; }

static int is_of(int row, text name) {
  const size_t length = (size_t)(name.end - name.begin);
  return strncmp(rows[row].call, name.begin, length) == 0 && rows[row].call[length] == '(';
}

/* The last name of a declaration, without what is in brackets. Of a pointer to a function, the one in the
 * first parentheses. */
static text name_of(text declaration) {
  text name = declaration;
  for (const char* at = declaration.begin; at < declaration.end; ++at) {
    if (*at == '[' || *at == ')') {
      name.end = at;
      break;
    }
  }
  name = trimmed(name);
  name.begin = name.end;
  while (name.begin > declaration.begin && is_name(name.begin[-1])) --name.begin;
  return name;
}

static int is_pointer(text declaration) {
  for (const char* at = declaration.begin; at < declaration.end; ++at) {
    if (*at == '*' || *at == '[') return 1;
  }
  return has_word(declaration, "minuet_kernel_visitor") || has_word(declaration, "minuet_tuned_visitor") ||
         has_word(declaration, "minuet_kernel_code_visitor") ||
         has_word(declaration, "minuet_job_callback") || has_word(declaration, "minuet_floating_visitor");
}

static int any_is_right(text name, text parameter) {
  for (size_t i = 0; i < sizeof(any_value) / sizeof(any_value[0]); ++i) {
    if (equals(name, any_value[i][0]) && equals(parameter, any_value[i][1])) return 1;
  }
  return 0;
}

static int is_used_rightly(text name, int argument, text value) {
  for (int row = 0; row < row_count; ++row) {
    if (rows[row].refused || !is_of(row, name)) continue;
    const function call = read_call(call_of(row));
    const text own = call.parameters[argument];
    if (own.end - own.begin == value.end - value.begin &&
        memcmp(own.begin, value.begin, (size_t)(own.end - own.begin)) == 0) {
      return 1;
    }
  }
  return 0;
}

static int is_null_in_a_row(text name, int argument) {
  for (int row = 0; row < row_count; ++row) {
    if (is_of(row, name) && equals(read_call(call_of(row)).parameters[argument], "NULL")) return 1;
  }
  return 0;
}

static int is_wrong_in_a_row(text name, int argument) {
  for (int row = 0; row < row_count; ++row) {
    if (!rows[row].refused || !is_of(row, name)) continue;
    if (!is_used_rightly(name, argument, read_call(call_of(row)).parameters[argument])) return 1;
  }
  return 0;
}

static void check_parameters(const function* declared) {
  for (int i = 0; i < declared->count; ++i) {
    const text name = name_of(declared->parameters[i]);
    if (equals(name, "stream") || equals(name, "user") || any_is_right(declared->name, name)) continue;
    if (is_pointer(declared->parameters[i])) {
      if (!is_null_in_a_row(declared->name, i)) report(declared->name, "NULL as", name);
    } else if (!is_wrong_in_a_row(declared->name, i)) {
      report(declared->name, "a wrong", name);
    }
  }
}

static void check_function(const function* declared) {
  static const char letters[] = "use";
  const text use = {letters, strchr(letters, '\0')};
  int uses = 0;
  for (int row = 0; row < row_count; ++row) uses += is_of(row, declared->name) && !rows[row].refused;
  if (uses == 0) report(declared->name, "right", use);
  check_parameters(declared);
}

/* Where the text behind `from` next has `wanted`, or null. */
static const char* next(const char* from, const char* wanted) { return from ? strstr(from, wanted) : NULL; }

/* The declaration of the function that begins at or behind `at`, which moves behind it. Returns 0 where there
 * is none. */
static int next_function(const char** at, function* declared) {
  const char* const begin = next(*at, "\nMINUET_API ");
  const char* const end = next(begin, ";");
  if (!end) return 0;
  *declared = read_call((text){begin, end});
  *at = end;
  return 1;
}

/* Whether any row of a function that takes the struct has `words`. */
static int a_row_has(const char* header, const char* taken, const char* words) {
  const char* at = header;
  function declared;
  while (next_function(&at, &declared)) {
    int takes = 0;
    for (int i = 0; i < declared.count; ++i) takes = takes || has_word(declared.parameters[i], taken);
    for (int row = 0; takes && row < row_count; ++row) {
      if (is_of(row, declared.name) && has_word(call_of(row), words)) return 1;
    }
  }
  return 0;
}

static int is_taken(const char* header, const char* name, int* as_const) {
  char constant[512];
  const char* at = header;
  function declared;
  int taken = 0;
  snprintf(constant, sizeof(constant), "const %s*", name);
  while (next_function(&at, &declared)) {
    for (int i = 0; i < declared.count; ++i) {
      if (!has_word(declared.parameters[i], name)) continue;
      taken = 1;
      *as_const = *as_const || has_word(declared.parameters[i], constant);
    }
  }
  return taken;
}

/* Checks the fields of one declaration, "int32_t a, b[4]". */
static void check_fields(const char* header, text name, const char* taken, text declaration) {
  text fields[MOST_PARAMETERS];
  char words[256];
  const int is_callback = has_word(declaration, "void (*") || has_word(declaration, "int32_t (*");
  const int count = is_callback ? 1 : split(declaration, fields);
  if (is_callback) fields[0] = declaration;
  for (int i = 0; i < count; ++i) {
    const text field = name_of(fields[i]);
    snprintf(words, sizeof(words), "WITH(%.*s", (int)(field.end - field.begin), field.begin);
    if (!a_row_has(header, taken, words)) report(name, "WITH", field);
  }
}

static void check_struct(const char* header, text name, text body) {
  static const char struct_size[] = "struct_size";
  char taken[256];
  int is_options = 0;
  snprintf(taken, sizeof(taken), "%.*s", (int)(name.end - name.begin), name.begin);
  if (!is_taken(header, taken, &is_options)) return; /* callbacks are handed it */
  if (!is_options) {
    if (!a_row_has(header, taken, struct_size))
      report(name, "a wrong", (text){struct_size, strchr(struct_size, '\0')});
    return;
  }
  const char* begin = body.begin;
  for (const char* at = body.begin; at < body.end; ++at) {
    if (*at != ';') continue;
    check_fields(header, name, taken, trimmed((text){begin, at}));
    begin = at + 1;
  }
}

static void check_structs(const char* header) {
  const char* at = header;
  while ((at = next(at, "typedef struct minuet_"))) {
    const char* const open = at + strcspn(at, "{;");
    const text head = trimmed((text){at, open});
    at = open;
    if (*open != '{') continue;
    at = open + strcspn(open, "}");
    check_struct(header, name_of(head), (text){open + 1, at});
  }
}

/* Puts spaces in the place of comments. */
static void remove_comments(char* header) {
  char* begin = header;
  while ((begin = strstr(begin, "/*"))) {
    const char* const end = strstr(begin, "*/");
    while (begin < end + 2) *begin++ = ' ';
  }
}

/* Appends a file to the text, which is long enough or the program ends. */
static void append_file(const char* path, char* text, size_t size) {
  const size_t length = strlen(text);
  FILE* const file = fopen(path, "r");
  if (!file) {
    printf("cannot read %s\n", path);
    exit(1);
  }
  const size_t read = fread(text + length, 1, size - length, file);
  fclose(file);
  if (length + read == size) exit(1);
  text[length + read] = '\0';
}

int compare_with_headers(char** headers, int count) {
  static char all[1 << 18];
  const char* at = all;
  function declared;
  int functions = 0;
  for (int i = 0; i < count; ++i) append_file(headers[i], all, sizeof(all));
  remove_comments(all);
  for (; next_function(&at, &declared); ++functions) check_function(&declared);
  check_structs(all);
  printf("%d functions in the headers\n", functions);
  return functions > 0 ? missing : 1;
}
