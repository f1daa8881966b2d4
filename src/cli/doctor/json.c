/* A report for programs: one JSON document, a finding a line.
 *
 *     {"gyre":"0.1.0","host":"a","system":"Linux …","problems":1,"notes":0,"findings":[
 *      {"check":"ports","state":"problem","found":"…","advice":"…","details":[],"figures":{…}}]}
 *
 * Names of checks and figures never change their meaning; new ones may come. Tested by
 * tests/unit/cli/doctor/report_test.c. */
#include "cli/doctor/report.h"

#include "data/files/json_out.h"

#include <math.h>

static void put_text_member(struct gyre_json_out *out, const char *before, const char *name,
                            const char *text)
{
    gyre_json_put_text(out, before);
    gyre_json_put_string(out, name);
    gyre_json_put_text(out, ":");
    if (text)
        gyre_json_put_string(out, text);
    else
        gyre_json_put_text(out, "null");
}

static void put_count(struct gyre_json_out *out, const char *name, int count)
{
    gyre_json_put_text(out, ",");
    gyre_json_put_string(out, name);
    gyre_json_put_text(out, ":");
    gyre_json_put_whole(out, (uint64_t)count);
}

static void put_figures(struct gyre_json_out *out, const struct gyre_doctor_finding *finding)
{
    char number[32];
    gyre_json_put_text(out, ",\"figures\":{");
    for (int i = 0; i < finding->figures; i++) {
        double value = finding->figure[i].value;
        snprintf(number, sizeof number, isfinite(value) ? ":%.10g" : ":null", value);
        gyre_json_put_text(out, i ? "," : "");
        gyre_json_put_string(out, finding->figure[i].name);
        gyre_json_put_text(out, number);
    }
    gyre_json_put_text(out, "}}");
}

static void put_finding_json(struct gyre_json_out *out, const struct gyre_doctor_finding *finding)
{
    put_text_member(out, "\n {", "check", finding->check);
    if (finding->subject)
        put_text_member(out, ",", "subject", finding->subject);
    put_text_member(out, ",", "state", gyre_doctor_state_word(finding->state));
    put_text_member(out, ",", "found", finding->found);
    put_text_member(out, ",", "advice", finding->advice);
    gyre_json_put_text(out, ",\"details\":[");
    for (int i = 0; i < finding->details; i++) {
        gyre_json_put_text(out, i ? "," : "");
        gyre_json_put_string(out, finding->detail[i] ? finding->detail[i] : "");
    }
    gyre_json_put_text(out, "]");
    put_figures(out, finding);
}

void gyre_doctor_print_json(const struct gyre_doctor_report *report,
                            const struct gyre_doctor_title *title, FILE *stream)
{
    struct gyre_json_out out = {.stream = stream};
    put_text_member(&out, "{", "gyre", title->version);
    put_text_member(&out, ",", "host", title->host);
    put_text_member(&out, ",", "system", title->system);
    put_count(&out, "problems", gyre_doctor_count(report, GYRE_DOCTOR_PROBLEM));
    put_count(&out, "notes", gyre_doctor_count(report, GYRE_DOCTOR_NOTE));
    gyre_json_put_text(&out, ",\"findings\":[");
    for (int i = 0; i < report->findings; i++) {
        gyre_json_put_text(&out, i ? "," : "");
        put_finding_json(&out, &report->finding[i]);
    }
    gyre_json_put_text(&out, "]}\n");
}
