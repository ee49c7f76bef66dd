import { openApiContext } from "../../api/context.ts";
import { createStandaloneApp } from "../../api/standalone/createStandaloneApp.ts";
import { registrationOf } from "../../modules/registrations/registrations.rules.ts";
import { newId } from "../../runtime/newId.ts";
import { runProgram } from "../../runtime/runProgram.ts";
import { startServer } from "../../runtime/server/startServer.ts";

/*
 * The baseline of the API's writes: the API itself, with a writer that returns its input instead of storing it.
 */

let total = 0;

await runProgram(
  "echo",
  async (config, logger) => {
    const context = await openApiContext(config, logger, undefined);
    const app = createStandaloneApp({
      ...context,
      writer: {
        ...context.writer,
        register: (entry) => {
          total += entry.count;
          return Promise.resolve({
            registration: registrationOf({ ...entry, id: newId() }, context.clock.now()),
            totals: { all: total, month: total },
            replayed: false,
          });
        },
      },
      guard: {
        ...context.guard,
        writeBatch: (_caller, _keys, write) => write(() => Promise.resolve()),
      },
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
        await context.end();
      },
    };
  },
  5000,
);
