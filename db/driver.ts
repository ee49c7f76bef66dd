import { createPgDriverFactory } from "@slonik/pg-driver";
import { BackendTerminatedError } from "slonik";
import type { DriverClient, DriverFactory } from "slonik";

const withResponseTimeout = (client: DriverClient, responseTimeoutMs: number): DriverClient => {
  let lost: BackendTerminatedError | null = null;
  return {
    ...client,
    query: async (text, values, options) => {
      // The ROLLBACK of a transaction would only wait for another timeout.
      if (lost) {
        throw lost;
      }
      const timeout = Promise.withResolvers<never>();
      const timer = setTimeout(() => {
        lost = new BackendTerminatedError(
          new Error(`The database has not responded for ${responseTimeoutMs} ms.`),
        );
        timeout.reject(lost);
        // The response to the abandoned statement may still arrive, so the connection must not be reused.
        client.destroy().catch(() => undefined);
      }, responseTimeoutMs);
      try {
        return await Promise.race([client.query(text, values, options), timeout.promise]);
      } finally {
        clearTimeout(timer);
      }
    },
  };
};

/**
 * Creates the driver of our pools, which limits how long each statement may take on this side. A server that vanishes
 * without closing its connections (its machine fails, a firewall drops the packets) takes its `statement_timeout` with
 * it, and TCP does not notify a client that only waits.
 * @param responseTimeoutMs must be longer than any statement may take; after it the connection is destroyed
 */
export const createDriver =
  (responseTimeoutMs: number): DriverFactory =>
  async (settings) => {
    const driver = await createPgDriverFactory()(settings);
    return {
      createClient: async () => withResponseTimeout(await driver.createClient(), responseTimeoutMs),
    };
  };
