import { CommandError, describeError, EXIT } from "../exitCodes.ts";

/** A file that was named on the command line and cannot be read. */
export const unreadableFile = (path: string, error: unknown): CommandError =>
  new CommandError(EXIT.usage, `${path} cannot be read: ${describeError(error)}.`, {
    cause: error,
  });
