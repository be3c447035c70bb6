/* The aggregator program: one shard and its HTTP doors, until SIGTERM or SIGINT. */
#include "aggregator/api_http.h"
#include "aggregator/shard.h"
#include "aggregator/shard_config.h"
#include "common/log.h"
#include "common/options.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

static int on_alive(void *ctx, struct err *err)
{
    return shard_health(ctx, err);
}

static int on_ready(void *ctx, struct err *err)
{
    return shard_ready(ctx, err);
}

static int serve(const struct shard_config *config, const sigset_t *stop, struct err *err)
{
    struct shard_settings settings = {
        .listen = config->link,
        .shards = (const char *const *)config->addresses,
        .shard_count = config->address_count,
        .self = config->self_index,
        .workers = (unsigned)config->workers,
        .retention_ms = config->retention_ms,
        .window_bytes = config->window_bytes,
        .pack_bytes = config->pack_bytes,
        .query_timeout_ms = config->query_timeout_ms,
        .max_nodes = (uint32_t)config->max_nodes,
        .max_stacks = (uint32_t)config->max_stacks,
        .max_series = (uint32_t)config->max_series,
    };
    struct shard *shard = NULL;
    struct api *api = NULL;
    int rc = shard_open(&settings, &shard, err);
    if (rc == 0) {
        struct api_hooks hooks = {.alive = on_alive, .ready = on_ready, .ctx = shard};
        rc = api_open(config->http, shard_query(shard), &hooks, &api, err);
    }
    if (rc == 0) {
        log_info("shard %s of %zu: agents at %s, questions at http://%s, %u workers",
                 config->addresses[config->self_index], config->address_count, config->link, config->http,
                 settings.workers);
        int signal_number = 0;
        sigwait(stop, &signal_number);
        log_info("stopping on signal %d", signal_number);
    }
    api_close(api);
    shard_close(shard);
    return rc;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct shard_config config;
    log_init("aggregator", LOG_LEVEL_INFO);
    int rc = shard_config_read(argc, argv, &config, &err);
    if (rc == OPTIONS_RUN) {
        log_init("aggregator", config.level);
        /* Before the first thread, so that all of them leave these signals to sigwait. */
        sigset_t stop;
        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        sigaddset(&stop, SIGINT);
        pthread_sigmask(SIG_BLOCK, &stop, NULL);
        signal(SIGPIPE, SIG_IGN);
        rc = serve(&config, &stop, &err);
    }
    shard_config_fini(&config);
    if (rc < 0) {
        log_error("%s", err.text);
        return rc == -EINVAL ? 2 : 1;
    }
    return 0;
}
