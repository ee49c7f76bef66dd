import { unhurriedPace } from "../db/createBulkPace.ts";
import { newId } from "../runtime/newId.ts";
import { PAGE_SEARCH_MS } from "../api/http/listPages.ts";
import { WRITE_TIMEOUT_MS } from "../api/http/streamText.ts";
import { createApp } from "../api/http/createApp.ts";
import { authenticate } from "../api/http/authenticate.ts";
import { createApiMetrics } from "../api/http/createApiMetrics.ts";
import { registrationEndpoints } from "../api/standalone/registrationEndpoints.ts";
import { systemClock } from "../runtime/clock.ts";
import { registrationOf } from "../modules/registrations/registrations.rules.ts";
import { openCopies, openDatabase } from "../db/openDatabase.ts";
import { runProgram } from "../runtime/runProgram.ts";
import { createPlaces } from "../api/http/requestTurns.ts";
import { startServer } from "../runtime/server/startServer.ts";
import { createBilling } from "../modules/billing/createBilling.ts";
import { createAuthenticator } from "../modules/accounts/createAuthenticator.ts";
import { createRetryGuard } from "../modules/registrations/createRetryGuard.ts";
import type { RetryGuard } from "../modules/registrations/createRetryGuard.ts";
import { createRegistrationWriter } from "../modules/registrations/createRegistrationWriter.ts";
import type { RegistrationWriter } from "../modules/registrations/createRegistrationWriter.ts";
import type { Context } from "../runtime/context.ts";

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
