#include "node-agent/proc_maps.c"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MAP_PREFIX "7f0000400000-7f0000455000 r-xp 00026000 fe:01 326269                     "

static int parse(const char *line, struct proc_map *map)
{
    return proc_maps_parse_line(line, strlen(line), map);
}

static void reads_every_field_of_a_line(void **state)
{
    (void)state;
    struct proc_map map;
    assert_int_equal(parse(MAP_PREFIX "/usr/lib/libc.so.6", &map), 0);
    assert_int_equal(map.start, 0x7f0000400000);
    assert_int_equal(map.end, 0x7f0000455000);
    assert_int_equal(map.file_offset, 0x26000);
    assert_int_equal(map.device, makedev(0xfe, 1));
    assert_int_equal(map.inode, 326269);
    assert_true(map.executable);
    assert_int_equal(map.path_bytes, strlen("/usr/lib/libc.so.6"));
    assert_memory_equal(map.path, "/usr/lib/libc.so.6", map.path_bytes);
}

static void reads_lines_without_path_and_with_names_in_brackets(void **state)
{
    (void)state;
    struct proc_map map;
    assert_int_equal(parse("7ff2-7ff3 rw-p 00000000 00:00 0 ", &map), 0);
    assert_null(map.path);
    assert_false(map.executable);
    assert_int_equal(parse("7ff2-7ff3 rw-p 00000000 00:00 0", &map), 0);
    assert_null(map.path);
    assert_int_equal(
        parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]", &map),
        0);
    assert_int_equal(map.end, 0xffffffffff601000);
    assert_true(map.executable);
    assert_memory_equal(map.path, "[vsyscall]", map.path_bytes);
}

static void keeps_spaces_and_a_deletion_mark_in_the_middle_of_a_path(void **state)
{
    (void)state;
    struct proc_map map;
    char path[64];
    assert_int_equal(parse(MAP_PREFIX "/a (deleted)/b c\\012d\\x  (deleted)", &map), 0);
    int length = proc_maps_path(&map, path, sizeof(path));
    assert_string_equal(path, "/a (deleted)/b c\nd\\x  (deleted)");
    assert_int_equal(length, strlen(path));
}

static void a_path_that_does_not_fit_is_refused_whole(void **state)
{
    (void)state;
    struct proc_map map;
    char path[5];
    assert_int_equal(parse(MAP_PREFIX "/abc", &map), 0);
    assert_int_equal(proc_maps_path(&map, path, 5), 4);
    assert_int_equal(proc_maps_path(&map, path, 4), -E2BIG);
    assert_string_equal(path, "");
    assert_int_equal(proc_maps_path(&map, path, 0), -E2BIG);
}

static void takes_a_path_of_4095_bytes(void **state)
{
    (void)state;
    char line[8192], path[4096];
    struct proc_map map;
    int used = snprintf(line, sizeof(line), "%s/", MAP_PREFIX);
    memset(line + used, 'p', 4094);
    line[used + 4094] = '\0';
    assert_int_equal(parse(line, &map), 0);
    assert_int_equal(proc_maps_path(&map, path, sizeof(path)), 4095);
    assert_int_equal(path[4094], 'p');
}

static void refuses_what_is_not_a_line_of_maps(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",
        "7f00",
        "7f00-",
        "7f00-7e00 r-xp 0 0:0 0 /x",                        /* ends before it starts */
        "7f00-7f00 r-xp 0 0:0 0 /x",                        /* empty */
        "7f00-7fff rwxq 0 0:0 0 /x",                        /* no such permission */
        "7f00-7fff r-x 0 0:0 0 /x",                         /* three of four permissions */
        "7f00-7fff r-xp 0 0:0 12x /x",                      /* inode with a letter */
        "10000000000000000-10000000000000001 r-xp 0 0:0 0", /* over 64 bits */
        "7f00-7fff r-xp 0 100000000:0 0 /x",                /* device over 32 bits */
        "7F00-7FFF r-xp 0 0:0 0 /x",                        /* the kernel writes small letters */
        " 7f00-7fff r-xp 0 0:0 0 /x",
    };
    struct proc_map map;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
        assert_int_equal(parse(BAD[i], &map), -EINVAL);
}

struct seen {
    uint64_t address;
    int count, holding;
    char path[4200];
    size_t build_id_bytes;
    uint64_t inode, device;
};

static int on_map(const struct proc_map *map, const char *path, const uint8_t *build_id,
                  size_t build_id_bytes, void *ctx)
{
    struct seen *seen = ctx;
    seen->count++;
    assert_true(map->executable);
    assert_true(!build_id == !build_id_bytes);
    if (seen->address < map->start || seen->address >= map->end)
        return 0;
    seen->holding++;
    snprintf(seen->path, sizeof(seen->path), "%s", path);
    seen->build_id_bytes = build_id_bytes;
    seen->inode = map->inode;
    seen->device = map->device;
    return 0;
}

static void finds_our_own_code_by_its_path_device_and_inode(void **state)
{
    (void)state;
    struct seen seen = {.address = (uintptr_t)on_map};
    struct stat st;
    char exe[4096] = "";
    assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
    assert_int_equal(stat("/proc/self/exe", &st), 0);
    assert_int_equal(proc_maps_each(getpid(), on_map, &seen), 0);
    assert_true(seen.count >= 3); /* we, libc, its loader */
    assert_int_equal(seen.holding, 1);
    assert_string_equal(seen.path, exe);
    assert_int_equal(seen.inode, st.st_ino);
}

