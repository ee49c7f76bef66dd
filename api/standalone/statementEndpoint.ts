import { z } from "zod";
import { monthlyCycle } from "../../modules/billing/billingCycle.rules.ts";
import { presentStatement, statementJson } from "../../modules/billing/presentStatement.rules.ts";
import { readStatement } from "../../modules/billing/readStatement.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { queryError } from "../http/errorResponses.ts";
import { queryObject } from "../http/parseRequest.ts";
import type { StandaloneContext } from "../context.ts";
import { KEY_ERROR, PROCESSOR_ERROR } from "./standaloneErrors.ts";

const CURRENT = "current";

const PERIOD_MUST_BE = "must be a month in the form YYYY-MM, or current";

const statementQuery = queryObject({
  period: z
    .string({ error: PERIOD_MUST_BE })
    .regex(/^(?:[1-9]\d{3}-(?:0[1-9]|1[0-2])|current)$/u, PERIOD_MUST_BE)
    .default(CURRENT)
    .meta({
      description: "A calendar month, UTC, or `current`: the present billing period.",
      examples: ["2025-06"],
    }),
});

const EXAMPLE_SUMS = {
  registered: 40,
  refunded: 10,
  reported: 30,
  late: 0,
  failed: 0,
  closed: 0,
  documented: 0,
  pending: 0,
  differences: 0,
};

const EXAMPLE_PERIOD = { start: "2025-06-01T00:00:00.000Z", end: "2025-07-01T00:00:00.000Z" };

const EXAMPLE: z.output<typeof statementJson> = {
  mode: "live",
  subscription: { status: "active", paused: null, trial: null },
  statements: [
    {
      kind: "tree",
      period: EXAMPLE_PERIOD,
      ...EXAMPLE_SUMS,
      unit_price: { amount: "45", currency: "usd" },
      invoices: [
        {
          number: "A1B2C3-0007",
          period: EXAMPLE_PERIOD,
          invoiced: 30,
          reported: 30,
          problem: null,
        },
      ],
      days: [{ day: "2025-06-03", ...EXAMPLE_SUMS }],
    },
  ],
};

/** The statement of the key's organization: the same as `impact statement`, without the processor's own sums. */
export const statementEndpoint = ({ db, clock, billing }: StandaloneContext): Endpoint =>
  keyEndpoint({
    method: "get",
    path: "/statement",
    description: {
      operationId: "readStatement",
      tag: "usage",
      summary: "Read what was registered, reported and invoiced in a period",
      details:
        "Sums up the usage of the key's mode for trees and for bottles, by the day of the registration in UTC. The current " +
        "billing periods of trees and bottles can differ. Test mode is never invoiced.",
      errors: [queryError(`period: ${PERIOD_MUST_BE}`), KEY_ERROR, PROCESSOR_ERROR],
    },
    schemas: { query: statementQuery, response: statementJson },
    examples: { response: EXAMPLE },
    handle: async ({ caller, query: { period } }) => {
      const month = period === CURRENT ? null : monthlyCycle(1, new Date(`${period}-01T00:00:00Z`));
      const owner = accountModeOf(caller);
      const read = await readStatement({ db, clock, billing }, owner, month, null);
      const usage = read.statements.flatMap((statement) =>
        statement.paidFrom === "usage" ? [statement] : [],
      );
      return presentStatement(owner.mode, read.subscription, usage);
    },
  });
