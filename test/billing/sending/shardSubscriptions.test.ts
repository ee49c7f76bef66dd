import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listWatchedSubscriptions } from "../../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { listWaitingStreams } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { SUBSCRIPTION_POLICIES } from "../../../modules/accounts/accounts.rules.ts";
import { ownerKey } from "../../../modules/records/owner.rules.ts";
import { sweepSubscriptions } from "../../../modules/billing/processorEvents/refreshSubscriptions.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpShards } from "./shardSetup.ts";
import type { ShardSetup } from "./shardSetup.ts";

// Serial, because a shard's sender serves everything that waits in the database of the file.
const test = testWithDatabase();

const sweep = ({ deps }: ShardSetup) =>
  sweepSubscriptions(deps, deps.clock.now(), {
    signal: new AbortController().signal,
    onFailure: (_, error) => {
      throw error;
    },
    intervalMs: 0,
  });

test.serial(
  "the usage and the refunds of canceled subscriptions are reported in their shard under every policy, and delay no other",
  async (t) => {
    const setup = await setUpShards(t, SUBSCRIPTION_POLICIES.length + 1);
    const { organizations, deps, pass, reportOnce, double, sends } = setup;
    const canceled = organizations.slice(1);
    const refundable = [];
    for (const [index, { stream, register, refund }] of canceled.entries()) {
      const subscriptionPolicy = SUBSCRIPTION_POLICIES[index] ?? "alert";
      await updateAccount(deps.db, stream.accountId, { subscriptionPolicy });
      const id = await register(10);
      refundable.push(() => refund(id));
    }
    pass(5);
    await reportOnce();
    // Stripe invoices the usage of a subscription that has ended, so it is refunded before.
    await refundable[0]?.();
    for (const { subscriptionId } of canceled) {
      double.control.changeSubscription({ subscriptionId, status: "canceled" });
    }
    await sweep(setup);
    const watched = await listWatchedSubscriptions(deps.db, null);
    t.deepEqual(
      canceled.map(
        ({ stream }) => watched.find(({ accountId }) => accountId === stream.accountId)?.status,
      ),
      ["canceled", "canceled", "canceled"],
    );

    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(5);
    const before = sends();
    await reportOnce();

    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [2, 2, 12, 12],
    );
    t.is(sends() - before, 5);
    t.deepEqual(await listWaitingStreams(deps.db), []);
  },
);

test.serial(
  "if Stripe rejects only one customer's calls as too many, only its stream waits",
  async (t) => {
    const { organizations, pass, reportOnce, double, results } = await setUpShards(t, 4);
    const [limited, ...others] = organizations;
    if (!limited) {
      throw new Error("There is no organization.");
    }
    double.control.addFault({ kind: "rate_limit", mentioning: limited.customerId, times: 5 });
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(5);
    for (let attempt = 0; attempt < 5; attempt += 1) {
      await reportOnce();
      pass(60);
    }
    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [0, 2, 2, 2],
    );
    t.is(results.filter(({ key }) => others.some((o) => ownerKey(o.stream) === key)).length, 3);

    await reportOnce();

    t.is(limited.billed(), 2);
  },
);
