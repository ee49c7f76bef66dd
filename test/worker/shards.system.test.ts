import { listWaitingStreams } from "../../db/billing/sending/waitingStreams.ts";
import { systemClock } from "../../domain/clock.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test("the usage of many organizations is billed once if one of two workers is killed while it reports their shards", async (t) => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { control } = double;
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const organizations = await Promise.all(
    Array.from({ length: 24 }, async () => {
      const { customerId, subscriptionId } = control.addSubscriber({});
      const { id } = await createTestOrganization(db, {
        stripeCustomerId: customerId,
        stripeSubscriptionId: subscriptionId,
      });
      return { id, customerId };
    }),
  );
  const register = async (count: number): Promise<void> => {
    await Promise.all(
      organizations.map(({ id }) => writer.register(registrationOf(id, { count }))),
    );
  };
  const billed = (customerId: string): readonly number[] =>
    control
      .events()
      .filter((event) => event.customerId === customerId)
      .map(({ value }) => value);
  const { namespace } = await openNamespace(t);
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_NAMESPACE: namespace,
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  };
  const first = await startProgram(t, "worker/main.ts", settings);
  // Calls hang until the worker is dead: half of them before Stripe has recorded the usage, and half after.
  control.addFault({ kind: "hang", applied: true, times: 12 });
  control.addFault({ kind: "hang", times: 1_000_000 });
  await register(5);
  await eventually(() => control.held() === organizations.length);

  await startProgram(t, "worker/main.ts", settings);
  await first.kill();
  control.clearFaults();
  await register(7);

  await eventually(async () => (await listWaitingStreams(db)).length === 0);
  for (const { customerId } of organizations) {
    t.deepEqual(billed(customerId), [5, 7]);
  }
  t.is(control.overlaps(), 0);
});
