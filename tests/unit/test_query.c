/* The answers of 1, 3 and 8 shards, asked at any of them, against sums made the simplest way. */
#include "tests/unit/fleet.h"

#include <errno.h>

#define NOW_MS      (clock_wall_ns() / CLOCK_NS_PER_MS)
#define NODES       12u
#define WINDOWS     3u
#define FUNCTIONS   40u
#define MAX_SAMPLES 8192u

/* Everything that was sent. */
struct sample {
    char node[24], process[16], frames[256];
    uint64_t value_us, count, start_ms;
};

struct truth {
    struct sample samples[MAX_SAMPLES];
    size_t count;
};

static uint64_t random_state = 12345;
static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)((random_state >> 33) % limit);
}

static void random_frames(char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, random_below(20) == 0 ? "[truncated]" : "main");
    uint32_t depth = 1 + random_below(8);
    for (uint32_t i = 0; i < depth; i++) {
        uint32_t f = random_below(FUNCTIONS) * random_below(FUNCTIONS) / FUNCTIONS; /* skewed */
        used += (size_t)snprintf(out + used, bytes - used, ";f%u", f);
    }
    if (random_below(30) == 0)
        snprintf(out + used, bytes - used, ";[stack lost: ring_full]");
}

static void send_everything(struct fleet *fleet, struct truth *truth, uint64_t start_ms)
{
    random_state = 12345; /* the same for every number of shards */
    truth->count = 0;
    for (uint32_t n = 0; n < NODES; n++) {
        char node[24];
        snprintf(node, sizeof(node), "node-%u", n);
        struct fleet_agent agent;
        fleet_agent_open(fleet, &agent, node, 1);
        for (uint32_t w = 0; w < WINDOWS; w++) {
            struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
            uint32_t rows = 20 + random_below(60);
            for (uint32_t r = 0; r < rows; r++) {
                assert_in_range(truth->count, 0, MAX_SAMPLES - 1);
                struct sample *sample = &truth->samples[truth->count++];
                *sample = (struct sample){.start_ms = start_ms + w * 10000};
                memcpy(sample->node, node, sizeof(node));
                snprintf(sample->process, sizeof(sample->process), "p%u", random_below(4));
                random_frames(sample->frames, sizeof(sample->frames));
                sample->count = 1 + random_below(5);
                /* some rows larger than a column of the window store holds */
                sample->value_us =
                    random_below(50) == 0 ? 5000000000ULL + random_below(1000) : 10000 * sample->count;
                if (random_below(80) == 0)
                    sample->count += 70000;
                fleet_add(set, sample->process, sample->frames, sample->value_us, sample->count);
            }
            assert_int_equal(fleet_send(fleet, &agent, set, start_ms + w * 10000),
                             FLEETPROF__VERDICT__STORED);
            stackset_free(set);
        }
        fleet_agent_close(&agent);
    }
}

/* ---- brute force ---- */

struct sum {
    char keys[3][64];
    uint64_t value, count;
};

struct sums {
    struct sum items[4096];
    size_t count;
};

static void add_sum(struct sums *sums, const char *a, const char *b, const char *c,
                    const struct sample *sample)
{
    size_t at = 0;
    while (at < sums->count && (strcmp(sums->items[at].keys[0], a) || strcmp(sums->items[at].keys[1], b) ||
                                strcmp(sums->items[at].keys[2], c)))
        at++;
    if (at == sums->count) {
        sums->items[sums->count++] = (struct sum){0};
        snprintf(sums->items[at].keys[0], 64, "%.63s", a);
        snprintf(sums->items[at].keys[1], 64, "%.63s", b);
        snprintf(sums->items[at].keys[2], 64, "%.63s", c);
    }
    sums->items[at].value += sample->value_us * 1000;
    sums->items[at].count += sample->count;
}

static int by_order(const void *left, const void *right)
{
    const struct sum *a = left, *b = right;
    if (a->value != b->value)
        return a->value < b->value ? 1 : -1;
    for (int i = 0; i < 3; i++)
        if (strcmp(a->keys[i], b->keys[i]))
            return strcmp(a->keys[i], b->keys[i]);
    return 0;
}

