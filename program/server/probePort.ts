import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Binds a port and releases it.
 * @returns the port, which 0 leaves to the system
 */
export const probePort = async (host: string, port: number): Promise<number> => {
  const server = createServer();
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") {
    throw new TypeError("A TCP server has an address with a port.");
  }
  return address.port;
};

/** Returns a port of the loopback interface that is currently free. */
export const findFreePort = (): Promise<number> => probePort("127.0.0.1", 0);
