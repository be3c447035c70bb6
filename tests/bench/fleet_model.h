/* fleet_model: a seeded fleet: what each of N nodes sends per window, with realistic sharing of executables,
 * call-tree prefixes and popularity (Zipf), so that sizes and speeds measured with it mean something. Shapes:
 * a universe of MODEL_STACKS stacks over MODEL_EXECUTABLES executables, mean depth about 28; a node runs a
 * few services and so sees a part of it; each window holds about rows_per_window rows of it. Threads: a model
 * may be read by one thread; the same seed gives the same fleet on every machine. */
#ifndef TESTS_BENCH_FLEET_MODEL_H
#define TESTS_BENCH_FLEET_MODEL_H

#include "common/stackset.h"

#include <stdint.h>

#define MODEL_EXECUTABLES 40u
#define MODEL_FUNCTIONS   1500u
#define MODEL_STACKS      20000u

struct fleet_model;
struct fleet_model *fleet_model_new(uint64_t seed, uint32_t rows_per_window);
void fleet_model_free(struct fleet_model *model);

/* One node's windows: the same set object every time, its rows replaced by those of the next window. */
struct fleet_node;
struct fleet_node *fleet_node_new(const struct fleet_model *model, uint32_t number);
void fleet_node_free(struct fleet_node *node);
const char *fleet_node_name(const struct fleet_node *node);
/* Borrowed until the next call; ret_samples: the sum of its counts. */
struct stackset *fleet_node_window(struct fleet_node *node, uint64_t *ret_samples);

#endif
