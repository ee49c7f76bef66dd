import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import test from "ava";
import { createSupervisor } from "../../embedded/createSupervisor.ts";
import { findTemporalCli } from "../../embedded/temporal/findTemporalCli.ts";
import { startTemporalServer } from "../../embedded/temporal/startTemporalServer.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";

test("the server's state is in its folder, whatever characters the folder's path has", async (t) => {
  const root = await makeTestFolder(t);
  const folder = join(root, "100% of a?b#c");
  await mkdir(folder);
  const { context, stopAll } = createSupervisor(root, t.log);
  t.teardown(stopAll);
  await startTemporalServer({
    cli: await findTemporalCli({ setting: process.env["TEMPORAL_CLI"], context }),
    databaseFile: join(folder, "temporal.db"),
    namespace: "default",
    port: 0,
    uiPort: null,
    logFile: join(folder, "temporal.log"),
    context,
  });
  t.true((await readdir(folder)).includes("temporal.db"));
});
