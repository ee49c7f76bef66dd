import { CommandError, EXIT } from "../../exitCodes.ts";

/** @throws CommandError if an import has skipped malformed lines */
export const requireNoneSkipped = (lines: number): void => {
  if (lines > 0) {
    throw new CommandError(
      EXIT.failed,
      "Some lines were skipped. Correct them and import the file again.",
    );
  }
};
