#include "node-agent/image.h"

#include "common/clock.h"
#include "common/str.h"
#include "common/table.h"
#include "common/xalloc.h"
#include "node-agent/image_look.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define PLACES_KEPT 3u

/* Where an image was seen mapped: the ways back to its file. */
struct place {
    pid_t tgid;
    uint64_t start, end;
};

struct link {
    struct link *prev, *next;
};

struct entry {
    struct image image; /* first: callers hold a pointer to it */
    uint32_t refs, slot;
    struct link idle; /* in images->idle while nobody holds a reference */
    struct link held; /* in images->held while fd is open */
    int fd;
    uint64_t held_ns;
    bool names_done;
    uint64_t hung_ns;  /* until then its file system is taken for hung */
    uint64_t retry_ns; /* not 0: the file could not be read; from then on it may be tried again */
    uint64_t device, inode, size_bytes,
        mtime_ns; /* of the file it was identified from; inode 0: none was needed */
    char *path;
    struct place places[PLACES_KEPT]; /* newest first */
};

struct images {
    pthread_mutex_t lock;
    struct image_looks *looks; /* the collector thread's */
    struct entry **slots;
    uint32_t slot_count, slot_room, count, last_number;
    uint32_t *free_slots, free_count;
    struct table by_id, by_file;
    struct link idle, held; /* oldest first */
    uint32_t held_count;
    uint64_t dropped_count;
    struct entry *overflow, *vdso; /* kept for ever; vdso is made when first mapped */
};

static void link_init(struct link *link)
{
    link->prev = link->next = link;
}

static void link_out(struct link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link_init(link);
}

