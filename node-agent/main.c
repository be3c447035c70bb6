#include "common/log.h"
#include "node-agent/agent.h"

#include <malloc.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    /* Many short-lived threads of libraries would each get a 64 MiB heap arena; the agent has little to
     * allocate. */
    mallopt(M_ARENA_MAX, 2);
    log_init("node-agent", LOG_LEVEL_INFO);
    struct err err = {.code = 0};
    struct agent_config config;
    int rc = agent_config_read(argc, argv, &config, &err);
    if (rc == OPTIONS_RUN)
        rc = agent_run(&config, argc, argv, &err);
    if (rc < 0)
        log_error("%s", err.text);
    agent_config_fini(&config);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