/* what: 'f' function, 'p' process, 'n' node per group letter; up to 3. */
static void brute_force(const struct truth *truth, const char *what, bool cumulative,
                        const char *only_process, uint64_t from_ms, uint64_t to_ms, struct sums *sums)
{
    sums->count = 0;
    for (size_t i = 0; i < truth->count; i++) {
        const struct sample *sample = &truth->samples[i];
        if ((only_process && strcmp(sample->process, only_process)) || sample->start_ms < from_ms ||
            sample->start_ms >= to_ms)
            continue;
        char frames[256], seen[64][64];
        memcpy(frames, sample->frames, sizeof(frames));
        size_t seen_count = 0;
        bool by_function = strchr(what, 'f') != NULL, leaf = true;
        do {
            char *last = strrchr(frames, ';');
            const char *name = last ? last + 1 : frames;
            bool again = false;
            for (size_t k = 0; k < seen_count; k++)
                again = again || strcmp(seen[k], name) == 0;
            bool counts = by_function ? name[0] != '[' && !again && (cumulative || leaf) : leaf;
            if (counts) {
                snprintf(seen[seen_count++], 64, "%.63s", name);
                const char *keys[3] = {"", "", ""};
                for (size_t g = 0; what[g]; g++)
                    keys[g] = what[g] == 'f' ? name : what[g] == 'p' ? sample->process : sample->node;
                add_sum(sums, keys[0], keys[1], keys[2], sample);
            }
            leaf = false;
            if (!last)
                break;
            *last = '\0';
        } while (true);
    }
    qsort(sums->items, sums->count, sizeof(*sums->items), by_order);
}

static void assert_rows(const struct query_top *top, const struct sums *sums, const char *what, size_t limit)
{
    assert_int_equal(top->row_count, sums->count < limit ? sums->count : limit);
    for (size_t i = 0; i < top->row_count; i++) {
        for (size_t g = 0; what[g]; g++)
            assert_string_equal(top->rows[i].keys[g], sums->items[i].keys[g]);
        if (strchr(what, 'f'))
            assert_string_equal(top->rows[i].module, "app");
        assert_int_equal(top->rows[i].value, sums->items[i].value);
        assert_int_equal(top->rows[i].count, sums->items[i].count);
        assert_true(top->rows[i].low <= top->rows[i].value && top->rows[i].value <= top->rows[i].high);
    }
}

static const struct {
    const char *what, *groups;
} QUESTIONS[] = {{"f", "function"},
                 {"p", "process"},
                 {"n", "node"},
                 {"pf", "process,function"},
                 {"npf", "node,process,function"}};

static void compare(struct fleet *fleet, const struct truth *truth, uint64_t from_ms, uint64_t to_ms)
{
    static struct sums sums;
    struct label_matchers one_process = {0};
    assert_int_equal(labels_add(&one_process, "process", LABEL_EQUAL, "p2", NULL), 0);
    for (size_t q = 0; q < sizeof(QUESTIONS) / sizeof(QUESTIONS[0]); q++) {
        for (int variant = 0; variant < 8; variant++) {
            bool cumulative = variant & 1;
            size_t limit = variant & 2 ? 7 : 5000;
            struct query_selection selection = {.kind = "cpu",
                                                .from_ms = from_ms,
                                                .to_ms = to_ms,
                                                .matchers = variant & 4 ? &one_process : NULL};
            brute_force(truth, QUESTIONS[q].what, cumulative, variant & 4 ? "p2" : NULL, from_ms, to_ms,
                        &sums);
            struct query_top *top = fleet_top(fleet, (q + (size_t)variant) % fleet->count, &selection,
                                              QUESTIONS[q].groups, cumulative, limit);
            assert_rows(top, &sums, QUESTIONS[q].what, limit);
            assert_int_equal(top->completeness.shards_answered, fleet->count);
            assert_false(top->completeness.partial);
            query_top_free(top);
        }
    }
    labels_fini(&one_process);
}

static void answers_equal_brute_force(size_t shard_count)
{
    static struct truth truth;
    struct fleet fleet;
    uint64_t start_ms = NOW_MS / 10000 * 10000 - 60000;
    fleet_open(&fleet, shard_count, NULL);
    send_everything(&fleet, &truth, start_ms);
    compare(&fleet, &truth, start_ms, start_ms + WINDOWS * 10000);
    compare(&fleet, &truth, start_ms + 10000, start_ms + 20000);
    fleet_close(&fleet);
}

