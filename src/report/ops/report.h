/*
 * Where the time goes, for people and for spreadsheets: one list of tables, each written as text,
 * Markdown or CSV from the same rows. Used inside src/report only.
 */
#ifndef PRN_REPORT_OPS_REPORT_H
#define PRN_REPORT_OPS_REPORT_H

#include "report/profile/report.h"
#include "report/profile/view.h"

/* The sections below the tables of a profile: why backends are slower, then where the time of each
 * one goes. Nothing when no result was asked about it. */
PRONY_MUST_CHECK int prn_ops_sections(const struct prn_view *view, const struct prn_look *look,
                                      struct prn_buffer *out, struct prony_error *err);

/* Which runs the times of a result are of, and how they differ from those without the profiler: for
 * a result with `ops`. */
void prn_ops_runs_text(const struct prn_result *r, struct prn_buffer *out);

/* One table in full, of all results that have it. */
PRONY_MUST_CHECK int prn_ops_csv(const struct prn_view *view, enum prn_report_table table,
                                 struct prn_buffer *out, struct prony_error *err);

/* "Conv reaches 61 % of what this machine can; Gemm is bound by memory, at 83 % of its bandwidth."
 * Nothing where no roof is known. */
struct prn_ops; /* measure/ops/ops.h */
void prn_ops_roofs_text(const struct prn_ops *ops, struct prn_buffer *out);

/* "OpenVINO takes 118 of 124 nodes, 97 % of the time; the CPU has Resize, …" Nothing where the CPU
 * has all. */
void prn_ops_placement_text(const struct prn_ops *ops, struct prn_buffer *out);

/* People know "CUDA" from "CUDAExecutionProvider": how many characters of it. */
int prn_provider_length(const char *provider);

#endif
