#include "aggregator/symbol_pack.h"

#include "common/xalloc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1u << 20)

static struct executable_id id_of(const char *text)
{
    struct executable_id id = {.bytes = 8};
    memcpy(id.data, text, 8);
    return id;
}

/* Names "a0".. at first, step bytes apart, size bytes long. The caller frees with part_free. */
static Fleetprof__Pack *part_new(const char *id, uint32_t part, uint32_t parts, uint64_t first,
                                 uint32_t count)
{
    Fleetprof__Pack *pack = xmalloc(sizeof(*pack));
    fleetprof__pack__init(pack);
    pack->executable.len = 8;
    pack->executable.data = (uint8_t *)xmemdup_text(id, 8);
    pack->part = part;
    pack->parts = parts;
    pack->n_start_step = pack->n_size = pack->n_name_bytes = count;
    pack->start_step = xcalloc(count + 1, sizeof(uint64_t));
    pack->size = xcalloc(count + 1, sizeof(uint64_t));
    pack->name_bytes = xcalloc(count + 1, sizeof(uint32_t));
    pack->names.data = xcalloc(count + 1, 16);
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        int bytes = snprintf(name, sizeof(name), "p%uf%u", part, i);
        pack->start_step[i] = i == 0 ? first : 0x100;
        pack->size[i] = 0x80;
        pack->name_bytes[i] = (uint32_t)bytes;
        memcpy(pack->names.data + pack->names.len, name, (size_t)bytes);
        pack->names.len += (size_t)bytes;
    }
    return pack;
}

static int add(struct symbol_packs *packs, Fleetprof__Pack *part, uint64_t now_ms)
{
    int rc = symbol_packs_add(packs, part, now_ms, NULL);
    wire_free(&part->base);
    return rc;
}

static void assert_name(const struct symbol_pack *pack, uint64_t offset, const char *want)
{
    const char *name = NULL;
    const struct symbol_function *function = symbol_pack_find(pack, offset, &name);
    if (!want) {
        assert_null(function);
        return;
    }
    assert_non_null(function);
    assert_int_equal(function->name_bytes, strlen(want));
    assert_memory_equal(name, want, strlen(want));
}

static void a_function_covers_its_own_size_only(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(MIB);
    struct executable_id id = id_of("aaaaaaaa");
    symbol_packs_want(packs, &id, 0);
    Fleetprof__Pack *part = part_new("aaaaaaaa", 0, 1, 0x1000, 3);
    part->size[2] = 0; /* exact address only */
    assert_int_equal(add(packs, part, 0), 0);
    struct symbol_pack *pack = symbol_packs_find(packs, &id);
    assert_non_null(pack);
    assert_name(pack, 0xfff, NULL);
    assert_name(pack, 0x1000, "p0f0");
    assert_name(pack, 0x107f, "p0f0");
    assert_name(pack, 0x1080, NULL); /* a gap is nobody's */
    assert_name(pack, 0x1100, "p0f1");
    assert_name(pack, 0x1200, "p0f2");
    assert_name(pack, 0x1201, NULL);
    assert_name(pack, UINT64_MAX, NULL);
    symbol_pack_unref(pack);
    symbol_packs_free(packs);
}

static void parts_in_any_order_make_one_pack(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(MIB);
    struct executable_id id = id_of("aaaaaaaa");
    symbol_packs_want(packs, &id, 0);
    uint32_t before = symbol_packs_generation(packs);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 2, 3, 0x9000, 2), 0), 0);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, 3, 0x1000, 2), 0), 0);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, 3, 0x1000, 2), 0), 0); /* sent twice */
    assert_null(symbol_packs_find(packs, &id));
    assert_int_equal(add(packs, part_new("aaaaaaaa", 1, 3, 0x5000, 2), 0), 0);
    struct symbol_pack *pack = symbol_packs_find(packs, &id);
    assert_int_equal(symbol_pack_function_count(pack), 6);
    assert_name(pack, 0x9100, "p2f1");
    assert_name(pack, 0x5000, "p1f0");
    assert_int_not_equal(symbol_packs_generation(packs), before);
    symbol_pack_unref(pack);
    symbol_packs_free(packs);
}

static void a_pack_cut_up_and_joined_again_is_the_same(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(256 * MIB), *others = symbol_packs_new(256 * MIB);
    struct executable_id id = id_of("aaaaaaaa");
    symbol_packs_want(packs, &id, 0);
    symbol_packs_want(others, &id, 0);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, 1, 0, 300000), 0), 0);
    uint32_t parts = 1;
    for (uint32_t part = 0; part < parts; part++) {
        Fleetprof__Pack message;
        symbol_packs_get(packs, &id, part, 0, &message);
        assert_int_equal(message.status, FLEETPROF__PACK_STATUS__PACK_OK);
        parts = message.parts;
        assert_int_equal(symbol_packs_add(others, &message, 0, NULL), 0);
        symbol_pack_part_fini(&message);
    }
    assert_true(parts > 1);
    struct symbol_pack *pack = symbol_packs_find(others, &id);
    assert_int_equal(symbol_pack_function_count(pack), 300000);
    for (uint32_t i = 0; i < 300000; i += 777) {
        char name[16];
        snprintf(name, sizeof(name), "p0f%u", i);
        assert_name(pack, i * 0x100ULL + 5, name);
    }
    symbol_pack_unref(pack);
    symbol_packs_free(packs);
    symbol_packs_free(others);
}