/* A real mapping under a hostile name, read the way the agent reads it. */
static void reads_back_a_mapped_file_with_spaces_and_newline_in_its_name(void **state)
{
    (void)state;
    char name[64], deleted[80];
    snprintf(name, sizeof(name), "/tmp/fleetprof maps\n(deleted) %d", getpid());
    snprintf(deleted, sizeof(deleted), "%s (deleted)", name);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    struct seen seen = {.address = (uintptr_t)code};
    assert_int_equal(proc_maps_each(getpid(), on_map, &seen), 0);
    assert_string_equal(seen.path, name);
    unlink(name);
    seen = (struct seen){.address = (uintptr_t)code};
    assert_int_equal(proc_maps_each(getpid(), on_map, &seen), 0);
    assert_string_equal(seen.path, deleted);
    munmap(code, 4096);
    close(fd);
}

/* Deeper than PATH_MAX: every directory is entered on its own. The mappings behind it must still be reported.
 */
static void a_mapped_file_with_a_path_over_the_limit_hides_nothing(void **state)
{
    (void)state;
    char part[201], cwd[4096];
    snprintf(part, sizeof(part), "%0200d", getpid());
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(chdir("/tmp"), 0);
    for (int i = 0; i < 22; i++) {
        mkdir(part, 0700);
        assert_int_equal(chdir(part), 0);
    }
    int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    struct seen deep = {.address = (uintptr_t)code}, own = {.address = (uintptr_t)on_map};
    assert_int_equal(proc_maps_each(getpid(), on_map, &deep), 0);
    assert_int_equal(proc_maps_each(getpid(), on_map, &own), 0);
    assert_int_equal(deep.holding, 1);
    assert_string_equal(deep.path, "//toolong");
    assert_int_equal(own.holding, 1);
    munmap(code, 4096);
    close(fd);
    unlink("f");
    for (int i = 0; i < 22; i++) {
        assert_int_equal(chdir(".."), 0);
        assert_int_equal(rmdir(part), 0);
    }
    assert_int_equal(chdir(cwd), 0);
}

static int stop_at_once(const struct proc_map *map, const char *path, const uint8_t *id, size_t id_bytes,
                        void *ctx)
{
    (void)map, (void)path, (void)id, (void)id_bytes;
    ++*(int *)ctx;
    return -ECANCELED;
}

static void the_callback_can_stop_the_reading(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(proc_maps_each(getpid(), stop_at_once, &calls), -ECANCELED);
    assert_int_equal(calls, 1);
}

static void a_process_that_is_gone_or_a_zombie_is_no_process(void **state)
{
    (void)state;
    struct seen seen = {0};
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(proc_maps_each(pid, on_map, &seen), -ESRCH);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(proc_maps_each(pid, on_map, &seen), -ESRCH);
    assert_int_equal(seen.count, 0);
}

static int sum_of_starts(const struct proc_map *map, const char *path, const uint8_t *id, size_t id_bytes,
                         void *ctx)
{
    (void)id;
    assert_int_equal(id_bytes, 0);
    assert_string_equal(path, "/x y\nz");
    *(uint64_t *)ctx += map->start;
    return 0;
}

/* Kernels without the query. The text is longer than the buffer, one line alone as well. */
static void the_text_gives_every_executable_line_and_skips_one_without_end(void **state)
{
    (void)state;
    int fd = memfd_create("maps", MFD_CLOEXEC);
    uint64_t sum = 0, expected = 0;
    FILE *file = fdopen(fd, "we");
    assert_non_null(file);
    for (unsigned i = 1; i <= 5000; i++) {
        fprintf(file, "%x0-%x8 r--p 0 0:0 0 /data\n%x8-%xf r-xp 0 0:0 0    /x y\\012z\n", i, i, i, i);
        expected += i * 16 + 8;
        if (i == 2500)
            fprintf(file, "a0-a8 r-xp 0 0:0 0 /%070000d\n", 0);
    }
    fflush(file);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(each_by_text(fd, sum_of_starts, &sum), 0);
    assert_int_equal(sum, expected);
    assert_int_equal(each_by_text(fd, sum_of_starts, &sum), -ESRCH); /* at its end: no line at all */
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_field_of_a_line),
        cmocka_unit_test(reads_lines_without_path_and_with_names_in_brackets),
        cmocka_unit_test(keeps_spaces_and_a_deletion_mark_in_the_middle_of_a_path),
        cmocka_unit_test(a_path_that_does_not_fit_is_refused_whole),
        cmocka_unit_test(takes_a_path_of_4095_bytes),
        cmocka_unit_test(refuses_what_is_not_a_line_of_maps),
        cmocka_unit_test(finds_our_own_code_by_its_path_device_and_inode),
        cmocka_unit_test(reads_back_a_mapped_file_with_spaces_and_newline_in_its_name),
        cmocka_unit_test(a_mapped_file_with_a_path_over_the_limit_hides_nothing),
        cmocka_unit_test(the_text_gives_every_executable_line_and_skips_one_without_end),
        cmocka_unit_test(the_callback_can_stop_the_reading),
        cmocka_unit_test(a_process_that_is_gone_or_a_zombie_is_no_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
