/* pack: an executable's functions as the wire messages a shard asks for (Fleetprof__Pack, fleetprof.proto).
 * Shapes:    parts are slices in file order, numbered from 0, each with the same `parts`; functions do not
 *            cross parts. A file without function symbols gives one part with none. A file that cannot be
 *            read gives one message PACK_UNAVAILABLE with the reason.
 * Limits:    PACK_PART_NAMES_BYTES and PACK_PART_FUNCTIONS a part; PACK_BUDGET_MS a file;
 *            PACK_MESSAGE_BYTES a message. Memory: struct symbols (24 bytes a function) and one part at a
 *            time.
 * Threads:   any; slow (reads the file): not on a loop.
 * Errors:    what on_part and wire_pack return. */
#ifndef NODE_AGENT_PACK_H
#define NODE_AGENT_PACK_H

#include "common/buf.h"
#include "common/err.h"

#include <stddef.h>

#define PACK_PART_NAMES_BYTES (1u << 20)
#define PACK_PART_FUNCTIONS   32768u
#define PACK_MESSAGE_BYTES    (4u << 20)
#define PACK_BUDGET_MS        20000u

/* The message is borrowed; anything but 0 ends the walk and is returned. */
typedef int (*pack_part_fn)(const struct buf *message, void *ctx);
/* fd stays the caller's; id: the executable's, at most EXECUTABLE_ID_BYTES; name: its file name, for people.
 */
int pack_each(int fd, const void *id, size_t id_bytes, const char *name, pack_part_fn on_part, void *ctx,
              struct err *err);
/* The one message for a file that could not even be opened. */
int pack_unavailable(const void *id, size_t id_bytes, const char *name, const char *reason,
                     pack_part_fn on_part, void *ctx, struct err *err);

#endif
