/* What both programs of the example share: errors, and the plan of the network. */
#pragma once
#include <minuet/minuet.h>
#include <stdio.h>
#include <stdlib.h>

static inline void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static inline void check(minuet_status status) {
  if (status == MINUET_OK) return;
  char message[4096];
  minuet_last_error(message, sizeof(message));
  fail(message);
}

/* Both machines make the plan from the same description, so they ask for the same kernels. The values of the
 * weights make no difference to the kernels. */
static inline minuet_plan* read_network(minuet_context* context, const char* path) {
  char text[4096] = {0};
  FILE* const file = fopen(path, "r");
  if (!file || fread(text, 1, sizeof(text) - 1, file) == 0)
    fail("cannot read the description of the network");
  fclose(file);
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = text;
  options.dtype = MINUET_F16;
  minuet_plan* plan = NULL;
  check(minuet_plan_create_network(context, &options, &plan));
  return plan;
}
