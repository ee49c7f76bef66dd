import { openCopyPool } from "../../../db/copyPool.ts";
import { sql } from "../../../db/sql.ts";
import { watchWrites } from "../../../services/registrations/watchWrites.ts";
import { testWithDatabase } from "../../support/database.ts";

const test = testWithDatabase();

test("a page of a list is followed by a rest while registrations are written, and only then", async (t) => {
  let nowMs = 0;
  const writes = watchWrites(() => nowMs);
  const restsMs: number[] = [];
  const copies = openCopyPool(t.context.databaseUrl, 60_000, {
    mustRest: writes.isWriting,
    rest: (durationMs) => {
      restsMs.push(durationMs);
      return Promise.resolve();
    },
  });
  t.teardown(copies.end);
  const copy = () => copies.copy("owner", sql.fragment`SELECT 'page' FROM pg_sleep(0.2)`);

  t.is(Buffer.concat(await copy()).toString(), "page");
  t.deepEqual(restsMs, []);

  writes.observeBatch(1, 0.001);
  t.is(Buffer.concat(await copy()).toString(), "page");
  // As long as the page took, but not longer than a short while.
  t.deepEqual(restsMs, [50]);

  nowMs += 1000;
  await copy();
  t.is(restsMs.length, 1);
});
