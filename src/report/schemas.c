#include "report/schemas.h"

#include "format/json.h"
#include "report/check/report.h"
#include "report/comparison/report.h"
#include "report/layers/json.h"
#include "report/machine/report.h"
#include "report/profile/json.h"
#include "report/recorded/json.h"
#include "report/schedule/report.h"
#include "report/status_json.h"
#include "report/trend/report.h"

#include <stdio.h>
#include <string.h>

/* A profile has the keys of a recorded program exactly when it has no model. */
static void profile_rules(struct prn_json_writer *w)
{
    const struct prn_schema *recorded = &prn_recorded_schema;
    prn_json_object(w, "if");
    prn_json_object(w, "properties");
    prn_json_object(w, "model");
    prn_json_text(w, "type", "null");
    prn_json_end(w);
    prn_json_end(w);
    prn_json_end(w);
    prn_json_object(w, "then");
    prn_json_array_compact(w, "required");
    for (size_t i = 0; i < recorded->n_members; i++)
        prn_json_text(w, NULL, recorded->members[i].name);
    prn_json_end(w);
    prn_json_end(w);
    prn_json_object(w, "else");
    prn_json_object(w, "properties");
    for (size_t i = 0; i < recorded->n_members; i++)
        prn_json_bool(w, recorded->members[i].name, false);
    prn_json_end(w);
    prn_json_end(w);
}

static const struct {
    const char *title;
    const struct prn_schema *schema;
    void (*rules)(struct prn_json_writer *w);
    bool read; /* files of it are read back */
} schemas[] = {
    {PRN_PROFILE_SCHEMA, &prn_profile_schema, profile_rules, true},
    {PRN_COMPARISON_SCHEMA, &prn_comparison_schema, NULL, false},
    {PRN_CHECK_SCHEMA, &prn_check_schema, NULL, false},
    {PRN_LAYERS_SCHEMA, &prn_layers_schema, NULL, false},
    {PRN_SCHEDULE_SCHEMA, &prn_schedule_schema, NULL, false},
    {PRN_STATUS_SCHEMA, &prn_status_schema, NULL, false},
    {PRN_USAGE_SCHEMA, &prn_usage_schema, NULL, false},
    {PRN_MACHINE_SCHEMA, &prn_machine_schema, NULL, true},
    {PRN_TREND_SCHEMA, &prn_trend_schema, NULL, false},
    {PRN_TREND_LIST_SCHEMA, &prn_trend_list_schema, NULL, false},
    {PRN_PRUNED_SCHEMA, &prn_pruned_schema, NULL, false},
};

int prn_report_schema(const char *file, struct prn_buffer *out, struct prony_error *err)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(schemas); i++) {
        char name[64];
        const char *title = schemas[i].title;
        snprintf(name, sizeof name, "%.*s.schema.json", (int)strcspn(title, "/"), title);
        if (strcmp(name, file) == 0)
            return prn_schema_describe(schemas[i].schema, title, schemas[i].rules, schemas[i].read,
                                       out, err);
    }
    return prn_fail(err, PRONY_ENOENT, "no schema '%s'", file);
}
