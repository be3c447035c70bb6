#include "aggregator/api_pprof.h"

#include "aggregator/api_json.h"
#include "aggregator/api_stacks.h"
#include "aggregator/pprof.pb-c.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define ZIP_CHUNK_BYTES (64u << 10)
#define ZIP_GZIP_BITS   (15 + 16)  /* largest window, gzip header (zlib.h, deflateInit2) */
#define PIECE_BYTES     (1u << 20) /* one message: a sample is 512 locations and 32 labels at most */
#define PAGE_BYTES      4096u
#define COMMENT_BYTES   512u
#define WIRE_BYTES      2u /* protobuf's wire type of messages and strings */

struct function {
    uint32_t name, file; /* of the profile's strings */
};

struct writer {
    const struct stackset *set;
    const struct api_pprof_facts *facts;
    struct buf *out;
    z_stream zip;
    struct buf piece, name;
    struct stackset *strings; /* only its dictionary of strings is used */
    struct function *functions;
    uint32_t function_count;
    struct table function_index;
    uint32_t *module_mapping; /* by string: mapping id of a kernel module, 0 none yet */
    uint32_t module_count;
    int rc; /* the first failure; everything after it does nothing */
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static void zip_write(struct writer *w, const void *data, size_t bytes, int flush)
{
    /* zlib promises not to write there; its type is from before const. */
    w->zip.next_in = (z_const Bytef *)(uintptr_t)data;
    w->zip.avail_in = (uInt)bytes;
    for (;;) {
        if (w->rc < 0)
            return;
        void *place = buf_reserve(w->out, ZIP_CHUNK_BYTES);
        if (!place) {
            w->rc = -E2BIG;
            return;
        }
        w->zip.next_out = place;
        w->zip.avail_out = ZIP_CHUNK_BYTES;
        int result = deflate(&w->zip, flush);
        w->out->used_bytes += ZIP_CHUNK_BYTES - w->zip.avail_out;
        if (result == Z_STREAM_END || (flush == Z_NO_FLUSH && w->zip.avail_out > 0))
            return;
        if (result != Z_OK && result != Z_BUF_ERROR)
            w->rc = -EIO;
    }
}

static size_t put_varint(uint8_t *at, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        at[n++] = (uint8_t)(value | 0x80);
    at[n++] = (uint8_t)value;
    return n;
}

static void write_field(struct writer *w, const char *field_name, const void *data, size_t bytes)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(&pprof__profile__descriptor, field_name);
    uint8_t head[20];
    size_t used = put_varint(head, (uint64_t)field->id << 3 | WIRE_BYTES);
    used += put_varint(head + used, bytes);
    zip_write(w, head, used, Z_NO_FLUSH);
    zip_write(w, data, bytes, Z_NO_FLUSH);
}

/* field_name NULL: fields of the profile itself. */
static void write_message(struct writer *w, const char *field_name, const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    buf_clear(&w->piece);
    uint8_t *place = buf_reserve(&w->piece, bytes ? bytes : 1);
    if (!place) {
        w->rc = -E2BIG;
        return;
    }
    protobuf_c_message_pack(message, place);
    if (field_name)
        write_field(w, field_name, place, bytes);
    else
        zip_write(w, place, bytes, Z_NO_FLUSH);
}

/* ---- strings, functions ---------------------------------------------------------------------- */

static uint32_t intern(struct writer *w, const char *text, size_t bytes)
{
    size_t room = bytes * 4 + 1;
    AUTO_FREE char *printable = xmalloc(room);
    size_t length = str_shown(printable, room, text, bytes);
    uint32_t id = stackset_string(w->strings, printable, length);
    if (id == STACKSET_FULL) {
        w->rc = w->rc < 0 ? w->rc : -E2BIG;
        return 0;
    }
    return id;
}

static uint32_t intern_text(struct writer *w, const char *text)
{
    return intern(w, text, strlen(text));
}

