# minuet_add_room(<target> USES <target>... SOURCES <file>...)
#
# Adds a room of the library as a static library. USES names the rooms below it whose headers it includes;
# tools/lint/check_layering.py checks the includes.
function(minuet_add_room target)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "USES;SOURCES")
  add_library(${target} STATIC ${room_SOURCES})
  target_link_libraries(${target} PUBLIC ${room_USES} PRIVATE minuet_options)
  minuet_precompile(${target} FROM minuet_codegen_base)
endfunction()
