import { once } from "node:events";
import { join } from "node:path";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { createSupervisor } from "../../embedded/supervisor.ts";
import { findTemporalCli } from "../../embedded/findTemporalCli.ts";
import { startTemporalServer } from "../../embedded/startTemporalServer.ts";
import { testWithDatabase } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { eventually } from "../support/programs.ts";
import { deployAtStripe } from "./deployAtStripe.ts";

const test = testWithDatabase();

test("registrations are accepted while Temporal is down and billed when it is back, and the worker still stops gracefully", async (t) => {
  const { control, startApi, startWorker, post, billed } = await deployAtStripe(t);
  const folder = await makeTestFolder(t);
  const port = await findFreePort();
  const supervisor = createSupervisor(folder, () => undefined);
  t.teardown(supervisor.stopAll);
  const startTemporal = async () =>
    startTemporalServer({
      cli: await findTemporalCli({
        setting: process.env["TEMPORAL_CLI"],
        context: supervisor.context,
      }),
      databaseFile: join(folder, "temporal.db"),
      namespace: "default",
      port,
      uiPort: null,
      logFile: join(folder, "temporal.log"),
      context: supervisor.context,
    });
  const settings = {
    TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
    TEMPORAL_NAMESPACE: "default",
    // Errors about Temporal are expected.
    LOG_LEVEL: "fatal",
  };

  const api = await startApi(settings);
  const { process: worker } = await startWorker(settings);
  const plant = async (count: number): Promise<void> => {
    t.is((await post(api, "/plant/trees", { count })).status, 200);
  };

  await plant(3);
  const readiness = await fetch(`${api.urls["standalone"]}/readyz`);
  t.is(readiness.status, 200);
  t.deepEqual(await readiness.json(), {
    status: "ok",
    database: "ok",
    clock: "ok",
    temporal: "unreachable",
  });

  const server = await startTemporal();
  await eventually(() => billed() === 3);

  await server.process.stop();
  await plant(4);
  await startTemporal();
  await eventually(() => billed() === 7);
  t.is(control.overlaps(), 0);

  worker.kill("SIGTERM");
  t.deepEqual(await once(worker, "exit"), [0, null]);
});
