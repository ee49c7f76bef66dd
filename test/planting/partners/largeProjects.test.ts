import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { testWithDatabase } from "../../support/database.ts";
import { planting, startTreeMapperPlanting } from "./startTreeMapperPlanting.ts";

const test = testWithDatabase();

const onePlanted = (_: unknown, index: number) => planting(`record-${index}`, "2026-07-05", [1]);

test.serial("other work gets its turn after every 500 records that are read", async (t) => {
  const { state, setup, partner, order } = await startTreeMapperPlanting(t);
  await order(1);
  state.interventions = Array.from({ length: 5000 }, onePlanted);
  let turns = 0;
  let counter = setImmediate(function count() {
    turns += 1;
    counter = setImmediate(count);
  });
  // A response has arrived completely.
  const startCounting = (): void => {
    turns = 0;
  };
  subscribe("undici:request:trailers", startCounting);
  t.teardown(() => {
    clearImmediate(counter);
    unsubscribe("undici:request:trailers", startCounting);
  });
  const turnsOfReading: number[] = [];
  for (const placed of await setup.orders()) {
    await partner.fetchUpdates(
      { ...placed, reached: [] },
      {
        now: new Date("2026-07-10T10:00:00.000Z"),
        signal: new AbortController().signal,
        claims: {
          listOwn: () => Promise.resolve([]),
          claimTrees: () => Promise.resolve([]),
          listCredited: () => {
            turnsOfReading.push(turns);
            return Promise.resolve([]);
          },
        },
      },
    );
  }
  // The records are parsed, and then located.
  t.true((turnsOfReading[0] ?? 0) >= 2 * 9, turnsOfReading.join(", "));
});
