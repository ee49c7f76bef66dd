import { CommandError, describeError, EXIT } from "../exitCodes.ts";

/** Returns the error for a file argument that cannot be read. */
export const unreadableFileError = (path: string, error: unknown): CommandError =>
  new CommandError(EXIT.usage, `${path} cannot be read: ${describeError(error)}.`, {
    cause: error,
  });
