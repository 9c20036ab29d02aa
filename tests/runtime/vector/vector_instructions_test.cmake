# fp16 is converted by the processor's instructions for whole registers, in every function that converts it: 8
# numbers at once in the set avx2, and 16 where avx512 rounds. Without them a plan in fp16 takes several times as
# long to create as one in fp32. Run as a script by ctest.
function(count_instructions object name registers least)
  execute_process(COMMAND ${OBJDUMP} -d --no-show-raw-insn ${object} OUTPUT_VARIABLE code RESULT_VARIABLE failed)
  if(failed OR NOT code MATCHES "ret")
    message(FATAL_ERROR "${OBJDUMP} cannot read ${object}")
  endif()
  string(REGEX MATCHALL "${name}[ \t][^\n]*%${registers}" found "${code}")
  list(LENGTH found count)
  if(count LESS least)
    message(SEND_ERROR "${object} has ${count} times ${name} with ${registers} registers; at least ${least} are needed")
  endif()
endfunction()

# Two functions turn fp16 into fp32 and two the other way: widen and round, narrow and round.
foreach(name IN ITEMS vcvtph2ps vcvtps2ph)
  count_instructions("${AVX2}" ${name} ymm 2)
  count_instructions("${AVX512}" ${name} zmm 1)
  count_instructions("${AVX512}" ${name} ymm 2)
endforeach()