static void malformed_and_unasked_packs_are_refused(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(MIB);
    struct executable_id id = id_of("aaaaaaaa");
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, 1, 0, 1), 0), -ENOENT);
    symbol_packs_want(packs, &id, 0);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 1, 1, 0, 1), 0), -EPROTO);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, 0, 0, 1), 0), -EPROTO);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, SYMBOL_PACK_PARTS + 1, 0, 1), 0), -EPROTO);
    Fleetprof__Pack *part = part_new("aaaaaaaa", 0, 1, 0, 4);
    part->n_size = 3;
    assert_int_equal(add(packs, part, 0), -EPROTO);
    part = part_new("aaaaaaaa", 0, 1, 0, 4);
    part->names.len--;
    assert_int_equal(add(packs, part, 0), -EPROTO);
    part = part_new("aaaaaaaa", 0, 1, 0, 4);
    part->start_step[2] = 0;
    assert_int_equal(add(packs, part, 0), -EPROTO);
    part = part_new("aaaaaaaa", 0, 1, 0, 4);
    part->start_step[2] = UINT64_MAX;
    assert_int_equal(add(packs, part, 0), -EPROTO);
    part = part_new("aaaaaaaa", 0, 1, 0x1000, 4);
    part->size[0] = UINT64_MAX;
    assert_int_equal(add(packs, part, 0), -EPROTO);
    /* Sound by themselves, overlapping together. */
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, 2, 0x1000, 4), 0), 0);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 1, 2, 0x1100, 4), 0), -EPROTO);
    assert_null(symbol_packs_find(packs, &id));
    symbol_packs_free(packs);
}

static void an_agent_is_asked_again_only_after_a_while(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(MIB);
    struct executable_id id = id_of("aaaaaaaa");
    struct symbol_task task;
    symbol_packs_want(packs, &id, 1000);
    assert_false(symbol_packs_should_ask(packs, &id, 1000)); /* nobody decided yet */
    assert_int_equal(symbol_packs_tasks(packs, 1000, &task, 1), 1);
    assert_int_equal(task.state, SYMBOL_WANTED);
    symbol_packs_decide(packs, &id, SYMBOL_ASK, 1000 + SYMBOL_PACK_GRANT_MS);
    assert_int_equal(symbol_packs_tasks(packs, 1000, &task, 1), 0);
    assert_true(symbol_packs_should_ask(packs, &id, 1000));
    assert_false(symbol_packs_should_ask(packs, &id, 1000 + SYMBOL_PACK_ASK_MS - 1));
    assert_true(symbol_packs_should_ask(packs, &id, 1000 + SYMBOL_PACK_ASK_MS));
    symbol_packs_free(packs);
}

/* A failed look-up is not kept for ever. */
static void a_failed_look_up_expires(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(MIB);
    struct executable_id id = id_of("aaaaaaaa");
    struct symbol_task task;
    symbol_packs_want(packs, &id, 0);
    symbol_packs_decide(packs, &id, SYMBOL_ASK, SYMBOL_PACK_GRANT_MS);
    Fleetprof__Pack *part = part_new("aaaaaaaa", 0, 0, 0, 0);
    part->status = FLEETPROF__PACK_STATUS__PACK_UNAVAILABLE;
    assert_int_equal(add(packs, part, 5000), 0);
    assert_int_equal(symbol_packs_figures(packs).unavailable, 1);
    symbol_packs_want(packs, &id, 6000);
    assert_int_equal(symbol_packs_tasks(packs, 6000, &task, 1), 0);
    symbol_packs_want(packs, &id, 5000 + SYMBOL_PACK_RETRY_MS);
    assert_int_equal(symbol_packs_tasks(packs, 5000 + SYMBOL_PACK_RETRY_MS, &task, 1), 1);
    assert_int_equal(task.state, SYMBOL_WANTED);
    symbol_packs_free(packs);
}

