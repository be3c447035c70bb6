/* The profile is read back by its own reader: `go tool pprof`, where Go is installed; and by a small one
 * here. */
#include "aggregator/api_pprof.h"
#include "aggregator/pprof.pb-c.h"

#include "tests/unit/fake_query.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

static const struct api_pprof_facts FACTS = {.kind = "cpu",
                                             .unit = "nanoseconds",
                                             .from_ms = 1769860800000,
                                             .duration_ms = 10000,
                                             .comment = "{\"partial\":false}"};

static struct buf write_profile(const struct stackset *set)
{
    struct buf out = buf_init(HTTP_BODY_BYTES);
    assert_int_equal(api_pprof_write(set, &FACTS, &out), 0);
    return out;
}

static Pprof__Profile *unzip(const struct buf *zipped)
{
    static uint8_t bytes[8 << 20];
    z_stream zip = {0};
    assert_int_equal(inflateInit2(&zip, 15 + 16), Z_OK);
    zip.next_in = (Bytef *)zipped->data;
    zip.avail_in = (uInt)zipped->used_bytes;
    zip.next_out = bytes;
    zip.avail_out = sizeof(bytes);
    assert_int_equal(inflate(&zip, Z_FINISH), Z_STREAM_END);
    Pprof__Profile *profile = pprof__profile__unpack(NULL, zip.total_out, bytes);
    assert_non_null(profile);
    inflateEnd(&zip);
    return profile;
}

static const char *string_at(const Pprof__Profile *profile, int64_t at)
{
    assert_true(at >= 0 && (size_t)at < profile->n_string_table);
    return profile->string_table[at];
}

/* "leaf<caller<..." of a sample, with the labels behind. */
static void describe(const Pprof__Profile *profile, const Pprof__Sample *sample, char *out, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < sample->n_location_id; i++) {
        const Pprof__Location *location = profile->location[sample->location_id[i] - 1];
        assert_int_equal(location->id, sample->location_id[i]);
        const Pprof__Function *function = profile->function[location->line[0]->function_id - 1];
        assert_int_equal(function->id, location->line[0]->function_id);
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? "<" : "",
                                 string_at(profile, function->name));
    }
    for (size_t i = 0; i < sample->n_label; i++)
        used += (size_t)snprintf(out + used, room - used, " %s=%s", string_at(profile, sample->label[i]->key),
                                 string_at(profile, sample->label[i]->str));
}

static void samples_keep_stack_labels_and_both_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t count;
    } want[] = {
        {"busy_loop<main node=n1 process=sp;in", 400},
        {"busy_loop<main node=n1 process=sp;in", 100},
        {"ksys_read<a\\xff\\xfe\"b\\x0ac\\\\d<script>;e<main node=n1 process=sp;in", 300},
        {"lib\\xff.so+0x1f40<main node=n2 process=sp;in", 100},
        {"work<main node=n2 process=sp;in", 100},
    };
    struct stackset *set = fake_stacks();
    struct buf zipped = write_profile(set);
    Pprof__Profile *profile = unzip(&zipped);
    assert_int_equal(profile->n_sample, 5);
    for (size_t i = 0; i < 5; i++) {
        char text[512];
        describe(profile, profile->sample[i], text, sizeof(text));
        assert_string_equal(text, want[i].text);
        assert_int_equal(profile->sample[i]->n_value, 2);
        assert_int_equal(profile->sample[i]->value[0], want[i].count);
        assert_int_equal(profile->sample[i]->value[1], want[i].count * 10101010);
    }
    pprof__profile__free_unpacked(profile, NULL);
    buf_fini(&zipped);
    stackset_free(set);
}

