import { z } from "zod";
import {
  INTERVALS,
  MAXIMUM_GROUPS,
  METADATA,
  rangeOf,
} from "../../modules/dashboard/statistics.rules.ts";
import { RECORD_KINDS } from "../../modules/records/owner.rules.ts";
import type { RecordKind } from "../../modules/records/owner.rules.ts";
import { text } from "../../modules/records/fields.rules.ts";
import { oneOf } from "../../runtime/describeIssues.rules.ts";
import { listStatistics } from "../../modules/dashboard/statistics.sql.ts";
import type { StatisticsRow } from "../../modules/dashboard/statistics.sql.ts";
import { listEndpoint } from "../http/listEndpoints.ts";
import { firstDay, lastDay } from "../http/listPages.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { queryObject } from "../http/parseRequest.ts";
import type { StandaloneContext } from "../context.ts";

const statsQuery = queryObject({
  kind: oneOf(RECORD_KINDS).meta({ description: "What to count." }),
  from: firstDay("First day. Defaults to 30 days, or to 12 months, until `to`."),
  to: lastDay("Last day. Defaults to today."),
  interval: oneOf(INTERVALS).default("day").meta({
    description: "At most 366 days can be counted by day, and 1,830 by month.",
  }),
  group_by: text(METADATA.length + 500)
    .regex(/^(?:attribution|metadata\..+)$/su, "must be attribution or metadata.KEY")
    .optional()
    .meta({
      pattern: String.raw`^(attribution|metadata\.[^\u0000]+)$`,
      description: `\`attribution\`, or \`metadata.\` and a key. The ${MAXIMUM_GROUPS} largest groups are listed.`,
      examples: ["attribution", "metadata.campaign"],
    }),
});

const count = (description: string) => z.int().min(0).meta({ description });

const statsRow = z
  .strictObject({
    start: z.iso.date().meta({ description: "The first day of the interval." }),
    group: z
      .string()
      .nullable()
      .meta({ description: "Null for records without one, for the rest, and without `group_by`." }),
    is_rest: z
      .boolean()
      .meta({ description: "Whether this row sums up the groups that are not listed." }),
    registered: count("Units, or donations, recorded in the interval."),
    refunded: count("Those of them that were refunded, at any later time."),
    net: count("Those that are not refunded."),
    registered_cents: count("Only of donations.").optional(),
    refunded_cents: count("Only of donations.").optional(),
    net_cents: count("Only of donations.").optional(),
  })
  .meta({ id: "StatisticsRow" });

const statsResponse = z
  .strictObject({
    kind: z.enum(RECORD_KINDS),
    interval: z.enum(INTERVALS),
    from: z.iso.date(),
    to: z.iso.date(),
    stats: z.array(statsRow).meta({
      description:
        "Oldest first. Without `group_by` every interval has a row; with it, each group that has records in the interval.",
    }),
  })
  .meta({ id: "Statistics" });

const COLUMNS = statsRow.keyof().options;

const presentRow = (kind: RecordKind, row: StatisticsRow): z.output<typeof statsRow> => ({
  start: row.start,
  group: row.group,
  is_rest: row.isRest,
  registered: row.registered,
  refunded: row.refunded,
  net: row.registered - row.refunded,
  ...(kind === "donation" && {
    registered_cents: row.registeredCents,
    refunded_cents: row.refundedCents,
    net_cents: row.registeredCents - row.refundedCents,
  }),
});

export const statsEndpoint = ({ db, clock, streaming }: StandaloneContext): Endpoint =>
  listEndpoint(
    {
      method: "get",
      path: "/stats",
      description: {
        operationId: "readStatistics",
        tag: "statistics",
        summary: "Count trees, bottles or donations by day or month",
        details:
          "Counts the records of the key's mode by the interval in which they were recorded, in UTC. A refund counts in the " +
          "interval of its record, as in the totals.",
        errors: ["query_timeout"],
      },
      schemas: { query: statsQuery, response: statsResponse },
      exported: { name: "stats", columns: COLUMNS },
      handle: ({ caller: { accountId, mode }, query }) => {
        const { kind, interval, group_by: groupBy = null } = query;
        const today = clock.now().toISOString().slice(0, 10);
        const range = rangeOf(query, interval, today);
        const read = async () =>
          (await listStatistics(db, { accountId, mode, kind, interval, range, groupBy })).map(
            (row) => presentRow(kind, row),
          );
        return {
          json: async () => ({ kind, interval, ...range, stats: await read() }),
          rows: async function* () {
            yield await read();
          },
        };
      },
    },
    streaming,
  );
