import { CommanderError } from "commander";
import { buildProgram } from "./buildProgram.ts";
import type { CliContext } from "./context.ts";
import { describeError, EXIT, exitCodeOf } from "./exitCodes.ts";
import { sayError } from "./io.ts";

/** Returns whether a command line asks for JSON, also one that cannot be parsed. */
export const asksForJson = (args: readonly string[]): boolean => {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).includes("--json");
};

/** Returns the command line that shows what `impact help usage retry` asks for. Commander's own help knows the first word only. */
const withoutHelp = ([first, ...words]: readonly string[]): readonly string[] =>
  first === "help" ? [...words, "--help"] : [...(first === undefined ? [] : [first]), ...words];

/**
 * Runs one command line. Errors are reported on stderr, as JSON if the command line has `--json`.
 * @param given the arguments after the program's name
 * @returns the exit code
 */
export const runCli = async (given: readonly string[], context: CliContext): Promise<number> => {
  const args = withoutHelp(given);
  const isJson = asksForJson(args);
  try {
    const program = await buildProgram(context, { args, printsUsageErrors: !isJson });
    await program.parseAsync(args, { from: "user" });
    return EXIT.ok;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Help and version end this way too.
      if (error.exitCode === 0) {
        return EXIT.ok;
      }
      if (isJson) {
        const message = error.message.replace(/^error: /u, "");
        sayError(context.io, { message, exitCode: EXIT.usage }, isJson);
      }
      return EXIT.usage;
    }
    const exitCode = exitCodeOf(error);
    sayError(context.io, { message: describeError(error), exitCode }, isJson);
    return exitCode;
  } finally {
    await context.connections.close();
  }
};