static void facts_mappings_and_functions_are_right(void **state)
{
    (void)state;
    struct stackset *set = fake_stacks();
    struct buf zipped = write_profile(set);
    Pprof__Profile *profile = unzip(&zipped);
    assert_string_equal(string_at(profile, 0), "");
    assert_int_equal(profile->n_sample_type, 2);
    assert_string_equal(string_at(profile, profile->sample_type[0]->type), "samples");
    assert_string_equal(string_at(profile, profile->sample_type[0]->unit), "count");
    assert_string_equal(string_at(profile, profile->sample_type[1]->type), "cpu");
    assert_string_equal(string_at(profile, profile->sample_type[1]->unit), "nanoseconds");
    assert_string_equal(string_at(profile, profile->period_type->type), "cpu");
    assert_string_equal(string_at(profile, profile->period_type->unit), "nanoseconds");
    assert_string_equal(string_at(profile, profile->default_sample_type), "cpu");
    assert_string_equal(string_at(profile, profile->comment[0]), "{\"partial\":false}");
    assert_int_equal(profile->period, 10101010);
    assert_int_equal(profile->time_nanos, 1769860800000000000);
    assert_int_equal(profile->duration_nanos, 10000000000);
    assert_int_equal(profile->n_mapping, 3); /* spin, the library, the kernel */
    const Pprof__Mapping *spin = profile->mapping[0];
    assert_string_equal(string_at(profile, spin->filename), "spin");
    assert_string_equal(string_at(profile, spin->build_id), "1234ab");
    assert_int_equal(spin->memory_start, 0);
    assert_int_equal(spin->file_offset, 0);
    assert_int_equal(spin->memory_limit, 0x2000); /* 0x1108, to the page */
    for (size_t i = 0; i < profile->n_mapping; i++)
        assert_true(profile->mapping[i]->has_functions);
    assert_int_equal(profile->n_function, 6); /* busy_loop at two offsets is one */
    assert_int_equal(profile->n_location, 7);
    for (size_t i = 0; i < profile->n_location; i++)
        if (profile->location[i]->line[0]->line) {
            const Pprof__Function *work = profile->function[profile->location[i]->line[0]->function_id - 1];
            assert_int_equal(profile->location[i]->line[0]->line, 17);
            assert_string_equal(string_at(profile, work->filename), "w.py");
        }
    pprof__profile__free_unpacked(profile, NULL);
    buf_fini(&zipped);
    stackset_free(set);
}

static void an_empty_profile_is_a_profile(void **state)
{
    (void)state;
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    struct buf zipped = write_profile(set);
    Pprof__Profile *profile = unzip(&zipped);
    assert_int_equal(profile->n_sample, 0);
    assert_int_equal(profile->n_sample_type, 2);
    pprof__profile__free_unpacked(profile, NULL);
    buf_fini(&zipped);
    stackset_free(set);
}

static void an_answer_over_the_limit_is_an_error(void **state)
{
    (void)state;
    struct stackset *set = fake_stacks();
    struct buf small = buf_init(100);
    assert_int_equal(api_pprof_write(set, &FACTS, &small), -E2BIG);
    buf_fini(&small);
    stackset_free(set);
}

static void run(const char *command, char *out, size_t room)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t used = fread(out, 1, room - 1, pipe);
    out[used] = '\0';
    int status = pclose(pipe);
    if (status != 0)
        fail_msg("%s: status %d: %s", command, status, out);
}

static void go_tool_pprof_opens_it_without_a_warning(void **state)
{
    (void)state;
    char path[] = "/tmp/test_api_pprof.XXXXXX", command[256], out[8192];
    if (system("go version >/dev/null 2>&1 || [ -x /usr/local/go/bin/go ]") != 0)
        skip(); /* needs the go command */
    struct stackset *set = fake_stacks();
    struct buf zipped = write_profile(set);
    int fd = mkstemp(path);
    assert_int_equal(write(fd, zipped.data, zipped.used_bytes), (ssize_t)zipped.used_bytes);
    close(fd);
    snprintf(command, sizeof(command), "PATH=$PATH:/usr/local/go/bin go tool pprof -top %s 2>&1 >/dev/null",
             path);
    run(command, out, sizeof(out));
    assert_string_equal(out, ""); /* nothing on standard error */
    snprintf(command, sizeof(command), "PATH=$PATH:/usr/local/go/bin go tool pprof -top %s 2>/dev/null",
             path);
    run(command, out, sizeof(out));
    static const char *const want[] = {"File: spin\n",
                                       "Build ID: 1234ab\n",
                                       "Type: cpu\n",
                                       "Duration: 10s, Total samples = 10.10s (101.01%)\n",
                                       "of 10.10s total\n",
                                       "\n     5.05s 50.00% 50.00%      5.05s 50.00%  busy_loop\n",
                                       "100%     10.10s   100%  main\n",
                                       "lib\\xff.so+0x1f40\n"};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        if (!strstr(out, want[i]))
            fail_msg("no \"%s\" in\n%s", want[i], out);
    snprintf(
        command, sizeof(command),
        "PATH=$PATH:/usr/local/go/bin go tool pprof -sample_index=samples -tagfocus=node=n2 -top %s 2>&1",
        path);
    run(command, out, sizeof(out));
    if (!strstr(out, "of 1000 total") || !strstr(out, "Showing nodes accounting for 200,"))
        fail_msg("%s", out);
    unlink(path);
    buf_fini(&zipped);
    stackset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_keep_stack_labels_and_both_values),
        cmocka_unit_test(facts_mappings_and_functions_are_right),
        cmocka_unit_test(an_empty_profile_is_a_profile),
        cmocka_unit_test(an_answer_over_the_limit_is_an_error),
        cmocka_unit_test(go_tool_pprof_opens_it_without_a_warning),
    };
    return cmocka_run_group_tests_name("api_pprof", tests, NULL, NULL);
}
