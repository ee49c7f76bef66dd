import { ProcessorUnavailableError } from "../../../providers/billing/processor.ts";
import { sweepSubscriptions } from "../../../services/billing/processorEvents/sweepSubscriptions.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { setUpBilling } from "../billingSetup.ts";

// Serial, because a sweep reads every subscription of the file's database.
const test = testWithDatabase();

test.serial(
  "a sweep ends after three calls without an answer, and the next one continues",
  async (t) => {
    const { deps, double, subscriptionId, pass } = await setUpBilling(t);
    const { control } = double;
    const subscriptionIds = [subscriptionId];
    for (let more = 0; more < 4; more += 1) {
      const subscriber = control.addSubscriber({});
      subscriptionIds.push(subscriber.subscriptionId);
      await createTestOrganization(deps.db, {
        stripeCustomerId: subscriber.customerId,
        stripeSubscriptionId: subscriber.subscriptionId,
      });
    }
    pass(1);
    for (const id of subscriptionIds) {
      control.addFault({ kind: "drop", method: "GET", path: `/v1/subscriptions/${id}` });
    }
    const failed: string[] = [];
    const sweep = () =>
      sweepSubscriptions(deps, deps.clock.now(), {
        signal: new AbortController().signal,
        onFailure: (id) => failed.push(id),
        intervalMs: 0,
      });

    await t.throwsAsync(sweep(), { instanceOf: ProcessorUnavailableError });

    t.is(failed.length, 3);
    control.clearFaults();
    t.deepEqual(await sweep(), { read: 5, failed: 0 });
  },
);
