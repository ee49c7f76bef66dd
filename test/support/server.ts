import { once } from "node:events";
import type { AddressInfo, Server, Socket } from "node:net";
import type { ExecutionContext } from "ava";
import type { App } from "../../api/http/createApp.ts";
import type { Listener } from "../../runtime/server/openDoor.ts";
import { startServer } from "../../runtime/server/startServer.ts";
import type { ServerOptions } from "../../runtime/server/startServer.ts";

/** Serves requests as the programs do, on a free port until the test ends. Returns the base URL. */
export const serveRequests = async (
  t: ExecutionContext,
  listener: Listener,
  options: Partial<ServerOptions> = {},
): Promise<string> => {
  const { url, close } = await startServer(listener, {
    host: "127.0.0.1",
    port: 0,
    setting: "PORT",
    ...options,
  });
  t.teardown(() => close(1000));
  return url;
};

/** Serves an app like that. */
export const serve = (t: ExecutionContext, app: App): Promise<string> =>
  serveRequests(t, app.callback());

/** Makes a server listen until the test ends, by default on a free port of the loopback interface. Returns the port. */
export const listen = async (
  t: Pick<ExecutionContext, "teardown">,
  server: Server,
  port = 0,
  host = "127.0.0.1",
): Promise<number> => {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.listen(port, host);
  await once(server, "listening");
  t.teardown(() => {
    server.close();
    // Those of tunnels, too, which would keep the process running.
    sockets.forEach((socket) => socket.destroy());
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  return (server.address() as AddressInfo).port;
};
