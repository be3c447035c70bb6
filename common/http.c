#include "common/http.h"

#include "common/str.h"
#include "common/xalloc.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct exchange {
    const struct http_get_options *options;
    struct http_reply reply;
    bool too_big;
};

static void init_library(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx)
{
    struct exchange *exchange = ctx;
    if (buf_append(&exchange->reply.body, data, size * count) == 0)
        return size * count;
    exchange->too_big = true;
    return 0;
}

/* Keeps the value of the header asked for. */
static size_t on_header(char *data, size_t size, size_t count, void *ctx)
{
    struct exchange *exchange = ctx;
    const char *name = exchange->options->note_name;
    size_t bytes = size * count, length = name ? strlen(name) : 0;
    if (!name || bytes <= length || data[length] != ':' || strncasecmp(data, name, length) != 0)
        return bytes;
    const char *value = data + length + 1, *end = data + bytes;
    while (value < end && isspace((unsigned char)*value))
        value++;
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    free(exchange->reply.note);
    exchange->reply.note = xmemdup_text(value, (size_t)(end - value));
    return bytes;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct exchange *exchange = ctx;
    (void)a, (void)b, (void)c, (void)d;
    return exchange->options->stop && exchange->options->stop();
}

/* A proxy set for the internet must not be asked for this machine. */
static bool is_loopback(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    return str_starts(host, "127.") || str_starts(host, "localhost") || str_starts(host, "[::1]");
}

static void set_options(CURL *curl, const char *url, struct exchange *exchange, char *error_text)
{
    const struct http_get_options *options = exchange->options;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, options->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, options->user_agent);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, exchange);
    if (is_loopback(url))
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
}

/* "http://host:port" of a URL: the rest says nothing about why it cannot be reached. */
static int base_length(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    return (int)(host + strcspn(host, "/?#") - url);
}

static int explain(CURL *curl, CURLcode result, const char *url, const struct exchange *exchange,
                   const char *error_text, struct err *err)
{
    long number = 0;
    int base = base_length(url);
    const char *text = error_text[0] ? error_text : curl_easy_strerror(result);
    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
    switch (result) {
    case CURLE_COULDNT_CONNECT:
        return err_set(err, number ? (int)-number : -ECONNREFUSED, "cannot reach %.*s", base, url);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return err_say(err, -EHOSTUNREACH, "cannot reach %.*s: %s", base, url, text);
    case CURLE_OPERATION_TIMEDOUT:
        return err_say(err, -ETIMEDOUT, "no answer from %.*s within %ld s", base, url,
                       exchange->options->timeout_ms / 1000);
    case CURLE_ABORTED_BY_CALLBACK:
        return err_say(err, -ECANCELED, "interrupted");
    case CURLE_UNSUPPORTED_PROTOCOL: /* also what answers something else than HTTP */
        if (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0)
            return err_say(err, -EINVAL, "%.*s does not speak HTTP", base, url);
        return err_say(err, -EINVAL, "%.*s is not an http or https address", base, url);
    case CURLE_URL_MALFORMAT:
        return err_say(err, -EINVAL, "%.*s is not an http or https address", base, url);
    default:
        if (exchange->too_big)
            return err_say(err, -EMSGSIZE, "the answer of %.*s is larger than %zu bytes", base, url,
                           exchange->options->limit_bytes);
        return err_say(err, -EIO, "%.*s: %s", base, url, text);
    }
}

static void keep_facts(CURL *curl, struct http_reply *reply)
{
    long status = 0;
    char *type = NULL;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    reply->status = (int)status;
    if (type)
        str_printable(reply->content_type, sizeof(reply->content_type), type, strlen(type));
}

int http_get(const char *url, const struct http_get_options *options, struct http_reply *ret_reply,
             struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_library);
    struct exchange exchange = {.options = options, .reply.body = buf_init(options->limit_bytes)};
    char error_text[CURL_ERROR_SIZE] = "";
    CURL *curl = curl_easy_init();
    if (!curl)
        return err_say(err, -ENOMEM, "cannot prepare a request");
    set_options(curl, url, &exchange, error_text);
    CURLcode result = curl_easy_perform(curl);
    int rc = 0;
    if (result != CURLE_OK) {
        rc = explain(curl, result, url, &exchange, error_text, err);
    } else if (buf_append(&exchange.reply.body, "", 1) < 0) {
        exchange.too_big = true;
        rc = explain(curl, CURLE_WRITE_ERROR, url, &exchange, error_text, err);
    } else {
        exchange.reply.body.used_bytes--;
        keep_facts(curl, &exchange.reply);
        *ret_reply = exchange.reply;
    }
    curl_easy_cleanup(curl);
    if (rc < 0)
        http_reply_fini(&exchange.reply);
    return rc;
}

void http_reply_fini(struct http_reply *reply)
{
    buf_fini(&reply->body);
    free(reply->note);
    reply->note = NULL;
}

/* RFC 3986: what is not unreserved is encoded. */
int http_append_segment(struct buf *url, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool plain = isalnum(*p) || strchr("-._~", *p);
        int rc = plain ? buf_append(url, p, 1) : buf_printf(url, "%%%02X", *p);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int http_append_param(struct buf *url, const char *name, const char *value)
{
    bool first = !url->used_bytes || !memchr(url->data, '?', url->used_bytes);
    int rc = buf_append(url, first ? "?" : "&", 1);
    if (rc == 0)
        rc = http_append_segment(url, name);
    if (rc == 0)
        rc = buf_append(url, "=", 1);
    return rc == 0 ? http_append_segment(url, value) : rc;
}
