import { reconcileUsage } from "../../../services/billing/reconciliation/reconcileUsage.ts";
import { foldUsage } from "../../../services/billing/foldUsage.ts";
import { readStatement } from "../../../services/billing/readStatement.ts";
import { MAXIMUM_QUANTITY } from "../../../domain/billing/usage.ts";
import { testWithDatabase } from "../../support/database.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

const DAY = 86_400;
const MOST = Number.MAX_SAFE_INTEGER;
const REFUNDED = 5_000_000_000_000_001;
const never = new AbortController().signal;

test("the largest count is billed and refunded exactly, in events of at most 15 digits", async (t) => {
  const { register, refund, drain, billed, recorded, events, deps, double, stream, pass } =
    await setUpBilling(t);
  const second = double.control.now();
  const span = { start: second - (second % 60), end: second - (second % 60) + 60 };
  const id = await register(MOST);
  await drain();

  t.deepEqual(billed(), { [second]: MOST });
  const sent = await events();
  t.is(sent.length, 10);
  t.true(sent.every(({ quantity }) => quantity <= MAXIMUM_QUANTITY));

  t.is((await refund(id, REFUNDED)).totals.all, MOST - REFUNDED);
  await drain();
  t.deepEqual(billed(), { [second]: MOST - REFUNDED });
  t.deepEqual(await recorded(), { [second]: MOST - REFUNDED });
  t.true((await events()).every(({ quantity }) => Math.abs(quantity) <= MAXIMUM_QUANTITY));

  pass(3600);
  const compared = await reconcileUsage(deps, { accountId: stream.accountId, span }, never);
  t.like(compared.streams[0], {
    delivered: MOST - REFUNDED,
    processorQuantity: MOST - REFUNDED,
    pending: 0,
    failed: 0,
  });
  const { meters } = await readStatement(deps, stream, null, never);
  const [trees] = meters;
  t.like(trees?.days[0], {
    registered: BigInt(MOST),
    refunded: BigInt(REFUNDED),
    reported: BigInt(MOST - REFUNDED),
  });

  await refund(id);
  await drain();
  t.deepEqual(billed(), {});
  await register(MOST);
  await drain();
  t.is((await readAccountSums(deps.db, stream.accountId)).usage, BigInt(MOST));
  const all = {
    registered: 2n * BigInt(MOST),
    refunded: BigInt(MOST),
    reported: BigInt(MOST),
  };
  t.like((await readStatement(deps, stream, null, never)).meters[0]?.days[0], all);

  const [folded] = await foldUsage(
    { ...deps, clock: { now: () => new Date((second + 100 * DAY) * 1000) } },
    { before: new Date((second + 20 * DAY) * 1000), accountId: stream.accountId, isDryRun: false },
    () => undefined,
  );
  t.is(folded?.units, BigInt(MOST));
  t.like((await readStatement(deps, stream, null, never)).meters[0]?.days[0], all);
  t.like(
    (
      await reconcileUsage(
        deps,
        { span: { start: second - (second % DAY), end: second - (second % DAY) + DAY } },
        never,
      )
    ).streams[0],
    {
      delivered: MOST,
      processorQuantity: MOST,
    },
  );
});
