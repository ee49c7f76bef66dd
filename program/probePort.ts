import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Listens for a moment.
 * @returns the port, which is free again
 */
export const probePort = async (host: string, port: number): Promise<number> => {
  const server = createServer();
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") {
    throw new TypeError("A TCP server has an address with a port");
  }
  return address.port;
};

/** A port of the loopback address that nobody uses now. */
export const findFreePort = (): Promise<number> => probePort("127.0.0.1", 0);
