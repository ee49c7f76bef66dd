import { PASSING_FAULTS } from "../../stripeDouble/faults.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createRandom } from "../../support/random.ts";
import { sealAll, setUpSending } from "./sendingSetup.ts";

const test = testWithDatabase();

const keepsInvariant = test.macro({
  exec: async (t, seed: number) => {
    const { organizations, deps, pass, reportOnce, reportAll, double } = await setUpSending(t, 5);
    const { next, below } = createRandom(seed);
    const registered: { id: string; refund: (id: string) => Promise<unknown> }[] = [];
    for (let step = 0; step < 40; step += 1) {
      const organization = organizations[below(organizations.length)];
      const choice = next();
      if (choice < 0.45 && organization) {
        const id = await organization.register(1 + below(20));
        registered.push({ id, refund: organization.refund });
      } else if (choice < 0.55) {
        const [refunded] = registered.splice(below(Math.max(1, registered.length)), 1);
        await refunded?.refund(refunded.id);
      } else if (choice < 0.7) {
        const fault = PASSING_FAULTS[below(PASSING_FAULTS.length)];
        double.control.addFault({ kind: "drop", ...fault, times: 2 });
      } else if (choice < 0.8) {
        // A worker is killed after it has begun some attempts.
        await sealAll({ deps, organizations: organizations.slice(0, 2) });
      } else {
        pass(below(8));
        await reportOnce();
      }
    }
    double.control.clearFaults();
    await reportAll();

    for (const { stream, units } of organizations) {
      const sums = await readAccountSums(deps.db, stream.accountId);
      t.is(BigInt(units()), sums.usage);
      t.is(sums.usage, sums.registered - sums.refunded);
    }
    const identifiers = double.control.events().map(({ identifier }) => identifier);
    t.is(new Set(identifiers).size, identifiers.length);
    t.is(double.control.overlaps(), 0);
    t.deepEqual(double.control.problems(), []);
  },
  title: (_, seed) =>
    `after random failures, kills and shared reporting, Stripe has what was registered (seed ${String(seed)})`,
});

// Serial, because a sender serves everything that waits in the database of the file.
for (const seed of [1, 2, 3, 5, 8]) {
  test.serial(keepsInvariant, seed);
}
