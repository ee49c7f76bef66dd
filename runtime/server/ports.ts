import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { Server } from "node:net";
import { StartupError, errorDetails } from "../errors.rules.ts";

const listen = async (server: Server, host: string, port: number): Promise<number> => {
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") {
    throw new TypeError("A TCP server has an address with a port.");
  }
  return address.port;
};

/**
 * Returns a free port of the loopback interface. The server side of a connection to it is closed first. So on Linux the
 * system gives the port to no other socket that asks for any port for a minute, and a server can listen on it at once.
 */
export const findFreePort = async (): Promise<number> => {
  const host = "127.0.0.1";
  await using server = createServer((socket) => socket.end());
  const port = await listen(server, host, 0);
  await once(connect(port, host).resume(), "close");
  return port;
};

/**
 * Returns a port that can be bound.
 * @param port 0 for any free port
 * @throws StartupError with the setting to change
 */
export const choosePort = async (host: string, port: number, setting: string): Promise<number> => {
  if (port === 0) {
    return findFreePort();
  }
  try {
    await using server = createServer();
    return await listen(server, host, port);
  } catch (error) {
    const { code, message } = errorDetails(error);
    const problem = code === "EADDRINUSE" ? "is in use" : `cannot be used (${message})`;
    throw new StartupError(
      `${host}:${port} ${problem}. Set ${setting} to a free port (0 for any).`,
      { cause: error },
    );
  }
};
