import { z } from "zod";
import {
  INTERVALS,
  MAXIMUM_GROUPS,
  METADATA,
  rangeOf,
  statisticsJson,
} from "../../modules/dashboard/statistics.rules.ts";
import { RECORD_KINDS } from "../../modules/records/owner.rules.ts";
import { text } from "../../modules/records/fields.rules.ts";
import { oneOf } from "../../runtime/describeIssues.rules.ts";
import { listStatistics } from "../../modules/dashboard/statistics.sql.ts";
import { listEndpoint } from "../http/listEndpoints.ts";
import { firstDay, lastDay } from "../http/listPages.ts";
import { responseObject } from "../http/parseRequest.ts";
import type { AppContext } from "../context.ts";

const statsQuery = z.object({
  kind: oneOf(RECORD_KINDS).describe("What to count."),
  from: firstDay("First day. Defaults to 30 days, or to 12 months, until `to`."),
  to: lastDay("Last day. Defaults to today."),
  interval: oneOf(INTERVALS)
    .default("day")
    .describe("At most 366 days can be counted by day, and 1,830 by month."),
  group_by: text(METADATA.length + 500)
    .regex(/^(?:attribution|metadata\..+)$/su, "must be attribution or metadata.KEY")
    .optional()
    .meta({
      pattern: String.raw`^(attribution|metadata\.[^\u0000]+)$`,
      description: `\`attribution\`, or \`metadata.\` and a key. The ${MAXIMUM_GROUPS} largest groups are listed.`,
      examples: ["attribution", "metadata.campaign"],
    }),
});

const statsResponse = responseObject("Statistics", {
  kind: z.enum(RECORD_KINDS),
  interval: z.enum(INTERVALS),
  from: z.iso.date(),
  to: z.iso.date(),
  stats: z
    .array(statisticsJson)
    .describe(
      "Oldest first. Without `group_by` every interval has a row; with it, each group that has records in the interval.",
    ),
});

export const statsEndpoint = ({ reads, clock, streaming }: AppContext) =>
  listEndpoint(streaming, "/stats", {
    operationId: "readStatistics",
    tag: "statistics",
    summary: "Count trees, bottles or donations by day or month",
    details:
      "Counts the records of the key's mode by the interval in which they were recorded, in UTC. A refund counts in the " +
      "interval of its record, as in the totals.",
    errors: ["query_timeout"],
    schemas: { query: statsQuery, response: statsResponse },
    exported: { name: "stats", columns: statisticsJson.keyof().options },
    handle: ({ owner, query }) => {
      const { kind, interval, group_by: groupBy = null } = query;
      const today = clock.now().toISOString().slice(0, 10);
      const range = rangeOf(query, interval, today);
      const read = () => listStatistics(reads, { ...owner, kind, interval, range, groupBy });
      return {
        json: async () => ({ kind, interval, ...range, stats: [...(await read())] }),
        rows: async function* () {
          yield await read();
        },
      };
    },
  });
