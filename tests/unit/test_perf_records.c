#include "node-agent/perf_records.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Builds a record: the fixed part, text padded to 8 bytes, sample id. Returns its length. */
static size_t build(uint8_t *out, const void *part, size_t part_bytes, const char *text, uint64_t time_ns)
{
    size_t text_bytes = text ? (strlen(text) + 8) & ~(size_t)7 : 0;
    size_t bytes = part_bytes + text_bytes + sizeof(struct sample_id);
    struct sample_id id = {.pid = 7, .tid = 8, .time = time_ns};
    memset(out, 0, bytes);
    memcpy(out, part, part_bytes);
    if (text)
        memcpy(out + part_bytes, text, strlen(text));
    memcpy(out + part_bytes + text_bytes, &id, sizeof(id));
    ((struct perf_event_header *)out)->size = (uint16_t)bytes;
    return bytes;
}

static void reads_a_mapping_with_its_build_id(void **state)
{
    (void)state;
    _Alignas(8) uint8_t bytes[256];
    struct mmap2_record mmap2 = {
        .header = {.type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_MMAP_BUILD_ID},
        .pid = 10,
        .tid = 11,
        .address = 0x400000,
        .bytes = 0x2000,
        .page_offset = 0x1000,
        .who.build_id = {.bytes = 3, .data = {0xaa, 0xbb, 0xcc}}};
    size_t size = build(bytes, &mmap2, sizeof(mmap2), "/usr/bin/true", 99);
    struct sampler_event event;
    assert_int_equal(perf_record_parse(bytes, size, &event), 0);
    assert_int_equal(event.type, SAMPLER_MMAP);
    assert_int_equal(event.time_ns, 99);
    assert_int_equal(event.tgid, 10);
    assert_int_equal(event.tid, 11);
    assert_int_equal(event.mmap.start, 0x400000);
    assert_int_equal(event.mmap.bytes, 0x2000);
    assert_int_equal(event.mmap.file_offset, 0x1000);
    assert_int_equal(event.mmap.build_id_bytes, 3);
    assert_memory_equal(event.mmap.build_id, "\xaa\xbb\xcc", 3);
    assert_int_equal(event.mmap.inode, 0);
    assert_string_equal(event.mmap.path, "/usr/bin/true");
}

static void reads_a_mapping_with_device_and_inode(void **state)
{
    (void)state;
    _Alignas(8) uint8_t bytes[256];
    struct mmap2_record mmap2 = {
        .header = {.type = PERF_RECORD_MMAP2},
        .who.file = {.device_major = 8, .device_minor = 1, .inode = 1234, .inode_generation = 5}};
    size_t size = build(bytes, &mmap2, sizeof(mmap2), "//anon", 1);
    struct sampler_event event;
    assert_int_equal(perf_record_parse(bytes, size, &event), 0);
    assert_int_equal(event.mmap.build_id_bytes, 0);
    assert_int_equal(event.mmap.device_major, 8);
    assert_int_equal(event.mmap.device_minor, 1);
    assert_int_equal(event.mmap.inode, 1234);
    assert_int_equal(event.mmap.inode_generation, 5);
}

static void refuses_a_build_id_longer_than_its_field(void **state)
{
    (void)state;
    _Alignas(8) uint8_t bytes[256];
    struct mmap2_record mmap2 = {
        .header = {.type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_MMAP_BUILD_ID},
        .who.build_id = {.bytes = 21}};
    size_t size = build(bytes, &mmap2, sizeof(mmap2), "/x", 1);
    struct sampler_event event;
    assert_int_equal(perf_record_parse(bytes, size, &event), -EBADMSG);
}

static void tells_exec_from_rename(void **state)
{
    (void)state;
    _Alignas(8) uint8_t bytes[128];
    struct comm_record comm = {.header = {.type = PERF_RECORD_COMM}, .pid = 3, .tid = 4};
    struct sampler_event event;
    size_t size = build(bytes, &comm, sizeof(comm), "worker", 5);
    assert_int_equal(perf_record_parse(bytes, size, &event), 0);
    assert_int_equal(event.type, SAMPLER_COMM);
    assert_string_equal(event.name.comm, "worker");
    comm.header.misc = PERF_RECORD_MISC_COMM_EXEC;
    size = build(bytes, &comm, sizeof(comm), "bash", 5);
    assert_int_equal(perf_record_parse(bytes, size, &event), 0);
    assert_int_equal(event.type, SAMPLER_EXEC);
}

