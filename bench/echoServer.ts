import { unhurriedPace } from "../db/bulkWork/createBulkPace.ts";
import { newId } from "../services/newId.ts";
import { PAGE_SEARCH_MS } from "../api/http/lists/listPages.ts";
import { WRITE_TIMEOUT_MS } from "../api/http/lists/streamText.ts";
import { createApp } from "../api/http/createApp.ts";
import { authenticate } from "../api/middleware/authenticate.ts";
import { createApiMetrics } from "../api/metrics/createApiMetrics.ts";
import { registrationEndpoints } from "../api/standalone/registrations/registrationEndpoints.ts";
import { systemClock } from "../domain/clock.ts";
import { registrationOf } from "../domain/registrations/registrations.ts";
import { openCopies, openDatabase } from "../program/openDatabase.ts";
import { runProgram } from "../program/runProgram.ts";
import { createPlaces } from "../program/server/createPlaces.ts";
import { startServer } from "../program/server/startServer.ts";
import { createBilling } from "../providers/billing/createBilling.ts";
import { createAuthenticator } from "../services/accounts/createAuthenticator.ts";
import { createRetryGuard } from "../services/registrations/createRetryGuard.ts";
import type { RetryGuard } from "../services/registrations/createRetryGuard.ts";
import { createRegistrationWriter } from "../services/registrations/createRegistrationWriter.ts";
import type { RegistrationWriter } from "../services/registrations/createRegistrationWriter.ts";
import type { Context } from "../services/context.ts";

/*
 * The baseline of the registration benchmark: the API without writes to the database. Request ids, logging, metrics,
 * authentication, parsing, validation and responses are the API's own; the writer returns its input.
 */

const createEchoWriter = (context: Context): RegistrationWriter => {
  let total = 0;
  return {
    ...createRegistrationWriter(context),
    register: (entry) => {
      total += entry.count;
      return Promise.resolve({
        registration: registrationOf({ ...entry, id: newId() }, systemClock.now()),
        totals: { all: total, month: total },
        replayed: false,
      });
    },
    findOriginal: () => Promise.resolve(null),
  };
};

const ECHO_GUARD: RetryGuard = {
  ...createRetryGuard(),
  write: (_caller, { write }) => write(),
  findOriginal: (_caller, { findOriginal }) => findOriginal(),
};

await runProgram(
  "echo",
  async (config, logger) => {
    const db = await openDatabase(config);
    const copies = openCopies(config);
    const context = { db, clock: systemClock };
    const app = createApp({
      logger,
      observe: createApiMetrics().observeRequest,
      takePermit: () => Promise.resolve(true),
      keyHeaders: ["Authorization"],
      checkKey: authenticate(createAuthenticator({ db, accountType: "organization" })),
      presentError: (_code, message) => ({ error: message }),
      endpoints: registrationEndpoints({
        ...context,
        copies,
        billing: createBilling({ db, stripe: null }),
        writer: createEchoWriter(context),
        streaming: {
          pace: unhurriedPace,
          places: createPlaces(1),
          writeTimeoutMs: WRITE_TIMEOUT_MS,
          pageSearchMs: PAGE_SEARCH_MS,
        },
        guard: ECHO_GUARD,
        publicBaseUrl: () => "",
      }),
    });
    const server = await startServer(app.callback(), {
      host: config.HOST,
      port: config.PORT,
      setting: "PORT",
    });
    return {
      urls: { standalone: server.url },
      stop: async () => {
        await server.close(1000);
        await Promise.all([db.end(), copies.end()]);
      },
    };
  },
  5000,
);
