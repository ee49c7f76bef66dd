import { CommanderError } from "commander";
import { buildProgram } from "./buildProgram.ts";
import type { Context } from "./context.ts";
import { describeError, EXIT, exitCodeOf } from "./exitCodes.ts";
import { say } from "./io.ts";

/**
 * Runs one command line to its end.
 * @param args without the program's own name
 * @returns the exit code; every failure has been told on stderr
 */
export const runCli = async (args: readonly string[], context: Context): Promise<number> => {
  try {
    await buildProgram(context).parseAsync(args, { from: "user" });
    return EXIT.ok;
  } catch (error) {
    if (error instanceof CommanderError) {
      // It has said what is wrong itself; help and version come this way too.
      return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    }
    say(context.io, `impact: ${describeError(error)}`);
    return exitCodeOf(error);
  } finally {
    await context.connections.close();
  }
};