static void reads_fork_exit_ksymbol_and_lost(void **state)
{
    (void)state;
    _Alignas(8) uint8_t bytes[128];
    struct sampler_event event;
    struct task_record task = {.header = {.type = PERF_RECORD_FORK},
                               .pid = 20,
                               .parent_pid = 10,
                               .tid = 21,
                               .parent_tid = 11,
                               .time = 77};
    assert_int_equal(perf_record_parse(bytes, build(bytes, &task, sizeof(task), NULL, 78), &event), 0);
    assert_int_equal(event.type, SAMPLER_FORK);
    assert_int_equal(event.time_ns, 78);
    assert_int_equal(event.fork.parent_tgid, 10);
    assert_int_equal(event.fork.parent_tid, 11);
    task.header.type = PERF_RECORD_EXIT;
    assert_int_equal(perf_record_parse(bytes, build(bytes, &task, sizeof(task), NULL, 79), &event), 0);
    assert_int_equal(event.type, SAMPLER_EXIT);
    assert_int_equal(event.tgid, 20);

    struct ksymbol_record ksymbol = {.header = {.type = PERF_RECORD_KSYMBOL},
                                     .address = 0xffffffffc0000000,
                                     .bytes = 100,
                                     .flags = PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER};
    assert_int_equal(
        perf_record_parse(bytes, build(bytes, &ksymbol, sizeof(ksymbol), "bpf_prog_x", 80), &event), 0);
    assert_int_equal(event.type, SAMPLER_KSYMBOL);
    assert_true(event.ksymbol.removed);
    assert_int_equal(event.ksymbol.bytes, 100);
    assert_string_equal(event.ksymbol.symbol, "bpf_prog_x");

    struct lost_record lost = {.header = {.type = PERF_RECORD_LOST}, .lost = 42};
    assert_int_equal(perf_record_parse(bytes, build(bytes, &lost, sizeof(lost), NULL, 81), &event), 0);
    assert_int_equal(event.type, SAMPLER_LOST);
    assert_int_equal(event.lost_count, 42);
}

static void every_shortened_record_is_refused_without_reading_beyond_it(void **state)
{
    (void)state;
    _Alignas(8) uint8_t bytes[256];
    struct mmap2_record mmap2 = {.header = {.type = PERF_RECORD_MMAP2}};
    size_t size = build(bytes, &mmap2, sizeof(mmap2), "/usr/bin/tail15", 99); /* no padding behind its NUL */
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = test_malloc(cut + 1);
        struct sampler_event event;
        memcpy(copy, bytes, cut);
        if (cut >= sizeof(struct perf_event_header)) {
            struct perf_event_header header;
            memcpy(&header, copy, sizeof(header));
            header.size = (uint16_t)cut;
            memcpy(copy, &header, sizeof(header));
        }
        /* The sample id then covers the end of the path, which has lost its NUL. */
        assert_int_equal(perf_record_parse(copy, cut, &event), -EBADMSG);
        test_free(copy);
    }
}

static void unknown_kinds_are_told_apart_from_broken_ones(void **state)
{
    (void)state;
    _Alignas(8) uint8_t bytes[64];
    struct perf_event_header header = {.type = 999};
    struct sampler_event event;
    assert_int_equal(perf_record_parse(bytes, build(bytes, &header, sizeof(header), NULL, 1), &event),
                     -ENOENT);
}

static void a_record_across_the_rings_end_comes_whole(void **state)
{
    (void)state;
    _Alignas(8) uint8_t ring[64];
    static uint8_t out[PERF_RECORD_MAX_BYTES];
    struct perf_event_header header = {.type = PERF_RECORD_COMM, .size = 24};
    uint8_t wanted[24];
    for (size_t i = 0; i < sizeof(wanted); i++)
        wanted[i] = (uint8_t)(i + 1);
    memcpy(wanted, &header, sizeof(header));
    uint64_t tail = 64 * 5 + 48;
    for (size_t i = 0; i < sizeof(wanted); i++)
        ring[(tail + i) % 64] = wanted[i];
    assert_int_equal(perf_ring_read(ring, 64, tail, tail + 24, out), 24);
    assert_memory_equal(out, wanted, sizeof(wanted));
    assert_int_equal(perf_ring_read(ring, 64, tail, tail, out), 0);
}

static void nonsense_in_a_ring_is_refused(void **state)
{
    (void)state;
    _Alignas(8) uint8_t ring[64] = {0};
    static uint8_t out[PERF_RECORD_MAX_BYTES];
    struct perf_event_header header = {.size = 32};
    assert_int_equal(perf_ring_read(ring, 64, 0, 24, out), -EBADMSG); /* size 0 */
    memcpy(ring, &header, sizeof(header));
    assert_int_equal(perf_ring_read(ring, 64, 0, 24, out), -EBADMSG);   /* longer than what is there */
    assert_int_equal(perf_ring_read(ring, 64, 0, 128, out), -EBADMSG);  /* more than the ring holds */
    assert_int_equal(perf_ring_read(ring, 64, 0, 4, out), -EBADMSG);    /* no room for a header */
    assert_int_equal(perf_ring_read(ring, 64, 60, 120, out), -EBADMSG); /* not aligned */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_mapping_with_its_build_id),
        cmocka_unit_test(reads_a_mapping_with_device_and_inode),
        cmocka_unit_test(refuses_a_build_id_longer_than_its_field),
        cmocka_unit_test(tells_exec_from_rename),
        cmocka_unit_test(reads_fork_exit_ksymbol_and_lost),
        cmocka_unit_test(every_shortened_record_is_refused_without_reading_beyond_it),
        cmocka_unit_test(unknown_kinds_are_told_apart_from_broken_ones),
        cmocka_unit_test(a_record_across_the_rings_end_comes_whole),
        cmocka_unit_test(nonsense_in_a_ring_is_refused),
    };
    return cmocka_run_group_tests_name("perf_records", tests, NULL, NULL);
}
