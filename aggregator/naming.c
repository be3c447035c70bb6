#include "aggregator/naming.h"

#include "aggregator/demangle.h"
#include "common/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct executable_id id_of(const struct dictionary_executable *executable)
{
    struct executable_id id = {.bytes = executable->id_bytes};
    memcpy(id.data, executable->id, sizeof(id.data));
    return id;
}

/* The pack of an executable, NULL when it is not here. Looked up once per job. */
static struct symbol_pack *pack_of(struct naming *naming, uint32_t executable)
{
    struct dictionary_executable *entry = &naming->partition->dictionary.executables[executable];
    if (entry->id_kind == EXECUTABLE_SYNTHETIC || executable >= naming->pack_room)
        return NULL;
    if (!naming->packs[executable] && entry->named) {
        struct executable_id id = id_of(entry);
        naming->packs[executable] = symbol_packs_find(naming->partition->packs, &id);
        if (!naming->packs[executable]) { /* evicted since */
            entry->named = false;
            symbol_packs_want(naming->partition->packs, &id, naming->now_ms);
        }
    }
    return naming->packs[executable];
}

/* Frames of executables whose pack has come are named anew. */
static void notice_packs(struct naming *naming)
{
    struct partition *partition = naming->partition;
    struct dictionary *dictionary = &partition->dictionary;
    bool *fresh = xcalloc(dictionary->executable_count + 1, sizeof(*fresh));
    bool any = false;
    for (uint32_t i = 0; i < dictionary->executable_count; i++) {
        struct dictionary_executable *executable = &dictionary->executables[i];
        if (executable->named || executable->id_kind == EXECUTABLE_SYNTHETIC)
            continue;
        struct executable_id id = id_of(executable);
        naming->packs[i] = symbol_packs_find(partition->packs, &id);
        if (!naming->packs[i]) {
            symbol_packs_want(partition->packs, &id, naming->now_ms);
            continue;
        }
        executable->named = fresh[i] = any = true;
    }
    for (uint32_t i = 0; any && i < dictionary->frame_count; i++)
        if (dictionary->frames[i].kind == FRAME_NATIVE && fresh[dictionary->frames[i].ref])
            dictionary->frames[i].function = DICTIONARY_UNRESOLVED;
    free(fresh);
}

void naming_begin(struct naming *naming, struct partition *partition, uint64_t now_ms)
{
    uint32_t room = partition->dictionary.executable_count;
    *naming = (struct naming){.partition = partition,
                              .packs = xcalloc(room + 1, sizeof(struct symbol_pack *)),
                              .pack_room = room,
                              .now_ms = now_ms};
    notice_packs(naming);
}

void naming_end(struct naming *naming)
{
    for (uint32_t i = 0; i < naming->pack_room; i++)
        symbol_pack_unref(naming->packs[i]);
    free(naming->packs);
    *naming = (struct naming){0};
}

/* ---- one frame ---- */

static uint32_t function_of(struct dictionary *dictionary, uint32_t name, uint32_t module, bool unnamed)
{
    if (name == DICTIONARY_FULL || module == DICTIONARY_FULL)
        return DICTIONARY_UNRANKED;
    uint32_t function = dictionary_function(dictionary, name, module, unnamed);
    return function == DICTIONARY_FULL ? DICTIONARY_UNRANKED : function;
}

static uint32_t by_offset(struct dictionary *dictionary, uint32_t module, uint64_t offset)
{
    char name[STACKSET_STRING_BYTES];
    size_t bytes;
    const char *text = dictionary_text(dictionary, module, &bytes);
    if (bytes > sizeof(name) - 32)
        bytes = sizeof(name) - 32;
    memcpy(name, text, bytes);
    bytes += (size_t)snprintf(name + bytes, 32, "+0x%" PRIx64, offset);
    return function_of(dictionary, dictionary_string(dictionary, name, bytes), module, true);
}

static uint32_t native_function(struct naming *naming, const struct dictionary_frame *frame)
{
    struct dictionary *dictionary = &naming->partition->dictionary;
    uint32_t module = dictionary->executables[frame->ref].name;
    uint64_t offset = frame->body;
    const struct symbol_pack *pack = pack_of(naming, frame->ref);
    const char *raw = NULL;
    const struct symbol_function *function = pack ? symbol_pack_find(pack, offset, &raw) : NULL;
    if (!function)
        return by_offset(dictionary, module, offset);
    if (function->name_bytes == 0)
        return by_offset(dictionary, module, function->start);
    char mangled[DEMANGLE_INPUT_BYTES + 1], name[DEMANGLE_OUTPUT_BYTES];
    size_t bytes = function->name_bytes < sizeof(mangled) ? function->name_bytes : sizeof(mangled) - 1;
    memcpy(mangled, raw, bytes);
    mangled[bytes] = '\0';
    bytes = demangle(mangled, bytes, name, sizeof(name));
    return function_of(dictionary, dictionary_string(dictionary, name, bytes), module, false);
}

uint32_t naming_function(struct naming *naming, uint32_t frame)
{
    struct dictionary *dictionary = &naming->partition->dictionary;
    struct dictionary_frame *entry = &dictionary->frames[frame];
    if (entry->function != DICTIONARY_UNRESOLVED)
        return entry->function;
    uint32_t function = DICTIONARY_UNRANKED;
    switch (entry->kind) {
    case FRAME_NATIVE:
        function = native_function(naming, entry);
        break;
    case FRAME_KERNEL:
    case FRAME_INTERPRETED:
        function = function_of(dictionary, entry->ref, (uint32_t)entry->body, false);
        break;
    default:
        break;
    }
    entry->function = function;
    return function;
}
