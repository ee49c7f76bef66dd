import { once } from "node:events";
import { createServer } from "node:net";
import { StartupError } from "../program/startupError.ts";
import { readFault } from "./readFault.ts";

/**
 * Listens for a moment.
 * @returns the port, which is free again
 */
const probePort = async (host: string, port: number): Promise<number> => {
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

/**
 * Makes sure that a port can be listened on. 0 stands for any free port and always can.
 * @throws StartupError that names the setting to change
 */
export const requireFreePort = async (
  host: string,
  port: number,
  setting: string,
  purpose: string,
): Promise<void> => {
  try {
    await probePort(host, port);
  } catch (error) {
    const { code, message } = readFault(error);
    if (code === "EADDRINUSE") {
      throw new StartupError(
        `Port ${port} on ${host} is in use, and the ${purpose} needs it. ` +
          `Stop the program that uses it, or set ${setting} to another port (0 takes any free one).`,
        { cause: error },
      );
    }
    throw new StartupError(`The ${purpose} cannot listen on ${host} port ${port}: ${message}.`, {
      cause: error,
    });
  }
};
