/* agent_metrics: the agent's figures as Prometheus metrics and as the gauges that travel with each batch.
 * Threads: the loop's; agent_metrics_print from any.  */
#ifndef NODE_AGENT_AGENT_METRICS_H
#define NODE_AGENT_AGENT_METRICS_H

#include "common/buf.h"
#include "node-agent/collector.h"
#include "node-agent/shipper.h"

/* Copies the figures into the metrics registry; once a second. */
void agent_metrics_update(const struct collector_figures *figures, const struct shipper_ledger *ledger,
                          struct images *images);

/* CPU time of this process and its BPF programs, memory, rate: what an operator asks of each agent. */
size_t agent_metrics_gauges(const struct collector_figures *figures, struct shipper_gauge *out, size_t room);

#endif
