import { listWaitingStreams } from "../../modules/billing/sending/waitingStreams.sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../support/database.ts";
import { registrationOf } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { deployAtStripe } from "./deployAtStripe.ts";

const test = testWithDatabase();

test("the usage of many organizations is billed once if one of two workers is killed while it sends", async (t) => {
  const { db } = t.context;
  const { control, startWorker, subscribers } = await deployAtStripe(t, { organizations: 24 });
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const register = async (count: number): Promise<void> => {
    await Promise.all(subscribers.map(({ id }) => writer.register(registrationOf(id, { count }))));
  };
  const billed = (customerId: string): readonly number[] =>
    control
      .events()
      .filter((event) => event.customerId === customerId)
      .map(({ value }) => value);
  const first = await startWorker();
  // Calls hang until the worker is dead: half of them before Stripe has recorded the usage, and half after.
  control.addFault({ kind: "hang", applied: true, times: 12 });
  control.addFault({ kind: "hang", times: 1_000_000 });
  await register(5);
  await eventually(() => control.held() === subscribers.length);

  await startWorker();
  await first.kill();
  control.clearFaults();
  await register(7);

  await eventually(async () => (await listWaitingStreams(db)).length === 0);
  for (const { customerId } of subscribers) {
    t.deepEqual(billed(customerId), [5, 7]);
  }
  t.is(control.overlaps(), 0);
});
