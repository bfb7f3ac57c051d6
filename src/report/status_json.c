#include "report/status_json.h"

#define PRN_OF const char *
static const struct prn_member text_members[] = {PRN_BARE(TEXT, const char *, NULL)};
static const struct prn_schema text_schema = PRN_SCHEMA(NULL, text_members, NULL);
#undef PRN_OF

#define PRN_OF struct prn_remote_hardware
static const struct prn_member hardware_members[] = {
    PRN_TEXT(name, "As specs call it."),
    PRN_TEXT(processor, "Null: not known.", .flags = PRN_NULL),
    PRN_NUMBER(usd_per_hour, "Price of a host; null: not known."),
    PRN_INTEGER(hosts, "That there are.", .flags = PRN_NULL),
    PRN_INTEGER(free, "Hosts without a session.", .flags = PRN_NULL),
    PRN_INTEGER(waiting, "Sessions that wait for one.", .flags = PRN_NULL),
    PRN_BOOL(paused, "An administrator gives out no host of it."),
    PRN_TEXT(note, "What people should know of it.", .flags = PRN_NULL),
};
static const struct prn_schema hardware_schema =
    PRN_SCHEMA("Hardware", hardware_members, "What the service offers.");
#undef PRN_OF

#define PRN_OF struct prn_remote_session
static const struct prn_member session_members[] = {
    PRN_TEXT(id, "A label, not the session's secret."),
    PRN_TEXT(user, "Whose it is.", .flags = PRN_NULL),
    PRN_BOOL(yours, "It is of whoever looks; on the service's page.", .flags = PRN_OMIT),
    PRN_TEXT(state, "\"waiting\" for hosts, or \"ready\"."),
    PRN_ARRAY(backends, n_backends, &text_schema, "That it asked for."),
    PRN_INTEGER(age_ms, "Since it was opened.", .flags = PRN_NULL),
    PRN_INTEGER(waited_ms, "For its hosts.", .flags = PRN_NULL),
    PRN_INTEGER(idle_ms, "Since it last did anything.", .flags = PRN_NULL),
    PRN_INTEGER(place, "In the queue, from 1; null: it has its hosts.", .flags = PRN_NULL),
    PRN_INTEGER(models, "That it loaded.", .flags = PRN_NULL),
    PRN_INTEGER(runs, "That it made.", .flags = PRN_NULL),
    PRN_TEXT(note, "Why it waits, or what will end it.", .flags = PRN_NULL),
};
static const struct prn_schema session_schema =
    PRN_SCHEMA("Session", session_members, "Who has hosts or waits for them.");
#undef PRN_OF

#define PRN_OF struct prn_remote_worker
static const struct prn_member worker_members[] = {
    PRN_TEXT(id, "Its own.", .flags = PRN_NULL),
    PRN_TEXT(name, "For people."),
    PRN_TEXT(hardware, "That it is."),
    PRN_TEXT(state, "What it does."),
    PRN_ARRAY(software, n_software, &text_schema, "That it runs."),
    PRN_TEXT(sandbox, "What executors are kept in.", .flags = PRN_NULL),
    PRN_INTEGER(connected_ms, "For how long.", .flags = PRN_NULL),
    PRN_TEXT(session, "That holds it; null or empty: none.", .flags = PRN_NULL),
    PRN_TEXT(user, "Of the session.", .flags = PRN_NULL),
    PRN_INTEGER(held_ms, "Since the session has it.", .flags = PRN_NULL),
    PRN_TEXT(note, "What people should know of it.", .flags = PRN_NULL),
};
static const struct prn_schema worker_schema =
    PRN_SCHEMA("Worker", worker_members, "A host of the service.");
#undef PRN_OF

#define PRN_OF struct prn_remote_reservation
static const struct prn_member reservation_members[] = {
    PRN_INTEGER(id, "To cancel it by."),
    PRN_TEXT(target, "A hardware, or the name of a host."),
    PRN_TEXT(user, "Whom it is for; null: somebody else.", .flags = PRN_NULL),
    PRN_INTEGER(hosts, "How many of the hardware; null: the host of that name.", .flags = PRN_NULL),
    PRN_INTEGER(from_ms, "When it begins, since 1970."),
    PRN_INTEGER(to_ms, "When it ends."),
    PRN_BOOL(active, "It has begun."),
};
static const struct prn_schema reservation_schema =
    PRN_SCHEMA("Reservation", reservation_members, "Hosts that are kept for a user.");
#undef PRN_OF

#define PRN_OF struct prn_remote_status
static const struct prn_member limits_members[] = {
    PRN_INTEGER(session_memory_bytes, "Of an executor; null: none.", .flags = PRN_NULL),
    PRN_NUMBER(run_timeout_s, "Of one run or load."),
};
static const struct prn_schema limits_schema = PRN_SCHEMA(NULL, limits_members, NULL);

