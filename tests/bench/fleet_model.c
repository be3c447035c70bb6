#include "tests/bench/fleet_model.h"

#include "common/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_SERVICES  8u     /* per node */
#define MODEL_DEPTH     56u    /* depths are uniform in 1..MODEL_DEPTH: mean 28 */
#define SAMPLE_VALUE_US 10101u /* one sample at 99 Hz */

/* A stack of the universe: a chain of functions, root first; the executable of a function is fixed. */
struct model_stack {
    uint16_t functions[MODEL_DEPTH];
    uint16_t pcs[MODEL_DEPTH];
    uint8_t depth;
};

struct fleet_model {
    struct model_stack *stacks;
    double *popularity; /* cumulative Zipf weights */
    uint64_t seed;
    uint32_t rows_per_window;
};

struct fleet_node {
    const struct fleet_model *model;
    struct stackset *set;
    struct stackset_row *universe; /* every row this node can have, sorted */
    uint32_t universe_count;
    uint64_t random;
    char name[32];
};

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ULL;
}

static double next_unit(uint64_t *state)
{
    return (double)(next(state) >> 11) / 9007199254740992.0;
}

struct fleet_model *fleet_model_new(uint64_t seed, uint32_t rows_per_window)
{
    struct fleet_model *model = xcalloc(1, sizeof(*model));
    model->seed = seed;
    model->rows_per_window = rows_per_window;
    model->stacks = xcalloc(MODEL_STACKS, sizeof(*model->stacks));
    model->popularity = xcalloc(MODEL_STACKS, sizeof(*model->popularity));
    uint64_t random = seed | 1;
    double sum = 0;
    for (uint32_t i = 0; i < MODEL_STACKS; i++) {
        struct model_stack *stack = &model->stacks[i];
        stack->depth = (uint8_t)(1 + next(&random) % MODEL_DEPTH);
        /* Most stacks branch off an earlier one of the same service: call trees share their root part. */
        const struct model_stack *base = i > 64 ? &model->stacks[next(&random) % i] : stack;
        uint32_t shared = base->depth < stack->depth ? base->depth : stack->depth;
        if (base == stack)
            shared = 0;
        else if (shared > 0)
            shared = (uint32_t)(next(&random) % (shared + 1));
        memcpy(stack->functions, base->functions, shared * sizeof(stack->functions[0]));
        memcpy(stack->pcs, base->pcs, shared * sizeof(stack->pcs[0]));
        for (uint32_t d = shared; d < stack->depth; d++) {
            stack->functions[d] = (uint16_t)(next(&random) % MODEL_FUNCTIONS);
            stack->pcs[d] = (uint16_t)(next(&random) % 512);
        }
        sum += 1.0 / (double)(i + 10);
        model->popularity[i] = sum;
    }
    for (uint32_t i = 0; i < MODEL_STACKS; i++)
        model->popularity[i] /= sum;
    return model;
}

void fleet_model_free(struct fleet_model *model)
{
    if (!model)
        return;
    free(model->stacks);
    free(model->popularity);
    free(model);
}

static uint32_t pick_stack(const struct fleet_model *model, uint64_t *random)
{
    double at = next_unit(random);
    uint32_t low = 0, high = MODEL_STACKS - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (model->popularity[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t add_stack(struct stackset *set, const struct model_stack *stack)
{
    uint32_t node = STACKSET_ROOT;
    for (uint32_t d = 0; d < stack->depth; d++) {
        uint32_t number = stack->functions[d] % MODEL_EXECUTABLES;
        char name[32];
        uint8_t id[20] = {0xf1, 0xee, (uint8_t)number};
        snprintf(name, sizeof(name), "service-%u", number);
        uint32_t executable =
            stackset_executable(set, id, sizeof(id), EXECUTABLE_GNU, stackset_cstring(set, name));
        uint64_t offset = 0x1000 + stack->functions[d] * 1024ULL + stack->pcs[d];
        node = stackset_node(set, node, stackset_frame(set, FRAME_NATIVE, executable, offset, 0));
    }
    return node;
}

static uint32_t add_series(struct stackset *set, const char *node, uint32_t service)
{
    char process[32], container[80];
    snprintf(process, sizeof(process), "service-%u", service);
    snprintf(container, sizeof(container), "%016x%016x%016x%016x", service, service * 7, service * 13,
             service * 31);
    const struct stackset_label labels[] = {
        {stackset_cstring(set, "node"), stackset_cstring(set, node)},
        {stackset_cstring(set, "process"), stackset_cstring(set, process)},
        {stackset_cstring(set, "executable"), stackset_cstring(set, process)},
        {stackset_cstring(set, "container"), stackset_cstring(set, container)},
    };
    return stackset_series(set, labels, sizeof(labels) / sizeof(labels[0]));
}

struct fleet_node *fleet_node_new(const struct fleet_model *model, uint32_t number)
{
    struct fleet_node *node = xcalloc(1, sizeof(*node));
    node->model = model;
    node->random = (model->seed * 31 + number) * 0x9e3779b97f4a7c15ULL | 1;
    snprintf(node->name, sizeof(node->name), "node-%05u", number);
    node->set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    uint32_t series[MODEL_SERVICES];
    for (uint32_t i = 0; i < MODEL_SERVICES; i++)
        series[i] = add_series(node->set, node->name, (number * 3 + i * 5) % MODEL_EXECUTABLES);
    /* Three windows' worth of rows: from window to window about a third of them shows. */
    for (uint32_t i = 0; i < model->rows_per_window * 3; i++) {
        uint32_t stack = pick_stack(model, &node->random);
        stackset_add(node->set, series[stack % MODEL_SERVICES], add_stack(node->set, &model->stacks[stack]),
                     1, 1);
    }
    while (node->set->row_count < model->rows_per_window * 3) {
        uint32_t stack = (uint32_t)(next(&node->random) % MODEL_STACKS);
        stackset_add(node->set, series[stack % MODEL_SERVICES], add_stack(node->set, &model->stacks[stack]),
                     1, 1);
    }
    stackset_seal(node->set);
    stackset_sort_rows(node->set);
    node->universe_count = node->set->row_count;
    node->universe = xcalloc(node->universe_count, sizeof(*node->universe));
    memcpy(node->universe, node->set->rows, node->universe_count * sizeof(*node->universe));
    return node;
}

void fleet_node_free(struct fleet_node *node)
{
    if (!node)
        return;
    stackset_free(node->set);
    free(node->universe);
    free(node);
}

const char *fleet_node_name(const struct fleet_node *node)
{
    return node->name;
}

struct stackset *fleet_node_window(struct fleet_node *node, uint64_t *ret_samples)
{
    uint32_t count = 0;
    uint64_t samples = 0;
    for (uint32_t i = 0; i < node->universe_count; i++) {
        uint64_t random = next(&node->random);
        if (random % 3 != 0)
            continue;
        struct stackset_row row = node->universe[i];
        row.count = 1 + (random >> 8) % 100 / 70 * ((random >> 16) % 6); /* mostly one, sometimes a few */
        row.value = 0;
        for (uint64_t c = 0; c < row.count; c++)
            row.value += SAMPLE_VALUE_US * 3 / 4 + next(&node->random) % (SAMPLE_VALUE_US / 2);
        node->set->rows[count++] = row;
        samples += row.count;
    }
    node->set->row_count = count;
    *ret_samples = samples;
    return node->set;
}
