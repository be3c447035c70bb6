#include "node-agent/agent.h"

#include "common/clock.h"
#include "common/http_server.h"
#include "common/log.h"
#include "common/metrics.h"
#include "node-agent/agent_metrics.h"
#include "node-agent/collector.h"
#include "node-agent/pack_worker.h"
#include "node-agent/rights.h"
#include "node-agent/shipper.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define FLUSH_MS                                                                                             \
    8000u /* well inside the 30 s that Kubernetes and systemd leave between SIGTERM and SIGKILL */
#define END_SECONDS                                                                                          \
    15u /* the flush, and what may hang beside it: a file on a server that is gone. Inside TimeoutStopSec.   \
         */
#define STALLED_MS      20000u /* no poll for so long: not healthy */
#define UPDATE_MS       1000u
#define SLOW_SYMBOLS_MS 60000u

struct agent {
    const struct agent_config *config;
    int argc;
    char **argv;
    uv_loop_t loop;
    uv_signal_t sigterm, sigint, sighup;
    uv_timer_t update;
    struct images *images;
    struct collector *collector;
    struct shipper *shipper;
    struct pack_worker *packs;
    struct http_server *http;
    _Atomic bool connected;
    _Atomic uint64_t loop_ns; /* when the loop last turned */
    bool stopping;
    struct log_limit slow_limit;
};

/* ---- the way of a window and of a symbol pack ---- */

static void on_window(struct tally_window *window, void *ctx)
{
    struct agent *agent = ctx;
    shipper_put(agent->shipper, window);
}

static size_t on_gauges(struct shipper_gauge *out, size_t room, void *ctx)
{
    struct agent *agent = ctx;
    struct collector_figures figures = collector_figures(agent->collector);
    return agent_metrics_gauges(&figures, out, room);
}

static void on_want(const void *id, size_t id_bytes, void *ctx)
{
    struct agent *agent = ctx;
    if (agent->packs)
        pack_worker_want(agent->packs, id, id_bytes);
}

static void on_part_sent(int rc, void *ctx)
{
    struct agent *agent = ctx;
    if (agent->packs)
        pack_worker_part_done(agent->packs, rc);
}

static void on_part(const void *message, size_t bytes, void *ctx)
{
    struct agent *agent = ctx;
    shipper_send_pack(agent->shipper, message, bytes, on_part_sent, agent);
}

/* ---- doors ---- */

static void on_http(const struct http_request *request, struct http_response *response, void *ctx)
{
    struct agent *agent = ctx;
    const char *path = http_request_path(request);
    if (strcmp(path, "/metrics") == 0) {
        struct collector_figures figures = collector_figures(agent->collector);
        agent_metrics_sampling(&figures, agent->images);
        response->content_type = "text/plain; version=0.0.4; charset=utf-8";
        metrics_print(&response->body);
    } else if (strcmp(path, "/healthz") == 0) {
        uint64_t idle_ms = collector_idle_ms(agent->collector);
        uint64_t still_ms = (clock_mono_ns() - atomic_load(&agent->loop_ns)) / CLOCK_NS_PER_MS;
        response->status = idle_ms < STALLED_MS && still_ms < STALLED_MS ? 200 : 503;
        if (idle_ms >= STALLED_MS)
            buf_printf(&response->body, "no sample was read for %llu ms\n", (unsigned long long)idle_ms);
        else if (still_ms >= STALLED_MS)
            buf_printf(&response->body, "nothing was sent or waited for since %llu ms\n",
                       (unsigned long long)still_ms);
        else
            buf_printf(&response->body, "ok\n");
    } else if (strcmp(path, "/readyz") == 0) {
        bool connected = atomic_load(&agent->connected);
        response->status = connected ? 200 : 503;
        buf_printf(&response->body,
                   connected ? "ok\n"
                             : "no shard has acknowledged anything yet, or the last exchange failed\n");
    } else {
        response->status = 404;
        buf_printf(&response->body, "not found; here are /metrics, /healthz and /readyz\n");
    }
}

static void on_update(uv_timer_t *timer)
{
    struct agent *agent = timer->data;
    struct shipper_ledger ledger = shipper_ledger(agent->shipper);
    atomic_store(&agent->loop_ns, clock_mono_ns());
    atomic_store(&agent->connected, ledger.connected);
    agent_metrics_shipping(&ledger);
    uint64_t busy_ms = pack_worker_busy_ms(agent->packs);
    agent_metrics_symbols(busy_ms);
    if (busy_ms > SLOW_SYMBOLS_MS && log_limit_pass(&agent->slow_limit, NULL))
        log_warn(
            "the names of one executable take %llu s: its file system may not answer, and the names of new "
            "executables wait",
            (unsigned long long)busy_ms / 1000);
}

/* ---- life ---- */

static void on_flushed(void *ctx)
{
    struct agent *agent = ctx;
    struct shipper_ledger ledger = shipper_ledger(agent->shipper);
    if (ledger.waiting_samples > 0)
        log_warn("ending with %llu samples that no shard acknowledged",
                 (unsigned long long)ledger.waiting_samples);
    http_server_close(agent->http);
    agent->http = NULL;
    pack_worker_close(agent->packs);
    agent->packs = NULL;
    shipper_close(agent->shipper);
    uv_close((uv_handle_t *)&agent->update, NULL);
    uv_close((uv_handle_t *)&agent->sigterm, NULL);
    uv_close((uv_handle_t *)&agent->sigint, NULL);
    uv_close((uv_handle_t *)&agent->sighup, NULL);
}