static void one_shard_answers_as_brute_force(void **state)
{
    (void)state;
    answers_equal_brute_force(1);
}

static void three_shards_answer_as_brute_force(void **state)
{
    (void)state;
    answers_equal_brute_force(3);
}

static void eight_shards_answer_as_brute_force(void **state)
{
    (void)state;
    answers_equal_brute_force(8);
}

/* ---- single stories ---- */

static struct query_selection last_minutes(void)
{
    return (struct query_selection){.kind = "cpu", .from_ms = NOW_MS - 600000, .to_ms = NOW_MS + 60000};
}

static void send_one(struct fleet *fleet, const char *node, const char *process, const char *frames,
                     uint64_t value_us, uint64_t count)
{
    struct fleet_agent agent;
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    fleet_agent_open(fleet, &agent, node, 1);
    fleet_add(set, process, frames, value_us, count);
    assert_int_equal(fleet_send(fleet, &agent, set, NOW_MS - 20000), FLEETPROF__VERDICT__STORED);
    stackset_free(set);
    fleet_agent_close(&agent);
}

/* A node name that the ring puts on the given shard. */
static const char *node_of_shard(const struct fleet *fleet, size_t shard, char *out, size_t bytes)
{
    for (int i = 0;; i++) {
        snprintf(out, bytes, "n%zu-%d", shard, i);
        if (hashring_pick(out, strlen(out), fleet->list, fleet->count) == shard)
            return out;
    }
}

/* X is sixth on every shard and first in total. */
static void what_is_second_everywhere_is_found_first(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_open(&fleet, 8, NULL);
    for (size_t shard = 0; shard < 8; shard++) {
        char node[32];
        struct fleet_agent agent;
        fleet_agent_open(&fleet, &agent, node_of_shard(&fleet, shard, node, sizeof(node)), 1);
        struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
        for (int i = 0; i < 5; i++) {
            char frames[64];
            snprintf(frames, sizeof(frames), "main;local-%zu-%d", shard, i);
            fleet_add(set, "p", frames, 1000000, 100);
        }
        fleet_add(set, "p", "main;X", 900000, 90);
        for (int i = 0; i < 200; i++) {
            char frames[64];
            snprintf(frames, sizeof(frames), "main;tail-%zu-%d", shard, i);
            fleet_add(set, "p", frames, 100, 1);
        }
        assert_int_equal(fleet_send(&fleet, &agent, set, NOW_MS - 20000), FLEETPROF__VERDICT__STORED);
        stackset_free(set);
        fleet_agent_close(&agent);
    }
    struct query_selection selection = last_minutes();
    struct query_top *top = fleet_top(&fleet, 3, &selection, "function", false, 5);
    assert_int_equal(top->row_count, 5);
    assert_string_equal(top->rows[0].keys[0], "X");
    assert_int_equal(top->rows[0].value, 8ULL * 900000 * 1000);
    /* 40 equal ones share the next places: by name */
    assert_string_equal(top->rows[1].keys[0], "local-0-0");
    assert_string_equal(top->rows[4].keys[0], "local-0-3");
    assert_int_equal(top->total_count, 8 * (500 + 90 + 200));
    query_top_free(top);
    fleet_close(&fleet);
}

static void recursion_counts_once_per_sample(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_open(&fleet, 1, NULL);
    send_one(&fleet, "n", "p", "main;fib;fib;fib;add", 1000, 10);
    struct query_selection selection = last_minutes();
    struct query_top *top = fleet_top(&fleet, 0, &selection, "function", true, 10);
    assert_int_equal(top->row_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(top->rows[i].value, 1000000);
        assert_int_equal(top->rows[i].count, 10);
    }
    assert_string_equal(top->rows[0].keys[0], "add");
    assert_string_equal(top->rows[1].keys[0], "fib");
    query_top_free(top);
    fleet_close(&fleet);
}