static const struct prn_member cache_members[] = {
    PRN_INTEGER(blobs, "Files of models.", .flags = PRN_NULL),
    PRN_INTEGER(blob_bytes, "That they take.", .key = "bytes", .flags = PRN_NULL),
    PRN_INTEGER(blob_limit_bytes, "That they may take.", .key = "limit_bytes", .flags = PRN_NULL),
    PRN_INTEGER(hits, "Files offered that were there.", .flags = PRN_NULL),
    PRN_INTEGER(misses, "Files offered that were not.", .flags = PRN_NULL),
};
static const struct prn_schema cache_schema = PRN_SCHEMA(
    "Cache", cache_members, "Files that clients needn't send again.", PRN_PRESENT(has_cache));

static const struct prn_member you_members[] = {
    PRN_TEXT(you, "A name.", .key = "user", .flags = PRN_NULL),
    PRN_BOOL(you_are_admin, "May do what administrators may.", .key = "admin"),
    PRN_TEXT(signed_in_by, "\"token\" or \"loopback\"."),
};
static const struct prn_schema you_schema =
    PRN_SCHEMA("You", you_members, "Who looks at the page.", PRN_PRESENT(has_viewer));

/* Of what is on the service's page only. */
#define PAGE .flags = PRN_OMIT | PRN_NULL

static const struct prn_member status_members[] = {
    PRN_CONSTANT("schema", PRN_STATUS_SCHEMA),
    PRN_TEXT(version, "Of prony there.", .flags = PRN_NULL),
    PRN_INTEGER(uptime_ms, "Since it was started.", .flags = PRN_NULL),
    PRN_BOOL(draining, "It takes no new sessions."),
    PRN_TEXT(notice, "An administrator's, to everybody.", .flags = PRN_NULL),
    PRN_INTEGER(time_ms, "The service's clock, since 1970; on its page.", PAGE),
    PRN_PART("you", &you_schema, "Who looks; on the service's page.", PAGE),
    PRN_ARRAY(hardware, n_hardware, &hardware_schema, "That there is."),
    PRN_ARRAY(sessions, n_sessions, &session_schema, "One's own; an administrator sees all."),
    PRN_INTEGER(sessions_left_out, "For want of room; on the service's page.", PAGE),
    PRN_INTEGER(sessions_others, "Of others, which aren't shown.", .flags = PRN_NULL),
    PRN_PART("limits", &limits_schema, "Of sessions."),
    PRN_ARRAY(workers, n_workers, &worker_schema, "Who offer the hardware."),
    PRN_INTEGER(workers_left_out, "For want of room; on the service's page.", PAGE),
    PRN_ARRAY(reservations, n_reservations, &reservation_schema, "That aren't over.",
              .flags = PRN_OLD),
    PRN_PART("cache", &cache_schema, "Null: not told.", .flags = PRN_NULL),
};
const struct prn_schema prn_status_schema =
    PRN_SCHEMA("Status", status_members, "What prony status --format json writes.");
#undef PRN_OF

int prn_status_write_json(const struct prn_remote_status *status, struct prn_buffer *out,
                          struct prony_error *err)
{
    return prn_schema_write_json(&prn_status_schema, status, out, err);
}

#define PRN_OF struct prn_remote_use
static const struct prn_member use_members[] = {
    PRN_TEXT(month, "\"2026-11\", UTC."),
    PRN_TEXT(user, "Who had it."),
    PRN_TEXT(hardware, "As specs call it."),
    PRN_INTEGER(sessions, "That got hosts of it in this month."),
    PRN_NUMBER(host_s, "Seconds that its hosts were held, of all hosts."),
    PRN_NUMBER(usd, "Price of these, as far as it was known."),
};
static const struct prn_schema use_schema =
    PRN_SCHEMA("Use", use_members, "What a user had of a hardware in a month.");
#undef PRN_OF

#define PRN_OF struct prn_remote_usage
static const struct prn_member usage_members[] = {
    PRN_CONSTANT("schema", PRN_USAGE_SCHEMA),
    PRN_ARRAY(uses, n, &use_schema, "By month, user and hardware."),
};
const struct prn_schema prn_usage_schema =
    PRN_SCHEMA("Usage", usage_members, "What prony status --usage --format json writes.");
#undef PRN_OF

int prn_usage_write_json(const struct prn_remote_usage *usage, struct prn_buffer *out,
                         struct prony_error *err)
{
    return prn_schema_write_json(&prn_usage_schema, usage, out, err);
}
