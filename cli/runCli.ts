import { CommanderError } from "commander";
import { buildProgram } from "./buildProgram.ts";
import type { Context } from "./context.ts";
import { describeError, EXIT, exitCodeOf } from "./exitCodes.ts";
import { say } from "./io.ts";

/**
 * Runs one command line. Errors are reported on stderr.
 * @param args the arguments after the program's name
 * @returns the exit code
 */
export const runCli = async (args: readonly string[], context: Context): Promise<number> => {
  try {
    await buildProgram(context).parseAsync(args, { from: "user" });
    return EXIT.ok;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has already printed its message; help and version end this way too.
      return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    }
    say(context.io, `impact: ${describeError(error)}`);
    return exitCodeOf(error);
  } finally {
    await context.connections.close();
  }
};
