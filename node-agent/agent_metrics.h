/* agent_metrics: the agent's figures as Prometheus metrics and as the gauges that travel with each batch.
 * Threads: any. */
#ifndef NODE_AGENT_AGENT_METRICS_H
#define NODE_AGENT_AGENT_METRICS_H

#include "common/buf.h"
#include "node-agent/collector.h"
#include "node-agent/shipper.h"

/* Copy the figures into the metrics registry: sampling at each look, shipping from the loop once a second. */
void agent_metrics_sampling(const struct collector_figures *figures, struct images *images);
void agent_metrics_symbols(uint64_t busy_ms);
void agent_metrics_shipping(const struct shipper_ledger *ledger);

/* CPU time of this process and its BPF programs, memory, rate: what an operator asks of each agent. */
size_t agent_metrics_gauges(const struct collector_figures *figures, struct shipper_gauge *out, size_t room);

#endif
