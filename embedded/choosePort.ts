import { findFreePort, probePort } from "../runtime/server/probePort.ts";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";

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
    await probePort(host, port);
    return port;
  } catch (error) {
    const { code, message } = errorDetails(error);
    const problem = code === "EADDRINUSE" ? "is in use" : `cannot be used (${message})`;
    throw new StartupError(
      `${host}:${port} ${problem}. Set ${setting} to a free port (0 for any).`,
      { cause: error },
    );
  }
};