static void a_missing_shard_is_named_and_the_rest_answers(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_open(&fleet, 3, NULL);
    char node[3][32];
    for (size_t i = 0; i < 3; i++)
        send_one(&fleet, node_of_shard(&fleet, i, node[i], sizeof(node[i])), "p", "main;f", 1000, 1);
    fleet_stop(&fleet, 1);
    /* A short deadline of its own: the planner of shard 0 is opened again with it. */
    fleet_stop(&fleet, 0);
    fleet.settings.query_timeout_ms = 6000;
    fleet_start(&fleet, 0);
    send_one(&fleet, node[0], "p", "main;f", 1000, 1);
    struct query_selection selection = last_minutes();
    uint64_t begin_ns = clock_mono_ns();
    struct query_top *top = fleet_top(&fleet, 0, &selection, "function", false, 10);
    assert_true(clock_mono_ns() - begin_ns < 30 * CLOCK_NS_PER_S);
    assert_int_equal(top->completeness.shards_asked, 3);
    assert_int_equal(top->completeness.shards_answered, 2);
    assert_string_equal(top->completeness.missing_shards[0], fleet.list[1]);
    assert_true(top->completeness.partial);
    assert_int_equal(top->rows[0].value, 2 * 1000 * 1000);
    query_top_free(top);
    fleet_close(&fleet);
}

static void markers_are_in_the_total_and_in_no_row(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_open(&fleet, 1, NULL);
    send_one(&fleet, "n1", "p", "[truncated];deep;leaf", 3000, 3);
    send_one(&fleet, "n2", "p", "[stack lost: ring_full]", 5000, 5);
    struct query_selection selection = last_minutes();
    struct query_top *top = fleet_top(&fleet, 0, &selection, "function", true, 10);
    assert_int_equal(top->row_count, 2);
    assert_string_equal(top->rows[0].keys[0], "deep");
    assert_string_equal(top->rows[1].keys[0], "leaf");
    assert_int_equal(top->total_value, 8000000);
    assert_int_equal(top->completeness.truncated, 8);
    assert_int_equal(top->completeness.unranked, 5);
    assert_int_equal(top->completeness.unranked_value, 5000000);
    assert_int_equal(top->completeness.node_samples, 8);
    query_top_free(top);
    /* by label nothing is left out */
    top = fleet_top(&fleet, 0, &selection, "node", false, 10);
    assert_string_equal(top->rows[0].keys[0], "n2");
    assert_int_equal(top->rows[0].value, 5000000);
    query_top_free(top);
    fleet_close(&fleet);
}

static void stacks_come_whole_with_names_and_labels(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_open(&fleet, 3, NULL);
    char node[3][32];
    for (size_t i = 0; i < 3; i++)
        send_one(&fleet, node_of_shard(&fleet, i, node[i], sizeof(node[i])), "p", "main;f;g", 1000 * (i + 1),
                 i + 1);
    struct query_selection selection = last_minutes();
    struct stackset *set;
    struct query_completeness completeness;
    assert_int_equal(query_stacks(shard_query(fleet.shards[2]), &selection, &set, &completeness, NULL), 0);
    assert_int_equal(set->row_count, 3); /* one per node */
    assert_int_equal(completeness.samples, 6);
    assert_int_equal(completeness.nodes, 3);
    assert_string_equal(completeness.unit, "nanoseconds");
    uint64_t value = 0;
    for (uint32_t i = 0; i < set->row_count; i++) {
        value += set->rows[i].value;
        const struct stackset_frame *leaf = &set->frames[set->nodes[set->rows[i].node].frame];
        assert_string_equal(stackset_text(set, leaf->function - 1, NULL), "g");
        uint32_t label = stackset_label_value(set, set->rows[i].series, "process");
        assert_string_equal(stackset_text(set, label, NULL), "p");
    }
    assert_int_equal(value, 6000000);
    query_completeness_fini(&completeness);
    stackset_free(set);
    fleet_close(&fleet);
}

