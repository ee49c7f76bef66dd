import type { ExecutionContext } from "ava";
import type Koa from "koa";
import type { ApiState } from "../../api/http/apiContext.ts";
import { startServer } from "../../program/startServer.ts";

/** Serves the app as the program does, on a free port until the test ends. Returns its base URL. */
export const serve = async (t: ExecutionContext, app: Koa<ApiState>): Promise<string> => {
  const { url, close } = await startServer(app.callback(), {
    host: "127.0.0.1",
    port: 0,
    setting: "PORT",
  });
  t.teardown(() => close(1000));
  return url;
};
