#include "node-agent/image.c"

#include "tests/unit/elf_maker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <cmocka.h>

static char directory[64]; /* of this run: builds are tested side by side */

/* Lives until eight more calls. */
static const char *in(const char *name)
{
    static char paths[8][96];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
    return path;
}

static struct images *images;

static int set_up(void **state)
{
    (void)state;
    images = images_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    images_free(images);
    return 0;
}

/* A file with one note: GNU build id (type 3) or Go's (type 4); owner NULL: none. The fill tells files apart.
 */
static void make_elf(const char *path, const char *owner, uint32_t type, const void *id, size_t id_bytes,
                     uint8_t fill)
{
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_R | PF_X, 0, 0, 4096);
    elf_maker_put(&maker, 2048, &fill, 1);
    if (owner) {
        Elf64_Nhdr note = {.n_namesz = 4, .n_descsz = (uint32_t)id_bytes, .n_type = type};
        elf_maker_segment(&maker, PT_NOTE, PF_R, 1024, 1024, sizeof(note) + 4 + (id_bytes + 3) / 4 * 4);
        elf_maker_put(&maker, 1024, &note, sizeof(note));
        elf_maker_put(&maker, 1024 + sizeof(note), owner, 4);
        elf_maker_put(&maker, 1024 + sizeof(note) + 4, id, id_bytes);
    }
    elf_maker_finish(&maker);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, maker.file, maker.bytes), (ssize_t)maker.bytes);
    close(fd);
    free(maker.file);
}

static void make_gnu(const char *path, uint8_t first)
{
    uint8_t id[20] = {first, 2, 3, 4, 5, 6, 7, 8};
    make_elf(path, "GNU", 3, id, sizeof(id), first);
}

static struct image_origin origin_of(const char *path)
{
    struct stat st;
    struct image_origin origin = {.tgid = getpid(), .path = path};
    if (stat(path, &st) == 0) {
        origin.device = st.st_dev;
        origin.inode = st.st_ino;
    }
    return origin;
}

static struct image_origin map(const char *path, void **ret_code)
{
    struct image_origin origin = origin_of(path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    *ret_code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(*ret_code, MAP_FAILED);
    close(fd);
    origin.start = (uintptr_t)*ret_code;
    origin.end = origin.start + 4096;
    return origin;
}

static bool map_files_allowed(void)
{
    struct stat st;
    char name[96];
    void *code;
    make_gnu(in("probe"), 1);
    struct image_origin origin = map(in("probe"), &code);
    snprintf(name, sizeof(name), "/proc/self/map_files/%lx-%lx", origin.start, origin.end);
    bool allowed = stat(name, &st) == 0;
    munmap(code, 4096);
    unlink(in("probe"));
    return allowed;
}

static void a_file_is_known_by_its_gnu_build_id_whoever_tells_it(void **state)
{
    (void)state;
    make_gnu(in("a"), 0xa1);
    uint8_t id[20] = {0xa1, 2, 3, 4, 5, 6, 7, 8};
    struct image_origin by_file = origin_of(in("a"));
    struct image_origin by_id = {.tgid = 0x7ffffff0, .path = "/gone", .build_id = id, .build_id_bytes = 20};
    struct image *image = images_get(images, &by_file);
    assert_int_equal(image->id_kind, EXECUTABLE_GNU);
    assert_int_equal(image->id_bytes, 20);
    assert_memory_equal(image->id, id, 20);
    assert_string_equal(image->name, "a");
    assert_ptr_equal(images_get(images, &by_id), image);
    assert_ptr_equal(images_get(images, &by_file), image);
    unlink(in("a"));
}

static void a_known_build_id_needs_no_file_and_an_unknown_one_is_believed(void **state)
{
    (void)state;
    uint8_t id[20] = {9, 8, 7};
    struct image_origin origin = {
        .tgid = 0x7ffffff0, .path = "/x/prog (deleted)", .build_id = id, .build_id_bytes = 20};
    struct image *image = images_get(images, &origin);
    assert_int_equal(image->id_kind, EXECUTABLE_GNU);
    assert_string_equal(image->name, "prog");
    assert_false(images_retry_due(images, image));
    int fd;
    struct err err;
    char name[64];
    assert_int_equal(images_open_file(images, id, 20, &fd, name, sizeof(name), &err), -ENOENT);
}

static void without_build_id_content_tells_files_apart_and_equal_ones_together(void **state)
{
    (void)state;
    make_elf(in("c1"), NULL, 0, NULL, 0, 1);
    make_elf(in("c2"), NULL, 0, NULL, 0, 2);
    make_elf(in("c3"), NULL, 0, NULL, 0, 1);
    struct image_origin o1 = origin_of(in("c1")), o2 = origin_of(in("c2")), o3 = origin_of(in("c3"));
    struct image *i1 = images_get(images, &o1);
    assert_int_equal(i1->id_kind, EXECUTABLE_CONTENT);
    assert_int_equal(i1->id_bytes, 16);
    assert_ptr_not_equal(images_get(images, &o2), i1);
    assert_ptr_equal(images_get(images, &o3), i1);
    /* rebuilt in place: the same device and inode are another program now */
    make_elf(in("c1"), NULL, 0, NULL, 0, 77);
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, in("c1"), times, 0), 0);
    struct image *rebuilt = images_get(images, &o1);
    assert_ptr_not_equal(rebuilt, i1);
    assert_int_equal(rebuilt->id_kind, EXECUTABLE_CONTENT);
    unlink(in("c1"));
    unlink(in("c2"));
    unlink(in("c3"));
}

