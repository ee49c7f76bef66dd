import { z } from "zod";
import type { AppContext } from "../context.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { listEndpoint } from "../http/listEndpoints.ts";
import {
  firstDay,
  lastDay,
  LINK_HEADER,
  pagedList,
  rangeOfDays,
  pageLength,
  pageStart,
} from "../http/listPages.ts";
import { responseObject } from "../http/parseRequest.ts";
import { pathParameter } from "../http/requestContext.ts";
import { monthlyCycle } from "../../modules/billing/usage.rules.ts";
import { USAGE_COLUMNS, usageJson } from "../../modules/billing/billingStatus.rules.ts";
import { presentStatement, readStatement } from "../../modules/billing/readStatement.ts";
import { statementJson } from "../../modules/billing/statementJson.rules.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { listUsageReports, readUsageReport } from "../../modules/registrations/readUsageReports.ts";
import { oneOf } from "../../runtime/describeIssues.rules.ts";

const kindParameter = () => oneOf(KINDS).optional();

const kindsOf = (kind: Kind | undefined) => (kind === undefined ? KINDS : [kind]);

const oneQuery = z.object({
  kind: kindParameter().describe(
    "Selects the tree or the bottle registration if both were imported with the same id.",
  ),
});

const listQuery = z.object({
  kind: kindParameter().meta({ description: "Only trees, or only bottles.", examples: ["tree"] }),
  created_at: firstDay("First day of the registrations, UTC."),
  end_at: lastDay("Last day of the registrations, UTC."),
  limit: pageLength(),
  starting_after: pageStart(),
});

const listResponse = responseObject("UsageList", { usage: z.array(usageJson) });

const CURRENT = "current";

const PERIOD_MUST_BE = "must be a month in the form YYYY-MM, or current";

const statementQuery = z.object({
  period: z
    .string({ error: PERIOD_MUST_BE })
    .regex(/^(?:[1-9]\d{3}-(?:0[1-9]|1[0-2])|current)$/u, PERIOD_MUST_BE)
    .default(CURRENT)
    .meta({
      description: "A calendar month, UTC, or `current`: the present billing period.",
      examples: ["2025-06"],
    }),
});

export const usageEndpoints = (context: AppContext) => [
  keyEndpoint("get", "/usage/:registration_id", {
    operationId: "readUsage",
    tag: "usage",
    summary: "Read the billing status of a registration",
    details:
      "Usage is reported some seconds after a registration or a refund. Test mode reports to the built-in ledger, " +
      "which charges nothing.",
    pathParameters: { registration_id: "The id of a tree or bottle registration." },
    errors: ["record_not_found", "query_timeout"],
    schemas: { query: oneQuery, response: usageJson },
    handle: ({ ctx, owner, query: { kind } }) =>
      readUsageReport(context, owner, pathParameter(ctx, "registration_id"), kindsOf(kind)),
  }),
  listEndpoint(context.streaming, "/usage", {
    operationId: "listUsage",
    tag: "usage",
    summary: "List the billing status of registrations",
    details:
      "Returns the registrations of the organization in the key's mode that match all filters: trees, then bottles, " +
      "each newest first, in one response, or page by page with `limit`.",
    errors: ["query_timeout"],
    responseHeaders: LINK_HEADER,
    schemas: { query: listQuery, response: listResponse },
    exported: { name: "usage", columns: USAGE_COLUMNS },
    handle: ({ ctx, owner, query }) => {
      const { limit = null } = query;
      const part = {
        kinds: kindsOf(query.kind),
        ...rangeOfDays(query.created_at, query.end_at),
        startingAfter: query.starting_after ?? null,
        limit,
      };
      return pagedList(ctx, context, {
        limit,
        found: () => listUsageReports(context, owner, part),
        readHead: () => Promise.resolve('{"usage":['),
        linkOf: ({ registration_id: id, kind }) => ({
          starting_after: id,
          // After the last kind comes no other. A tree that was imported with the same id would be found first.
          ...(kind === KINDS.at(-1) && { kind }),
        }),
      });
    },
  }),
  // The same as `impact statement`, without the processor's own sums.
  keyEndpoint("get", "/statement", {
    operationId: "readStatement",
    tag: "usage",
    summary: "Read what was registered, reported and invoiced in a period",
    details:
      "Sums up the usage of the key's mode for trees and for bottles, by the day of the registration in UTC. The current " +
      "billing periods of trees and bottles can differ. Test mode is never invoiced.",
    schemas: { query: statementQuery, response: statementJson },
    handle: async ({ owner, query: { period } }) => {
      const span =
        period === CURRENT ? CURRENT : monthlyCycle(1, new Date(`${period}-01T00:00:00Z`));
      return presentStatement(await readStatement(context, owner, span));
    },
  }),
];
