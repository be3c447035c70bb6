/* Whole shards: symbol packs between them, a shard's second life, peers that talk nonsense. */
#include "tests/unit/fleet.h"

#include <errno.h>
#include <time.h>

#define NOW_MS   (clock_wall_ns() / CLOCK_NS_PER_MS)
#define LIMIT_NS (60 * CLOCK_NS_PER_S)

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static struct query_selection last_minutes(void)
{
    return (struct query_selection){.kind = "cpu", .from_ms = NOW_MS - 600000, .to_ms = NOW_MS + 60000};
}

static const char *node_of_shard(const struct fleet *fleet, size_t shard, char *out, size_t bytes)
{
    for (int i = 0;; i++) {
        snprintf(out, bytes, "n%zu-%d", shard, i);
        if (hashring_pick(out, strlen(out), fleet->list, fleet->count) == shard)
            return out;
    }
}

/* ---- packs ---- */

/* One window with one native sample; returns how many packs the Ack asks for. */
static size_t send_native(struct fleet *fleet, struct fleet_agent *agent)
{
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    uint32_t program =
        stackset_executable(set, "0123456789abcdef", 16, EXECUTABLE_GNU, stackset_cstring(set, "prog"));
    uint32_t frame = stackset_frame(set, FRAME_NATIVE, program, 0x1234, 0);
    stackset_add(set, fleet_series(set, "prog"), stackset_node(set, STACKSET_ROOT, frame), 1000, 1);
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    fleet_encode(agent, set, NOW_MS - 10000, &out);
    Fleetprof__Ack *ack = fleet_call(fleet, agent->shard, &out, WIRE_ACK);
    assert_int_equal(ack->verdict, FLEETPROF__VERDICT__STORED);
    size_t wants = ack->n_want_executable;
    if (wants) {
        assert_int_equal(ack->want_executable[0].len, 16);
        assert_memory_equal(ack->want_executable[0].data, "0123456789abcdef", 16);
    }
    wire_free(&ack->base);
    buf_fini(&out);
    stackset_free(set);
    return wants;
}

static void send_pack(struct fleet *fleet, size_t shard)
{
    Fleetprof__Pack pack = FLEETPROF__PACK__INIT;
    uint64_t start = 0x1200, size = 0x100;
    uint32_t name_bytes = 9;
    pack.executable = (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t) "0123456789abcdef"};
    pack.parts = 1;
    pack.n_start_step = pack.n_size = pack.n_name_bytes = 1;
    pack.start_step = &start;
    pack.size = &size;
    pack.name_bytes = &name_bytes;
    pack.names = (ProtobufCBinaryData){9, (uint8_t *)(uintptr_t) "_ZN1a1bEi"};
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    assert_int_equal(wire_pack(&pack.base, WIRE_PACK, 0, &out, NULL), 0);
    Fleetprof__PackReply *reply = fleet_call(fleet, shard, &out, WIRE_PACK_REPLY);
    assert_int_equal(reply->verdict, FLEETPROF__VERDICT__STORED);
    wire_free(&reply->base);
    buf_fini(&out);
}

static void one_agent_is_asked_and_all_shards_know_the_name(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fleet_agent agents[3];
    char nodes[3][32];
    fleet_open(&fleet, 3, NULL);
    for (size_t i = 0; i < 3; i++)
        fleet_agent_open(&fleet, &agents[i], node_of_shard(&fleet, i, nodes[i], sizeof(nodes[i])), 1);
    size_t asked = 3;
    unsigned ask_count = 0;
    uint64_t end_ns = clock_mono_ns() + LIMIT_NS;
    /* Some rounds more after the first wish: nobody else must be asked. */
    for (int more = 0; more < 20 && clock_mono_ns() < end_ns; more += asked < 3) {
        for (size_t i = 0; i < 3; i++) {
            if (send_native(&fleet, &agents[i]) == 0)
                continue;
            asked = i;
            ask_count++;
        }
        pause_ms(20);
    }
    assert_int_equal(ask_count, 1);
    send_pack(&fleet, asked);
    struct query_selection selection = last_minutes();
    uint64_t unnamed = 1;
    while (unnamed && clock_mono_ns() < end_ns) {
        struct query_top *top = fleet_top(&fleet, (asked + 1) % 3, &selection, "function", false, 10);
        unnamed = top->completeness.unnamed;
        if (!unnamed) {
            assert_int_equal(top->row_count, 1);
            assert_string_equal(top->rows[0].keys[0], "a::b(int)");
            assert_string_equal(top->rows[0].module, "prog");
        }
        query_top_free(top);
        pause_ms(20);
    }
    assert_int_equal(unnamed, 0);
    for (size_t i = 0; i < 3; i++)
        fleet_agent_close(&agents[i]);
    fleet_close(&fleet);
}

/* ---- second life ---- */

