import { startTemporalServer } from "../../embedded/startTemporalServer.ts";
import type { StartContext } from "../../embedded/supervisor.ts";

/** Starts a Temporal server with the namespace `default`, whose log, and by default its database, are in a folder. */
export const startTemporal = (
  folder: string,
  context: StartContext,
  { isInMemory = false, port = 0 }: { readonly isInMemory?: boolean; readonly port?: number } = {},
) =>
  startTemporalServer({
    setting: process.env["TEMPORAL_CLI"],
    folder,
    isInMemory,
    namespace: "default",
    port,
    uiPort: null,
    context,
  });
