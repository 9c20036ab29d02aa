# Writes OUTPUT, a header with the digest of the preprocessed SOURCE, the COMPILER's VERSION and FLAGS; and OUTPUT.d.
execute_process(COMMAND ${COMPILER} -std=c++20 -E -P -MD -MF ${OUTPUT}.d -MT ${OUTPUT} -I${INCLUDE} -I${ROOT} ${SOURCE}
                OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(SHA256 digest "${VERSION} ${FLAGS}\n${text}")
file(WRITE ${OUTPUT} "#define SOFTWARE_CUDA_DIGEST \"${digest}\"\n")
