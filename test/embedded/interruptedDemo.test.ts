import { resolve } from "node:path";
import { parseConfig } from "../../runtime/config/config.ts";
import { createDemoPlanting } from "../../embedded/demo/createDemoPlanting.ts";
import { findDemoData } from "../../embedded/demo/demoData.ts";
import { fillDemo } from "../../embedded/demo/fillDemo.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

test("a demo whose filling was interrupted is reported with what to delete", async (t) => {
  const { db, databaseUrl } = t.context;
  const embedded = parseConfig({ DATA_DIR: "demo-data" });
  t.is(await findDemoData(embedded, databaseUrl), null);
  const interrupted = new Error("interrupted");
  const planting = {
    ...createDemoPlanting(),
    partnerFor: () => {
      throw interrupted;
    },
  };
  t.is(
    await t.throwsAsync(fillDemo({ db, planting, now: new Date("2026-06-05T10:00:00Z") })),
    interrupted,
  );

  const error = await t.throwsAsync(findDemoData(embedded, databaseUrl), {
    instanceOf: StartupError,
    message: /incomplete, because that start was interrupted/u,
  });
  t.true(error.message.includes(`delete the folder ${resolve("demo-data")}`));
  await t.throwsAsync(findDemoData(parseConfig({ DATABASE_URL: databaseUrl }), databaseUrl), {
    message: /set DATABASE_URL to a new database/u,
  });
});