static void labels_and_agents_are_those_of_all_shards(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_open(&fleet, 3, NULL);
    char node[3][32];
    for (size_t i = 0; i < 3; i++)
        send_one(&fleet, node_of_shard(&fleet, i, node[i], sizeof(node[i])), i == 1 ? "two" : "one", "main",
                 1, 1);
    struct query_selection selection = last_minutes();
    struct query_completeness completeness;
    char **values;
    size_t count;
    bool cut;
    struct query *query = shard_query(fleet.shards[0]);
    assert_int_equal(
        query_labels(query, "process", &selection, 10, &values, &count, &cut, &completeness, NULL), 0);
    assert_int_equal(count, 2);
    assert_string_equal(values[0], "one");
    assert_string_equal(values[1], "two");
    assert_false(cut);
    query_labels_free(values, count);
    query_completeness_fini(&completeness);
    assert_int_equal(query_labels(query, NULL, &selection, 1, &values, &count, &cut, &completeness, NULL), 0);
    assert_int_equal(count, 1);
    assert_string_equal(values[0], "node");
    assert_true(cut);
    query_labels_free(values, count);
    query_completeness_fini(&completeness);
    struct query_agent *agents;
    assert_int_equal(query_agents(query, &agents, &count, &completeness, NULL), 0);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(agents[i].node, node[i]);
        assert_string_equal(agents[i].shard, fleet.list[i]);
        assert_int_equal(agents[i].samples, 1);
    }
    query_agents_free(agents, count);
    query_completeness_fini(&completeness);
    fleet_close(&fleet);
}

static void senseless_questions_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct fleet fleet;
    struct query_top *top;
    struct err err = {0};
    const char *groups[] = {"function", "function", "function", "function", "function"};
    fleet_open(&fleet, 1, NULL);
    struct query *query = shard_query(fleet.shards[0]);
    struct query_selection selection = last_minutes();
    assert_int_equal(query_top(query, &selection, groups, 1, false, 0, &top, &err), -EINVAL);
    assert_int_equal(query_top(query, &selection, groups, 1, false, QUERY_MAX_ROWS + 1, &top, &err), -EINVAL);
    assert_int_equal(query_top(query, &selection, groups, 5, false, 1, &top, &err), -EINVAL);
    selection.kind = "gpu";
    assert_int_equal(query_top(query, &selection, groups, 1, false, 1, &top, &err), -EINVAL);
    assert_non_null(strstr(err.text, "gpu"));
    fleet_close(&fleet);
}

/* Not "nobody answered": the one who asks can do something about it. */
static void too_many_long_names_are_too_big_and_not_too_late(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_open(&fleet, 1, NULL);
    struct fleet_agent agent;
    struct stackset_limits limits = STACKSET_DEFAULT_LIMITS;
    limits.string_bytes = 32u << 20;
    struct stackset *set = stackset_new(&limits);
    fleet_agent_open(&fleet, &agent, "n", 1);
    char frames[2601];
    memset(frames, 'x', sizeof(frames));
    for (unsigned i = 0; i < QUERY_MAX_ROWS; i++) {
        snprintf(frames + 2590, 11, "%06u", i);
        fleet_add(set, "p", frames, 1000, 1);
    }
    assert_int_equal(fleet_send(&fleet, &agent, set, NOW_MS - 20000), FLEETPROF__VERDICT__STORED);
    struct query_selection selection = last_minutes();
    const char *groups[] = {"function", "function"}; /* every name twice: 52 MB */
    struct query_top *top;
    struct err err = {0};
    assert_int_equal(
        query_top(shard_query(fleet.shards[0]), &selection, groups, 2, false, QUERY_MAX_ROWS, &top, &err),
        -E2BIG);
    assert_non_null(strstr(err.text, "narrow"));
    stackset_free(set);
    fleet_agent_close(&agent);
    fleet_close(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_shard_answers_as_brute_force),
        cmocka_unit_test(three_shards_answer_as_brute_force),
        cmocka_unit_test(eight_shards_answer_as_brute_force),
        cmocka_unit_test(what_is_second_everywhere_is_found_first),
        cmocka_unit_test(recursion_counts_once_per_sample),
        cmocka_unit_test(a_missing_shard_is_named_and_the_rest_answers),
        cmocka_unit_test(markers_are_in_the_total_and_in_no_row),
        cmocka_unit_test(stacks_come_whole_with_names_and_labels),
        cmocka_unit_test(labels_and_agents_are_those_of_all_shards),
        cmocka_unit_test(senseless_questions_are_refused_with_a_reason),
        cmocka_unit_test(too_many_long_names_are_too_big_and_not_too_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
