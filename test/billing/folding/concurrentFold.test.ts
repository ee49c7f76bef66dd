import { sumLedgerUsage } from "../../../db/billing/ledgerUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import { listFolded, setUpFolding, START } from "./foldSetup.ts";

const test = testWithDatabase();

test("while usage is registered, refunded, reported and reconciled, folding it loses and doubles nothing", async (t) => {
  const scene = await setUpFolding(t);
  const ids: string[] = [];
  const expected = { units: 0 };
  for (let second = 0; second < 12; second += 1) {
    for (let each = 0; each < 4; each += 1) {
      ids.push(await scene.register(10));
      expected.units += 10;
    }
    scene.pass(1);
  }
  await scene.drain();
  const errors: unknown[] = [];
  const attempt = async (run: () => Promise<unknown>): Promise<void> => {
    await run().catch((error: unknown) => errors.push(error));
  };
  const running = { on: true };
  const folding = (async () => {
    while (running.on) {
      await attempt(() => scene.fold());
    }
  })();
  const reading = (async () => {
    while (running.on) {
      await attempt(() => scene.read());
    }
  })();
  for (let round = 0; round < 3; round += 1) {
    await Promise.all([
      ...ids.map((id) => attempt(() => scene.refund(id, 1))),
      attempt(() => scene.drain()),
    ]);
    expected.units -= ids.length;
  }
  await scene.drain();
  running.on = false;
  await Promise.all([folding, reading]);
  t.deepEqual(errors, []);
  const stream = { accountId: scene.accountId, mode: "live", meter: "tree" } as const;
  t.is(await sumLedgerUsage(scene.db, stream, { start: 0, end: START * 2 }), expected.units);
  const before = await scene.read();
  await scene.fold();
  t.deepEqual(await scene.counts(), { facts: 0, events: 0 });
  t.deepEqual(await scene.read(), before);
  const [row] = await listFolded(scene);
  t.is((row?.registered ?? 0) - (row?.refunded ?? 0), expected.units);
});