/* In signal context: the loop may be waiting for a thread that hangs in the kernel. */
static void on_last_signal(int signum)
{
    static const char OVERDUE[] = "warn node-agent: the end takes too long: ending at once\n",
                      SECOND[] = "warn node-agent: second signal: ending at once\n";
    ssize_t wrote = signum == SIGALRM ? write(STDERR_FILENO, OVERDUE, sizeof(OVERDUE) - 1)
                                      : write(STDERR_FILENO, SECOND, sizeof(SECOND) - 1);
    (void)wrote;
    _exit(signum == SIGALRM ? EXIT_FAILURE : 128 + signum);
}

static void bound_the_end(struct agent *agent)
{
    const struct sigaction last = {.sa_handler = on_last_signal};
    uv_signal_stop(&agent->sigterm);
    uv_signal_stop(&agent->sigint);
    sigaction(SIGTERM, &last, NULL);
    sigaction(SIGINT, &last, NULL);
    sigaction(SIGALRM, &last, NULL);
    alarm(END_SECONDS);
}

static void on_stop_signal(uv_signal_t *handle, int signum)
{
    struct agent *agent = handle->data;
    if (agent->stopping) /* both kinds came at once */
        on_last_signal(signum);
    agent->stopping = true;
    bound_the_end(agent);
    log_info("signal %d: sending what is waiting", signum);
    collector_stop(agent->collector);
    shipper_flush(agent->shipper, FLUSH_MS, on_flushed, agent);
}

static void on_reload_signal(uv_signal_t *handle, int signum)
{
    (void)signum;
    struct agent *agent = handle->data;
    struct err err = {.code = 0};
    struct agent_config fresh;
    if (agent_config_read(agent->argc, agent->argv, &fresh, &err) == OPTIONS_RUN) {
        collector_set_hz(agent->collector, (unsigned)fresh.hz);
        log_info("settings read again: %llu Hz", (unsigned long long)fresh.hz);
    } else {
        log_error("settings not read again, the old ones stay: %s", err.text);
    }
    agent_config_fini(&fresh);
}

static void start_signal(struct agent *agent, uv_signal_t *handle, uv_signal_cb callback, int signum)
{
    uv_signal_init(&agent->loop, handle);
    handle->data = agent;
    uv_signal_start(handle, callback, signum);
}

static int open_sampling(struct agent *agent, struct err *err)
{
    const struct agent_config *config = agent->config;
    const struct collector_settings settings = {
        .node = config->node,
        .window_ms = (uint32_t)config->window_ms,
        .sampler = {.hz = (unsigned)config->hz,
                    .event = config->event,
                    .ring_bytes = config->ring_bytes,
                    .cpus = config->cpus},
    };
    return collector_open(&settings, agent->images, on_window, agent, &agent->collector, err);
}

static int open_shipping(struct agent *agent, struct err *err)
{
    const struct agent_config *config = agent->config;
    const struct shipper_settings settings = {
        .node = config->node,
        .shards = (const char *const *)config->shard_list,
        .shard_count = config->shard_count,
        .queue_bytes = config->queue_bytes,
        .event = config->event,
        .hz = (unsigned)config->hz,
        .cpus = (unsigned)uv_available_parallelism(),
    };
    return shipper_open(&agent->loop, &settings, on_gauges, on_want, agent, &agent->shipper, err);
}

/* The shipper first: the collector's first window may come at once. */
static int open_all(struct agent *agent, struct err *err)
{
    int rc = open_shipping(agent, err);
    if (rc < 0)
        return rc;
    rc = open_sampling(agent, err);
    if (rc < 0)
        return rc;
    if (agent->config->http && agent->config->http[0]) {
        rc = http_server_open(agent->config->http, 1, on_http, agent, &agent->http, err);
        if (rc < 0)
            return err_wrap(err, "--http %s", agent->config->http);
    }
    agent->packs = pack_worker_open(&agent->loop, agent->images, on_part, agent);
    return 0;
}

static void on_gap(const char *text, void *ctx)
{
    (void)ctx;
    log_warn("%s", text);
}

static void drain_loop(struct agent *agent)
{
    uv_run(&agent->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&agent->loop) != 0)
        log_error("a handle was left open at the end");
}

int agent_run(const struct agent_config *config, int argc, char **argv, struct err *err)
{
    struct agent agent = {.config = config, .argc = argc, .argv = argv};
    signal(SIGPIPE, SIG_IGN);
    atomic_store(&agent.loop_ns, clock_mono_ns());
    uv_loop_init(&agent.loop);
    agent.images = images_new();
    int rc = open_all(&agent, err);
    if (rc == 0) {
        const struct rights rights = rights_read();
        rights_gaps(&rights, on_gap, NULL);
        start_signal(&agent, &agent.sigterm, on_stop_signal, SIGTERM);
        start_signal(&agent, &agent.sigint, on_stop_signal, SIGINT);
        start_signal(&agent, &agent.sighup, on_reload_signal, SIGHUP);
        uv_timer_init(&agent.loop, &agent.update);
        agent.update.data = &agent;
        uv_timer_start(&agent.update, on_update, UPDATE_MS, UPDATE_MS);
        on_update(&agent.update); /* every metric is there from the first look on */
        log_info("node %s: sampling %s at %llu Hz, streaming to one of %zu shards", config->node,
                 collector_event_name(agent.collector), (unsigned long long)config->hz, config->shard_count);
    } else {
        collector_close(agent.collector);
        agent.collector = NULL;
        http_server_close(agent.http);
        if (agent.shipper)
            shipper_close(agent.shipper);
    }
    drain_loop(&agent);
    collector_close(agent.collector);
    images_free(agent.images);
    alarm(0);
    return rc;
}
