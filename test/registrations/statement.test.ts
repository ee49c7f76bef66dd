import type { ExecutionContext } from "ava";
import { z } from "zod";
import { refreshSubscription } from "../../modules/billing/processorEvents/readSubscription.ts";
import type { ApiResponse } from "../api/startStandaloneApi.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { startBilledApi } from "../billing/billedApi.ts";
import { setUpBilling } from "../billing/billingSetup.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";

const test = testWithDatabase();

const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const billing = await setUpBilling(t);
  const { deps, stream } = billing;
  const { get } = await startBilledApi(t, billing);
  await refreshSubscription(deps, stream.accountId, AbortSignal.timeout(10_000));
  return {
    ...billing,
    read: (query: string, mode?: Mode) => get(`/statement${query}`, mode),
  };
};

const statements = z.array(z.looseObject({ kind: z.string() }));

const treesOf = ({ body }: ApiResponse) =>
  statements.parse(body["statements"]).find(({ kind }) => kind === "tree");

test("the statement of the billing period sums up what was registered, refunded and reported", async (t) => {
  const { register, refund, drain, read } = await setUp(t);
  const id = await register(40);
  await drain();
  await refund(id, 10);
  await drain();
  await register(5);

  const response = await read("");
  t.is(response.status, 200);
  t.like(response.body, {
    mode: "live",
    subscription: { status: "active", paused: null, trial: null },
  });
  t.like(treesOf(response), {
    registered: 45,
    refunded: 10,
    reported: 30,
    pending: 5,
    failed: 0,
    unit_price: { amount: "45", currency: "usd" },
    days: [{ day: "2026-05-15", registered: 45 }],
    invoices: [],
  });
  t.deepEqual(await read("?period=current").then(({ body }) => body), response.body);
});

test("the statement of a test key has the usage of test mode, which no invoice has", async (t) => {
  const { register, read } = await setUp(t);
  await register(3);
  await register(7, "test");

  const response = await read("", "test");
  t.like(response.body, { mode: "test", subscription: null });
  t.like(treesOf(response), { registered: 7, pending: 7, unit_price: null, invoices: [] });
});

test("a period that is neither a month nor current is refused", async (t) => {
  const { read } = await setUp(t);
  for (const period of ["2026-13", "2026-5", "may", "2026-05-01", "0000-01"]) {
    const { status, body } = await read(`?period=${period}`);
    t.is(status, 400, period);
    t.deepEqual(body, { error: "period: must be a month in the form YYYY-MM, or current" });
  }
  t.is((await read("?period=")).status, 200, "empty is absent");
});