/* Else ids that nobody can serve any more fill the table, and new executables stay without names. */
static void a_wish_that_nobody_repeats_is_forgotten(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(MIB);
    struct executable_id id = id_of("aaaaaaaa");
    struct symbol_task task;
    symbol_packs_want(packs, &id, 0);
    symbol_packs_decide(packs, &id, SYMBOL_ASK, SYMBOL_PACK_GRANT_MS);
    symbol_packs_tasks(packs, SYMBOL_PACK_IDLE_MS - 1, &task, 1);
    assert_true(symbol_packs_should_ask(packs, &id, SYMBOL_PACK_IDLE_MS - 1)); /* a session misses it */
    symbol_packs_tasks(packs, 2 * SYMBOL_PACK_IDLE_MS - 2, &task, 1);
    assert_int_equal(symbol_packs_figures(packs).wanted, 1);
    symbol_packs_tasks(packs, 2 * SYMBOL_PACK_IDLE_MS - 1, &task, 1);
    assert_int_equal(symbol_packs_figures(packs).wanted, 0);
    symbol_packs_want(packs, &id, 2 * SYMBOL_PACK_IDLE_MS);
    assert_int_equal(symbol_packs_tasks(packs, 2 * SYMBOL_PACK_IDLE_MS, &task, 1), 1);
    symbol_packs_free(packs);
}

static void over_the_count_of_ids_the_least_used_pack_goes(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(MIB);
    struct executable_id old = id_of("old-----"), last = id_of("last----");
    symbol_packs_want(packs, &old, 0);
    assert_int_equal(add(packs, part_new("old-----", 0, 1, 0, 1), 0), 0);
    for (uint32_t i = 1; i < SYMBOL_PACK_ENTRIES; i++) {
        struct executable_id id = id_of("--------");
        memcpy(id.data, &i, sizeof(i));
        symbol_packs_want(packs, &id, 0);
    }
    symbol_packs_want(packs, &last, 0);
    struct symbol_packs_figures figures = symbol_packs_figures(packs);
    assert_int_equal(figures.wanted, SYMBOL_PACK_ENTRIES);
    assert_int_equal(figures.packs, 0);
    assert_int_equal(figures.evicted, 1);
    symbol_packs_free(packs);
}

static int get_status(struct symbol_packs *packs, const struct executable_id *id, uint64_t now_ms)
{
    Fleetprof__Pack message;
    symbol_packs_get(packs, id, 0, now_ms, &message);
    int status = (int)message.status;
    symbol_pack_part_fini(&message);
    return status;
}

static void the_first_shard_to_ask_is_told_to_fetch_it(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(MIB);
    struct executable_id id = id_of("aaaaaaaa");
    assert_int_equal(get_status(packs, &id, 0), FLEETPROF__PACK_STATUS__PACK_YOURS);
    assert_int_equal(get_status(packs, &id, 1), FLEETPROF__PACK_STATUS__PACK_PENDING);
    /* It never came: the next one. */
    assert_int_equal(get_status(packs, &id, SYMBOL_PACK_GRANT_MS), FLEETPROF__PACK_STATUS__PACK_YOURS);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, 1, 0, 1), 0), 0);
    assert_int_equal(get_status(packs, &id, 1), FLEETPROF__PACK_STATUS__PACK_OK);
    symbol_packs_free(packs);
}

static void over_the_limit_the_least_used_go(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(150000); /* two packs of 2,000 functions, not three */
    struct executable_id a = id_of("aaaaaaaa"), b = id_of("bbbbbbbb"), c = id_of("cccccccc");
    symbol_packs_want(packs, &a, 0);
    symbol_packs_want(packs, &b, 0);
    symbol_packs_want(packs, &c, 0);
    assert_int_equal(add(packs, part_new("aaaaaaaa", 0, 1, 0, 2000), 0), 0);
    assert_int_equal(add(packs, part_new("bbbbbbbb", 0, 1, 0, 2000), 0), 0);
    symbol_pack_unref(symbol_packs_find(packs, &a));
    assert_int_equal(add(packs, part_new("cccccccc", 0, 1, 0, 2000), 0), 0);
    assert_null(symbol_packs_find(packs, &b));
    struct symbol_pack *pack = symbol_packs_find(packs, &a);
    assert_non_null(pack);
    symbol_pack_unref(pack);
    assert_true(symbol_packs_figures(packs).bytes <= 150000);
    assert_int_equal(symbol_packs_figures(packs).evicted, 1);
    /* One that does not fit at all is refused. */
    symbol_packs_want(packs, &b, 0);
    assert_int_equal(add(packs, part_new("bbbbbbbb", 0, 1, 0, 100000), 0), -E2BIG);
    symbol_packs_free(packs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_covers_its_own_size_only),
        cmocka_unit_test(parts_in_any_order_make_one_pack),
        cmocka_unit_test(a_pack_cut_up_and_joined_again_is_the_same),
        cmocka_unit_test(malformed_and_unasked_packs_are_refused),
        cmocka_unit_test(an_agent_is_asked_again_only_after_a_while),
        cmocka_unit_test(a_failed_look_up_expires),
        cmocka_unit_test(a_wish_that_nobody_repeats_is_forgotten),
        cmocka_unit_test(over_the_count_of_ids_the_least_used_pack_goes),
        cmocka_unit_test(the_first_shard_to_ask_is_told_to_fetch_it),
        cmocka_unit_test(over_the_limit_the_least_used_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