static void the_content_hash_is_the_documented_one(void **state)
{
    (void)state;
    static uint8_t file[10000];
    uint8_t input[8192 + 8] = {0};
    int fd = memfd_create("content", MFD_CLOEXEC);
    for (size_t i = 0; i < sizeof(file); i++)
        file[i] = (uint8_t)(i * 7);
    assert_int_equal(write(fd, file, sizeof(file)), sizeof(file));
    memcpy(input, file, 4096);
    memcpy(input + 4096, file + sizeof(file) - 4096, 4096);
    input[8192] = 10000 & 0xff;
    input[8193] = 10000 >> 8;
    XXH128_canonical_t expected;
    XXH128_canonicalFromHash(&expected, XXH3_128bits(input, sizeof(input)));
    struct image_identity identity;
    assert_int_equal(image_file_identify(fd, &identity), 0);
    assert_int_equal(identity.id_kind, EXECUTABLE_CONTENT);
    assert_memory_equal(identity.id, expected.digest, 16);
    close(fd);
}

static void go_ids_stand_in_and_useless_build_ids_do_not_count(void **state)
{
    (void)state;
    static const uint8_t ZEROES[20];
    make_elf(in("go"), "Go\0", 4, "abc/def/ghi", 11, 0);
    make_elf(in("zero"), "GNU", 3, ZEROES, 20, 0);
    make_elf(in("short"), "GNU", 3, "\1\2\3", 3, 0);
    struct image_origin go = origin_of(in("go")), zero = origin_of(in("zero"));
    struct image_origin shorter = origin_of(in("short"));
    XXH128_canonical_t expected;
    XXH128_canonicalFromHash(&expected, XXH3_128bits("abc/def/ghi", 11));
    struct image *image = images_get(images, &go);
    assert_int_equal(image->id_kind, EXECUTABLE_GO);
    assert_memory_equal(image->id, expected.digest, 16);
    zero.build_id = ZEROES;
    zero.build_id_bytes = 20;
    assert_int_equal(images_get(images, &zero)->id_kind, EXECUTABLE_CONTENT);
    assert_int_equal(images_get(images, &shorter)->id_kind, EXECUTABLE_CONTENT);
    unlink(in("go"));
    unlink(in("zero"));
    unlink(in("short"));
}