static uint32_t intern_string(struct writer *w, uint32_t string)
{
    size_t bytes;
    const char *text = stackset_text(w->set, string, &bytes);
    return intern(w, text, bytes);
}

/* The function's id; a new one is written at once. */
static uint64_t function_id(struct writer *w, uint32_t name, uint32_t file)
{
    uint64_t hash = ((uint64_t)name << 32 | file) * 0x9e3779b97f4a7c15ULL; /* Fibonacci hashing */
    hash ^= hash >> 32;
    for (struct table_probe p = table_probe(&w->function_index, hash); table_next(&w->function_index, &p);)
        if (w->functions[p.value].name == name && w->functions[p.value].file == file)
            return p.value + 1;
    uint32_t at = w->function_count++;
    w->functions[at] = (struct function){name, file};
    table_insert(&w->function_index, hash, at);
    Pprof__Function function = PPROF__FUNCTION__INIT;
    function.id = at + 1;
    function.name = function.system_name = name;
    function.filename = file;
    write_message(w, "function", &function.base);
    return at + 1;
}

/* ---- mappings, locations --------------------------------------------------------------------- */

static void write_mapping(struct writer *w, uint64_t id, uint32_t file, uint32_t build_id, uint64_t last)
{
    Pprof__Mapping mapping = PPROF__MAPPING__INIT;
    mapping.id = id;
    mapping.memory_limit = last > UINT64_MAX - PAGE_BYTES ? UINT64_MAX : (last / PAGE_BYTES + 1) * PAGE_BYTES;
    mapping.filename = file;
    mapping.build_id = build_id;
    mapping.has_functions = true;
    write_message(w, "mapping", &mapping.base);
}

static void write_executable(struct writer *w, uint32_t at, uint64_t last)
{
    const struct stackset_executable *executable = &w->set->executables[at];
    char hex[2 * EXECUTABLE_ID_BYTES + 1];
    const char *path = stackset_text(w->set, executable->name, NULL);
    /* The bare name: with a path, pprof would look at the file of that name where it runs. */
    uint32_t file = intern_text(w, *path ? str_basename(path) : "[unknown]");
    str_hex(hex, executable->id, executable->id_kind == EXECUTABLE_SYNTHETIC ? 0 : executable->id_bytes);
    write_mapping(w, at + 1, file, intern_text(w, hex), last);
}

/* The first mapping is shown as the program: the executable where most of the value lies comes first. */
static void write_executables(struct writer *w)
{
    const struct stackset *set = w->set;
    uint32_t count = set->executable_count, first = 0;
    if (count == 0)
        return;
    AUTO_FREE uint64_t *last = xcalloc(count, sizeof(*last));
    AUTO_FREE uint64_t *value = xcalloc(count, sizeof(*value));
    for (uint32_t i = 0; i < set->frame_count; i++)
        if (set->frames[i].kind == FRAME_NATIVE && set->frames[i].body > last[set->frames[i].ref])
            last[set->frames[i].ref] = set->frames[i].body;
    for (uint32_t i = 0; i < set->row_count; i++) {
        uint32_t node = set->rows[i].node;
        while (node != STACKSET_ROOT && set->frames[set->nodes[node].frame].kind != FRAME_NATIVE)
            node = set->nodes[node].parent;
        if (node != STACKSET_ROOT)
            value[set->frames[set->nodes[node].frame].ref] += set->rows[i].value;
    }
    for (uint32_t i = 1; i < count; i++)
        first = value[i] > value[first] ? i : first;
    write_executable(w, first, last[first]);
    for (uint32_t i = 0; i < count; i++)
        if (i != first)
            write_executable(w, i, last[i]);
}

/* Kernel frames have no address here, so that a module needs no more than a name. */
static uint64_t module_mapping(struct writer *w, uint32_t module)
{
    if (!w->module_mapping[module]) {
        w->module_mapping[module] = w->set->executable_count + ++w->module_count;
        write_mapping(w, w->module_mapping[module], intern_string(w, module), 0, 0);
    }
    return w->module_mapping[module];
}

