# The call minuet_add_room(<target> USES <target>... SOURCES <file>...) adds a static library of the sources of one
# folder. Such a folder with its own README is called a room. USES names the rooms whose headers the sources include.
# tools/lint/check_layering.py checks which room includes which.
function(minuet_add_room target)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "USES;SOURCES")
  add_library(${target} STATIC ${room_SOURCES})
  target_link_libraries(${target} PUBLIC ${room_USES} PRIVATE minuet_options)
  minuet_precompile(${target} FROM minuet_codegen_base)
endfunction()
