/* The symbol thread, with a file that hangs in place of the images and the pack's reader. */
#include "node-agent/pack.h"
#include "node-agent/pack_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define LONG_MS 20000u

static sem_t gate;
static _Atomic unsigned done_count;

int images_open_file(struct images *images, const void *id, size_t id_bytes, int *ret_fd, char *ret_name,
                     size_t name_bytes, struct err *err)
{
    (void)images;
    (void)id;
    (void)id_bytes;
    (void)ret_name;
    (void)name_bytes;
    *ret_fd = -1;
    sem_wait(&gate);
    return err_say(err, -ENOENT, "gone");
}

void images_names_done(struct images *images, const void *id, size_t id_bytes)
{
    (void)images;
    (void)id;
    (void)id_bytes;
    atomic_fetch_add(&done_count, 1);
}

int pack_each(int fd, const void *id, size_t id_bytes, const char *name, pack_part_fn on_part, void *ctx,
              struct err *err)
{
    (void)fd;
    (void)id;
    (void)id_bytes;
    (void)name;
    (void)on_part;
    (void)ctx;
    (void)err;
    return 0;
}

int pack_unavailable(const void *id, size_t id_bytes, const char *name, const char *reason,
                     pack_part_fn on_part, void *ctx, struct err *err)
{
    (void)reason;
    return pack_each(-1, id, id_bytes, name, on_part, ctx, err);
}

static void on_part(const void *message, size_t bytes, void *ctx)
{
    (void)message;
    (void)bytes;
    (void)ctx;
}

static void wait_until_busy(const struct pack_worker *worker, uint64_t at_least_ms)
{
    for (unsigned i = 0; pack_worker_busy_ms(worker) < at_least_ms; i++) {
        assert_true(i < LONG_MS);
        usleep(1000);
    }
}

static void the_time_at_one_executable_shows_while_its_file_hangs(void **state)
{
    (void)state;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    sem_init(&gate, 0, 0);
    struct pack_worker *worker = pack_worker_open(&loop, NULL, on_part, NULL);
    assert_int_equal(pack_worker_busy_ms(worker), 0);
    pack_worker_want(worker, "12345678", 8);
    wait_until_busy(worker, 50);
    sem_post(&gate);
    for (unsigned i = 0; atomic_load(&done_count) < 1; i++) {
        assert_true(i < LONG_MS);
        usleep(1000);
    }
    assert_int_equal(pack_worker_busy_ms(worker), 0);
    pack_worker_close(worker);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    sem_destroy(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_at_one_executable_shows_while_its_file_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
