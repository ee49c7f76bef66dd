import { testWithDatabase } from "../../support/database.ts";
import { createRandom } from "../../support/random.ts";
import { createOperations } from "./operations.ts";
import type { Operation } from "./operations.ts";
import { createSavedDatabase } from "../../support/savedDatabase.ts";
import type { DatabaseContent, SavedDatabase } from "../../support/savedDatabase.ts";
import { createWorld } from "./world.ts";

const test = testWithDatabase().serial;

/** What an operator closes in a history that is lost, they close again afterwards, so it is not drawn there. */
const LOST: readonly Operation[] = [
  "register",
  "register",
  "refund",
  "send",
  "send",
  "sendInTrouble",
  "killSender",
  "refuseAccepted",
  "useIdentifier",
  "changeCustomer",
  "swapCustomers",
  "retrySome",
  "holdOrResume",
  "leaveLedger",
];

const HAPPENING: readonly Operation[] = [
  ...LOST,
  "register",
  "sendInTrouble",
  "retryAll",
  "closeSome",
  "closeMany",
  "decideSome",
  "changeSubscription",
];

/*
 * CONVERGENCE_SEEDS=17 or 100-200 runs other seeds, and CONVERGENCE_STEPS more steps in each. Those that fail print what has
 * happened.
 */
const readSeeds = (): readonly number[] => {
  const [first = 1, last = first] = (process.env["CONVERGENCE_SEEDS"] ?? "1-10")
    .split("-")
    .map(Number);
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
};

const STEPS = Number(process.env["CONVERGENCE_STEPS"] ?? "30");

let database: SavedDatabase;
let empty: DatabaseContent;
let operations = 0;
let histories = 0;

test.before(async (t) => {
  database = createSavedDatabase(t.context);
  empty = await database.save();
});

test.after.always(() => {
  console.log(`${operations} operations in ${histories} histories`);
});

for (const seed of readSeeds()) {
  // One after the other, because they share the database and set the clock of the process.
  test(`after random faults, restores and repairs, each minute is billed once (seed ${seed})`, async (t) => {
    const random = createRandom(seed);
    // The first numbers of small seeds are small.
    random.next();
    random.next();
    await database.restore(empty);
    const world = await createWorld(t, database, { startsOnLedger: random.below(4) === 0 });
    const { run, restore, finish } = createOperations(world, random);
    try {
      const restores = random.below(3);
      for (let part = restores; part >= 0; part -= 1) {
        await run(HAPPENING, Math.ceil(STEPS / (restores + 1)));
        if (part > 0) {
          await restore(LOST);
        }
      }
      operations += world.log.length;
      histories += 1;
      await finish();
      t.deepEqual(await world.compareWithTruth(), {}, "billed and recorded");
      t.deepEqual(await world.compareWithStripe(), {}, "ours and theirs");
      t.deepEqual(world.control.problems(), []);
      t.is(world.control.overlaps(), 0);
    } catch (error) {
      t.log(`CONVERGENCE_SEEDS=${seed}\n${world.log.join("\n")}\n${String(error)}`);
      throw error;
    }
  });
}
