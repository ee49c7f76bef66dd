import { probePort } from "../runtime/server/probePort.ts";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";

/**
 * Checks that a port can be bound.
 * @param port 0 for any free port
 * @throws StartupError with the setting to change
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
    const { code, message } = errorDetails(error);
    if (code === "EADDRINUSE") {
      throw new StartupError(
        `Port ${port} on ${host} is in use, and the ${purpose} needs it. ` +
          `Stop the program that uses it, or set ${setting} to another port (0 for any free one).`,
        { cause: error },
      );
    }
    throw new StartupError(`The ${purpose} cannot listen on ${host} port ${port}: ${message}.`, {
      cause: error,
    });
  }
};
