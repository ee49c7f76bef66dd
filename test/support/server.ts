import { once } from "node:events";
import type { AddressInfo, Server } from "node:net";
import type { ExecutionContext } from "ava";
import type { App } from "../../api/http/createApp.ts";
import type { Listener } from "../../runtime/server/openDoor.ts";
import { startServer } from "../../runtime/server/startServer.ts";

/** Serves requests as the programs do, on a free port until the test ends. Returns the base URL. */
export const serveRequests = async (t: ExecutionContext, listener: Listener): Promise<string> => {
  const { url, close } = await startServer(listener, {
    host: "127.0.0.1",
    port: 0,
    setting: "PORT",
  });
  t.teardown(() => close(1000));
  return url;
};

/** Serves an app like that. */
export const serve = (t: ExecutionContext, app: App): Promise<string> =>
  serveRequests(t, app.callback());

/** Makes a server listen on a free port of the loopback interface until the test ends, and returns the port. */
export const listen = async (t: ExecutionContext, server: Server): Promise<number> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => {
    if ("closeAllConnections" in server && typeof server.closeAllConnections === "function") {
      server.closeAllConnections();
    }
    server.close();
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  return (server.address() as AddressInfo).port;
};
