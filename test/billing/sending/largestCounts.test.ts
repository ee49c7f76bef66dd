import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { readStatement } from "../../../modules/billing/readStatement.ts";
import { MAXIMUM_QUANTITY, minuteOf } from "../../../modules/billing/usage.rules.ts";
import type { Span } from "../../../modules/billing/usage.rules.ts";
import { registrationsIn } from "../../api/contract.ts";
import { testWithDatabase } from "../../support/database.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { startBilledApi } from "../billedApi.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

const DAY = 86_400;
const MOST = Number.MAX_SAFE_INTEGER;
const REFUNDED = 5_000_000_000_000_001;
const never = new AbortController().signal;

test("the largest count is registered, listed, refunded in part and billed exactly, in events of at most 15 digits", async (t) => {
  const { refund, drain, billed, recorded, events, deps, double, stream, pass } =
    await setUpBilling(t);
  const { get, post } = await startBilledApi(t, { deps, stream, double });
  const register = async (count: number): Promise<string> => {
    const { body } = await post("/plant/trees", { count });
    t.like(body, { total_planted_trees: count, total_planted_trees_month: count });
    const [registration] = registrationsIn(body, "tree");
    t.is(registration?.["count"], count);
    return String(registration?.["id"]);
  };
  const second = double.control.now();
  const id = await register(MOST);
  const listed = await get("/plant/trees");
  t.is(listed.body["total_planted_trees"], MOST);
  t.is(registrationsIn(listed.body, "tree")[0]?.["count"], MOST);
  await drain();

  t.deepEqual(billed(), { [second]: MOST });
  t.is((await events()).length, 10);
  t.like(await readAccountSums(deps.db, stream.accountId), { facts: 10, usage: BigInt(MOST) });

  const refunded = await post("/refund/trees", { id, count: REFUNDED });
  t.like(refunded.body, { refunded_trees: REFUNDED, total_planted_trees: MOST - REFUNDED });
  await drain();
  t.deepEqual(billed(), { [second]: MOST - REFUNDED });
  t.deepEqual(await recorded(), { [second]: MOST - REFUNDED });
  t.true((await events()).every(({ quantity }) => Math.abs(quantity) <= MAXIMUM_QUANTITY));
  t.like((await get(`/usage/${id}`)).body, { count: MOST, refunded_count: REFUNDED });

  pass(3600);
  const compare = async (span: Span) => {
    const { accountId } = stream;
    const { streams } = await reconcileUsage(deps, { accountId, span }, never);
    return streams.find(({ kind }) => kind === "tree");
  };
  t.like(await compare(minuteOf(second)), {
    delivered: MOST - REFUNDED,
    processorQuantity: MOST - REFUNDED,
    differences: [],
  });
  await refund(id);
  await drain();
  t.deepEqual(billed(), {});

  // Refunded before it is sent.
  await refund(await register(MOST), REFUNDED);
  await drain();
  t.is((await readAccountSums(deps.db, stream.accountId)).usage, BigInt(MOST - REFUNDED));
  const { statements } = await readStatement(deps, stream, "current");
  t.like(statements[0]?.days[0], {
    registered: 2 * MOST,
    refunded: MOST + REFUNDED,
    reported: MOST - REFUNDED,
  });
  const day = second - (second % DAY);
  t.like(await compare({ start: day, end: day + DAY }), {
    delivered: MOST - REFUNDED,
    processorQuantity: MOST - REFUNDED,
  });
  t.deepEqual(billed(), await recorded());
});
