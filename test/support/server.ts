import type { ExecutionContext } from "ava";
import type { App } from "../../api/http/createApp.ts";
import { startServer } from "../../runtime/server/startServer.ts";

/** Serves the app as the program does, on a free port until the test ends. Returns its base URL. */
export const serve = async (t: ExecutionContext, app: App): Promise<string> => {
  const { url, close } = await startServer(app.callback(), {
    host: "127.0.0.1",
    port: 0,
    setting: "PORT",
  });
  t.teardown(() => close(1000));
  return url;
};
