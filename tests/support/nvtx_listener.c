/* What Nsight Systems is to NVTX: ranges, as lines of the file that NVTX_LISTENER_FILE names. NVTX opens it
 * by NVTX_INJECTION64_PATH. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static void say(const char* what, const char* name) {
  const char* path = getenv("NVTX_LISTENER_FILE");
  FILE* file = path ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "%s%s\n", what, name);
  fclose(file);
}

static nvtxDomainHandle_t create(const char* name) {
  say("domain ", name);
  return (nvtxDomainHandle_t)1;
}
static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  (void)domain;
  say("push ", event->message.ascii);
  return 0;
}
static int pop(nvtxDomainHandle_t domain) {
  (void)domain;
  say("pop", "");
  return 0;
}
static nvtxRangeId_t start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  (void)domain;
  say("start ", event->message.ascii);
  return 1;
}
static void end(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  (void)domain;
  (void)range;
  say("end", "");
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* callbacks = (const NvtxExportTableCallbacks*)get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)start;
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end;
  return 1;
}