static void link_last(struct link *list, struct link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static struct entry *entry_of(const struct image *image)
{
    return (struct entry *)(uintptr_t)image;
}

static struct entry *entry_of_idle(struct link *link)
{
    return (struct entry *)((char *)link - offsetof(struct entry, idle));
}

static struct entry *entry_of_held(struct link *link)
{
    return (struct entry *)((char *)link - offsetof(struct entry, held));
}

static uint64_t hash_of_id(const void *id, size_t id_bytes)
{
    return XXH3_64bits(id, id_bytes);
}

static uint64_t hash_of_file(uint64_t device, uint64_t inode)
{
    uint64_t key[2] = {device, inode};
    return XXH3_64bits(key, sizeof(key));
}

/* id_kind -1: any. */
static struct entry *find_id(const struct images *images, const void *id, size_t id_bytes, int id_kind)
{
    for (struct table_probe p = table_probe(&images->by_id, hash_of_id(id, id_bytes));
         table_next(&images->by_id, &p);) {
        struct entry *entry = images->slots[p.value];
        if (entry->image.id_bytes == id_bytes && memcmp(entry->image.id, id, id_bytes) == 0 &&
            (id_kind < 0 || entry->image.id_kind == id_kind))
            return entry;
    }
    return NULL;
}

static struct entry *find_file(const struct images *images, uint64_t device, uint64_t inode)
{
    for (struct table_probe p = table_probe(&images->by_file, hash_of_file(device, inode));
         table_next(&images->by_file, &p);) {
        struct entry *entry = images->slots[p.value];
        if (entry->device == device && entry->inode == inode)
            return entry;
    }
    return NULL;
}

static void let_go(struct images *images, struct entry *entry)
{
    if (entry->fd < 0)
        return;
    close(entry->fd);
    entry->fd = -1;
    link_out(&entry->held);
    images->held_count--;
}

/* Takes fd. */
static void hold(struct images *images, struct entry *entry, int fd)
{
    if (fd < 0)
        return;
    if (entry->fd >= 0 || entry->names_done) {
        close(fd);
        return;
    }
    if (images->held_count == IMAGES_MAX_OPEN) {
        let_go(images, entry_of_held(images->held.next));
        images->dropped_count++;
    }
    entry->fd = fd;
    entry->held_ns = clock_mono_ns();
    link_last(&images->held, &entry->held);
    images->held_count++;
}

static void expire_held(struct images *images)
{
    if (images->held_count == 0)
        return;
    uint64_t now_ns = clock_mono_ns();
    while (images->held_count > 0) {
        struct entry *oldest = entry_of_held(images->held.next);
        if (now_ns - oldest->held_ns < IMAGES_HOLD_MS * CLOCK_NS_PER_MS)
            return;
        let_go(images, oldest);
    }
}

static void forget_file(struct images *images, struct entry *entry)
{
    if (entry->inode)
        table_remove(&images->by_file, hash_of_file(entry->device, entry->inode), entry->slot);
    entry->inode = 0;
}

static void drop(struct images *images, struct entry *entry)
{
    let_go(images, entry);
    forget_file(images, entry);
    link_out(&entry->idle);
    table_remove(&images->by_id, hash_of_id(entry->image.id, entry->image.id_bytes), entry->slot);
    images->slots[entry->slot] = NULL;
    images->free_slots[images->free_count++] = entry->slot;
    images->count--;
    free(entry->path);
    free(entry);
}

static uint32_t take_slot(struct images *images)
{
    if (images->free_count > 0)
        return images->free_slots[--images->free_count];
    if (images->slot_count == images->slot_room) {
        images->slot_room = images->slot_room ? images->slot_room * 2 : 64;
        images->slots = xrealloc_array(images->slots, images->slot_room, sizeof(struct entry *));
        images->free_slots = xrealloc_array(images->free_slots, images->slot_room, sizeof(uint32_t));
    }
    return images->slot_count++;
}

/* NULL when every image is in use. */
static struct entry *add(struct images *images, const struct image_identity *identity, const char *name,
                         size_t name_bytes)
{
    if (images->count >= IMAGES_MAX) {
        images->dropped_count++;
        if (images->idle.next == &images->idle)
            return NULL;
        drop(images, entry_of_idle(images->idle.next));
    }
    struct entry *entry = xcalloc(1, sizeof(*entry));
    entry->slot = take_slot(images);
    entry->fd = -1;
    link_init(&entry->held);
    link_init(&entry->idle);
    link_last(&images->idle, &entry->idle);
    memcpy(entry->image.id, identity->id, identity->id_bytes);
    entry->image.id_bytes = identity->id_bytes;
    entry->image.id_kind = identity->id_kind;
    entry->image.number = ++images->last_number;
    str_shown(entry->image.name, sizeof(entry->image.name), name, name_bytes);
    images->slots[entry->slot] = entry;
    images->count++;
    table_insert(&images->by_id, hash_of_id(identity->id, identity->id_bytes), entry->slot);
    return entry;
}

static struct image *reference(struct images *images, struct entry *entry)
{
    if (!entry)
        entry = images->overflow;
    if (entry->refs++ == 0)
        link_out(&entry->idle);
    return &entry->image;
}

static struct entry *add_synthetic(struct images *images, const char *name)
{
    struct image_identity identity = image_identity_of(name, strlen(name), EXECUTABLE_SYNTHETIC);
    struct entry *entry = find_id(images, identity.id, identity.id_bytes, EXECUTABLE_SYNTHETIC);
    return entry ? entry : add(images, &identity, name, strlen(name));
}

struct images *images_new(void)
{
    struct images *images = xcalloc(1, sizeof(*images));
    pthread_mutex_init(&images->lock, NULL);
    images->looks = image_looks_new();
    link_init(&images->idle);
    link_init(&images->held);
    images->overflow = add_synthetic(images, "[images full]");
    reference(images, images->overflow);
    return images;
}

void images_free(struct images *images)
{
    if (!images)
        return;
    for (uint32_t i = 0; i < images->slot_count; i++)
        if (images->slots[i])
            drop(images, images->slots[i]);
    table_fini(&images->by_id);
    table_fini(&images->by_file);
    free(images->slots);
    free(images->free_slots);
    pthread_mutex_destroy(&images->lock);
    image_looks_free(images->looks);
    free(images);
}

/* Remembers a way back to the file. */
static void note_place(struct entry *entry, const struct image_origin *origin)
{
    struct place place = {origin->tgid, origin->start, origin->end};
    if (origin->path && (!entry->path || strcmp(entry->path, origin->path) != 0)) {
        free(entry->path);
        entry->path = xstrdup(origin->path);
    }
    if (entry->places[0].tgid != place.tgid)
        memmove(entry->places + 1, entry->places, (PLACES_KEPT - 1) * sizeof(place));
    entry->places[0] = place;
}

static void note_file(struct images *images, struct entry *entry, const struct image_origin *origin,
                      const struct stat *st)
{
    if (!origin->inode)
        return;
    struct entry *before = find_file(images, origin->device, origin->inode);
    if (before && before != entry)
        forget_file(images, before);
    if (entry->device != origin->device || entry->inode != origin->inode) {
        forget_file(images, entry);
        entry->device = origin->device;
        entry->inode = origin->inode;
        table_insert(&images->by_file, hash_of_file(entry->device, entry->inode), entry->slot);
    }
    entry->size_bytes = (uint64_t)st->st_size;
    entry->mtime_ns = (uint64_t)st->st_mtim.tv_sec * CLOCK_NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

static void name_of(const struct image_origin *origin, const char **ret_name, size_t *ret_bytes)
{
    const char *path = origin->path && origin->path[0] ? origin->path : "?";
    size_t bytes = image_file_path_bytes(path), at = bytes;
    while (at > 0 && path[at - 1] != '/')
        at--;
    *ret_name = path + at;
    *ret_bytes = bytes - at;
}

static bool given_id(const struct image_origin *origin, struct image_identity *ret_identity)
{
    if (!origin->build_id || origin->build_id_bytes > EXECUTABLE_ID_BYTES ||
        !image_id_usable(origin->build_id, origin->build_id_bytes))
        return false;
    *ret_identity =
        (struct image_identity){.id_bytes = (uint8_t)origin->build_id_bytes, .id_kind = EXECUTABLE_GNU};
    memcpy(ret_identity->id, origin->build_id, origin->build_id_bytes);
    return true;
}

/* A file already seen under this device and inode, unless it has been written to since. */
static struct entry *known_file(const struct images *images, const struct image_origin *origin)
{
    struct entry *entry = origin->inode ? find_file(images, origin->device, origin->inode) : NULL;
    struct stat st;
    if (!entry)
        return NULL;
    if (entry->retry_ns)
        return clock_mono_ns() < entry->retry_ns ? entry : NULL;
    if (image_look_stat(images->looks, origin, &st) < 0)
        return entry; /* gone, unreadable or hanging: what was seen last is the best there is */
    uint64_t mtime_ns = (uint64_t)st.st_mtim.tv_sec * CLOCK_NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
    return (uint64_t)st.st_size == entry->size_bytes && mtime_ns == entry->mtime_ns ? entry : NULL;
}

/* Code in a memfd that is no ELF file was made by the process itself: as good as anonymous. */
static struct entry *add_memfd(struct images *images, const char *name, size_t name_bytes)
{
    char text[64];
    snprintf(text, sizeof(text), "[%.*s]", (int)(name_bytes > 60 ? 60 : name_bytes), name);
    return add_synthetic(images, text);
}

/* A file that cannot be read: told apart by where it is, and by nothing that another node could know. */
static struct entry *add_unread(struct images *images, const struct image_origin *origin, const char *name,
                                size_t name_bytes)
{
    char text[600];
    int bytes = snprintf(text, sizeof(text), "unread:%llx:%llx:%.*s", (unsigned long long)origin->device,
                         (unsigned long long)origin->inode, (int)(name_bytes > 500 ? 500 : name_bytes), name);
    struct image_identity identity = image_identity_of(text, (size_t)bytes, EXECUTABLE_SYNTHETIC);
    struct entry *entry = find_id(images, identity.id, identity.id_bytes, EXECUTABLE_SYNTHETIC);
    if (!entry)
        entry = add(images, &identity, name, name_bytes);
    if (entry)
        entry->retry_ns = clock_mono_ns() + IMAGES_RETRY_MS * CLOCK_NS_PER_MS;
    return entry;
}

/* The file is looked for and read without the lock: the tables are changed by this thread only. */
static struct entry *identify(struct images *images, const struct image_origin *origin,
                              const struct image_identity *given)
{
    struct image_look look = {.fd = -1, .identify_rc = -ENOENT};
    const char *name;
    size_t name_bytes;
    name_of(origin, &name, &name_bytes);
    bool is_memfd = name_bytes >= 6 && memcmp(name, "memfd:", 6) == 0;
    /* Without success: as a file that is gone. */
    bool hangs = image_look_open(images->looks, origin, given, &look) < 0;
    const struct image_identity *identity = given ? given : &look.identity;
    pthread_mutex_lock(&images->lock);
    struct entry *entry;
    if (!given && look.identify_rc < 0) {
        entry = add_unread(images, origin, name, name_bytes);
    } else if (!given && is_memfd && !identity->elf) {
        entry = add_memfd(images, name, name_bytes);
        close(look.fd);
        look.fd = -1;
    } else {
        entry = find_id(images, identity->id, identity->id_bytes, identity->id_kind);
        if (!entry)
            entry = add(images, identity, name, name_bytes);
    }
    if (entry && !image_is_anonymous(&entry->image)) {
        note_place(entry, origin);
        entry->hung_ns = hangs ? clock_mono_ns() + IMAGE_LOOK_AVOID_MS * CLOCK_NS_PER_MS : 0;
        if (!given)
            note_file(images, entry, origin, &look.st);
        hold(images, entry, look.fd);
    } else if (look.fd >= 0) {
        close(look.fd);
    }
    pthread_mutex_unlock(&images->lock);
    return entry;
}

static struct entry *get_vdso(struct images *images)
{
    struct image_identity identity;
    int fd = -1;
    if (images->vdso)
        return images->vdso;
    if (image_file_vdso(&fd) < 0)
        return add_synthetic(images, "[vdso]");
    if (image_file_identify(fd, &identity) == 0)
        images->vdso = add(images, &identity, "[vdso]", strlen("[vdso]"));
    close(fd);
    if (images->vdso)
        reference(images, images->vdso);
    return images->vdso;
}

struct image *images_get(struct images *images, const struct image_origin *origin)
{
    struct image_identity given;
    const char *special = image_file_synthetic_name(origin);
    /* A vdso below 4 GiB is the one for 32-bit code, which we have no copy of. */
    bool is_vdso = special && strcmp(special, "[vdso]") == 0 && origin->end > UINT32_MAX;
    bool has_id = !special && given_id(origin, &given);
    /* Looks at the file: without the lock, as in identify. */
    struct entry *known = !special && !has_id ? known_file(images, origin) : NULL;
    pthread_mutex_lock(&images->lock);
    expire_held(images);
    struct entry *entry = is_vdso   ? get_vdso(images)
                          : special ? add_synthetic(images, special)
                          : has_id  ? find_id(images, given.id, given.id_bytes, EXECUTABLE_GNU)
                                    : known;
    if (entry && !special)
        note_place(entry, origin);
    pthread_mutex_unlock(&images->lock);
    if (!entry && !special)
        entry = identify(images, origin, has_id ? &given : NULL);
    return reference(images, entry);
}

struct image *images_get_synthetic(struct images *images, const char *name)
{
    pthread_mutex_lock(&images->lock);
    struct entry *entry = add_synthetic(images, name);
    pthread_mutex_unlock(&images->lock);
    return reference(images, entry);
}

struct image *image_ref(struct image *image)
{
    if (image)
        entry_of(image)->refs++;
    return image;
}

void images_put(struct images *images, struct image *image)
{
    if (!image)
        return;
    struct entry *entry = entry_of(image);
    if (--entry->refs == 0)
        link_last(&images->idle, &entry->idle);
}

int images_stat_program(struct images *images, pid_t tgid, struct stat *ret_stat)
{
    return image_look_program(images->looks, tgid, ret_stat);
}

bool images_retry_due(struct images *images, const struct image *image)
{
    (void)images;
    uint64_t retry_ns = entry_of(image)->retry_ns;
    return retry_ns != 0 && clock_mono_ns() >= retry_ns;
}

static bool file_is(int fd, const struct image_identity *wanted)
{
    struct image_identity found;
    return image_file_identify(fd, &found) == 0 && image_identity_equal(&found, wanted);
}

/* What open_again needs, copied out of the lock. */
struct way_back {
    struct image_identity wanted;
    struct place places[PLACES_KEPT];
    char *path;
    bool vdso;
};

static int open_again(const struct way_back *way, int *ret_fd)
{
    if (way->vdso)
        return image_file_vdso(ret_fd);
    for (unsigned i = 0; i < PLACES_KEPT; i++) {
        struct image_origin origin = {
            .tgid = way->places[i].tgid,
            .start = way->places[i].start,
            .end = way->places[i].end,
            .path = way->path,
        };
        if ((i == 0 || origin.tgid) && image_file_open(&origin, &way->wanted, ret_fd) == 0)
            return 0;
    }
    return -ENOENT;
}

int images_open_file(struct images *images, const void *id, size_t id_bytes, int *ret_fd, char *ret_name,
                     size_t name_bytes, struct err *err)
{
    struct way_back way = {0};
    char name[sizeof(((struct image *)NULL)->name)];
    int fd = -1;
    bool hangs = false;
    pthread_mutex_lock(&images->lock);
    struct entry *entry = find_id(images, id, id_bytes, -1);
    bool has_file = entry && entry->image.id_kind != EXECUTABLE_SYNTHETIC;
    if (has_file) {
        memcpy(name, entry->image.name, sizeof(name));
        memcpy(way.places, entry->places, sizeof(way.places));
        memcpy(way.wanted.id, entry->image.id, entry->image.id_bytes);
        way.wanted.id_bytes = entry->image.id_bytes;
        way.wanted.id_kind = entry->image.id_kind;
        way.vdso = entry == images->vdso;
        hangs = clock_mono_ns() < entry->hung_ns;
        way.path = entry->path ? xstrdup(entry->path) : NULL;
        if (entry->fd >= 0)
            fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
    }
    pthread_mutex_unlock(&images->lock);
    if (!has_file)
        return err_say(err, -ENOENT, "no file with this id is known here");
    if (fd < 0 && hangs) {
        free(way.path);
        return err_say(err, -EAGAIN, "%s: its file system does not answer", name);
    }
    if (fd >= 0 && !file_is(fd, &way.wanted)) { /* written to since */
        close(fd);
        fd = -1;
    }
    int rc = fd >= 0 ? 0 : open_again(&way, &fd);
    free(way.path);
    if (rc < 0)
        return err_say(err, rc, "%s: the file is gone, and no process maps it any more", name);
    if (name_bytes > 0)
        snprintf(ret_name, name_bytes, "%s", name);
    *ret_fd = fd;
    return 0;
}

void images_names_done(struct images *images, const void *id, size_t id_bytes)
{
    pthread_mutex_lock(&images->lock);
    struct entry *entry = find_id(images, id, id_bytes, -1);
    if (entry) {
        let_go(images, entry);
        entry->names_done = true;
    }
    pthread_mutex_unlock(&images->lock);
}

void images_counts(struct images *images, uint64_t *ret_count, uint64_t *ret_open_count,
                   uint64_t *ret_dropped_count)
{
    pthread_mutex_lock(&images->lock);
    *ret_count = images->count;
    *ret_open_count = images->held_count;
    *ret_dropped_count = images->dropped_count;
    pthread_mutex_unlock(&images->lock);
}
