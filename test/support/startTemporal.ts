import { join } from "node:path";
import { findTemporalCli } from "../../embedded/findTemporalCli.ts";
import { startTemporalServer } from "../../embedded/startTemporalServer.ts";
import type { StartContext } from "../../embedded/supervisor.ts";

/** Starts a Temporal server with the namespace `default`, whose log, and by default its database, are in a folder. */
export const startTemporal = async (
  folder: string,
  context: StartContext,
  {
    databaseFile = join(folder, "temporal.db"),
    port = 0,
  }: { readonly databaseFile?: string | null; readonly port?: number } = {},
) =>
  startTemporalServer({
    cli: await findTemporalCli({ setting: process.env["TEMPORAL_CLI"], context }),
    databaseFile,
    namespace: "default",
    port,
    uiPort: null,
    logFile: join(folder, "temporal.log"),
    context,
  });
