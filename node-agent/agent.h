/* agent: wires collector, shipper, symbol packs and the metrics door together on one libuv loop.
 * Threads: the loop's.  Errors: agent_run returns the first failure at start; nothing is left attached. */
#ifndef NODE_AGENT_AGENT_H
#define NODE_AGENT_AGENT_H

#include "common/err.h"
#include "node-agent/agent_config.h"

/* Runs until SIGTERM or SIGINT. argc/argv are read again on SIGHUP. */
int agent_run(const struct agent_config *config, int argc, char **argv, struct err *err);

#endif