static uint64_t lost_by(const struct query_completeness *completeness, const char *cause)
{
    for (size_t i = 0; i < completeness->lost_count; i++)
        if (strcmp(completeness->lost[i].name, cause) == 0)
            return completeness->lost[i].value;
    return 0;
}

static void what_a_shard_held_in_memory_is_missing_by_name_after_its_death(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fleet_agent agent;
    fleet_open(&fleet, 1, NULL);
    agent = (struct fleet_agent){.node = "node", .epoch = 4};
    Fleetprof__HelloReply *reply = fleet_hello(&fleet, &agent, NULL);
    uint64_t first_life = reply->shard_epoch;
    wire_free(&reply->base);
    uint64_t starts_ms[3], samples[3] = {10, 20, 30}, epochs[3];
    for (size_t i = 0; i < 3; i++) {
        struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
        starts_ms[i] = NOW_MS - 60000 + i * 10000;
        epochs[i] = first_life;
        fleet_add(set, "p", "main;f", samples[i] * 100, samples[i]);
        assert_int_equal(fleet_send(&fleet, &agent, set, starts_ms[i]), FLEETPROF__VERDICT__STORED);
        stackset_free(set);
    }
    fleet_stop(&fleet, 0);
    fleet_start(&fleet, 0);
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    fleet_add(set, "p", "main;f", 700, 7);
    assert_int_equal(fleet_send(&fleet, &agent, set, NOW_MS - 10000), FLEETPROF__VERDICT__NO_SESSION);
    agent.sequence--;
    Fleetprof__Hello hello = FLEETPROF__HELLO__INIT;
    hello.n_acked_window_start_ms = hello.n_acked_window_samples = hello.n_acked_shard_epoch = 3;
    hello.acked_window_start_ms = starts_ms;
    hello.acked_window_samples = samples;
    hello.acked_shard_epoch = epochs;
    reply = fleet_hello(&fleet, &agent, &hello);
    assert_int_equal(reply->verdict, FLEETPROF__VERDICT__STORED);
    assert_int_not_equal(reply->shard_epoch, first_life);
    wire_free(&reply->base);
    assert_int_equal(fleet_send(&fleet, &agent, set, NOW_MS - 10000), FLEETPROF__VERDICT__STORED);
    stackset_free(set);
    struct query_selection selection = last_minutes();
    struct query_top *top = fleet_top(&fleet, 0, &selection, "function", false, 10);
    assert_int_equal(top->total_count, 7);
    assert_int_equal(lost_by(&top->completeness, "shard_restart"), 60);
    assert_true(top->completeness.partial);
    assert_true(top->completeness.covered_ms < top->completeness.expected_ms);
    query_top_free(top);
    fleet_agent_close(&agent);
    fleet_close(&fleet);
}

/* ---- nonsense ---- */

static void messages_that_cannot_be_read_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_open(&fleet, 1, NULL);
    char future[WIRE_HEADER_BYTES + 4] = "flpf\x63\0\x01";
    char noise[] = "GET / HTTP/1.1\r\n\r\n";
    const struct {
        char *data;
        size_t bytes;
    } cases[] = {{future, sizeof(future)}, {noise, sizeof(noise)}, {noise, 0}};
    for (size_t i = 0; i < 3; i++) {
        struct buf message = {.data = cases[i].data, .used_bytes = cases[i].bytes};
        Fleetprof__HelloReply *reply = fleet_call(&fleet, 0, &message, WIRE_REFUSAL);
        assert_int_equal(reply->verdict, FLEETPROF__VERDICT__REFUSED);
        assert_true(strlen(reply->reason) > 5);
        wire_free(&reply->base);
    }
    assert_int_equal(shard_ready(fleet.shards[0], NULL), 0);
    fleet_close(&fleet);
}

/* Answers every question with a reply of the right type and senseless contents. */
static void talk_nonsense(struct link_request *request, void *ctx)
{
    (void)ctx;
    size_t bytes;
    struct wire_header header = {0};
    const void *data = link_request_data(request, &bytes);
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    wire_peek(data, bytes, &header, NULL);
    Fleetprof__TopReply top = FLEETPROF__TOP_REPLY__INIT;
    Fleetprof__TopRow row = FLEETPROF__TOP_ROW__INIT, *rows[] = {&row};
    row.key = (ProtobufCBinaryData){3, (uint8_t *)(uintptr_t) "\xff\xff!"};
    row.value = UINT64_MAX;
    top.n_rows = 1;
    top.rows = rows;
    if (header.type == WIRE_TOP_REQUEST)
        wire_pack(&top.base, WIRE_TOP_REPLY, 0, &out, NULL);
    else
        buf_append(&out, "nonsense", 8);
    link_reply(request, out.data, out.used_bytes);
    buf_fini(&out);
}