/* Location id = frame + 1. */
static void write_location(struct writer *w, uint32_t at)
{
    const struct stackset_frame *frame = &w->set->frames[at];
    Pprof__Location location = PPROF__LOCATION__INIT;
    Pprof__Line line = PPROF__LINE__INIT, *lines[] = {&line};
    buf_clear(&w->name);
    if (api_stacks_frame(w->set, at, &w->name) < 0)
        w->rc = -E2BIG;
    bool interpreted = frame->kind == FRAME_INTERPRETED;
    uint32_t name = intern(w, w->name.data, w->name.used_bytes);
    uint32_t file = interpreted ? intern_string(w, (uint32_t)frame->body) : 0;
    line.function_id = function_id(w, name, file);
    line.line = interpreted ? frame->line : 0;
    location.id = at + 1;
    location.n_line = 1;
    location.line = lines;
    if (frame->kind == FRAME_NATIVE) {
        location.mapping_id = frame->ref + 1;
        location.address = frame->body;
    } else if (frame->kind == FRAME_KERNEL) {
        location.mapping_id = module_mapping(w, (uint32_t)frame->body);
    }
    write_message(w, "location", &location.base);
}

/* ---- samples, the rest ----------------------------------------------------------------------- */

static int64_t to_i64(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static void write_sample(struct writer *w, const struct stackset_row *row)
{
    const struct stackset *set = w->set;
    const struct stackset_series *series = &set->series[row->series];
    uint64_t locations[STACKSET_MAX_DEPTH];
    int64_t values[] = {to_i64(row->count), to_i64(row->value)};
    Pprof__Label labels[STACKSET_MAX_LABELS], *label_list[STACKSET_MAX_LABELS];
    Pprof__Sample sample = PPROF__SAMPLE__INIT;
    for (uint32_t node = row->node; node != STACKSET_ROOT && sample.n_location_id < STACKSET_MAX_DEPTH;
         node = set->nodes[node].parent)
        locations[sample.n_location_id++] = set->nodes[node].frame + 1;
    for (; sample.n_label < series->label_count && sample.n_label < STACKSET_MAX_LABELS; sample.n_label++) {
        const struct stackset_label *label = &set->labels[series->first_label + sample.n_label];
        labels[sample.n_label] = (Pprof__Label)PPROF__LABEL__INIT;
        labels[sample.n_label].key = intern_string(w, label->name);
        labels[sample.n_label].str = intern_string(w, label->value);
        label_list[sample.n_label] = &labels[sample.n_label];
    }
    sample.location_id = locations;
    sample.n_value = 2;
    sample.value = values;
    sample.label = label_list;
    write_message(w, "sample", &sample.base);
}

static void write_profile(struct writer *w)
{
    const struct api_pprof_facts *facts = w->facts;
    uint64_t value = 0, count = 0;
    for (uint32_t i = 0; i < w->set->row_count; i++) {
        value += w->set->rows[i].value;
        count += w->set->rows[i].count;
    }
    Pprof__ValueType samples = PPROF__VALUE_TYPE__INIT, kind = PPROF__VALUE_TYPE__INIT;
    Pprof__ValueType *types[] = {&samples, &kind};
    Pprof__Profile profile = PPROF__PROFILE__INIT;
    samples.type = intern_text(w, "samples");
    samples.unit = intern_text(w, "count");
    kind.type = intern_text(w, facts->kind);
    kind.unit = intern_text(w, facts->unit);
    profile.n_sample_type = 2;
    profile.sample_type = types;
    profile.period_type = &kind;
    profile.period = count ? to_i64((value + count / 2) / count) : 0;
    profile.time_nanos = to_i64(facts->from_ms * 1000000);
    profile.duration_nanos = to_i64(facts->duration_ms * 1000000);
    profile.default_sample_type = kind.type;
    int64_t comment = facts->comment ? intern_text(w, facts->comment) : 0;
    profile.n_comment = facts->comment ? 1 : 0;
    profile.comment = &comment;
    write_message(w, NULL, &profile.base);
}

static void write_strings(struct writer *w)
{
    for (uint32_t i = 0; i < w->strings->string_count; i++) {
        size_t bytes;
        const char *text = stackset_text(w->strings, i, &bytes);
        write_field(w, "string_table", text, bytes);
    }
}

static void write_all(struct writer *w)
{
    write_profile(w);
    write_executables(w);
    for (uint32_t i = 0; i < w->set->frame_count && w->rc == 0; i++)
        write_location(w, i);
    for (uint32_t i = 0; i < w->set->row_count && w->rc == 0; i++)
        write_sample(w, &w->set->rows[i]);
    write_strings(w); /* last: everything above may add one */
    zip_write(w, "", 0, Z_FINISH);
}

int api_pprof_write(const struct stackset *set, const struct api_pprof_facts *facts, struct buf *out)
{
    /* Escaping makes a string up to four times as long, and there are names made here ("module+0x1f40"). */
    struct stackset_limits limits = STACKSET_DEFAULT_LIMITS;
    limits.strings = set->string_count + set->frame_count + 64;
    limits.string_bytes = HTTP_BODY_BYTES;
    struct writer w = {.set = set,
                       .facts = facts,
                       .out = out,
                       .piece = buf_init(PIECE_BYTES),
                       .name = buf_init(PIECE_BYTES)};
    if (deflateInit2(&w.zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, ZIP_GZIP_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    w.strings = stackset_new(&limits);
    w.functions = xcalloc(set->frame_count ? set->frame_count : 1, sizeof(*w.functions));
    w.module_mapping = xcalloc(set->string_count ? set->string_count : 1, sizeof(*w.module_mapping));
    write_all(&w);
    deflateEnd(&w.zip);
    stackset_free(w.strings);
    table_fini(&w.function_index);
    free(w.functions);
    free(w.module_mapping);
    buf_fini(&w.piece);
    buf_fini(&w.name);
    return w.rc;
}

/* With nodes that came or went, the range asked for would make a busy core look idle. */
static uint64_t duration_ms(const struct api_params *params, const struct query_completeness *completeness)
{
    uint64_t range = params->to_ms - params->from_ms;
    uint64_t covered = completeness->nodes ? completeness->covered_ms / completeness->nodes : 0;
    return covered && covered < range ? covered : range;
}

static int write_answer(const struct stackset *set, const struct api_params *params,
                        const struct query_completeness *completeness, struct buf *out)
{
    struct buf comment = buf_init(COMMENT_BYTES);
    struct api_pprof_facts facts = {.kind = params->kind,
                                    .unit = completeness->unit[0] ? completeness->unit : "nanoseconds",
                                    .from_ms = params->from_ms,
                                    .duration_ms = duration_ms(params, completeness)};
    int rc = buf_printf(&comment, "fleetprof: ");
    if (rc == 0)
        rc = api_json_sentence(completeness, &comment);
    if (rc == 0)
        rc = buf_append(&comment, "", 1);
    facts.comment = comment.data;
    if (rc == 0)
        rc = api_pprof_write(set, &facts, out);
    buf_fini(&comment);
    return rc;
}

void api_profile(struct query *query, const struct api_params *params, struct http_response *response)
{
    struct query_completeness completeness = {0};
    struct stackset *set;
    struct err err = {0};
    int rc = query_stacks(query, &params->selection, &set, &completeness, &err);
    if (rc == 0) {
        api_json_note(response, &completeness);
        response->content_type = "application/vnd.google.protobuf+gzip";
        response->file_name = "fleetprof.pb.gz";
        response->gzip = true;
        rc = write_answer(set, params, &completeness, &response->body);
        if (rc < 0)
            err_say(&err, rc, "the profile cannot be written into one answer");
        stackset_free(set);
        query_completeness_fini(&completeness);
    }
    if (rc < 0)
        api_json_error(response, rc, &err, NULL);
}
