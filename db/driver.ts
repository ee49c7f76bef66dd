import { createPgDriverFactory } from "@slonik/pg-driver";
import { BackendTerminatedError } from "slonik";
import type { DriverClient, DriverFactory } from "slonik";

const withAnswerTimeout = (client: DriverClient, answerTimeoutMs: number): DriverClient => {
  let lost: BackendTerminatedError | null = null;
  return {
    ...client,
    query: async (text, values, options) => {
      // What a transaction would still do to end in order is in vain as well.
      if (lost) {
        throw lost;
      }
      const silence = Promise.withResolvers<never>();
      const timer = setTimeout(() => {
        lost = new BackendTerminatedError(
          new Error(`The database has not answered for ${answerTimeoutMs} ms.`),
        );
        silence.reject(lost);
        // A statement that was given up may still be answered, so nobody else may get this connection.
        client.destroy().catch(() => undefined);
      }, answerTimeoutMs);
      try {
        return await Promise.race([client.query(text, values, options), silence.promise]);
      } finally {
        clearTimeout(timer);
      }
    },
  };
};

/**
 * The driver of our pools. A server that vanishes without closing its connections, as with its machine or behind a
 * firewall, takes its `statement_timeout` with it, and TCP tells nobody who merely waits: so each statement has a time
 * on this side too, after which its connection is thrown away.
 * @param answerTimeoutMs longer than any statement may take
 */
export const createDriver =
  (answerTimeoutMs: number): DriverFactory =>
  async (settings) => {
    const driver = await createPgDriverFactory()(settings);
    return {
      createClient: async () => withAnswerTimeout(await driver.createClient(), answerTimeoutMs),
    };
  };
