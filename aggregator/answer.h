/* answer: what this shard alone says to a question: all its partitions asked, their parts added up.
 * Questions of this process (query) and of other shards (desk) are answered by the same functions.
 * Rules:   phase 1 of a top-N keeps its result under the question's number for phases 2 and 3 (TPUT), unless
 *          it has said all.
 * Limits:  ANSWER_KEPT results for ANSWER_KEEP_MS, ANSWER_KEPT_BYTES together (the oldest go first).
 * Threads: any but the workers.
 * Errors:  -EINVAL bad question, -ENOENT no such kept result, those of crew_ask. */
#ifndef AGGREGATOR_ANSWER_H
#define AGGREGATOR_ANSWER_H

#include "aggregator/completeness.h"
#include "aggregator/crew.h"

#include <stddef.h>
#include <stdint.h>

#define ANSWER_KEPT       256u
#define ANSWER_KEEP_MS    20000u
#define ANSWER_KEPT_BYTES (512u << 20)

struct answers;
/* crew and shard (this shard's address) are borrowed. */
struct answers *answers_new(struct crew *crew, const char *shard);
void answers_free(struct answers *answers); /* NULL is fine */

/* The reply is the caller's (wire_free). Always set on 0; on error err says why. */
int answer_top(struct answers *answers, const Fleetprof__TopRequest *request, uint64_t deadline_mono_ns,
               Fleetprof__TopReply **ret_reply, struct err *err);
/* Row values are in profile units. */
int answer_stacks(struct answers *answers, const Fleetprof__Selection *selection, uint64_t deadline_mono_ns,
                  struct stackset **ret_set, struct completeness *ret_completeness, struct err *err);
int answer_labels(struct answers *answers, const Fleetprof__LabelsRequest *request, uint64_t deadline_mono_ns,
                  Fleetprof__LabelsReply **ret_reply, struct err *err);
int answer_agents(struct answers *answers, uint64_t deadline_mono_ns, Fleetprof__AgentsReply **ret_reply,
                  struct err *err);

#endif