/* The path shows another build, then nothing: the mapped file is still the one. */
static void a_replaced_or_deleted_file_keeps_its_identity_while_it_is_mapped(void **state)
{
    (void)state;
    if (!map_files_allowed())
        skip();
    void *code;
    make_elf(in("r"), NULL, 0, NULL, 0, 1);
    struct image_origin origin = map(in("r"), &code);
    struct image_identity before, other;
    int fd = open(in("r"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(image_file_identify(fd, &before), 0);
    close(fd);
    make_elf(in("new"), NULL, 0, NULL, 0, 2);
    assert_int_equal(rename(in("new"), in("r")), 0);
    fd = open(in("r"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(image_file_identify(fd, &other), 0);
    close(fd);
    assert_memory_not_equal(before.id, other.id, 16);
    struct image *image = images_get(images, &origin);
    assert_memory_equal(image->id, before.id, 16);
    unlink(in("r"));
    images_names_done(images, image->id, image->id_bytes); /* gives the held descriptor up */
    char name[64];
    assert_int_equal(images_open_file(images, image->id, image->id_bytes, &fd, name, sizeof(name), NULL), 0);
    assert_string_equal(name, "r");
    close(fd);
    munmap(code, 4096);
    assert_int_equal(images_open_file(images, image->id, image->id_bytes, &fd, name, sizeof(name), NULL),
                     -ENOENT);
}

/* No right to map_files and no device and inode that agree: the path alone proves nothing. */
static void a_file_that_is_not_the_mapped_one_is_refused(void **state)
{
    (void)state;
    make_gnu(in("n"), 0x11);
    struct image_origin origin = origin_of(in("n"));
    origin.inode++;
    struct image *image = images_get(images, &origin);
    assert_int_equal(image->id_kind, EXECUTABLE_SYNTHETIC);
    assert_string_equal(image->name, "n");
    assert_false(image_is_anonymous(image));
    uint8_t id[20] = {0x22, 2, 3, 4, 5, 6, 7, 8};
    struct image_origin other = {.tgid = getpid(), .path = in("n"), .build_id = id, .build_id_bytes = 20};
    images_get(images, &other);
    int fd;
    char name[64];
    assert_int_equal(images_open_file(images, id, 20, &fd, name, sizeof(name), NULL), -ENOENT);
    unlink(in("n"));
}

/* FIFOs would block or wake a writer, devices may act on being opened, links lead elsewhere. */
static void only_regular_files_are_opened_and_no_link_is_followed(void **state)
{
    (void)state;
    make_gnu(in("real"), 0x33);
    assert_int_equal(mkfifo(in("fifo"), 0600), 0);
    assert_int_equal(symlink(in("real"), in("link")), 0);
    const char *const paths[] = {in("fifo"), in("link"), "/dev/null", directory};
    for (size_t i = 0; i < 4; i++) {
        struct image_origin origin = origin_of(paths[i]);
        assert_int_equal(images_get(images, &origin)->id_kind, EXECUTABLE_SYNTHETIC);
    }
    unlink(in("fifo"));
    unlink(in("link"));
    unlink(in("real"));
}

static void what_could_not_be_read_is_tried_again_after_a_while(void **state)
{
    (void)state;
    make_gnu(in("late"), 0x44);
    struct image_origin origin = origin_of(in("late"));
    assert_int_equal(rename(in("late"), in("away")), 0);
    struct image *unread = images_get(images, &origin);
    assert_int_equal(unread->id_kind, EXECUTABLE_SYNTHETIC);
    assert_int_equal(rename(in("away"), in("late")), 0);
    assert_false(images_retry_due(images, unread));
    assert_ptr_equal(images_get(images, &origin), unread);
    entry_of(unread)->retry_ns = 1; /* the time has come */
    assert_true(images_retry_due(images, unread));
    struct image *image = images_get(images, &origin);
    assert_int_equal(image->id_kind, EXECUTABLE_GNU);
    assert_int_equal(image->id[0], 0x44);
    assert_ptr_equal(images_get(images, &origin), image);
    unlink(in("late"));
}

static void the_vdso_has_its_real_build_id_and_can_be_read(void **state)
{
    (void)state;
    uint64_t start = getauxval(AT_SYSINFO_EHDR);
    struct image_origin origin = {.tgid = getpid(), .start = start, .end = start + 8192, .path = "[vdso]"};
    struct image *image = images_get(images, &origin);
    assert_string_equal(image->name, "[vdso]");
    assert_int_equal(image->id_kind, EXECUTABLE_GNU);
    assert_int_equal(image->id_bytes, 20);
    assert_false(image_is_anonymous(image));
    assert_ptr_equal(images_get(images, &origin), image);
    int fd;
    char name[64];
    uint8_t magic[4];
    assert_int_equal(images_open_file(images, image->id, 20, &fd, name, sizeof(name), NULL), 0);
    assert_int_equal(pread(fd, magic, 4, 0), 4);
    assert_memory_equal(magic, ELFMAG, 4);
    close(fd);
    origin.end = 0xf7fff000; /* 32-bit code has another one */
    assert_int_equal(images_get(images, &origin)->id_kind, EXECUTABLE_SYNTHETIC);
}

static void memory_without_a_file_is_anonymous_whatever_it_is_called(void **state)
{
    (void)state;
    static const char *const ANON[] = {"//anon",
                                       "",
                                       "[anon:jit cache]",
                                       "/dev/zero (deleted)",
                                       "/SYSV0000002a (deleted)",
                                       "/anon_hugepage (deleted)"};
    for (size_t i = 0; i < sizeof(ANON) / sizeof(ANON[0]); i++) {
        struct image_origin origin = {.tgid = getpid(),
                                      .start = 4096,
                                      .end = 8192,
                                      .path = ANON[i],
                                      .inode = ANON[i][0] == '/' && ANON[i][1] != '/'};
        struct image *image = images_get(images, &origin);
        assert_string_equal(image->name, "[anon]");
        assert_true(image_is_anonymous(image));
    }
    struct image_origin stack = {.tgid = getpid(), .path = "[stack]"}, no_path = {.tgid = getpid()};
    assert_string_equal(images_get(images, &stack)->name, "[stack]");
    assert_string_equal(images_get(images, &no_path)->name, "[anon]");
}

static void code_in_a_memfd_is_a_file_only_when_it_is_elf(void **state)
{
    (void)state;
    if (!map_files_allowed())
        skip();
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_R | PF_X, 0, 0, 4096);
    int elf = elf_maker_fd(&maker), jit = memfd_create("jit code", MFD_CLOEXEC), fds[2] = {elf, jit};
    struct image *found[2];
    assert_int_equal(ftruncate(jit, 4096), 0);
    for (int i = 0; i < 2; i++) {
        struct stat st;
        assert_int_equal(fstat(fds[i], &st), 0);
        void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fds[i], 0);
        assert_ptr_not_equal(code, MAP_FAILED);
        struct image_origin origin = {.tgid = getpid(),
                                      .start = (uintptr_t)code,
                                      .end = (uintptr_t)code + 4096,
                                      .device = st.st_dev,
                                      .inode = st.st_ino,
                                      .path = i ? "/memfd:jit code (deleted)" : "/memfd:elf_maker (deleted)"};
        found[i] = images_get(images, &origin);
        munmap(code, 4096);
        close(fds[i]);
    }
    assert_int_equal(found[0]->id_kind, EXECUTABLE_CONTENT);
    assert_string_equal(found[0]->name, "memfd:elf_maker");
    assert_string_equal(found[1]->name, "[memfd:jit code]");
    assert_true(image_is_anonymous(found[1]));
}

static struct image *get_numbered(uint32_t number)
{
    uint8_t id[20] = {1};
    memcpy(id + 4, &number, sizeof(number));
    struct image_origin origin = {.build_id = id, .build_id_bytes = sizeof(id), .path = "/none"};
    return images_get(images, &origin);
}

static void the_registry_stays_within_its_limit(void **state)
{
    (void)state;
    uint64_t count, open_count, dropped;
    struct image *first = get_numbered(0);
    for (uint32_t i = 1; i < IMAGES_MAX + 500; i++)
        images_put(images, get_numbered(i)); /* unreferenced at once: the oldest of these go */
    images_counts(images, &count, &open_count, &dropped);
    assert_int_equal(count, IMAGES_MAX);
    assert_int_equal(dropped, 501);           /* one more for "[images full]", there from the start */
    assert_ptr_equal(get_numbered(0), first); /* in use: still there */
    for (uint32_t i = 0; i < IMAGES_MAX; i++)
        get_numbered(1000000 + i); /* all kept */
    struct image *more = get_numbered(77777777);
    assert_string_equal(more->name, "[images full]");
    assert_int_equal(more->id_kind, EXECUTABLE_SYNTHETIC);
}

static void held_descriptors_are_bounded_and_end_with_the_names(void **state)
{
    (void)state;
    uint64_t count, open_count, dropped;
    uint8_t id[20] = {0x55, 2, 3, 4, 5, 6, 7, 8};
    for (unsigned i = 0; i < IMAGES_MAX_OPEN + 3; i++) {
        make_elf(in("many"), NULL, 0, &i, sizeof(i), (uint8_t)i);
        int fd = open(in("many"), O_WRONLY | O_APPEND | O_CLOEXEC);
        assert_int_equal(write(fd, &i, sizeof(i)), sizeof(i));
        close(fd);
        struct image_origin origin = origin_of(in("many"));
        images_get(images, &origin);
        unlink(in("many"));
    }
    images_counts(images, &count, &open_count, &dropped);
    assert_int_equal(open_count, IMAGES_MAX_OPEN);
    assert_int_equal(dropped, 3);
    make_gnu(in("named"), 0x55);
    struct image_origin origin = origin_of(in("named"));
    images_get(images, &origin);
    images_names_done(images, id, sizeof(id));
    images_get(images, &origin);
    images_counts(images, &count, &open_count, &dropped);
    assert_int_equal(open_count, IMAGES_MAX_OPEN - 1);
    images_names_done(images, "nobody", 6);
    unlink(in("named"));
}

static void *open_over_and_over(void *ctx)
{
    const struct image *image = ctx;
    int opened = 0;
    for (int i = 0; i < 300; i++) {
        int fd;
        char name[64];
        if (images_open_file(images, image->id, image->id_bytes, &fd, name, sizeof(name), NULL) == 0) {
            opened++;
            close(fd);
        }
        if (i == 150)
            images_names_done(images, image->id, image->id_bytes);
    }
    return (void *)(uintptr_t)(unsigned)opened;
}

static void another_thread_may_open_files_meanwhile(void **state)
{
    (void)state;
    make_gnu(in("t"), 0x66);
    struct image_origin origin = origin_of(in("t"));
    struct image *image = images_get(images, &origin);
    pthread_t thread;
    void *opened;
    assert_int_equal(pthread_create(&thread, NULL, open_over_and_over, image), 0);
    for (uint32_t i = 0; i < 2000; i++)
        images_put(images, get_numbered(i));
    assert_int_equal(pthread_join(thread, &opened), 0);
    assert_int_equal((uintptr_t)opened, 300);
    unlink(in("t"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_known_by_its_gnu_build_id_whoever_tells_it),
        TEST(a_known_build_id_needs_no_file_and_an_unknown_one_is_believed),
        TEST(without_build_id_content_tells_files_apart_and_equal_ones_together),
        TEST(the_content_hash_is_the_documented_one),
        TEST(go_ids_stand_in_and_useless_build_ids_do_not_count),
        TEST(a_replaced_or_deleted_file_keeps_its_identity_while_it_is_mapped),
        TEST(a_file_that_is_not_the_mapped_one_is_refused),
        TEST(only_regular_files_are_opened_and_no_link_is_followed),
        TEST(what_could_not_be_read_is_tried_again_after_a_while),
        TEST(the_vdso_has_its_real_build_id_and_can_be_read),
        TEST(memory_without_a_file_is_anonymous_whatever_it_is_called),
        TEST(code_in_a_memfd_is_a_file_only_when_it_is_elf),
        TEST(the_registry_stays_within_its_limit),
        TEST(held_descriptors_are_bounded_and_end_with_the_names),
        TEST(another_thread_may_open_files_meanwhile),
    };
    snprintf(directory, sizeof(directory), "/tmp/fleetprof-test-image-XXXXXX");
    if (!mkdtemp(directory))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return failed;
}
