import { once } from "node:events";
import type Koa from "koa";
import { reportReady } from "../../runtime/readyMessage.ts";

/** Serves an app as a program of a benchmark: reports its URL to the parent, and ends with it. */
export const serveApp = async (app: Koa): Promise<void> => {
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  reportReady({ standalone: `http://127.0.0.1:${port}` });
  process.once("disconnect", () => process.exit());
};
