import { DefaultLogger, Runtime } from "@temporalio/worker";

/**
 * Prepares Temporal's SDK for a test process. Call it before any other use of the SDK. By default the SDK catches SIGTERM, by
 * which ava ends a test file that hangs; the process and the whole run would then never end.
 */
export const installTemporalRuntime = (): void => {
  Runtime.install({ logger: new DefaultLogger("ERROR"), shutdownSignals: [] });
};
