import { CommandError, describeError } from "../exitCodes.ts";

/** Returns the error for a file that cannot be written. */
export const unwritableFileError = (path: string, exitCode: number, error: unknown): CommandError =>
  new CommandError(exitCode, `${path} cannot be written: ${describeError(error)}.`, {
    cause: error,
  });