static void a_peer_that_talks_nonsense_is_a_missing_shard(void **state)
{
    (void)state;
    struct fleet fleet;
    struct link_server *liar;
    fleet_open(&fleet, 2, NULL);
    fleet_stop(&fleet, 1);
    assert_int_equal(link_server_open(fleet.list[1], 4, talk_nonsense, NULL, &liar, NULL), 0);
    struct query_selection selection = last_minutes();
    struct query *query = shard_query(fleet.shards[0]);
    struct query_top *top = fleet_top(&fleet, 0, &selection, "function", false, 10);
    assert_int_equal(top->completeness.shards_answered, 1);
    assert_string_equal(top->completeness.missing_shards[0], fleet.list[1]);
    assert_int_equal(top->row_count, 0);
    query_top_free(top);
    struct stackset *set;
    struct query_completeness completeness;
    assert_int_equal(query_stacks(query, &selection, &set, &completeness, NULL), 0);
    assert_true(completeness.partial);
    stackset_free(set);
    query_completeness_fini(&completeness);
    struct query_agent *agents;
    size_t count;
    assert_int_equal(query_agents(query, &agents, &count, &completeness, NULL), 0);
    assert_true(completeness.partial);
    query_agents_free(agents, count);
    query_completeness_fini(&completeness);
    link_server_close(liar);
    fleet_close(&fleet);
}

/* Answers the first phase as a shard that has more, and nothing after it: stopped in the middle. */
static void stop_in_the_middle(struct link_request *request, void *ctx)
{
    (void)ctx;
    size_t bytes;
    const void *data = link_request_data(request, &bytes);
    ProtobufCMessage *message;
    if (wire_unpack(data, bytes, WIRE_TOP_REQUEST, &message, NULL) < 0)
        return;
    if (((const Fleetprof__TopRequest *)message)->phase == 1) {
        struct buf out = buf_init(LINK_MESSAGE_BYTES);
        Fleetprof__TopReply top = FLEETPROF__TOP_REPLY__INIT;
        Fleetprof__TopRow row = FLEETPROF__TOP_ROW__INIT, *rows[] = {&row};
        row.key = (ProtobufCBinaryData){8, (uint8_t *)(uintptr_t) "\1\0f\3\0app"};
        row.value = 5000000;
        row.count = 5;
        top.n_rows = 1;
        top.rows = rows;
        wire_pack(&top.base, WIRE_TOP_REPLY, 0, &out, NULL);
        link_reply(request, out.data, out.used_bytes);
        buf_fini(&out);
    }
    wire_free(message);
}

/* The others still have time to answer without it, and what it said is in no sum. */
static void a_shard_that_stops_between_two_phases_costs_only_its_own_part(void **state)
{
    (void)state;
    struct fleet fleet;
    struct link_server *stopped;
    struct shard_settings settings = {.workers = 1,
                                      .retention_ms = 3600000,
                                      .window_bytes = 64u << 20,
                                      .pack_bytes = 1u << 20,
                                      .query_timeout_ms = 6000,
                                      .max_nodes = 100,
                                      .max_stacks = 100000,
                                      .max_series = 1000};
    fleet_open(&fleet, 3, &settings);
    for (size_t i = 0; i < 2; i++) {
        char node[32];
        struct fleet_agent agent;
        struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
        fleet_agent_open(&fleet, &agent, node_of_shard(&fleet, i, node, sizeof(node)), 1);
        fleet_add(set, "p", "main;f", 1000, 1);
        fleet_add(set, "p", "main;g", 900, 1);
        assert_int_equal(fleet_send(&fleet, &agent, set, NOW_MS - 20000), FLEETPROF__VERDICT__STORED);
        stackset_free(set);
        fleet_agent_close(&agent);
    }
    fleet_stop(&fleet, 2);
    assert_int_equal(link_server_open(fleet.list[2], 8, stop_in_the_middle, NULL, &stopped, NULL), 0);
    struct query_selection selection = last_minutes();
    struct query_top *top = fleet_top(&fleet, 0, &selection, "function", false, 1);
    assert_int_equal(top->completeness.shards_answered, 2);
    assert_string_equal(top->completeness.missing_shards[0], fleet.list[2]);
    assert_int_equal(top->row_count, 1);
    assert_string_equal(top->rows[0].keys[0], "f");
    assert_int_equal(top->rows[0].value, 2 * 1000 * 1000);
    assert_int_equal(top->total_count, 4);
    query_top_free(top);
    link_server_close(stopped);
    fleet_close(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_agent_is_asked_and_all_shards_know_the_name),
        cmocka_unit_test(what_a_shard_held_in_memory_is_missing_by_name_after_its_death),
        cmocka_unit_test(messages_that_cannot_be_read_are_refused_with_a_reason),
        cmocka_unit_test(a_peer_that_talks_nonsense_is_a_missing_shard),
        cmocka_unit_test(a_shard_that_stops_between_two_phases_costs_only_its_own_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
